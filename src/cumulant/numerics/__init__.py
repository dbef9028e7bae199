"""Numbers in, numbers out; not one word about privacy."""
