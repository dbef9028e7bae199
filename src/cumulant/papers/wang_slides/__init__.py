"""Wang, *Privacy Amplification by Subsampling and Rényi Differential Privacy*: slides about two of the papers."""
