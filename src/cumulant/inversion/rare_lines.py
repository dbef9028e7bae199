"""Lines of (S + J)^n - S^n: where they may end, and what they are."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from cumulant.numerics.complex_plane import Complex, log1p_complex
from cumulant.numerics.logspace import Array
from cumulant.pairs.cut_law import log_half_erfc
from cumulant.pairs.sampled_gaussian import ROUNDING, LogMoments
from cumulant.pairs.size_classes import SizeClasses

RARE_FREQUENCY_RATIO, RARE_FREQUENCIES, FIRST_RARE_POINT = 1.2, 60, 3  # at which lines are bounded; their first point
MOST_RARE_POINTS = 6000  # of a line
RARE_RULE_NATS = 38.0  # below what they are added to, and for each release, to which rules go
NORMAL_NATS = 60.0  # by which normal laws have fallen at the ends
MOST_NODES = 12000  # of a rule
MOST_WORK = 3e7  # points times nodes
LARGEST_RARE_NATS = 600.0  # of an error, or of a size: larger ones are as useless
UNITS = 4 * ROUNDING  # relative, of a few elementary steps


def find_end(omega: Array, log_bounds: Array, eta: float, negligible: float) -> tuple[float, float] | None:
    """Return (ω, tail): where a line may end, and a bound of Σ |transform|/|z(z+1)|·η/π beyond, over e^scale."""
    bounds = np.exp(np.minimum(log_bounds + 1e-6, LARGEST_RARE_NATS))
    pieces = bounds * (1 / omega - np.append(1 / omega[1:], 0.0) + eta / omega**2) / math.pi
    tails = np.cumsum(pieces[::-1])[::-1]
    fine = np.flatnonzero(tails <= negligible)
    return (float(omega[fine[0]]), float(tails[fine[0]])) if len(fine) else None


def frequencies_of(eta: float) -> Array:
    """Return the frequencies at which a line of this spacing is bounded."""
    return FIRST_RARE_POINT * eta * RARE_FREQUENCY_RATIO ** np.arange(float(RARE_FREQUENCIES))


def nats_of_rule(n: int, s: float) -> float:
    """Return to how many nats below what they are added to rules go: n releases multiply errors, and so does s."""
    return RARE_RULE_NATS + math.log(n) + math.log(4 + 4 * abs(s))


def is_affordable(span: tuple[float, float], step: float, count: int) -> bool:
    nodes = (span[1] - span[0]) / max(step, 1e-300)
    return count <= MOST_RARE_POINTS and nodes <= MOST_NODES and count * nodes <= MOST_WORK


def missing_of(classes: SizeClasses, s: Array | float) -> Any:
    """Return twice what E_Q[1 + s(w-1)] lacks of 1, at most, where sums end."""
    law, (first, last) = classes.law, classes.ends
    ends = np.array([last, last - law.mean, -first]) / math.sqrt(2.0)
    beyond, within, before = np.exp(log_half_erfc(ends)).tolist()
    return 2 * ((beyond + before) * (1 + np.abs(s) * law.rate) + np.abs(s) * law.rate * within)


def difference_of_powers(
    n: int, quiet_line: LogMoments, jumps: tuple[Complex, Array, float], scale: float
) -> tuple[Complex, Array]:
    """Return ((S + J)^n - S^n)/e^scale from n log S, and J over e^level with its error and the level.

    J/S is off by what J and S are; a power is off by at most what it is off by if all errors add up. What n log S is
    off by everywhere is not counted.
    """
    (j, off_j, level), (k, error, common) = jumps, quiet_line
    each = k / n
    r = j * np.exp(level - each)
    size = np.maximum(np.abs(1 + r), 1e-300)
    of_s = np.expm1((error + common) / n) + UNITS * (1 + np.abs(each))
    off = off_j * np.exp(level - each.real) + np.abs(r) * of_s
    g, farther = n * log1p_complex(r.real, r.imag), n * np.log1p(off / size)
    grown = np.expm1(np.minimum(error, LARGEST_RARE_NATS)) + UNITS * (8 + np.abs(k) + abs(scale))
    with np.errstate(over="ignore", under="ignore"):
        quiet, loud = np.exp(k - scale), np.exp(k + g - scale)
        few, many = quiet * np.expm1(np.minimum(g.real, 0.0) + 1j * g.imag), -loud * np.expm1(-g)
        values = np.where(g.real <= 0, few, many)
        # of a size that errors make up, nothing is known but how large it can be; what overflows says nothing
        far_off = np.exp(k.real + g.real + farther - scale)
        astray = np.where(farther < 1, np.abs(loud) * np.expm1(np.minimum(farther, 1.0)), far_off)
        astray += UNITS * (np.abs(values) + np.abs(g * loud))
        astray += np.where(error > 1, np.exp(k.real + error - scale), 0.0)  # the same of S
        return values, np.abs(values) * grown + astray * (1 + grown)
