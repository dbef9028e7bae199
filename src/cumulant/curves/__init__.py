"""Rényi curves: K at real orders, and what (ε, δ) follow from it."""
