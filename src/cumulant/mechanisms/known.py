"""What is known of a mechanism: its dominating pairs, its Rényi curve, its privacy profile.

A mechanism says it once, in `AbstractMechanism._known`; every answer follows from it (`answers`), and so does what is
known of its samples and compositions. What is left out is not known: answers become larger, never false.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import final, overload

import numpy as np

from cumulant.curves.curve import Array, Curve, rdp_at
from cumulant.errors import OutOfReach
from cumulant.inversion.solve import Directions
from cumulant.neighbors import Neighbors
from cumulant.pairs.curve import divergence, log_moments
from cumulant.pairs.noise import Noise, Pairs
from cumulant.pairs.pair import DominatingPair
from cumulant.pairs.sampled_gaussian import SampledReleases
from cumulant.profiles.profile import GroupProfiles, PrivacyProfile

QUADRATURE_ERROR = 2e-13  # relative, generous for rules that leave out e^-50 and sums of 1e4 terms
LINE_REACH = 2000.0  # standard deviations up to which peaks are followed on the whole line

Relation = Neighbors | None
"""The relation of the whole run, for mechanisms that have none of their own; None where it has none either."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Known:
    """Three forms of knowledge, each computed when it is asked for: pairs (exact), a curve (Rényi), a profile.

    curve:            K at real orders, or an upper bound of it; of every mechanism.
    directions:       dominating pairs, one for both directions of the neighbours or one for each; None if not known.
    attained:         pairs that some neighbours attain, by which answers are bounded from below.
    lower_in_doubles: whether the attained pairs are made of doubles, so that no interval is certified.
    tight:            whether the dominating pairs themselves are attained, so that answers from them are exact.
    by_profiles:      the same where some parts have no pairs, made of what profiles and curves say of these.
    profile:          ε ↦ δ of a single release, if there is a formula for it.
    noise:            a dominating pair and what sampling makes of it; `attained_noise` is one that is attained.
    groups:           privacy profiles of groups of every size, which sampling with replacement needs.
    together:         dominating pairs of so many records that join or leave together; `attained_together` some attain.
    failure:          the probability that everything is revealed, known without K where that takes a while.
    least_rdp:        the RDP of an order that some neighbours attain; None: no lower bound is known.
    self_consistent:  whether one pair of outputs attains the RDP and the |χ|^α-divergence at every order (Wang et al.
                      2019, Definition 18).
    sharper_curve:    whether the curve is known more sharply than the pairs.
    fixed_size:       whether all this is about datasets of one known size, as sampling rates m/n are.
    single:           whether it is one release.
    sampled:          the releases where all are Gaussian noise, some of it on Poisson samples: the short way.
    alternatives:     whether the pairs belong to different records, so that those of several releases may be mixed.
    repeated:         what is known of so many of these releases together, where that is more than composing says.
    no_samples:       why no sample of it may be drawn; empty: one may.
    alone:            pairs of a single release, in which no directions are mixed; None: the same as of one of several.
    """

    curve: Callable[[], Curve]
    directions: Callable[[Relation], Directions | None]
    attained: Callable[[Relation], Directions | None]
    tight: Callable[[Relation], bool]
    profile: Callable[[], PrivacyProfile | None]
    failure: Callable[[], float]
    by_profiles: Callable[[Relation], Directions | None] = lambda relation: None
    noise: Noise | None = None
    attained_noise: Noise | None = None
    groups: GroupProfiles | None = None
    together: Callable[[int], Directions | None] = lambda size: None
    attained_together: Callable[[int], Directions | None] = lambda size: None
    least_rdp: Callable[[float], float] | None = None
    self_consistent: bool = False
    sharper_curve: bool = False
    fixed_size: bool = False
    single: bool = True
    sampled: SampledReleases | None = None
    alternatives: bool = False
    repeated: Callable[[int], Known] | None = None
    lower_in_doubles: bool = False
    no_samples: str = ""
    alone: Callable[[], Directions] | None = None

    def pairs(self, relation: Relation) -> Directions | None:
        """Return dominating pairs of the run itself, which is not to be composed with others."""
        return self.alone() if self.alone is not None and self.single else self.directions(relation)

    @property
    def may_be_sharper(self) -> bool:
        """Whether the curve may say more than the pairs of the run itself."""
        return self.sharper_curve and not (self.alone is not None and self.single)

    @staticmethod
    def by_curve(curve: Callable[[], Curve], *, fixed_size: bool = False) -> Known:
        """Return what is known of a mechanism that cannot fail by its Rényi curve alone."""
        return Known(
            curve=curve,
            directions=lambda relation: None,
            attained=lambda relation: None,
            tight=lambda relation: False,
            profile=lambda: None,
            failure=lambda: 0.0,
            fixed_size=fixed_size,
        )

    @staticmethod
    def by_noise(
        noise: Noise,
        *,
        curve: Callable[[], Curve],
        attained: Noise | None = None,
        relation: Relation = None,
        groups: GroupProfiles | None = None,
        profile: Callable[[], PrivacyProfile | None] | None = None,
        tight: Callable[[Relation], bool] = lambda relation: True,
        self_consistent: bool = False,
        sharper_curve: bool = False,
    ) -> Known:
        """Return what is known of a mechanism by its dominating pair.

        What is `attained` is the same unless another one is given; the `profile` is that of groups of one.
        """
        reached = noise if attained is None else attained
        return Known(
            curve=curve,
            directions=lambda run: one_release(noise.unsampled(relation or run)),
            attained=lambda run: one_release(reached.both_directions()),
            tight=tight,
            profile=profile or (lambda: None if groups is None else groups(1)),
            failure=lambda: curve().failure if noise.may_fail else 0.0,
            noise=noise,
            attained_noise=reached,
            groups=groups,
            least_rdp=(lambda order: float(rdp_at(curve(), order))) if self_consistent else None,
            self_consistent=self_consistent,
            sharper_curve=sharper_curve,
        )


@overload
def one_release(pairs: Pairs) -> Directions: ...


@overload
def one_release(pairs: Pairs | None) -> Directions | None: ...


def one_release(pairs: Pairs | None) -> Directions | None:
    """Return the pairs of one release, in each direction of the neighbours."""
    return None if pairs is None else tuple(((pair, 1),) for pair in pairs)


def curve_of_pair(pair: DominatingPair, farthest: float, far: Callable[[], Curve], *, pure: float = math.inf) -> Curve:
    """Return K of a pair on the nodes of its characteristic function, and another bound where they are too many.

    Beyond the farthest tilt the nodes do not follow the loss.
    """

    def log_moment(lam: Array) -> Array:
        near = lam <= farthest
        values = np.empty(lam.shape)
        try:
            values[near] = log_moments(pair, lam[near]) * (1 + QUADRATURE_ERROR)  # rounded up
        except OutOfReach:
            near = np.zeros_like(near)
        if not np.all(near):
            values[~near] = far().log_moment(lam[~near])
        return values

    try:
        kl = divergence(pair) * (1 + QUADRATURE_ERROR)  # rounded up
    except OutOfReach:
        kl = far().kl
    return Curve(log_moment=log_moment, kl=kl, pure=pure, summed=True)
