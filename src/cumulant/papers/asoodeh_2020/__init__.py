"""Asoodeh, Liao, Calmon, Kosut and Sankar (2020), *A Better Bound Gives a Hundred Rounds*."""
