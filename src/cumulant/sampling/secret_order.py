"""Shuffled loaders under replace-one, with what the secrecy of their order hides."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import ClassVar, final

import numpy as np

from cumulant.errors import UnprovenCombination
from cumulant.inversion.solve import Directions
from cumulant.mechanisms.base import AbstractMechanism
from cumulant.mechanisms.known import Known, one_release
from cumulant.neighbors import REPLACE_ONE, Neighbors
from cumulant.parameters import require
from cumulant.profiles.profile import gaussian_profile
from cumulant.profiles.shuffled_order import shuffled_delta
from cumulant.profiles.to_pair import pair_at_knots
from cumulant.sampling.shuffled import Shuffled

HIDDEN, TOLD = 120, 1500  # knots of ε at which the order is secret, and told: few take seconds, many take nothing
LAST_HIDDEN, LAST_TOLD = math.log(1e-10), -90.0  # log δ of the order told, where they end


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class SecretOrder(AbstractMechanism):
    """One epoch of a shuffled loader under replace-one, whose order is secret: the release `mechanism`, bounded better.

    The profile of an epoch is at most `profiles.shuffled_order.shuffled_delta`, and at most that of the order told, at
    knots of ε; it is convex in e^ε, and as the relation is symmetric it has values at -ε, too: so the pair of chords
    dominates it, and epochs compose. The lower end is that of the loader. It takes some seconds, once.

    >>> from cumulant import Gaussian
    >>> epoch = Gaussian(noise_multiplier=2.0).shuffled(batches=1000, neighbors=REPLACE_ONE)
    >>> round(epoch.epsilon(delta=1e-5), 3), round(epoch.sharpened().epsilon(delta=1e-5), 2)
    (4.377, 3.05)
    """

    theorem: ClassVar[str] = (
        "shuffled batches, their order secret: a list of where the record may be, and one law a step"
    )

    mechanism: Shuffled

    def __post_init__(self) -> None:
        require(isinstance(self.mechanism, Shuffled), "mechanism must be a shuffled epoch", self.mechanism)
        if not hides_order(self.mechanism):
            raise UnprovenCombination(
                "what a secret order hides is bounded for one record under replace-one, in two or more batches of one "
                "size that use every record or drop the rest (drop_last=True), in epochs that end"
            )

    @property
    def neighbors(self) -> Neighbors:
        return REPLACE_ONE

    def _known(self) -> Known:
        """Beyond the last knot, and where masses of the pair do not reach, the order told is as good."""
        return replace(
            self.mechanism._known(),
            directions=lambda _: self._directions(),
            profile=lambda: None,
            sharper_curve=True,
            lower_in_doubles=True,
        )

    def _directions(self) -> Directions | None:
        return _directions(self.mechanism.mechanism.noise_multiplier, self.mechanism.batches)


def hides_order(epoch: Shuffled) -> bool:
    """Whether the theorem covers an epoch: every batch that a record may be in has one size and is released."""
    all_alike = epoch.population % epoch.batch == 0 or epoch.drop_last is True
    one_of_all = epoch.relation is REPLACE_ONE and epoch.records == 1 and epoch.steps is None
    return all_alike and one_of_all and epoch.batches > 1


@lru_cache(maxsize=32)
def _directions(sigma: float, batches: int) -> Directions | None:
    told = gaussian_profile(2 / sigma * (1 + 2.0**-50))
    knots = np.linspace(0.0, told.epsilon(LAST_HIDDEN), HIDDEN)
    others = np.linspace(0.0, told.epsilon(LAST_TOLD), TOLD)[1:]
    hidden = [math.log(shuffled_delta(sigma, batches, epsilon)) + 1e-12 for epsilon in knots.tolist()]
    every, log_delta = np.append(knots, others), np.append(hidden, told.log_deltas(others))
    order = np.argsort(every, kind="stable")
    falling = np.minimum.accumulate(log_delta[order])  # profiles do not increase: so the order told raises nothing
    pair = pair_at_knots(every[order], falling)
    return None if pair is None else one_release((pair,))
