"""Balle, Barthe and Gaboardi (2018), *Privacy Amplification by Subsampling*."""
