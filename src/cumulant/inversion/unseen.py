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
from cumulant.pairs.mixed import MixedPair
from cumulant.pairs.noise import NormalMixture
from cumulant.pairs.pair import DominatingPair

LOG_SHARE = math.log(1e-12)  # of δ, that all cuts together may leave out
DEEPEST_NATS = -600.0  # log δ below which what is left out would not be a double
PLACES_PER_UNIT = 4  # of the coordinate, where a cut may be
SHARPNESS = 1.5, 3.0, 6.0, 12.0, 24.0, 48.0  # a: χ falls from 1 to 0 within about 3/a
BEYOND_CUT = np.concatenate([np.arange(0.05, 4.0, 0.05), 4.0 * 1.1 ** np.arange(100.0)])  # ways from c
LEVEL_NATS = 4.0  # by which a tilted density may still rise beyond c
MIXED_NATS = 7.0  # by which more of a mixture is left out: its far losses are the worse
RARE_NATS = 2.0  # a part of a mixture so little above what is left out is left out, too
NEAREST = 2.0  # units of the coordinate between where losses begin and a cut
FARTHEST_LOG_TILT = 600.0  # of a saddle
TILTS_ABOVE = 2.0  # how far above the saddle tilts are of use


def leave_out_unseen(losses: ComposedPairs, log_delta: float) -> ComposedPairs:
    """Return the same with losses cut off that a δ of this size cannot see; `left_out` says how much that is."""
    cuttable = [n for pair, n in losses.parts if _has_far_losses(pair)]
    if not cuttable or log_delta < DEEPEST_NATS:
        return losses
    log_share = log_delta + LOG_SHARE - math.log(sum(cuttable))
    theta = _saddle(losses, log_delta)
    return replace(losses, parts=tuple((_cut(pair, log_share, theta), n) for pair, n in losses.parts))


def _has_far_losses(pair: DominatingPair) -> bool:
    return _can_be_cut(pair) or (isinstance(pair, MixedPair) and pair.supremum == math.inf)


def _can_be_cut(pair: DominatingPair) -> TypeGuard[CoordinatePair]:
    return isinstance(pair, CoordinatePair) and isinstance(pair.law, NormalMixture) and pair.supremum == math.inf


def _saddle(losses: ComposedPairs, log_delta: float) -> float:
    """Return about the tilt of this δ, or more: K is at least about that of a normal loss of variance E(w-1)²."""
    squares = [n * _square(pair) for pair, n in losses.parts]
    return math.sqrt(-2 * log_delta / max(losses.variance + math.fsum(squares), 1e-300))


def _square(pair: DominatingPair) -> float:
    if isinstance(pair, MixedPair):
        return math.fsum(share * _square(part) for share, part in pair.parts)
    return math.exp(pair.log_square) if _can_be_cut(pair) else 0.0


def _cut(pair: DominatingPair, log_share: float, theta: float, rare: float = 0.0) -> DominatingPair:
    """Return a pair cut where that leaves out at most e^log_share, as softly as tilts allow; any cut is sound.

    One that is rare may rise beyond its cut by as many nats more.
    """
    if isinstance(pair, MixedPair):
        return _cut_parts(pair, log_share + MIXED_NATS - math.log(len(pair.parts)), theta)
    if not _can_be_cut(pair):
        return pair
    theta = TILTS_ABOVE * min(theta, _jump(pair, log_share - LOG_SHARE))
    for sharpness in SHARPNESS:
        cut = _cut_at(pair, _place(pair, sharpness, log_share), sharpness)
        if _rise_beyond(cut, theta) <= LEVEL_NATS + rare:
            break
    return cut


def _cut_parts(pair: MixedPair, log_share: float, theta: float) -> MixedPair:
    """Return a mixture with every part cut, or left out where the cut would be next to where its losses begin."""
    parts: list[tuple[float, DominatingPair]] = []
    unseen = []
    for share, part in pair.parts:
        log_left = log_share - math.log(share)
        cut = None if log_left > -RARE_NATS else _cut(part, log_left, theta, -math.log(share))
        if cut is None or _is_cut_near(cut):
            unseen.append(share)
        else:
            parts.append((share, cut))
    return replace(pair, parts=tuple(parts), unseen=math.fsum(unseen) * (1 + 1e-12))


def _is_cut_near(pair: DominatingPair) -> bool:
    """Return whether a cut is next to where positive losses begin."""
    if not isinstance(pair, CoordinatePair) or not isinstance(pair.law, CutLaw):
        return False
    return pair.branches[0].above and pair.law.at < pair.law.even + NEAREST


def _jump(pair: CoordinatePair, log_share: float) -> float:
    """Return about the tilt where one loss of this probability makes up δ: the slope of log P(L > ε) in ε."""
    assert isinstance(pair.law, NormalMixture)
    branch = next(branch for branch in pair.branches if branch.rises)
    at = _place(pair, SHARPNESS[-1], log_share) / PLACES_PER_UNIT
    return math.exp(min(math.log(at) - float(branch.log_slope(np.array([at]))[0]), FARTHEST_LOG_TILT))


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


def _rise_beyond(cut: CoordinatePair, theta: float) -> float:
    """Return by how many nats the tilted density rises beyond the cut."""
    assert isinstance(cut.law, CutLaw)
    branch = next(branch for branch in cut.branches if branch.rises)
    values = branch.log_tilted_density(cut.law.at + np.append(0.0, BEYOND_CUT), theta)
    return float(np.max(values) - values[0])
