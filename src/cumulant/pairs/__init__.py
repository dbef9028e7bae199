"""Dominating pairs: the noise, what sampling makes of it, and how its loss is read: as nodes, as a curve, in balls."""
