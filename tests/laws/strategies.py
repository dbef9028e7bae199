"""Hypothesis strategies: any mechanism of the library, over wide ranges of its parameters."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

import cumulant as cm
from cumulant.cyclic_poisson import CyclicPoisson
from cumulant.mechanisms.base import AbstractMechanism
from cumulant.mechanisms.group import Group
from cumulant.neighbors import Neighbors
from cumulant.sampling import (
    OncePerEpoch,
    PoissonSampled,
    PoissonUsers,
    RandomAllocation,
    SampledWithoutReplacement,
    SampledWithReplacement,
    Shuffled,
    TruncatedPoisson,
)
from cumulant.sampling.poisson_users import records_per_person

SLOW = bool(os.environ.get("CUMULANT_SLOW"))


def examples(number: int) -> settings:
    """Return settings for tests whose examples take a second: more of them under CUMULANT_SLOW=1."""
    return settings(deadline=None, max_examples=number * (10 if SLOW else 1))


ASKING = examples(15)  # an answer with atoms takes a second


def log_uniform(low: float, high: float) -> SearchStrategy[float]:
    """Return numbers spread evenly over the orders of magnitude between two."""
    return st.floats(math.log(low), math.log(high)).map(lambda x: min(max(math.exp(x), low), high))


@dataclass(frozen=True)
class Entry:
    """How to draw a mechanism, and the same mechanism with `factor` >= 1 times the noise (or less to hide)."""

    draw: SearchStrategy[Any]
    noisier: Callable[[Any, float], AbstractMechanism]


def _curves() -> SearchStrategy[cm.RenyiCurve]:
    rows = st.tuples(log_uniform(1e-3, 1e4).map(lambda x: 1 + x), log_uniform(1e-6, 1e3))
    end: SearchStrategy[list[tuple[float, float]]]
    end = st.one_of(st.just([]), log_uniform(1e-3, 1e3).map(lambda e: [(math.inf, e)]))
    return st.builds(lambda table, tail: cm.RenyiCurve([*table, *tail]), st.lists(rows, min_size=1, max_size=8), end)


@st.composite
def _multivariate(draw: st.DrawFn) -> cm.MultivariateGaussian:
    size = draw(st.integers(1, 3))
    variances = st.lists(log_uniform(1e-2, 1e2), min_size=size, max_size=size)

    def diagonal(values: list[float]) -> list[list[float]]:
        return [[v if i == j else 0.0 for j in range(size)] for i, v in enumerate(values)]

    return cm.MultivariateGaussian(
        shift=tuple(draw(st.lists(log_uniform(1e-4, 1e1), min_size=size, max_size=size))),
        covariance=diagonal(draw(variances)),  # type: ignore[arg-type]
        neighbor_covariance=diagonal(draw(variances)),  # type: ignore[arg-type]
    )


def _gaussian_mixtures() -> SearchStrategy[cm.GaussianMixture]:
    amounts = st.lists(st.tuples(st.one_of(st.just(0.0), log_uniform(0.1, 3.0)), log_uniform(1e-3, 1.0)), max_size=3)
    return st.builds(
        lambda noise, rest: cm.GaussianMixture(
            noise_multiplier=noise,
            sensitivities=[1.0, *(s for s, _ in rest)],
            probabilities=[p / math.fsum([1.0, *(q for _, q in rest)]) for p in (1.0, *(q for _, q in rest))],
        ),
        log_uniform(0.3, 1e3),
        amounts,
    )


def _exponential_families() -> SearchStrategy[cm.ExponentialFamily]:
    constant = st.builds(
        cm.ExponentialFamily,
        distance=log_uniform(1e-3, 1e1),
        smoothness=st.one_of(st.just(math.inf), log_uniform(1e-3, 1e2)),
        lipschitz=log_uniform(1e-3, 1e2),
        radius=st.one_of(st.just(math.inf), log_uniform(1e1, 1e4)),
    )
    moduli = st.builds(
        lambda distance, c: cm.ExponentialFamily(distance=distance, smoothness=lambda x: c * (1 + x), radius=1e3),
        log_uniform(1e-3, 1e1),
        log_uniform(1e-3, 1e1),
    )
    return st.one_of(constant, moduli)


def _family_pairs() -> SearchStrategy[cm.FamilyPair]:
    apart = st.one_of(log_uniform(0.05, 1.0), log_uniform(0.05, 1.0).map(lambda x: -x))
    one = st.builds(
        lambda family, x, gap: cm.FamilyPair(family=family, natural=(x,), neighbor_natural=(x + gap,)),
        st.sampled_from(["bernoulli", "poisson", "categorical"]),
        st.floats(-2.0, 2.0),
        apart,
    )
    two = st.builds(
        lambda family, x, gap: cm.FamilyPair(family=family, natural=(1.0, -x), neighbor_natural=(1.0 + gap, -1.0)),
        st.sampled_from(["gamma", "normal"]),
        st.floats(0.5, 3.0),
        apart,
    )
    return st.one_of(one, two)


def _nearer(pair: cm.FamilyPair, factor: float) -> cm.FamilyPair:
    """Return the pair with the second parameters moved towards the first: its divergence falls along the line."""
    both = zip(pair.natural, pair.neighbor_natural, strict=True)
    return replace(pair, neighbor_natural=tuple(a + (b - a) / factor for a, b in both))


def _stated_pairs() -> SearchStrategy[cm.StatedPair]:
    weights = st.lists(st.tuples(log_uniform(1e-4, 1.0), log_uniform(1e-4, 1.0)), min_size=2, max_size=5)

    def normed(values: list[float]) -> tuple[float, ...]:
        return tuple(value / math.fsum(values) for value in values)

    return weights.map(
        lambda rows: cm.StatedPair(
            probabilities=normed([a for a, _ in rows]), neighbor_probabilities=normed([b for _, b in rows])
        )
    )


def _blurred(pair: cm.StatedPair, factor: float) -> cm.StatedPair:
    """Return the pair with the second distribution moved towards the first."""
    both = zip(pair.probabilities, pair.neighbor_probabilities, strict=True)
    mixed = tuple(b / factor + a * (1 - 1 / factor) for a, b in both)
    return cm.StatedPair(probabilities=pair.probabilities, neighbor_probabilities=mixed)


def _composed() -> SearchStrategy[cm.Composed]:
    """Compositions of up to three of the mechanisms above them in the table."""
    parts = st.lists(st.tuples(simple_mechanisms(), st.integers(0, 100)), min_size=0, max_size=3)
    return parts.map(cm.Composed.of)


TABLE: dict[type[AbstractMechanism], Entry] = {
    cm.Gaussian: Entry(
        st.builds(cm.Gaussian, noise_multiplier=log_uniform(0.05, 1e4)),
        lambda m, f: cm.Gaussian(noise_multiplier=m.noise_multiplier * f),
    ),
    cm.GaussianMixture: Entry(_gaussian_mixtures(), lambda m, f: replace(m, noise_multiplier=m.noise_multiplier * f)),
    cm.Laplace: Entry(
        st.builds(cm.Laplace, scale=log_uniform(1e-2, 1e6)),
        lambda m, f: cm.Laplace(scale=m.scale * f),
    ),
    cm.LaplaceVector: Entry(
        st.builds(cm.LaplaceVector, scale=log_uniform(1e-2, 1e6)),
        lambda m, f: cm.LaplaceVector(scale=m.scale * f),
    ),
    cm.FamilyPair: Entry(_family_pairs(), _nearer),
    cm.RandomizedResponse: Entry(
        st.builds(cm.RandomizedResponse, p=st.floats(1e-9, 1 - 1e-9)),
        lambda m, f: cm.RandomizedResponse(p=0.5 + (m.p - 0.5) / f),
    ),
    cm.MultivariateGaussian: Entry(
        _multivariate(),
        lambda m, f: replace(m, shift=tuple(x / f for x in m.shift)),
    ),
    cm.PureDP: Entry(
        st.builds(cm.PureDP, epsilon=st.one_of(st.just(0.0), log_uniform(1e-9, 1e3))),
        lambda m, f: cm.PureDP(epsilon=m.bound / f),
    ),
    cm.ApproximateDP: Entry(
        st.builds(
            cm.ApproximateDP,
            epsilon=st.one_of(st.just(0.0), log_uniform(1e-9, 1e3)),
            delta=st.one_of(st.just(0.0), st.just(1.0), log_uniform(1e-30, 0.99)),
        ),
        lambda m, f: cm.ApproximateDP(epsilon=m.bound / f, delta=m.failure / f),
    ),
    cm.ZCDP: Entry(
        st.builds(cm.ZCDP, rho=log_uniform(1e-9, 1e4), xi=st.one_of(st.just(0.0), log_uniform(1e-6, 1e2))),
        lambda m, f: cm.ZCDP(rho=m.rho / f, xi=m.xi / f),
    ),
    cm.TruncatedCDP: Entry(
        st.builds(
            cm.TruncatedCDP,
            rho=log_uniform(1e-9, 1e4),
            omega=st.one_of(st.just(math.inf), log_uniform(1e-3, 1e6).map(lambda x: 1 + x)),
        ),
        lambda m, f: cm.TruncatedCDP(rho=m.rho / f, omega=m.omega),
    ),
    cm.RenyiCurve: Entry(
        _curves(),
        lambda m, f: cm.RenyiCurve([(order, value / f) for order, value in m.curve]),
    ),
    cm.StatedPair: Entry(_stated_pairs(), _blurred),
    cm.ExponentialFamily: Entry(
        _exponential_families(),
        lambda m, f: replace(m, distance=m.distance / f),
    ),
}


def simple_mechanisms() -> SearchStrategy[AbstractMechanism]:
    """Return any mechanism that is not built from others."""
    return st.deferred(lambda: st.one_of([entry.draw for kind, entry in TABLE.items() if kind is not cm.Composed]))


TABLE[cm.Composed] = Entry(_composed(), lambda m, f: cm.Composed.of((noisier(part, f), n) for part, n in m.parts))


def mechanisms() -> SearchStrategy[AbstractMechanism]:
    """Return any mechanism of the library that is not on a sample."""
    return st.one_of([entry.draw for entry in TABLE.values()])


# Samples --------------------------------------------------------------------------------------------------------------

BASES = (cm.Gaussian, cm.Laplace, cm.RandomizedResponse, cm.PureDP, cm.ApproximateDP, cm.StatedPair, cm.ZCDP)
Bases = SearchStrategy[Any]
Draws = Callable[[Neighbors, Bases], SearchStrategy[AbstractMechanism]]
RELATIONS = (cm.ADD_REMOVE, cm.REPLACE_ONE, cm.ZERO_OUT)
SIZED = (cm.ADD_REMOVE, cm.REPLACE_ONE)  # of schemes that need the number of records
JOINS = (cm.ADD_REMOVE, cm.ZERO_OUT)


@dataclass(frozen=True)
class Scheme:
    """How to draw a sample of a base for a relation, the same of more noise, and what has a theorem."""

    draw: Draws
    noisier: Callable[[Any, float], AbstractMechanism]
    relations: tuple[Neighbors, ...] = RELATIONS
    refuses: tuple[type[AbstractMechanism], ...] = ()
    only_gaussian: bool = False

    def takes(self, kind: type[AbstractMechanism]) -> bool:
        return kind is cm.Gaussian if self.only_gaussian else kind not in self.refuses


def bases() -> Bases:
    """Return mechanisms whose samples are quick to answer; `test_every_mechanism_on_every_scheme` draws all others."""
    return st.one_of([TABLE[kind].draw for kind in BASES])


def rates() -> SearchStrategy[float]:
    return st.one_of(st.sampled_from([0.0, 1e-12, 1.0]), log_uniform(1e-6, 1.0))


def _poisson(relation: Neighbors, bases: Bases) -> SearchStrategy[AbstractMechanism]:
    """Return Poisson samples, some of them of a Poisson sample."""
    once = st.builds(lambda base, rate: base.poisson(rate=rate, neighbors=relation), bases, rates())
    twice = st.builds(
        lambda base, inner, rate: base.poisson(rate=inner).poisson(rate=rate, neighbors=relation),
        bases,
        rates(),
        rates(),
    )
    return st.one_of(once, once, twice)


def _without_replacement(relation: Neighbors, bases: Bases) -> SearchStrategy[AbstractMechanism]:
    return st.builds(lambda base, rate: base.without_replacement(rate=rate, neighbors=relation), bases, rates())


def _with_replacement(relation: Neighbors, bases: Bases) -> SearchStrategy[AbstractMechanism]:
    return st.builds(
        lambda base, draws, population: base.with_replacement(draws=draws, population=population, neighbors=relation),
        bases,
        st.integers(1, 200),
        st.integers(2, 10_000),
    )


def _groups(relation: Neighbors, bases: Bases) -> SearchStrategy[AbstractMechanism]:
    """Return groups of Poisson samples, and of batches where their size stays."""
    never_fail = bases.filter(lambda base: base._known().failure() == 0)
    poisson = st.builds(lambda base, rate: base.poisson(rate=rate, neighbors=relation), never_fail, rates())
    alike = never_fail.filter(lambda base: base.neighbors in (None, cm.REPLACE_ONE))
    batch = st.builds(lambda base, rate: base.without_replacement(rate=rate), alike, rates())
    step = st.one_of(poisson, batch) if relation is cm.REPLACE_ONE else poisson
    return st.builds(lambda one, size: one.group(size=size), step, st.integers(2, 5))


def _epochs(relation: Neighbors) -> SearchStrategy[AbstractMechanism]:
    return TABLE[cm.Gaussian].draw.map(lambda noise: OncePerEpoch(mechanism=noise, relation=relation))


def _allocations(relation: Neighbors) -> SearchStrategy[AbstractMechanism]:
    """Return epochs of few steps, as each takes a law of its own; some of so much noise that none is followed."""
    sigma = st.one_of(log_uniform(0.3, 10.0), log_uniform(0.05, 30.0), log_uniform(1e3, 1e4))
    base: SearchStrategy[AbstractMechanism] = st.one_of(
        sigma.map(lambda x: cm.Gaussian(noise_multiplier=x)),
        st.floats(0.05, 0.95).map(lambda p: cm.RandomizedResponse(p=p)),
        st.floats(0.01, 4.0).map(lambda epsilon: cm.PureDP(epsilon=epsilon)),
    )
    steps = st.tuples(st.integers(1, 60), st.integers(1, 3), st.integers(1, 3))
    return st.builds(
        lambda base, size: RandomAllocation(
            mechanism=base, steps=size[0], chosen=min(size[1], size[0]), epochs=size[2], relation=relation
        ),
        base,
        steps,
    )


def _shuffled(relation: Neighbors) -> SearchStrategy[AbstractMechanism]:
    """Return epochs of few batches, some of which leave records over; what one record more changes is not refused."""
    noise = st.one_of(log_uniform(0.3, 10.0), log_uniform(0.05, 1e4)).map(lambda x: cm.Gaussian(noise_multiplier=x))
    sizes = st.tuples(st.integers(4, 9), st.integers(1, 60), st.one_of(st.just(0), st.integers(2, 3)))
    drops = st.booleans() if relation is cm.ADD_REMOVE else st.sampled_from([None, True, False])

    def epoch(base: cm.Gaussian, size: tuple[int, int, int], drop_last: bool | None) -> AbstractMechanism:
        batch, batches, left_over = size
        rest = max(left_over, 2) if relation is cm.ADD_REMOVE else left_over  # of 4, 2 are far from none and all
        return base.shuffled(batch=batch, population=batch * batches + rest, drop_last=drop_last, neighbors=relation)

    return st.builds(epoch, noise, sizes, drops)


def _cut_batches(relation: Neighbors) -> SearchStrategy[AbstractMechanism]:
    """Return Poisson samples of few and of many records, cut rarely and nearly always."""
    noise = st.one_of(log_uniform(0.3, 10.0), log_uniform(0.05, 1e4)).map(lambda x: cm.Gaussian(noise_multiplier=x))
    sizes = st.one_of(st.integers(1, 20), st.integers(1, 100_000)).flatmap(
        lambda n: st.tuples(st.just(n), st.one_of(st.integers(1, n), st.integers(1, min(n, 200))))
    )
    return st.builds(
        lambda base, rate, size: base.poisson(rate=rate, max_batch=size[1], population=size[0], neighbors=relation),
        noise,
        rates(),
        sizes,
    )


def _people(relation: Neighbors) -> SearchStrategy[AbstractMechanism]:
    noise = st.one_of(log_uniform(0.3, 10.0), log_uniform(0.05, 1e4)).map(lambda x: cm.Gaussian(noise_multiplier=x))
    return st.builds(
        lambda base, rate, size: PoissonUsers(mechanism=base, rate=rate, records_per_user=size, relation=relation),
        noise,
        rates(),
        st.one_of(st.integers(1, 5), st.integers(1, 64)),
    )


def _cyclic(relation: Neighbors) -> SearchStrategy[AbstractMechanism]:
    """Banded runs without a matrix, and with two columns of different norms."""
    matrix = st.one_of(st.none(), st.floats(0.1, 1.0).map(lambda x: [[1.0, 0.0], [0.0, x]]))
    return st.builds(
        lambda base, rate, bands, steps, matrix: cm.banded_dp_sgd(
            noise_multiplier=base.noise_multiplier,
            bands=bands,
            sample_rate=rate,
            steps=steps if matrix is None else 2,
            matrix=matrix,
            partition="independent",
            neighbors=relation,
        ),
        TABLE[cm.Gaussian].draw,
        log_uniform(1e-6, 1.0),
        st.integers(1, 5),
        st.integers(0, 100),
        matrix,
    )


def _of_more_noise(sample: Any, factor: float) -> AbstractMechanism:
    changed: AbstractMechanism = replace(sample, mechanism=noisier(sample.mechanism, factor))
    return changed


def _of_gaussian(
    draw: Callable[[Neighbors], SearchStrategy[AbstractMechanism]], relations: tuple[Neighbors, ...] = RELATIONS
) -> Scheme:
    """Return a scheme that has a theorem for Gaussian noise only, which it draws for itself."""
    return Scheme(lambda relation, _: draw(relation), _of_more_noise, relations, only_gaussian=True)


# A mixture of Gaussians holds for add-or-remove-one, a batch of fixed size needs replace-one inside.
OF_A_SIZE = (cm.GaussianMixture,)
SCHEMES: dict[type[AbstractMechanism], Scheme] = {
    PoissonSampled: Scheme(_poisson, _of_more_noise),
    SampledWithoutReplacement: Scheme(_without_replacement, _of_more_noise, SIZED, refuses=OF_A_SIZE),
    SampledWithReplacement: Scheme(_with_replacement, _of_more_noise, SIZED, refuses=OF_A_SIZE),
    OncePerEpoch: _of_gaussian(_epochs, SIZED),
    TruncatedPoisson: _of_gaussian(_cut_batches),
    PoissonUsers: _of_gaussian(_people),
    RandomAllocation: _of_gaussian(_allocations, JOINS),
    Shuffled: _of_gaussian(_shuffled),
    CyclicPoisson: _of_gaussian(_cyclic, JOINS),
    Group: Scheme(_groups, _of_more_noise),
}


def samples(relation: Neighbors) -> SearchStrategy[AbstractMechanism]:
    """Return any sample, for a relation."""
    return st.one_of([scheme.draw(relation, bases()) for scheme in SCHEMES.values() if relation in scheme.relations])


def runs(relation: Neighbors) -> SearchStrategy[AbstractMechanism]:
    """Return compositions of samples for a relation, and of mechanisms that hold for any."""
    part = st.one_of(samples(relation), samples(relation), bases())
    parts = st.lists(st.tuples(part, st.integers(0, 1000)), min_size=1, max_size=3)
    return parts.filter(lambda rows: about_one_person([release for release, _ in rows])).map(cm.Composed.of)


def about_one_person(releases: list[AbstractMechanism]) -> bool:
    """Return whether mechanisms may be composed: none is about people with more records than another."""
    try:
        return records_per_person([part for one in releases for part, _ in one.releases()]) > 0
    except cm.MixedNeighbors:
        return False


def anything(relation: Neighbors | None = None) -> SearchStrategy[AbstractMechanism]:
    """Return mechanisms, samples and compositions of both; all for one relation if it is given."""
    if relation is None:
        return st.one_of([anything(one) for one in RELATIONS])
    whole = mechanisms().filter(lambda mechanism: mechanism.neighbors in (None, relation))
    return st.deferred(lambda: st.one_of(whole, samples(relation), runs(relation)))


def two_of_a_relation() -> SearchStrategy[tuple[AbstractMechanism, AbstractMechanism]]:
    """Return what can be composed."""
    pairs = st.one_of([st.tuples(anything(relation), anything(relation)) for relation in RELATIONS])
    return pairs.filter(lambda two: about_one_person(list(two)))


def noisier(mechanism: AbstractMechanism, factor: float) -> AbstractMechanism:
    """Return the same mechanism with more noise."""
    kind = type(mechanism)
    return (SCHEMES[kind] if kind in SCHEMES else TABLE[kind]).noisier(mechanism, factor)


def deltas() -> SearchStrategy[float]:
    """Return δ from 1e-300 to 1, both included."""
    return st.one_of(st.just(1.0), st.just(1e-300), log_uniform(1e-300, 1.0), st.floats(1e-12, 1.0))


def orders(high: float = 1e5) -> SearchStrategy[float]:
    """Return Rényi orders above 1."""
    return log_uniform(1e-4, high).map(lambda x: 1 + x)
