"""Random allocation, or balls in bins: in every epoch each record joins one of t steps, drawn for itself."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar, final

import numpy as np

from cumulant.curves.curve import Array, Curve, at_least, total
from cumulant.errors import InvalidParameter, OutOfReach, UnprovenCombination
from cumulant.inversion.solve import Directions
from cumulant.mechanisms.base import AbstractMechanism
from cumulant.mechanisms.gaussian import Gaussian
from cumulant.mechanisms.known import QUADRATURE_ERROR, Known, one_release
from cumulant.neighbors import ADD_REMOVE, REPLACE_ONE, Neighbors
from cumulant.numerics.balls import upper_floats
from cumulant.numerics.lognormal_sum import log_moments_of_mean
from cumulant.numerics.logspace import reciprocal_up
from cumulant.numerics.search import smallest_true
from cumulant.pairs.allocated_atoms import AllocatedAtoms, followed_by_counts
from cumulant.pairs.allocation import (
    AllocatedPair,
    JoinsOneOf,
    LeavesOneOf,
    followed_steps,
    range_of_losses,
    width_of_cut,
)
from cumulant.pairs.atoms import Atoms, ChordAtoms, LossTable, Reversed
from cumulant.pairs.curve import divergence, log_moments
from cumulant.pairs.finite_pair import FinitePair, finite_loss, finite_pair
from cumulant.pairs.noise import FiniteNoise
from cumulant.pairs.pair import GaussianPair
from cumulant.parameters import Bins, require, whole_number
from cumulant.sampling.relation import checked_relation

SEEN_NATS = 42.0  # below 1, where what the cut law leaves out of a moment counts for nothing

NOT_STATED = LossTable, ChordAtoms  # tables whose probabilities add up to 1 but for rounding
WHICH_BINS = (
    "Are records put into new batches each epoch (bins='fresh') or kept (bins='kept', as JAX Privacy's "
    "BallsInBinsSampling)? ε is 1.70 or 13.25 for t=100, σ=1, 10 epochs."
)


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class RandomAllocation(AbstractMechanism):
    """Epochs of t releases of Gaussian noise, of which every record joins one, drawn uniformly and for itself.

    With r_i the likelihood ratios of the t releases, the pair of an epoch is dP/dQ = (r_1 + … + r_t)/t, and its
    reverse (`pairs.allocation`). It dominates: given the record's step c, release s has the ratio r_s if s is c, and 1
    else; so the ratio of all is affine in each r_s given what was released before, and convex functions of it grow if
    r_s is replaced by the ratio of the dominating pair, the last release first.

    `epochs` says for how many epochs that one draw is kept. Then Π_e r_{s,e} stands for r_s: for Gaussian noise, one
    epoch of noise σ/√epochs. Draws that are fresh in every epoch are a composition.

    `chosen` says how many of the t releases a record joins: then dP/dQ is the mean of products of ratios over subsets.
    A uniform subset of k is a uniform partition into so many blocks and one release of each, so by joint convexity
    blocks of ⌊t/k⌋ and ⌈t/k⌉ steps dominate. Of Gaussian noise, k of t are as much as t - k of t and 2k - t releases.

    The unit of noise is the largest contribution of one record: in DP-SGD the clipping norm.

    Holds for:  add-or-remove-one, and zero-out, for which `Neighbors.joins` proves the same; any dimension; adaptive
                composition, within an epoch and over epochs. The record's step is drawn independently of all other
                records' and never shown; sums are divided by a fixed number, so that the sizes of batches are not told.
                Batches of a fixed size are not covered: there records push one another out.
    Of mechanisms on finitely many outputs all subsets are summed (`pairs.allocated_atoms`), also of several steps.

    Tightness:  attained by a constant query, so exact, for one step of t, or all but one; an upper bound for other
                subsets of Gaussian releases. The law of the loss comes from balls (`numerics.lognormal_sum`), so every
                error is proven, and intervals are certified.

    >>> epoch = Gaussian(noise_multiplier=1.0).random_allocation(steps=100)
    >>> round(epoch.epsilon(delta=1e-5), 6), round((epoch * 10).epsilon(delta=1e-5), 6)
    (0.62094, 1.701498)
    """

    theorem: ClassVar[str] = "random allocation by its dominating pair, the mean of likelihood ratios over the steps"

    mechanism: AbstractMechanism
    steps: int
    chosen: int = 1
    epochs: int = 1
    relation: Neighbors = ADD_REMOVE

    def __post_init__(self) -> None:
        if self.relation is REPLACE_ONE:
            raise UnprovenCombination(
                "random allocation has no bound here for replace-one: the other record draws a step of its own; ask "
                "under cumulant.ADD_REMOVE or cumulant.ZERO_OUT, for group(size=2) if a record may be replaced"
            )
        checked_relation("random allocation", self.relation, self.mechanism, needs=ADD_REMOVE)
        if not isinstance(self.mechanism, Gaussian) and _atoms(self.mechanism) is None:
            raise UnprovenCombination(
                "random allocation is proven here for Gaussian noise, and for finitely many outputs whose "
                f"probabilities are stated; not for {type(self.mechanism).__name__}; Poisson samples of it are "
                "covered: draw the batches by poisson(rate=1/steps)"
            )
        for name, least in (("steps", 1), ("chosen", 1), ("epochs", 1)):
            object.__setattr__(self, name, whole_number(name, getattr(self, name), at_least=least))
        require(self.chosen <= self.steps, f"chosen must be at most the {self.steps} steps", self.chosen)

    @property
    def neighbors(self) -> Neighbors:
        return self.relation

    @property
    def _variance(self) -> Fraction:
        """μ² = epochs/σ²."""
        return self.epochs / Fraction(self._sigma) ** 2

    @property
    def _sigma(self) -> float:
        assert isinstance(self.mechanism, Gaussian)  # what else has finitely many outputs
        return self.mechanism.noise_multiplier

    @property
    def _mean(self) -> float:
        """μ = √epochs/σ, rounded up."""
        mean = reciprocal_up(self._sigma)
        return mean if self.epochs == 1 else GaussianPair.product([(GaussianPair(mean), self.epochs)]).mean

    @property
    def _fewer(self) -> int:
        """How many steps are drawn, or left out, whichever is less: see `_beside`."""
        return min(self.chosen, self.steps - self.chosen)

    @property
    def _beside(self) -> int:
        """Releases on everyone beside those of `_fewer` steps.

        Noise and sums are taken apart into their mean over the steps and differences from it, which are independent.
        The mean of k of t steps is that of Gaussian noise at √t·σ/k, whichever they are; the differences are those of
        the t - k steps that are left out, with their signs turned. So k of t are t - k of t and Gaussian noise of
        μ²(k² - (t-k)²)/t = μ²(2k - t): that of 2k - t releases.
        """
        return max(2 * self.chosen - self.steps, 0)

    @property
    def _blocks(self) -> list[tuple[int, int]]:
        """Sizes of blocks, with how many there are."""
        if self._fewer == 0:
            return []
        size, larger = divmod(self.steps, self._fewer)
        return [(one, n) for one, n in ((size + 1, larger), (size, self._fewer - larger)) if n > 0]

    def _known(self) -> Known:
        if not isinstance(self.mechanism, Gaussian):
            return self._of_atoms(self.mechanism._known())
        is_exact = self._is_exact
        return Known(
            curve=self._curve,
            directions=lambda _: self._directions(),
            attained=lambda _: self._directions() if is_exact else None,
            tight=lambda _: is_exact,
            profile=lambda: None,
            failure=lambda: 0.0,
        )

    @property
    def _is_exact(self) -> bool:
        """Whether one step of t is drawn, or left out, or none, and the law of that many steps is followed."""
        return self._fewer == 0 or (self._fewer == 1 and followed_steps(self._mean, self.steps) == self.steps)

    def _of_atoms(self, base: Known) -> Known:
        """Return what is known of finitely many outputs: all of it, if all counts of them are formed."""
        dominating, attained = _atoms(self.mechanism), base.attained_noise
        assert dominating is not None  # checked
        plan = self.chosen, self.epochs
        steps = followed_by_counts(dominating, self.steps, *plan)
        pairs = both_orders(AllocatedAtoms(dominating, steps, *plan))
        is_exact, reached = steps == self.steps, None
        if is_exact and isinstance(attained, FiniteNoise):
            reached = both_orders(AllocatedAtoms(attained.atoms, steps, *plan))
        return Known(
            curve=lambda: finite_loss(pairs),
            directions=lambda _: one_release(pairs),
            attained=lambda _: one_release(reached),
            tight=lambda _: is_exact and base.tight(self.relation),
            profile=lambda: None,
            failure=lambda: max(pair.failure for pair in pairs),
        )

    def _directions(self) -> Directions:
        """Both directions; one step of one is Gaussian noise on everyone."""
        everyone = GaussianPair(self._mean)
        beside = [(everyone, self._beside)] if self._beside else []
        sizes = [(followed_steps(self._mean, size), n) for size, n in self._blocks]
        return tuple(
            (*((kind(self._variance, size) if size > 1 else everyone, n) for size, n in sizes), *beside)
            for kind in (LeavesOneOf, JoinsOneOf)
        )

    def _curve(self) -> Curve:
        sizes = [(followed_steps(self._mean, size), n) for size, n in [*self._blocks, (1, self._beside)] if n > 0]
        parts = [(_curve_of_block(self._variance, size, self._is_exact), n) for size, n in sizes]
        return parts[0][0] if parts[0][1] == len(parts) == 1 else total(parts)

    def _plain(self) -> dict[str, Any]:
        """What is 1 is left out."""
        content = AbstractMechanism._plain(self)
        return {name: it for name, it in content.items() if name not in ("chosen", "epochs") or it != 1}


def _atoms(mechanism: AbstractMechanism) -> Atoms | None:
    """Return the outputs of a mechanism with a record, and without it; None where these are not stated as such."""
    noise = mechanism._known().noise
    return noise.atoms if isinstance(noise, FiniteNoise) and not isinstance(noise.atoms, NOT_STATED) else None


def both_orders(atoms: Atoms) -> tuple[FinitePair, FinitePair]:
    """Return the pairs of a record that leaves and of one that joins."""
    return finite_pair(atoms), finite_pair(Reversed(atoms))


def allocate(
    *, mechanism: Any, steps: int, chosen: int, epochs: int, bins: Bins, neighbors: Neighbors | None
) -> AbstractMechanism:
    """Return epochs of random allocation; `bins` must be said where there are several."""
    count = whole_number("epochs", epochs, at_least=1)
    require(bins in (None, "fresh", "kept"), "bins must be 'fresh' or 'kept'", bins)
    if bins is None and count > 1:
        raise InvalidParameter(WHICH_BINS)
    kept = count if bins == "kept" else 1
    relation = ADD_REMOVE if neighbors is None else neighbors
    epoch = RandomAllocation(mechanism=mechanism, steps=steps, chosen=chosen, epochs=kept, relation=relation)
    return epoch * count if kept < count else epoch


# Rényi divergences ----------------------------------------------------------------------------------------------------


@lru_cache(maxsize=64)
def _curve_of_block(variance: Fraction, steps: int, is_exact: bool) -> Curve:
    """Return K of both directions, the larger at every order.

    Beyond the orders that nodes follow, K of one that leaves is known at integers, with chords between; beyond these,
    and of one that joins, it is convex and below a parabola: μ²λ(λ+1)/2, all in one step, by joint convexity, and
    μ²λ(λ/t+1)/2, as S/t is at least the geometric mean of the r_i. So it lies below the tangent to the parabola.

    Holds for:  all orders.
    Tightness:  exact, but for chords and tangents.
    """
    half = float(variance / 2) * (1 + 4e-16)
    everyone = Curve(log_moment=lambda lam: half * lam * (lam + 1), kl=half, exact=steps == 1 and is_exact)
    if steps == 1:
        return everyone
    leaves, joins = LeavesOneOf(variance, steps), JoinsOneOf(variance, steps)
    try:
        integers, none = _integer_moments(variance, steps), (np.zeros(0), np.zeros(0))
        cut = _CutMoments(leaves, *integers)
        kl = max(divergence(leaves), divergence(joins)) * (1 + QUADRATURE_ERROR)
    except OutOfReach:
        return everyone
    way = Curve(log_moment=everyone.log_moment, kl=kl, exact=is_exact, summed=True)
    return at_least(
        replace(way, log_moment=_one_way(leaves, cut, integers, (half, half))),
        replace(way, log_moment=_one_way(joins, None, none, (half / steps, half))),
    )


@final
@dataclass(frozen=True, slots=True, eq=False)
class _CutMoments:
    """What the soft cut takes off E_P e^{λℓ}, at most: p of P, where ℓ + wg is above c. The smaller of two bounds.

    - e^{-xc} E e^{λℓ + x(ℓ+wg)}, x >= 0, where E_P e^{yℓ} <= e^{y(y+1)μ²/2}, as if all were in one step;
    - √(p E_P e^{2λℓ}) (Cauchy and Schwarz), K(2λ) at most on a chord between integers.
    """

    pair: LeavesOneOf
    orders: Array
    values: Array

    def log_bound(self, lam: Array) -> Array:
        square, width = float(self.pair.variance), width_of_cut(self.pair.variance, self.pair.steps)
        cut = range_of_losses(self.pair.variance, self.pair.steps).cut
        x = np.maximum((cut - (lam + 0.5) * square) / (square + width**2), 0.0)
        together = x * x * width**2 / 2 - x * cut + (lam + x) * (lam + x + 1) * square / 2
        knots, values = np.append(0.0, self.orders), np.append(0.0, self.values)
        chord = np.where(2 * lam <= knots[-1], np.interp(2 * lam, knots, values), np.inf)
        return np.minimum(together, (math.log(self.pair.left_out) + chord) / 2) + 1e-9

    @property
    def most(self) -> float:
        """An order up to which that counts for nothing."""
        return smallest_true(lambda lam: bool(self.log_bound(np.array(lam)) > -SEEN_NATS), 0.0, 1e6, relative=1e-3)


def _one_way(
    pair: AllocatedPair, cut: _CutMoments | None, integers: tuple[Array, Array], parabola: tuple[float, float]
) -> Callable[[Array], Array]:
    """Return K of one direction."""
    near, (a, b) = _followed(pair, math.inf if cut is None else cut.most), parabola  # K <= aλ² + bλ
    beyond = integers[0] > near
    knots = np.append(near, integers[0][beyond])
    values = np.append(_raised(pair, cut, np.array([near])), integers[1][beyond])
    last, k = float(knots[-1]), float(values[-1])
    touch = last + math.sqrt(max(last * (a * last + b) - k, 0.0) / a)  # where the tangent through this point does
    slope = a * 2 * touch + b

    def log_moment(lam: Array) -> Array:
        found = np.where(lam < touch, k + slope * (lam - last), lam * (a * lam + b))
        found = np.where(lam <= last, np.interp(lam, knots, values), found)
        some = lam <= near
        if np.any(some):
            found[some] = _raised(pair, cut, lam[some])
        return found

    return log_moment


def _raised(pair: AllocatedPair, cut: _CutMoments | None, lam: Array) -> Array:
    """Return K of the nodes, raised by what rounding may take, and by what a cut took off."""
    k = log_moments(pair, lam) * (1 + QUADRATURE_ERROR)
    return k if cut is None else k + np.exp(np.minimum(cut.log_bound(lam), 700.0))  # M >= 1


def _followed(pair: AllocatedPair, most: float) -> float:
    """Return an order up to which nodes are followed: `log_moments` asks for those of the next power of 2."""
    low, octave = 2.0**-20, -20
    while 2.0**octave < most:
        try:
            pair.nodes(2.0 ** (octave + 1), 0.0)
        except OutOfReach:
            return low
        low, octave = min(2.0 ** (octave + 1), most) * (1 - 1e-12), octave + 1
    return low


def _integer_moments(variance: Fraction, steps: int) -> tuple[Array, Array]:
    """Return λ = 1, 2, … and K(λ) = log E_Q (S/t)^{λ+1} of one that leaves, rounded up."""
    found = upper_floats(log_moments_of_mean(variance, steps)[2:])
    return np.arange(1.0, len(found) + 1), np.array(found)
