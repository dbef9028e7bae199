"""The shapes a privacy loss takes; each knows how to add to its like."""
