"""A mechanism: the questions it answers, and what it can become.

A mechanism says what it is (fields) and what is known of its loss (`_known`). Answers follow in `answers`.

This is the one module that looks downstream: `*`, `+` and the sampling methods build mechanisms that are
defined on top of this class, so they import them where they are used.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike

from cumulant import parameters
from cumulant.answer import EXACTLY, Explanation, Guarantee, Interval, Method, relation_text, table_html
from cumulant.curves.curve import cgf_at, rdp_at
from cumulant.errors import InvalidParameter, UnprovenCombination
from cumulant.mechanisms import answers
from cumulant.mechanisms.data import arguments_from, plain_fields, write
from cumulant.mechanisms.known import Known
from cumulant.mechanisms.many import deltas_at, epsilon_curve_of, epsilons_at, log_deltas_at, tradeoffs_at
from cumulant.neighbors import REPLACE_ONE, Neighbors
from cumulant.parameters import Bins, by_name, check_names
from cumulant.profiles.profile import PrivacyProfile

if TYPE_CHECKING:
    from typing_extensions import Self

    from cumulant.composition import Composed

Releases = tuple[tuple["AbstractMechanism", int], ...]


class AbstractMechanism(ABC):
    """Anything that was, or will be, released about the data."""

    __slots__ = ()

    theorem: ClassVar[str]
    """The statement that its Rényi curve rests on, for explanations."""

    def __new__(cls, *unnamed: Any, **named: Any) -> Self:
        if unnamed or named:
            check_names(cls, unnamed, named)
        return super().__new__(cls)

    @abstractmethod
    def _known(self) -> Known:
        """Return what is known of the privacy loss."""

    @property
    def neighbors(self) -> Neighbors | None:
        """The relation the guarantee is for; None: whichever the sensitivity is measured for."""
        return None

    def releases(self) -> Releases:
        """Return the distinct releases with their counts."""
        return ((self, 1),)

    # Questions -----------------------------------------------------------------------------------

    @by_name
    def epsilon(
        self,
        *,
        delta: ArrayLike | None = None,
        log_delta: ArrayLike | None = None,
        method: Method = "best",
        accuracy: float = EXACTLY,
    ) -> Any:
        """Return the smallest proven ε at δ, rounded up. Give δ in [0, 1], or log δ where δ underflows.

        It is inf where nothing finite is true (δ = 0 without pure DP, or δ below a failure probability). Scalars in,
        float out; arrays in, array out. With a coarser `accuracy`, a share of ε, the answer may come sooner, and may be
        larger by that share.
        """
        share, known = parameters.accuracy(accuracy), self._known()
        if parameters.is_array(delta) or parameters.is_array(log_delta):
            many = parameters.logs_of_deltas(delta=delta, log_delta=log_delta)
            return epsilons_at(known, self.neighbors, answers.logs_asked(known, delta, many), method, share)
        asked = answers.log_asked(known, delta, parameters.log_of_delta(delta=delta, log_delta=log_delta))
        return answers.guarantee_at_delta(known, self.neighbors, asked, method, accuracy=share).epsilon

    @by_name
    def delta(self, *, epsilon: ArrayLike, method: Method = "best", accuracy: float = EXACTLY) -> Any:
        """Return the smallest proven δ at ε, rounded up; see `log_delta` for values that underflow.

        Scalars in, float out; arrays in, array out. `accuracy` is that of `epsilon`.
        """
        if parameters.is_array(epsilon):
            many = parameters.array_of(parameters.nonnegative, "epsilon", epsilon)
            return deltas_at(self._known(), self.neighbors, many, method, parameters.accuracy(accuracy))
        return self._guarantee_at(epsilon, method, accuracy).delta

    @by_name
    def log_delta(self, *, epsilon: ArrayLike, method: Method = "best", accuracy: float = EXACTLY) -> Any:
        """Return the logarithm of the smallest proven δ at ε, rounded up; arrays in, array out."""
        if parameters.is_array(epsilon):
            many = parameters.array_of(parameters.nonnegative, "epsilon", epsilon)
            return log_deltas_at(self._known(), self.neighbors, many, method, parameters.accuracy(accuracy))
        return self._guarantee_at(epsilon, method, accuracy).log_delta

    def _guarantee_at(self, epsilon: Any, method: Method, accuracy: float) -> Guarantee:
        asked, share = parameters.nonnegative("epsilon", epsilon), parameters.accuracy(accuracy)
        return answers.guarantee_at_epsilon(self._known(), self.neighbors, asked, method, accuracy=share)

    @by_name
    def epsilon_curve(
        self,
        *,
        counts: ArrayLike,
        delta: ArrayLike | None = None,
        log_delta: ArrayLike | None = None,
        method: Method = "best",
        accuracy: float = EXACTLY,
    ) -> Any:
        """Return ε at δ of this released n times, for every n of `counts`, evaluated together.

        >>> from cumulant import Gaussian
        >>> step = Gaussian(noise_multiplier=1.0).poisson(rate=0.01)
        >>> step.epsilon_curve(counts=[1000, 2000, 4000], delta=1e-5).round(4)
        array([1.8282, 2.5838, 3.7225])
        """
        share, many = parameters.accuracy(accuracy), parameters.counts(counts)
        found = epsilon_curve_of(self, many, delta=delta, log_delta=log_delta, method=method, accuracy=share)
        return found if parameters.is_array(counts) else float(found.ravel()[0])

    @by_name
    def guarantee(
        self,
        *,
        delta: float | None = None,
        log_delta: float | None = None,
        epsilon: float | None = None,
        method: Method = "best",
        accuracy: float = EXACTLY,
    ) -> Guarantee:
        """Return ε at δ, or δ at ε, together with how it was proven."""
        if epsilon is not None and delta is None and log_delta is None:
            return self._guarantee_at(epsilon, method, accuracy)
        if epsilon is not None:
            raise InvalidParameter(f"give one of delta, log_delta, epsilon, got {delta!r}, {log_delta!r}, {epsilon!r}")
        share, known = parameters.accuracy(accuracy), self._known()
        asked = answers.log_asked(known, delta, parameters.log_of_delta(delta=delta, log_delta=log_delta))
        guarantee = answers.guarantee_at_delta(known, self.neighbors, asked, method, accuracy=share)
        return guarantee if delta is None else replace(guarantee, stated_delta=float(delta))

    @by_name
    def explain(
        self,
        *,
        delta: float | None = None,
        log_delta: float | None = None,
        epsilon: float | None = None,
        method: Method = "best",
        accuracy: float = EXACTLY,
    ) -> Explanation:
        """Return which theorem bounded each part, exact or upper bound, and for which relation."""
        from cumulant.report.explanation import explanation_of

        asked = {"delta": delta, "log_delta": log_delta, "epsilon": epsilon}
        return explanation_of(self, self.guarantee(**asked, method=method, accuracy=accuracy))

    def _words(self, count: int) -> str:
        from cumulant.report.release_words import release_words

        return release_words(self, count)

    @by_name
    def epsilon_interval(self, *, delta: float | None = None, log_delta: float | None = None) -> Interval:
        """Return bounds of ε at δ from both sides: no rounding, truncation, aliasing or quadrature is left out.

        The upper end holds for every pair of neighbours; the lower end is attained by some. `certified` says whether
        all of it was ball arithmetic, which some questions would take too long for.
        """
        log = parameters.log_of_delta(delta=delta, log_delta=log_delta)
        return answers.epsilon_interval(self._known(), self.neighbors, delta, log)

    @by_name
    def delta_interval(self, *, epsilon: float) -> Interval:
        """Return bounds of δ at ε from both sides; see `epsilon_interval`."""
        return answers.delta_interval(self._known(), self.neighbors, parameters.nonnegative("epsilon", epsilon))

    @by_name
    def cgf(self, *, order: ArrayLike) -> Any:
        """Return K(λ) at λ = order - 1: (order - 1)·rdp(order)."""
        return cgf_at(self._known().curve(), order)

    @by_name
    def rdp(self, *, order: ArrayLike) -> Any:
        """Return the Rényi DP of any real order > 1; order 1 is KL privacy, inf is pure DP.

        Scalars in, float out; arrays in, array out.
        """
        return rdp_at(self._known().curve(), order)

    @by_name
    def rdp_interval(self, *, order: float) -> Interval:
        """Return the RDP of an order as (attained, proven): how far the bound can still be from the truth."""
        least_rdp = self._known().least_rdp
        if least_rdp is None:
            raise UnprovenCombination(f"no lower bound on the RDP of {type(self).__name__} is known")
        return Interval(least_rdp(order), float(self.rdp(order=order)))

    @by_name
    def statement(
        self,
        *,
        delta: float | None = None,
        log_delta: float | None = None,
        format: Literal["text", "markdown", "json"] = "text",  # noqa: A002 - the word that people look for
        user_records: int = 1,
    ) -> str:
        """Return what this promises, in words: whom it protects, what proves it, what an attacker can do, what is left.

        `user_records` is how many records one person has at most; the promise is then to all of them at once.
        """
        from cumulant.report.statement import state

        return state(self, delta=delta, log_delta=log_delta, user_records=user_records).written(format)

    def profile(self) -> PrivacyProfile:
        """Return the privacy profile ε ↦ δ of one release, exact where the mechanism attains it."""
        profile = self._known().profile()
        if profile is None:
            raise UnprovenCombination(
                f"the privacy profile of {type(self).__name__} is not known in closed form; ask for delta(epsilon=)"
            )
        return profile

    @by_name
    def tradeoff(self, *, false_positive_rate: ArrayLike, method: Method = "best", accuracy: float = EXACTLY) -> Any:
        """Return the smallest false negative rate of any test at a false positive rate: f-DP, rounded down.

        Scalars in, float out; arrays in, array out.

        >>> from cumulant import Gaussian
        >>> round(Gaussian(noise_multiplier=1.0).tradeoff(false_positive_rate=0.05), 4)
        0.7405
        """
        rates = parameters.array_of(parameters.probability, "false_positive_rate", false_positive_rate)
        share = parameters.accuracy(accuracy)
        found = tradeoffs_at(self._known(), self.neighbors, rates, method, share)
        return found if parameters.is_array(false_positive_rate) else float(found.ravel()[0])

    @by_name
    def true_positive_rate(self, *, false_positive_rate: ArrayLike, accuracy: float = EXACTLY) -> Any:
        """Return the largest true positive rate that any attacker has at a false positive rate, rounded up."""
        misses = self.tradeoff(false_positive_rate=false_positive_rate, accuracy=accuracy)
        found = np.minimum(1.0, np.nextafter(1.0 - misses, 2.0))
        return found if parameters.is_array(false_positive_rate) else float(found)

    def advantage(self) -> float:
        """Return the largest true positive rate less false positive rate of any attacker: δ at ε = 0, rounded up."""
        return float(self.delta(epsilon=0.0))

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

    def __radd__(self, other: int) -> Composed:
        """Let `sum` begin with 0."""
        return self * 1 if isinstance(other, int) and other == 0 else NotImplemented

    @by_name
    def poisson(
        self,
        *,
        rate: float,
        neighbors: Neighbors | None = None,
        max_batch: int | None = None,
        population: int | None = None,
        records_per_user: int = 1,
    ) -> AbstractMechanism:
        """Return this mechanism on a sample that every record joins independently with probability `rate`.

        Default relation: add-or-remove-one, whose numbers hold for cumulant.ZERO_OUT as well. The unit of noise stays
        the largest contribution of one record. With `max_batch`, of a sample that is larger a uniform subset of that
        size: Gaussian noise, the exact `population`, and a relation with numbers of its own. With `records_per_user`,
        what it reveals of a person who has up to so many records.
        """
        from cumulant.sampling.poisson_options import poisson_sample

        cut = {"max_batch": max_batch, "population": population}
        return poisson_sample(self, rate=rate, neighbors=neighbors, **cut, records_per_user=records_per_user)

    @by_name
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
        sum of clipped vectors. Under add-or-remove-one a rate of 1 stands for the limit of smaller ones.
        """
        from cumulant.sampling.without_replacement import fixed_sample

        return fixed_sample(self, batch=batch, population=population, rate=rate, neighbors=neighbors)

    @by_name
    def with_replacement(self, *, draws: int, population: int, neighbors: Neighbors | None = None) -> AbstractMechanism:
        """Return this mechanism on `draws` records drawn with replacement from `population`.

        Default relation: replace-one. The unit of noise is the replace-one sensitivity on the sample.
        """
        from cumulant.sampling.with_replacement import SampledWithReplacement

        relation = REPLACE_ONE if neighbors is None else neighbors
        return SampledWithReplacement(mechanism=self, draws=draws, population=population, relation=relation)

    @by_name
    def random_allocation(
        self, *, steps: int, chosen: int = 1, epochs: int = 1, bins: Bins = None, neighbors: Neighbors | None = None
    ) -> AbstractMechanism:
        """Return epochs of `steps` releases of which every record joins `chosen`, drawn uniformly and for itself.

        `bins` says whether records draw anew in each epoch, or keep what they drew; where there are several epochs it
        must be said. Default relation: add-or-remove-one, whose numbers hold for cumulant.ZERO_OUT as well. The unit of
        noise stays the largest contribution of one record.
        """
        from cumulant.sampling.random_allocation import allocate

        return allocate(mechanism=self, steps=steps, chosen=chosen, epochs=epochs, bins=bins, neighbors=neighbors)

    @by_name
    def shuffled(
        self,
        *,
        batches: int | None = None,
        batch: int | None = None,
        population: int | None = None,
        drop_last: bool | None = None,
        epochs: int = 1,
        neighbors: Neighbors | None = None,
    ) -> AbstractMechanism:
        """Return epochs of a loader that shuffles the data and walks through it in batches: bounds, nothing exact.

        Give `batches`, or `batch` and `population`. `neighbors` must be said; cumulant.ADD_REMOVE is bounded only where
        one record more makes no other number of batches. The unit of noise is the largest contribution of one record.
        """
        from cumulant.sampling.shuffled import shuffle

        sizes = {"batches": batches, "batch": batch, "population": population, "drop_last": drop_last}
        return shuffle(mechanism=self, **sizes, epochs=epochs, neighbors=neighbors)  # type: ignore[arg-type]

    def sharpened(self) -> AbstractMechanism:
        """Return this release with the tightest loss that is known, also where that takes seconds to compute."""
        return self

    @by_name
    def group(self, *, size: int) -> AbstractMechanism:
        """Return the guarantee for `size` records at once, of the relation of this mechanism.

        Ask for the group last: records of a group are sampled one by one, so a group cannot be sampled.
        """
        from cumulant.mechanisms.group import Group

        return self if parameters.whole_number("size", size, at_least=1) == 1 else Group(mechanism=self, size=size)

    def _repr_html_(self) -> str:
        """Return the releases as a table, for notebooks."""
        rows = [(str(count), release._words(1), release.theorem) for release, count in self.releases()]
        return table_html(f"holds for {relation_text(self.neighbors)}", rows, ("times", "release", "by"))

    # To and from data, see `data` ----------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON-ready data that `cumulant.from_dict` reads back."""
        return write(self)

    def _plain(self) -> dict[str, Any]:
        return plain_fields(self)

    @classmethod
    def _from_plain(cls, content: dict[str, Any]) -> AbstractMechanism:
        return cls(**arguments_from(content))
