"""Which losses a question cannot see: far ones of Gaussian noise, cut off where all together are next to nothing of δ.

The place of a cut is rounded up to a grid, so that questions that are near one another share their nodes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import TypeGuard

import numpy as np

from cumulant.inversion.composed import ComposedPairs, Parts
from cumulant.inversion.contour import Indices
from cumulant.inversion.rows import Rows
from cumulant.numerics.logspace import Array
from cumulant.pairs.atoms import ChordAtoms
from cumulant.pairs.coordinate import Branch, CoordinatePair
from cumulant.pairs.cut_law import CutLaw, place_of_cut
from cumulant.pairs.finite_pair import FinitePair, finite_pair
from cumulant.pairs.law import NormalMixture
from cumulant.pairs.mixed import MixedPair
from cumulant.pairs.pair import DominatingPair

SAME_NATS = 1.0  # of log δ, or of log counts, within which rows are cut off at the same place
LOG_SHARE = math.log(1e-12)  # of δ, that all cuts together may leave out
DEEPEST_NATS = -160.0  # log δ below which far losses are followed: they are what such a δ is made of
SHARPNESS = 1.5, 3.0, 6.0, 12.0, 24.0, 48.0  # a: χ falls from 1 to 0 within about 3/a
BEYOND_CUT = np.concatenate([np.arange(0.0, 4.0, 0.05), 4.0 * 1.1 ** np.arange(100.0)])  # ways from c
LEVEL_NATS = 4.0  # by which a tilted density may still rise beyond c
CHORD_NATS_MORE = 2.0  # by which more is left out of chords, whose answers have six digits
CHORD_GRID_NATS = 4.0  # of what is left out, so that questions share their pairs
MIXED_NATS = 7.0  # by which more of a mixture is left out: its far losses are the worse
RARE_NATS = 2.0  # a part of a mixture so little above what is left out is left out, too
NEAREST = 2.0  # units of the coordinate between where losses begin and a cut
FARTHEST_LOG_TILT = 600.0  # of a saddle
MANY_RELEASES = 200  # from which far losses may be left where they are
HARMLESS_NATS = 80.0  # a far peak so small is followed without trouble
TILTS_ABOVE = 2.0  # how far above the saddle tilts are of use


Sight = Callable[[DominatingPair], DominatingPair]
"""What is seen of a pair: the same, cut off where what it leaves out is nothing beside δ."""


def sight_of(parts: Parts, variance: float, log_delta: float, spare: int = 1) -> Sight:
    """Return what a δ of this size sees of pairs, with room for `spare` times as many releases."""
    releases = spare * sum(n for pair, n in parts if _has_far_losses(pair))
    if not releases or log_delta < DEEPEST_NATS:
        return lambda pair: pair
    log_share, theta = log_delta + LOG_SHARE - math.log(releases), _saddle(parts, variance, log_delta)
    return lambda pair: _cut(pair, log_share, theta, releases) if _has_far_losses(pair) else pair


def leave_out_of_rows(rows: Rows, log_delta: Array) -> Rows:
    """Return rows with losses cut off that a δ of this size cannot see; any cut is sound.

    Rows with about the same δ and counts are cut off at one place, the farthest that one of them needs.
    """
    places: dict[DominatingPair, int] = {}
    entries: list[tuple[Indices, list[int], Indices]] = []
    for some in _alike(rows, log_delta):
        columns = np.flatnonzero(rows.counts[some[0]] > 0)
        most = np.max(rows.counts[np.ix_(some, columns)], axis=0)
        parts = tuple((rows.pairs[i], int(n)) for i, n in zip(columns, most, strict=True))
        sight = sight_of(parts, float(np.max(rows.variance[some])), float(np.min(log_delta[some])))
        entries.append((some, [places.setdefault(sight(pair), len(places)) for pair, _ in parts], columns))
    counts = np.zeros((len(rows), len(places)))
    for some, new, old in entries:
        for i, j in zip(new, old, strict=True):
            counts[some, i] += rows.counts[some, j]
    return Rows(tuple(places), counts, rows.variance)


def _alike(rows: Rows, log_delta: Array) -> list[Indices]:
    """Return rows in groups that have their pairs in common, and about equal numbers of releases and δ."""
    kinds = np.floor(np.column_stack([np.log(np.maximum(rows.releases, 1.0)), log_delta]) / SAME_NATS)
    if len(rows.pairs) > 1:
        _, which = np.unique(rows.counts > 0, axis=0, return_inverse=True)
        kinds = np.column_stack([kinds, which.reshape(-1)])
    _, group = np.unique(kinds, axis=0, return_inverse=True)
    order = np.argsort(group.reshape(-1), kind="stable")
    return np.split(order, np.flatnonzero(np.diff(group.reshape(-1)[order])) + 1)


def leave_out_unseen(losses: ComposedPairs, log_delta: float) -> ComposedPairs:
    """Truncate far losses smoothly where a δ of this size cannot see them; the removed mass is in `left_out`."""
    sight = sight_of(losses.parts, losses.variance, log_delta)
    seen = tuple((sight(pair), n) for pair, n in losses.parts)
    return losses if seen == losses.parts else replace(losses, parts=seen)


def _has_far_losses(pair: DominatingPair) -> bool:
    """Return whether far losses are in the way: on half-lines, as of an envelope, pieces follow them unless mixed."""
    if isinstance(pair, MixedPair):
        return pair.supremum == math.inf
    if isinstance(pair, FinitePair):
        return pair.of_chords
    return _can_be_cut(pair) and not pair.branches[0].above


def _can_be_cut(pair: DominatingPair) -> TypeGuard[CoordinatePair]:
    if not isinstance(pair, CoordinatePair) or not isinstance(pair.law, NormalMixture):
        return False
    return any(branch.rises for branch in pair.branches)


def _saddle(parts: Parts, variance: float, log_delta: float) -> float:
    """Return about the tilt of this δ, or more: K is at least about that of a normal loss of variance E(w-1)²."""
    squares = [n * _square(pair) for pair, n in parts]
    return math.sqrt(-2 * log_delta / max(variance + math.fsum(squares), 1e-300))


def _square(pair: DominatingPair) -> float:
    if isinstance(pair, FinitePair):
        return float(np.exp(pair.log_masses) @ np.minimum(pair.losses, 1.0) ** 2) if pair.of_chords else 0.0
    if isinstance(pair, MixedPair):
        return math.fsum(share * _square(part) for share, part in pair.parts)
    return math.exp(pair.log_square) if _can_be_cut(pair) else 0.0


def _cut(pair: DominatingPair, log_share: float, theta: float, releases: int, rare: float = 0.0) -> DominatingPair:
    """Return a pair cut where that leaves out at most e^log_share, as softly as tilts allow; any cut is sound.

    One that is rare may rise beyond its cut by as many nats more. Where losses are many and the far ones harmless at
    the tilts that matter, the pair is left as it is: its line is short enough.
    """
    if isinstance(pair, FinitePair) and isinstance(pair.atoms, ChordAtoms):
        most = CHORD_GRID_NATS * math.floor((log_share + CHORD_NATS_MORE) / CHORD_GRID_NATS)
        return finite_pair(pair.atoms.without_far(most))
    if isinstance(pair, MixedPair):
        return _cut_parts(pair, log_share + MIXED_NATS - math.log(len(pair.parts)), theta)
    if not _can_be_cut(pair):
        return pair
    assert isinstance(pair.law, NormalMixture)
    components = [part for rate in pair.rates for part in pair.law.components(rate)]
    branch = next(branch for branch in pair.branches if branch.rises)
    one_loss = place_of_cut(components, SHARPNESS[-1], log_share - LOG_SHARE)
    slope = float(branch.log_slope(np.array([one_loss]))[0])
    # the slope of log P(L > ε) in ε where one loss makes up δ
    tilt = TILTS_ABOVE * min(theta, math.exp(min(math.log(one_loss) - slope, FARTHEST_LOG_TILT)))
    if releases >= MANY_RELEASES and _far_peak(branch, 0.75 * tilt) + math.log(releases) < HARMLESS_NATS:
        return pair
    for sharpness in SHARPNESS:
        at = place_of_cut(components, sharpness, log_share)
        if _rise_beyond(branch, at, sharpness, tilt) <= LEVEL_NATS + rare:
            break
    return CoordinatePair(CutLaw(pair.law, at, sharpness), pair.sampling)


def _far_peak(branch: Branch, theta: float) -> float:
    """Return the logarithm of the tilted density at the farthest place where it can have a peak."""
    return float(branch.log_tilted_density(np.array([(theta + 1) * branch.law.steepest]), theta)[0])


def _rise_beyond(branch: Branch, at: float, sharpness: float, theta: float) -> float:
    """Return by how many nats the tilted density, times a cut, rises beyond it: erfc(x) is about e^{-x²}."""
    values = branch.log_tilted_density(at + BEYOND_CUT, theta) - (sharpness * BEYOND_CUT) ** 2
    return float(np.max(values) - values[0])


def _cut_parts(pair: MixedPair, log_share: float, theta: float) -> MixedPair:
    """Return a mixture with every part cut, or left out where the cut would be next to where its losses begin."""
    parts: list[tuple[float, DominatingPair]] = []
    unseen = []
    for share, part in pair.parts:
        log_left = log_share - math.log(share)
        cut = None if log_left > -RARE_NATS else _cut(part, log_left, theta, 1, -math.log(share))
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
