"""Bounds of δ from both sides of a hard cut, for any pair: what answers of few releases could be (`looseness`)."""
