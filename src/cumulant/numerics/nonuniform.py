"""Characteristic functions at many equally spaced frequencies, by one fast Fourier transform.

Gaussian gridding (Dutt and Rokhlin 1993; Greengard and Lee 2004): every atom is smeared by a Gaussian of width κ = 2h
over a grid of spacing h, the grid is transformed, and the smearing is divided out. For |ω| <= π/2h the aliases of the
Gaussian are below e^{-π²κ²/h²} = e^{-39} of it, what is cut off beyond REACH spacings below e^{-REACH²/8}, and dividing
by e^{-κ²ω²/2} enlarges rounding by at most e^{π²/2} = 139.
"""

from __future__ import annotations

import math

import numpy as np

from cumulant.numerics.complex_plane import Complex
from cumulant.numerics.logspace import Array

REACH = 18  # spacings
CHUNK = 8192  # atoms at a time: what they are smeared over stays near
TRANSFORM_ERROR = 4e-15  # of the smeared sum and its transform, before the division


def characteristic_function(positions: Array, weights: Array, step: float, count: int) -> tuple[Complex, Array]:
    """Return Σ w_i e^{ijηx_i} for j < count, η = step, and bounds of the error relative to Σ |w_i|."""
    size = 1 << (4 * count - 1).bit_length()
    spacing = 2 * math.pi / (step * size)  # so that ω <= π/2h for every j < count
    centre = float(weights @ positions) / float(np.sum(weights))
    place = (positions - centre) / spacing
    nearest = np.rint(place)
    offset = place - nearest  # in [-½, ½]
    cell = np.mod(nearest, float(size)).astype(np.int64)  # exact, also of places that no int64 holds
    grid = np.zeros(size + 2 * REACH)  # beyond both ends, too
    around = np.arange(-REACH, REACH + 1)
    for first in range(0, len(cell), CHUNK):
        some = slice(first, first + CHUNK)
        smeared = np.exp((offset[some, None] - around) ** 2 * -0.125)
        smeared *= weights[some, None]
        low = int(np.min(cell[some]))  # neighbours among atoms are neighbours on the grid, mostly
        at = (cell[some, None] - low) + (around + REACH)
        part = np.bincount(at.ravel(), weights=smeared.ravel())
        grid[low : low + len(part)] += part
    grid[REACH : 2 * REACH] += grid[-REACH:]
    grid[-2 * REACH : -REACH] += grid[:REACH]
    j = np.arange(count)
    spread = 2 * (2 * math.pi * j / size) ** 2  # κ²ω²/2
    values = np.conj(np.fft.rfft(grid[REACH:-REACH])[:count]) * np.exp(spread) / (2 * math.sqrt(2 * math.pi))
    return values * np.exp(1j * step * centre * j), np.exp(spread) * TRANSFORM_ERROR
