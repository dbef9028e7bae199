"""From a CGF to a promise: (ε, δ) read off K."""
