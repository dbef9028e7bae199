"""A durable budget that many processes spend, choosing as they go."""
