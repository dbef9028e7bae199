"""The command `cumulant`: parse, call, print."""
