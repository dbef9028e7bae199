"""From dominating pairs to (ε, δ): plan a line, cut it, sum, bound, solve."""
