"""The largest of t noisy sums, of which a record moved one: what it tells, as a pair on cells."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from cumulant.numerics.logspace import Array
from cumulant.pairs.atoms import Table

CELLS = 2**15  # of the largest: ε from the best threshold, to 1e-6 of it
FAR_ABOVE = 14.0  # standard deviations above the farther mean from which all is one cell
DEEP_NATS = 60.0  # below 1, the logarithm of a distribution function up to which all is one cell
LEAST_MASS = 1e-290  # of a cell: none is empty under one law alone, so that no loss is infinite


@lru_cache(maxsize=32)
def largest_sum(first: float, second: float, steps: int, share: float) -> Table:
    """Return the laws of the largest of t independent Gaussian sums of variance 1, in cells.

    Under P a record stands in one of the sums, drawn uniformly, with probability `share`, and moves it up by `first`;
    under Q by `second`. The distribution functions at c are

        F(c) = Φ(c)^(t-1) ((1-s) Φ(c) + s Φ(c - μ)),   s = share, μ = first or second.

    What is computed from outputs tells no more than they do: whatever neighbours give sums like these are at least as
    easy to tell apart as these laws, and cells of the largest less than the largest itself.

    Holds for:  lower ends. The masses are doubles, right to about 1e-12 of each.
    Tightness:  next to all that the sums tell, where one of them stands out: little noise, few epochs.
    """
    from scipy.special import log_ndtr

    above = max(first, second) + FAR_ABOVE
    coarse = np.linspace(-FAR_ABOVE, above, CELLS)
    edges = np.linspace(coarse[np.argmax(steps * log_ndtr(coarse) > -DEEP_NATS)], above, CELLS)
    others = (steps - 1) * log_ndtr(edges)
    unmoved = _masses(others + log_ndtr(edges)) if share < 1 or second == 0 else 0.0

    def law(mean: float) -> tuple[float, ...]:
        moved = _masses(others + log_ndtr(edges - mean)) if mean > 0 else unmoved
        return tuple(np.maximum((1 - share) * unmoved + share * moved, LEAST_MASS).tolist())

    return Table(law(first), law(second))


def _masses(log_distribution: Array) -> Array:
    """Return the masses of cells, each from the side on which differences keep their digits."""
    with np.errstate(under="ignore"):
        below, above = np.exp(log_distribution), -np.expm1(log_distribution)
    inner = np.where(below[1:] > 0.5, above[:-1] - above[1:], below[1:] - below[:-1])
    return np.concatenate([below[:1], inner, above[-1:]])
