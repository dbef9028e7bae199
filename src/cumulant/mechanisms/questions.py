"""The questions every mechanism answers, whether plain, sampled or composed.

What is known of a mechanism comes from `AbstractMechanism`; everything here follows from that: formula if there is one,
else the next best derivation, else refuse.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from cumulant import parameters
from cumulant.answer import EXACTLY, Explanation, Guarantee, Interval, Method, Part, above_of, relation_text
from cumulant.curves.best_order import epsilon_from_cgf, less_rounding, log_delta_from_cgf
from cumulant.curves.curve import Curve
from cumulant.errors import InvalidParameter, OutOfReach, UnprovenCombination
from cumulant.inversion.solve import Directions, Inversion, epsilon_of_pairs, log_delta_of_pairs
from cumulant.names import by_name
from cumulant.neighbors import ADD_REMOVE, Neighbors
from cumulant.numerics.logspace import Array
from cumulant.profiles.profile import PrivacyProfile
from cumulant.profiles.tradeoff import false_negative_rate

if TYPE_CHECKING:
    from cumulant.mechanisms.base import Releases

METHODS = ("best", "exact", "rdp")
ROUGH = 1e-3  # slack in log δ from which Rényi DP is asked as well


class Questions(ABC):
    """Questions and answers; what they rest on is abstract."""

    __slots__ = ()

    theorem: ClassVar[str]

    @abstractmethod
    def loss(self) -> Curve: ...

    @abstractmethod
    def known_profile(self) -> PrivacyProfile | None: ...

    @abstractmethod
    def directions(self) -> Directions | None: ...

    @abstractmethod
    def attained_directions(self) -> Directions | None: ...

    @abstractmethod
    def releases(self) -> Releases: ...

    @property
    @abstractmethod
    def neighbors(self) -> Neighbors | None: ...

    @property
    @abstractmethod
    def tight_and_self_consistent(self) -> bool: ...

    @abstractmethod
    def pairs_attained(self, relation: Neighbors | None) -> bool: ...

    @property
    @abstractmethod
    def sharper_by_rdp(self) -> bool: ...

    @by_name
    def cgf(self, *, order: ArrayLike) -> Any:
        """Return K(λ) at λ = order - 1: (order - 1)·rdp(order)."""
        loss = self.loss()

        def at(orders: Array) -> Array:
            values: Array = np.full(orders.shape, math.inf)
            finite = np.isfinite(orders)
            values[finite] = loss(orders[finite] - 1.0)
            if loss.pure == 0:
                values[~finite] = 0.0
            return values if loss.failure == 0 else np.where(orders > 1, math.inf, values)

        return _at_orders(at, order)

    @by_name
    def rdp(self, *, order: ArrayLike) -> Any:
        """Return the Rényi DP of any real order > 1; order 1 is KL privacy, inf is pure DP.

        Scalars in, float out; arrays in, array out.
        """
        loss = self.loss()

        def at(orders: Array) -> Array:
            values: Array = np.empty(orders.shape)
            inner = (orders > 1) & np.isfinite(orders)
            values[inner] = loss(orders[inner] - 1.0) / (orders[inner] - 1.0)
            values[orders == 1] = loss.kl
            values[np.isinf(orders)] = loss.pure
            return values if loss.failure == 0 else np.full(orders.shape, math.inf)

        return _at_orders(at, order)

    @by_name
    def rdp_interval(self, *, order: float) -> Interval:
        """Return the RDP of an order as (attained, proven): how far the bound can still be from the truth."""
        if not self.tight_and_self_consistent:
            raise UnprovenCombination(f"no lower bound on the RDP of {type(self).__name__} is known")
        value = float(self.rdp(order=order))
        return Interval(value, value)

    def profile(self) -> PrivacyProfile:
        """Return the privacy profile ε ↦ δ of one release, exact where the mechanism attains it."""
        profile = self.known_profile()
        if profile is None:
            raise UnprovenCombination(
                f"the privacy profile of {type(self).__name__} is not known in closed form; ask for delta(epsilon=)"
            )
        return profile

    @by_name
    def epsilon(self, *, delta: float | None = None, log_delta: float | None = None, method: Method = "best") -> float:
        """Return the smallest proven ε at δ, rounded up. Give δ in [0, 1], or log δ where δ underflows.

        It is inf where nothing finite is true (δ = 0 without pure DP, or δ below a failure probability).
        """
        return self.guarantee(delta=delta, log_delta=log_delta, method=method).epsilon

    @by_name
    def delta(self, *, epsilon: float, method: Method = "best") -> float:
        """Return the smallest proven δ at ε, rounded up; see `log_delta` for values that underflow."""
        return self._guarantee_at_epsilon(parameters.nonnegative("epsilon", epsilon), method).delta

    @by_name
    def log_delta(self, *, epsilon: float, method: Method = "best") -> float:
        """Return the logarithm of the smallest proven δ at ε, rounded up."""
        return self._guarantee_at_epsilon(parameters.nonnegative("epsilon", epsilon), method).log_delta

    @by_name
    def guarantee(
        self,
        *,
        delta: float | None = None,
        log_delta: float | None = None,
        epsilon: float | None = None,
        method: Method = "best",
    ) -> Guarantee:
        """Return ε at δ, or δ at ε, together with how it was proven."""
        if epsilon is not None and delta is None and log_delta is None:
            return self._guarantee_at_epsilon(parameters.nonnegative("epsilon", epsilon), method)
        if epsilon is not None:
            raise InvalidParameter(f"give one of delta, log_delta, epsilon, got {delta!r}, {log_delta!r}, {epsilon!r}")
        guarantee = self._guarantee_at_delta(parameters.log_of_delta(delta=delta, log_delta=log_delta), method)
        return guarantee if delta is None else replace(guarantee, stated_delta=float(delta))

    @by_name
    def explain(
        self,
        *,
        delta: float | None = None,
        log_delta: float | None = None,
        epsilon: float | None = None,
        method: Method = "best",
    ) -> Explanation:
        """Return which theorem bounded each part, exact or upper bound, and for which relation."""
        return Explanation(
            guarantee=self._bounded_from_below(
                self.guarantee(delta=delta, log_delta=log_delta, epsilon=epsilon, method=method)
            ),
            neighbors=self.neighbors,
            parts=tuple(release._part(count) for release, count in self.releases()),
        )

    @by_name
    def epsilon_interval(self, *, delta: float | None = None, log_delta: float | None = None) -> Interval:
        """Return bounds of ε at δ from both sides: no rounding, truncation, aliasing or quadrature is left out.

        The upper end holds for every pair of neighbours; the lower end is attained by some. `certified` says whether
        all of it was ball arithmetic, which some questions would take too long for.
        """
        from cumulant.inversion.certified import certified_epsilon, delta_ball

        parameters.log_of_delta(delta=delta, log_delta=log_delta)
        upper, lower = self._pairs_for_interval()
        return certified_epsilon(upper, lower, delta_ball(delta=delta, log_delta=log_delta))

    @by_name
    def delta_interval(self, *, epsilon: float) -> Interval:
        """Return bounds of δ at ε from both sides; see `epsilon_interval`."""
        from cumulant.inversion.certified import certified_delta

        upper, lower = self._pairs_for_interval()
        return certified_delta(upper, lower, parameters.nonnegative("epsilon", epsilon))

    @by_name
    def tradeoff(self, *, false_positive_rate: float, method: Method = "best") -> float:
        """Return the smallest false negative rate of any test at a false positive rate: f-DP, rounded down.

        >>> from cumulant import Gaussian
        >>> round(Gaussian(noise_multiplier=1.0).tradeoff(false_positive_rate=0.05), 4)
        0.7405
        """
        rate = parameters.probability("false_positive_rate", false_positive_rate)
        return false_negative_rate(lambda epsilon: self.delta(epsilon=epsilon, method=method), rate)

    @by_name
    def true_positive_rate(self, *, false_positive_rate: float) -> float:
        """Return the largest true positive rate that any attacker has at a false positive rate, rounded up."""
        return min(1.0, math.nextafter(1.0 - self.tradeoff(false_positive_rate=false_positive_rate), 2.0))

    def advantage(self) -> float:
        """Return the largest true positive rate less false positive rate of any attacker: δ at ε = 0, rounded up."""
        return self.delta(epsilon=0.0)

    def _pairs_for_interval(self) -> tuple[Directions, Directions]:
        upper, lower = self.directions(), self.attained_directions()
        if upper is None or lower is None:
            raise UnprovenCombination(
                "certified intervals need the dominating pair of every release, and one of these has none; "
                'method="best" gives the tightest bound that is proven'
            )
        return upper, lower

    def _guarantee_at_delta(self, log_delta: float, method: Method) -> Guarantee:
        profile = self._profile_for(method)
        if profile is not None and (by_profile := profile.epsilon(less_rounding(log_delta))) < math.inf:
            return Guarantee.by_profile(by_profile, log_delta, exact=self._attained)
        inverted = self._by_pairs(lambda directions: epsilon_of_pairs(directions, log_delta), method)
        if inverted is not None and (method == "exact" or not self._doubtful(inverted)):
            return Guarantee.by_pairs(inverted.value, log_delta, inverted.route, excess=self._excess(inverted))
        epsilon, order = epsilon_from_cgf(self.loss(), log_delta)
        if inverted is not None and inverted.value <= epsilon:
            return Guarantee.by_pairs(inverted.value, log_delta, inverted.route, excess=self._excess(inverted))
        return Guarantee.by_rdp(epsilon, log_delta, order)

    def _guarantee_at_epsilon(self, epsilon: float, method: Method) -> Guarantee:
        profile = self._profile_for(method)
        if profile is not None:
            log_delta = profile.log_delta(epsilon)
            by_profile = Guarantee.by_profile(epsilon, log_delta, exact=self._attained)
            return replace(by_profile, stated_delta=self._stated_failure(epsilon))
        inverted = self._by_pairs(lambda directions: log_delta_of_pairs(directions, epsilon), method)
        if inverted is not None and (method == "exact" or not self._doubtful(inverted)):
            by_pairs = Guarantee.by_pairs(epsilon, inverted.value, inverted.route, excess=self._excess(inverted))
            return replace(by_pairs, stated_delta=self._stated_failure(epsilon))
        loss = self.loss()
        log_delta, order = log_delta_from_cgf(loss, epsilon)
        if inverted is not None and inverted.value <= log_delta:
            return Guarantee.by_pairs(epsilon, inverted.value, inverted.route, excess=self._excess(inverted))
        return replace(Guarantee.by_rdp(epsilon, log_delta, order), stated_delta=self._stated_failure(epsilon))

    def _stated_failure(self, epsilon: float) -> float | None:
        """Return the failure probability as it was stated where it is all of δ, from the largest finite loss on.

        The logarithm of it rounds.
        """
        releases = self.releases()
        failure = releases[0][0].failure_probability if len(releases) == 1 and releases[0][1] == 1 else 0.0
        return failure if failure > 0 and epsilon >= self.loss().pure else None

    def _profile_for(self, method: Method) -> PrivacyProfile | None:
        """Return the profile of a single release, which needs no inversion."""
        if method not in METHODS:
            raise InvalidParameter(f"method must be one of {', '.join(METHODS)}, got {method!r}")
        releases = self.releases()
        if method == "rdp" or len(releases) != 1 or releases[0][1] != 1:
            return None
        return self.known_profile() if method == "best" or self.directions() is not None else None

    def _by_pairs(self, invert: Callable[[Directions], Inversion], method: Method) -> Inversion | None:
        """Return the answer of the dominating pairs; None if Rényi DP has to do."""
        directions = None if method == "rdp" else self.directions()
        if directions is None:
            if method == "exact":
                raise UnprovenCombination(
                    "an exact answer needs the dominating pair of every release, and one of these has none; "
                    'use method="best" for the tightest bound that is proven'
                )
            return None
        try:
            return invert(directions)
        except OutOfReach:
            if method == "exact":
                raise
            return None

    @property
    def _attained(self) -> bool:
        """Whether some neighbours attain the pairs; in a single release no orders can be mixed."""
        releases = self.releases()
        single = len(releases) == 1 and releases[0][1] == 1
        return self.pairs_attained(self.neighbors or (ADD_REMOVE if single else None))

    def _doubtful(self, inverted: Inversion) -> bool:
        """Whether Rényi DP could be the tighter one."""
        return not inverted.slack <= ROUGH or self.sharper_by_rdp  # slack may be nan

    def _excess(self, inverted: Inversion) -> float | None:
        """Return how far above the truth the answer can be, if some neighbours attain the pairs."""
        return inverted.excess if self._attained else None

    def _bounded_from_below(self, guarantee: Guarantee) -> Guarantee:
        """Return the guarantee with how far it can be above what attained pairs need, if such are known."""
        lower = self.attained_directions()
        if guarantee.at_most_above is not None or lower is None or not 0 < guarantee.epsilon < math.inf:
            return guarantee
        try:
            needed = epsilon_of_pairs(lower, guarantee.log_delta)
        except OutOfReach:
            return guarantee
        share = 1 - needed.value * (1 - needed.excess) / guarantee.epsilon
        return replace(guarantee, at_most_above=above_of(min(max(share * (1 + 1e-9), EXACTLY), 1.0)))

    def _part(self, count: int) -> Part:
        return Part(
            mechanism=repr(self),
            count=count,
            theorem=self.theorem,
            exact=self.loss().exact,
            neighbors=relation_text(self.neighbors),
        )


def _at_orders(evaluate: Callable[[Array], Array], order: ArrayLike) -> Any:
    """Check orders, evaluate, and give scalars back for scalars."""
    try:
        dimensions = np.ndim(order)
    except ValueError:
        raise InvalidParameter(f"order must be a number or a rectangular array of numbers, got {order!r}") from None
    if dimensions == 0:
        return float(evaluate(np.array([parameters.order(order)]))[0])
    orders = np.ravel(order)
    if orders.dtype != np.float64 or not np.all(orders >= 1):  # look closer, and say which one is wrong
        orders = np.array([parameters.order(value) for value in orders])
    return evaluate(orders).reshape(np.shape(order))
