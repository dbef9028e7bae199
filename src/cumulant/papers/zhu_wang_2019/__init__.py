"""Zhu and Wang (2019), *Poisson Subsampled Rényi Differential Privacy*."""
