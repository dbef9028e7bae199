"""Wang, Balle and Kasiviswanathan (2019), *Subsampled Rényi Differential Privacy and Analytical Moments Accountant*."""
