"""Privacy profiles ε ↦ δ of single releases: formulas, sampling, curves and trade-offs."""
