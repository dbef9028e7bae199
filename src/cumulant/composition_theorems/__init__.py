"""Composition of (ε, δ)-DP rounds that nothing else is known of."""
