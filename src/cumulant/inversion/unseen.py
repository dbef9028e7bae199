"""Which losses a question cannot see: far ones of Gaussian noise, cut off where all together are next to nothing of δ.

The place of a cut is rounded up to a grid, so that questions that are near one another share their nodes.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TypeGuard

import numpy as np

from cumulant.inversion.composed import ComposedPairs
from cumulant.pairs.coordinate import CoordinatePair
from cumulant.pairs.cut_law import CutLaw
from cumulant.pairs.noise import NormalMixture
from cumulant.pairs.pair import DominatingPair

LOG_SHARE = math.log(1e-14)  # of δ, that all cuts together may leave out
DEEPEST_NATS = -600.0  # log δ below which what is left out would not be a double
PLACES_PER_UNIT = 4  # of the coordinate, where a cut may be
SHARPNESS = 1.5, 3.0, 6.0, 12.0, 24.0, 48.0  # a: χ falls from 1 to 0 within about 3/a
BEYOND_CUT = np.concatenate([np.arange(0.05, 4.0, 0.05), 4.0 * 1.1 ** np.arange(100.0)])  # ways from c
LEVEL_NATS = 4.0  # by which a tilted density may still rise beyond c
TILTS_ABOVE = 2.0  # how far above the saddle tilts are of use


def leave_out_unseen(losses: ComposedPairs, log_delta: float) -> ComposedPairs:
    """Return the same with losses cut off that a δ of this size cannot see; `left_out` says how much that is."""
    cuttable = [n for pair, n in losses.parts if _has_far_losses(pair)]
    if not cuttable or log_delta < DEEPEST_NATS:
        return losses
    log_share = log_delta + LOG_SHARE - math.log(sum(cuttable))
    theta = _saddle(losses, log_delta)
    return replace(losses, parts=tuple((_cut(pair, log_share, theta), n) for pair, n in losses.parts))


def _has_far_losses(pair: DominatingPair) -> TypeGuard[CoordinatePair]:
    return isinstance(pair, CoordinatePair) and isinstance(pair.law, NormalMixture) and pair.supremum == math.inf


def _saddle(losses: ComposedPairs, log_delta: float) -> float:
    """Return about the tilt of this δ, or more: K is at least about that of a normal loss of variance E(w-1)²."""
    squares = [n * math.exp(pair.log_square) for pair, n in losses.parts if _has_far_losses(pair)]
    return math.sqrt(-2 * log_delta / max(losses.variance + math.fsum(squares), 1e-300))


def _cut(pair: DominatingPair, log_share: float, theta: float) -> DominatingPair:
    """Return a pair cut where that leaves out at most e^log_share, as softly as tilts allow; any cut is sound."""
    if not _has_far_losses(pair):
        return pair
    theta = TILTS_ABOVE * min(theta, _jump(pair, log_share - LOG_SHARE))
    for sharpness in SHARPNESS:
        cut = _cut_at(pair, _place(pair, sharpness, log_share), sharpness)
        if not _rises_beyond(cut, theta):
            break
    return cut


def _jump(pair: CoordinatePair, log_share: float) -> float:
    """Return about the tilt where one loss of this probability makes up δ: the slope of log P(L > ε) in ε."""
    assert isinstance(pair.law, NormalMixture)
    branch = next(branch for branch in pair.branches if branch.rises)
    at = _place(pair, SHARPNESS[-1], log_share) / PLACES_PER_UNIT
    return at / math.exp(float(branch.log_slope(np.array([at]))[0]))


def _place(pair: CoordinatePair, sharpness: float, log_share: float) -> int:
    """Return the first place that leaves out at most e^log_share."""
    share, first, last = math.exp(log_share), 0, 32
    while _cut_at(pair, last, sharpness).left_out > share:
        first, last = last, 2 * last
    while last - first > 1:
        middle = (first + last) // 2
        first, last = (middle, last) if _cut_at(pair, middle, sharpness).left_out > share else (first, middle)
    return last


def _cut_at(pair: CoordinatePair, place: int, sharpness: float) -> CoordinatePair:
    assert isinstance(pair.law, NormalMixture)
    return CoordinatePair(CutLaw(pair.law, place / PLACES_PER_UNIT, sharpness), pair.sampling)


def _rises_beyond(cut: CoordinatePair, theta: float) -> bool:
    """Return whether the tilted density rises beyond the cut by more than a few nats."""
    assert isinstance(cut.law, CutLaw)
    branch = next(branch for branch in cut.branches if branch.rises)
    values = branch.log_tilted_density(cut.law.at + np.append(0.0, BEYOND_CUT), theta)
    return bool(np.max(values) > values[0] + LEVEL_NATS)
