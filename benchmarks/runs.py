"""What is accounted for, as plain data that every contestant can be told about."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any, final

GAUSSIAN, LAPLACE, RANDOMIZED_RESPONSE = "gaussian", "laplace", "randomized response"
APPROXIMATE, STATED = "approximate", "stated"  # of which peers are not told
NONE, POISSON, WITHOUT, WITH = "none", "poisson", "without replacement", "with replacement"
ADD_REMOVE, REPLACE_ONE = "add-or-remove-one", "replace-one"
ZERO_OUT = "zero-out"  # of which peers are not told


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Release:
    """A mechanism, how its data are sampled, for which relation, and how often it is released.

    `parameter` is the noise multiplier, the scale or the probability of a true answer. Poisson sampling has a `rate`,
    samples of fixed size have `batch` out of `population`. Without sampling the relation is the sensitivity's.

    Approximate DP has ε as its parameter and δ as `failure`; a stated pair has `outputs`, the table of P and then that
    of Q. A Poisson sample may hold another one, of `inner_rate`; the answer may be for a `group`.
    """

    kind: str
    parameter: float
    sampling: str = NONE
    rate: float = 1.0
    batch: int = 0
    population: int = 0
    relation: str = ADD_REMOVE
    count: int = 1
    failure: float = 0.0
    outputs: tuple[float, ...] = ()
    inner_rate: float = 1.0
    group: int = 1

    @property
    def share(self) -> float:
        """The probability that a record is in the sample, 1 without sampling."""
        return self.batch / self.population if self.sampling in (WITHOUT, WITH) else self.rate * self.inner_rate


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """Releases that are composed, and the δ at which ε is asked for."""

    releases: tuple[Release, ...]
    delta: float

    @property
    def count(self) -> int:
        return sum(release.count for release in self.releases)

    def times(self, count: int) -> Run:
        """Return the run with every release made `count` times."""
        return replace(self, releases=tuple(replace(release, count=count) for release in self.releases))

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Run:
        releases = [{**release, "outputs": tuple(release.get("outputs", ()))} for release in data["releases"]]
        return cls(releases=tuple(Release(**release) for release in releases), delta=data["delta"])


def dp_sgd(*, noise: float, rate: float, steps: int, delta: float) -> Run:
    """Return the run everybody asks about: Poisson samples and Gaussian noise."""
    release = Release(kind=GAUSSIAN, parameter=noise, sampling=POISSON, rate=rate, count=steps)
    return Run(releases=(release,), delta=delta)
