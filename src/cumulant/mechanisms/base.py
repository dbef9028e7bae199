"""What every mechanism can be asked, whether plain, sampled or composed.

A mechanism says what it is (fields) and what is known of its loss (`loss`, and `pair` where it is known
exactly). Everything else follows here: formula if there is one, else the next best derivation, else refuse.

This is the one module that looks downstream: `*`, `+` and the sampling methods build mechanisms that are
defined on top of this class, so they import them where they are used.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from cumulant import parameters
from cumulant.answer import Explanation, Guarantee, Interval, Part, relation_text
from cumulant.conversion.moments_accountant import epsilon_from_cgf, less_rounding, log_delta_from_cgf
from cumulant.errors import InvalidParameter, UnprovenCombination
from cumulant.loss.cgf import Cgf
from cumulant.loss.likelihood_ratio import LikelihoodRatio
from cumulant.loss.pair import GaussianPair
from cumulant.loss.profile import GroupProfiles, PrivacyProfile
from cumulant.neighbors import ADD_REMOVE, REPLACE_ONE, Neighbors
from cumulant.numerics.logspace import Array
from cumulant.parameters import require

if TYPE_CHECKING:
    from cumulant.composition import Composed

METHODS = ("best", "exact", "rdp")
FORMAT = 1  # version of the dictionaries that `to_dict` writes

Releases = tuple[tuple["AbstractMechanism", int], ...]


class AbstractMechanism(ABC):
    """Anything that was, or will be, released about the data."""

    __slots__ = ()

    kinds: ClassVar[dict[str, type[AbstractMechanism]]] = {}
    theorem: ClassVar[str]
    """The statement that `loss` rests on, for explanations."""

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        AbstractMechanism.kinds[cls.__name__] = cls

    # What a mechanism says of itself -------------------------------------------------------------

    @abstractmethod
    def loss(self) -> Cgf:
        """Return what is known of the CGF of the privacy loss."""

    def pair(self) -> GaussianPair | None:
        """Return a dominating pair if one is known."""
        return None

    def likelihood_ratio(self) -> LikelihoodRatio | None:
        """Return the law of the ratio of a symmetric dominating pair if one is known."""
        return None

    def group_profiles(self) -> GroupProfiles | None:
        """Return the privacy profiles of groups of every size if they are known."""
        return None

    def known_profile(self) -> PrivacyProfile | None:
        """Return the privacy profile of one release if there is a formula for it."""
        groups = self.group_profiles()
        return None if groups is None else groups(1)

    @property
    def neighbors(self) -> Neighbors | None:
        """The relation the guarantee is for; None: whichever the sensitivity is measured for."""
        return None

    @property
    def tight_and_self_consistent(self) -> bool:
        """Whether one pair of outputs attains the RDP and the |χ|^α-divergence at every order.

        Wang et al. (2019), Definition 18.
        """
        return False

    @property
    def fixed_size(self) -> bool:
        """Whether the guarantee is for datasets of one known size, as sampling rates m/n are."""
        return False

    def releases(self) -> Releases:
        """Return the distinct releases with their counts."""
        return ((self, 1),)

    # What it can be asked ------------------------------------------------------------------------

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

    def epsilon(self, *, delta: float | None = None, log_delta: float | None = None, method: str = "best") -> float:
        """Return the smallest proven ε at δ, rounded up. Give δ in [0, 1], or log δ where δ underflows.

        It is inf where nothing finite is true (δ = 0 without pure DP, or δ below a failure probability).
        """
        return self.guarantee(delta=delta, log_delta=log_delta, method=method).epsilon

    def delta(self, *, epsilon: float, method: str = "best") -> float:
        """Return the smallest proven δ at ε, rounded up; see `log_delta` for values that underflow."""
        return self._guarantee_at_epsilon(parameters.nonnegative("epsilon", epsilon), method).delta

    def log_delta(self, *, epsilon: float, method: str = "best") -> float:
        """Return the logarithm of the smallest proven δ at ε, rounded up."""
        return self._guarantee_at_epsilon(parameters.nonnegative("epsilon", epsilon), method).log_delta

    def guarantee(
        self,
        *,
        delta: float | None = None,
        log_delta: float | None = None,
        epsilon: float | None = None,
        method: str = "best",
    ) -> Guarantee:
        """Return ε at δ, or δ at ε, together with how it was proven."""
        if epsilon is not None and delta is None and log_delta is None:
            return self._guarantee_at_epsilon(parameters.nonnegative("epsilon", epsilon), method)
        if epsilon is not None:
            raise InvalidParameter(f"give one of delta, log_delta, epsilon, got {delta!r}, {log_delta!r}, {epsilon!r}")
        guarantee = self._guarantee_at_delta(parameters.log_of_delta(delta=delta, log_delta=log_delta), method)
        return guarantee if delta is None else replace(guarantee, stated_delta=float(delta))

    def explain(
        self,
        *,
        delta: float | None = None,
        log_delta: float | None = None,
        epsilon: float | None = None,
        method: str = "best",
    ) -> Explanation:
        """Return which theorem bounded each part, exact or upper bound, and for which relation."""
        return Explanation(
            guarantee=self.guarantee(delta=delta, log_delta=log_delta, epsilon=epsilon, method=method),
            neighbors=self.neighbors,
            parts=tuple(release._part(count) for release, count in self.releases()),
        )

    def _guarantee_at_delta(self, log_delta: float, method: str) -> Guarantee:
        pair = self._pair_for(method)
        if pair is not None:
            from cumulant.conversion.exact import gaussian_epsilon

            return Guarantee.by_closed_form(gaussian_epsilon(pair, less_rounding(log_delta)), log_delta)
        epsilon, order = epsilon_from_cgf(self.loss(), log_delta)
        profile = None if method == "rdp" else self.known_profile()
        if profile is not None and (by_profile := profile.epsilon(less_rounding(log_delta))) < epsilon:
            return Guarantee.by_profile(by_profile, log_delta)
        return Guarantee.by_rdp(epsilon, log_delta, order)

    def _guarantee_at_epsilon(self, epsilon: float, method: str) -> Guarantee:
        pair = self._pair_for(method)
        if pair is not None:
            from cumulant.conversion.exact import gaussian_log_delta

            return Guarantee.by_closed_form(epsilon, gaussian_log_delta(pair, epsilon))
        loss = self.loss()
        log_delta, order = log_delta_from_cgf(loss, epsilon)
        profile = None if method == "rdp" else self.known_profile()
        if profile is not None and (by_profile := profile.log_delta(epsilon)) < log_delta:
            return Guarantee.by_profile(epsilon, by_profile)
        stated = loss.failure if loss.failure and log_delta == math.log(loss.failure) else None
        return replace(Guarantee.by_rdp(epsilon, log_delta, order), stated_delta=stated)

    def _part(self, count: int) -> Part:
        return Part(
            mechanism=repr(self),
            count=count,
            theorem=self.theorem,
            exact=self.loss().exact,
            neighbors=relation_text(self.neighbors),
        )

    def _pair_for(self, method: str) -> GaussianPair | None:
        """Return the pair that a method is to use, None for RDP."""
        if method not in METHODS:
            raise InvalidParameter(f"method must be one of {', '.join(METHODS)}, got {method!r}")
        pair = None if method == "rdp" else self.pair()
        if method == "exact" and pair is None:
            raise UnprovenCombination(
                "an exact answer is known for compositions of Gaussian mechanisms only; "
                'use method="best" for the tightest bound that is proven'
            )
        return pair

    # What it can become --------------------------------------------------------------------------

    def __mul__(self, count: int) -> Composed:
        from cumulant.composition import Composed

        return Composed.of([(self, parameters.count(count))])

    __rmul__ = __mul__

    def __add__(self, other: AbstractMechanism) -> Composed:
        from cumulant.composition import Composed

        if not isinstance(other, AbstractMechanism):
            return NotImplemented
        return Composed.of([(self, 1), (other, 1)])

    def poisson(self, *, rate: float, neighbors: Neighbors | None = None) -> AbstractMechanism:
        """Return this mechanism on a sample that every record joins independently with probability `rate`.

        Default relation: add-or-remove-one. The unit of noise stays the largest contribution of one record.
        """
        from cumulant.sampling.poisson import PoissonSampled

        return PoissonSampled(mechanism=self, rate=rate, relation=ADD_REMOVE if neighbors is None else neighbors)

    def without_replacement(
        self,
        *,
        batch: int | None = None,
        population: int | None = None,
        rate: float | None = None,
        neighbors: Neighbors | None = None,
    ) -> AbstractMechanism:
        """Return this mechanism on a random subset of `batch` out of `population` records, or of that rate.

        Default relation: replace-one. The unit of noise is the replace-one sensitivity: twice the clipping norm for a
        sum of clipped vectors.
        """
        from cumulant.sampling.without_replacement import SampledWithoutReplacement

        return SampledWithoutReplacement(
            mechanism=self,
            rate=parameters.sampled_rate(batch=batch, population=population, rate=rate),
            relation=REPLACE_ONE if neighbors is None else neighbors,
        )

    def with_replacement(self, *, draws: int, population: int, neighbors: Neighbors | None = None) -> AbstractMechanism:
        """Return this mechanism on `draws` records drawn with replacement from `population`.

        Default relation: replace-one. The unit of noise is the replace-one sensitivity on the sample.
        """
        from cumulant.sampling.with_replacement import SampledWithReplacement

        return SampledWithReplacement(
            mechanism=self,
            draws=draws,
            population=population,
            relation=REPLACE_ONE if neighbors is None else neighbors,
        )

    def sharpened(self) -> AbstractMechanism:
        """Return the same release with the tightest loss that is known, also where that takes seconds to compute."""
        return self

    def group(self, *, size: int) -> AbstractMechanism:
        """Return the guarantee for `size` records at once, of the relation of this mechanism.

        Ask for the group last: records of a group are sampled one by one, so a group cannot be sampled.
        """
        from cumulant.mechanisms.group import Group

        return Group(mechanism=self, size=size)

    # To and from data ----------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON-ready data that `cumulant.from_dict` reads back."""
        return {"cumulant": FORMAT, **self._plain()}

    def _plain(self) -> dict[str, Any]:
        content = {field.name: _plain_value(field.name, getattr(self, field.name)) for field in fields(self)}  # type: ignore[arg-type]
        inner = content.pop("mechanism", None)  # "mechanism" names the kind; what it is applied to is "of"
        return {"mechanism": type(self).__name__, **({"of": inner} if inner else {}), **content}

    @classmethod
    def _from_plain(cls, content: dict[str, Any]) -> AbstractMechanism:
        arguments = {("mechanism" if name == "of" else name): _from_value(name, content[name]) for name in content}
        return cls(**arguments)


def from_dict(data: dict[str, Any]) -> AbstractMechanism:
    """Return the mechanism that `to_dict` described.

    >>> from cumulant import Laplace
    >>> from_dict(Laplace(scale=2.0).to_dict())
    Laplace(scale=2.0)
    """
    if not isinstance(data, dict) or data.get("cumulant") != FORMAT:
        raise InvalidParameter(f"a mechanism must be a dictionary with 'cumulant': {FORMAT}, got {data!r}")
    return from_plain({key: value for key, value in data.items() if key != "cumulant"})


def from_plain(content: dict[str, Any]) -> AbstractMechanism:
    """Return the mechanism of a nested description, whose version was checked outside."""
    require(isinstance(content, dict), "a mechanism must be a dictionary", content)
    name = content.get("mechanism")
    kind = AbstractMechanism.kinds.get(name) if isinstance(name, str) else None
    if kind is None:
        raise InvalidParameter(f"mechanism must be one of {', '.join(sorted(AbstractMechanism.kinds))}, got {name!r}")
    try:
        return kind._from_plain({key: value for key, value in content.items() if key != "mechanism"})
    except (KeyError, TypeError) as error:
        raise InvalidParameter(f"these are not the fields of {name}: {content!r} ({error!r})") from error


def _from_value(name: str, value: Any) -> Any:
    """Return a field's value from plain data."""
    if name == "of":
        return from_plain(value)
    if name == "relation":
        require(value in Neighbors.__members__, "relation must be ADD_REMOVE or REPLACE_ONE", value)
        return Neighbors[value]
    return math.inf if value == "inf" else value


def _plain_value(name: str, value: Any) -> Any:
    if callable(value):
        raise InvalidParameter(f"{name} is a Python function and cannot be written as data; give numbers or a table")
    if isinstance(value, Neighbors):
        return value.name
    if isinstance(value, AbstractMechanism):
        return value._plain()
    if value == math.inf:
        return "inf"  # JSON has no infinity
    return [_plain_value(name, item) for item in value] if isinstance(value, tuple) else value


def _at_orders(evaluate: Callable[[Array], Array], order: ArrayLike) -> Any:
    """Check orders, evaluate, and give scalars back for scalars."""
    try:
        dimensions = np.ndim(order)
    except ValueError:
        raise InvalidParameter(f"order must be a number or a rectangular array of numbers, got {order!r}") from None
    if dimensions == 0:
        return float(evaluate(np.array([parameters.order(order)]))[0])
    orders = np.array([parameters.order(value) for value in np.ravel(order)])
    return evaluate(orders).reshape(np.shape(order))
