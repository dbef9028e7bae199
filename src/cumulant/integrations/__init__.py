"""The library inside other people's tools: Opacus, dp_accounting (and with it JAX Privacy), Flower.

Each is a module of its own that is imported by name, and imports its tool only then.
"""
