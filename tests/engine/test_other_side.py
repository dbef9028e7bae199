"""Small ε of rare samples, from the losses of the other direction: against sums in many digits and nested integrals."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from functools import cache

import pytest
from flint import acb, arb, ctx
from hypothesis import assume, example, given, reject
from hypothesis import strategies as st

import cumulant as cm
from cumulant.inversion.choose import WAYS, epsilon_on, log_delta_on, sampled_epsilon, sampled_log_delta
from cumulant.inversion.composed import ComposedPairs
from cumulant.pairs.noise import GaussianNoise
from cumulant.pairs.pair import GaussianPair
from cumulant.pairs.sampled_gaussian import SampledReleases
from high_precision import OutOfReach, Sampled, delta, transform
from stored import stored
from strategies import examples, log_uniform

OTHER_SIDE = WAYS[1]
BITS = 200
NODES_A_UNIT = 48


@pytest.fixture(autouse=True)
def bits() -> Iterator[None]:
    before = ctx.prec
    ctx.prec = BITS
    yield
    ctx.prec = before


class Joining:
    """E_Q w^-z on a line, by a sum over nodes, and δ_{Q‖P}(x) by a sum over the line: nothing of the library's."""

    def __init__(self, law: SampledReleases, tilt: float, window: float) -> None:
        ((one, count),) = law.parts
        mean, rate, step = arb(one.mean), arb(one.rate), arb(1) / NODES_A_UNIT
        theta = tilt / law.deviation
        eta = 2 * math.pi * theta / window
        self.theta, self.eta = arb(theta), arb(eta)
        places = [step * k for k in range(-13 * NODES_A_UNIT, math.ceil((13 + one.mean) * NODES_A_UNIT))]
        log_w = [(rate * (mean * t - mean * mean / 2).expm1()).log1p() for t in places]
        masses = [(-t * t / 2).exp() * step / (2 * arb.pi()).sqrt() for t in places]
        nodes = [(mass, -x) for mass, x in zip(masses, log_w, strict=True)]
        self.terms: list[acb] = []
        steps = 64
        while len(self.terms) < 2 or abs(self.terms[-1]) > abs(self.terms[0]) * arb("1e-34"):
            places_on_line = [acb(self.theta, self.eta * j) for j in range(steps + 1)]
            moments = transform(nodes, theta, eta, steps)
            self.terms = [m**count / (z * (z + 1)) for m, z in zip(moments, places_on_line, strict=True)]
            steps *= 2

    def profile(self, x: arb) -> arb:
        """Return δ_{Q‖P}(x), x of either sign."""
        total = -self.terms[0].real / 2
        for j, term in enumerate(self.terms):
            total += (term * acb(0, -self.eta * j * x).exp()).real
        return total * self.eta / arb.pi() * (-self.theta * x).exp()


class Truth:
    """Both directions, from two lines that must agree."""

    def __init__(self, law: SampledReleases) -> None:
        self.lines = Joining(law, 1.0, 110.0), Joining(law, 1.7, 150.0)

    def leaving(self, epsilon: float | arb) -> arb:
        x = arb(epsilon)
        one, other = (self._leaving(line, x) for line in self.lines)
        assert abs(one / other - 1) < arb("1e-20")
        return one.log()

    def log_delta(self, epsilon: float | arb) -> arb:
        x = arb(epsilon)
        one, other = (line.profile(x) for line in self.lines)
        assert abs(one / other - 1) < arb("1e-20")
        return max(self.leaving(epsilon), one.log(), key=float)

    @staticmethod
    def _leaving(line: Joining, x: arb) -> arb:
        return 1 - x.exp() + x.exp() * line.profile(-x)


@cache
def truth_of(law: SampledReleases) -> Truth:
    return Truth(law)


def log_delta_of(law: SampledReleases, epsilon: float) -> float | None:
    """Return δ where a record leaves, from the other side."""
    guess = OTHER_SIDE.guess(law, epsilon)
    assert guess is not None
    found = log_delta_on(OTHER_SIDE, law, epsilon, [guess])
    return None if found is None else found.log_delta


def epsilon_of(law: SampledReleases, log_delta: float) -> float | None:
    return epsilon_on(OTHER_SIDE, law, log_delta)


def below(epsilon: float) -> arb:
    """Return where an exact ε is not enough any more."""
    return arb(epsilon) - max(arb("1e-9") * arb(epsilon), arb("1e-12"), key=float)


LAWS = [
    SampledReleases.of(1.0, 1e-4, 100),
    SampledReleases.of(1.0, 1e-6, 100),
    SampledReleases.of(0.5, 1e-5, 30),
    SampledReleases.of(0.2, 1e-4, 20),
    SampledReleases.of(0.5, 0.1, 20),
    SampledReleases.of(1.1, 3e-3, 80),
]


@pytest.mark.slow
@pytest.mark.parametrize("law", LAWS, ids=str)
def test_both_questions_against_the_truth(law: SampledReleases) -> None:
    truth = truth_of(law)
    answered = 0
    for deviations in (0.0, 1e-13, 1e-6, 0.01, 0.2, 1.0, 2.5):
        epsilon = deviations * law.deviation
        log_delta = log_delta_of(law, epsilon)
        if log_delta is None:
            continue
        answered += 1
        assert truth.leaving(epsilon) <= arb(log_delta)
        assert arb(log_delta) <= truth.leaving(below(epsilon))
        found = epsilon_of(law, log_delta)
        if found is None:  # δ(0) of large samples is known to less than 1e-12 of ε
            continue
        assert truth.leaving(found) <= arb(log_delta)
        assert arb(log_delta) <= truth.leaving(below(found))
        both = sampled_log_delta(law, epsilon)
        if both is not None:
            assert truth.log_delta(epsilon) <= arb(both) <= truth.log_delta(below(epsilon))
    assert answered >= 4


@pytest.mark.parametrize("law", LAWS[:4], ids=str)
def test_from_the_total_variation_on_epsilon_is_zero(law: SampledReleases) -> None:
    variation = float(truth_of(law).log_delta(0.0).mid())
    assert epsilon_of(law, variation + 1e-10) == 0.0
    nearly = epsilon_of(law, variation - 1e-10)
    assert nearly is not None
    assert 0 < nearly <= 1e-9 * law.deviation


@pytest.mark.parametrize(("mean", "rate"), [(0.05, Fraction(1, 4)), (0.2, Fraction(1, 2)), (0.5, Fraction(3, 4))])
def test_two_releases_by_nested_integrals(mean: float, rate: Fraction) -> None:
    """The reference knows neither the mirror nor a line."""
    law = SampledReleases.of(mean, float(rate), 2)
    for deviations in (0.0, 0.05, 1.0):
        epsilon = deviations * law.deviation
        log_delta = log_delta_of(law, epsilon)
        assert log_delta is not None
        pair = Sampled("gaussian", Fraction(mean), rate, "leaving")
        true = delta([(pair, 2)], epsilon)
        assert true.log() <= arb(log_delta) <= true.log() + arb("1e-8")


@given(log_uniform(0.3, 50.0), log_uniform(1e-8, 0.9), log_uniform(2.0, 1e6), st.floats(-12.0, 0.5))
@examples(15)
@example(0.5, 0.01, 1000.0, math.log(1e-5 / 0.16))
@example(0.5, 0.05, 20.0, math.log(1e-3 / 0.4))
@example(1.4836167719540445, 3.7962979555992324e-08, 24019.0, -0.5)
@example(0.8807728123192384, 4.9946151051991353e-08, 13.0, -0.2)
def test_both_questions_agree_where_delta_is_near_the_total_variation(
    sigma: float, rate: float, count: float, nats: float
) -> None:
    law = SampledReleases.of(1 / sigma, rate, int(count))
    log_delta = math.log(min(0.4 * law.deviation, 0.8)) + min(nats, 0.2)
    epsilon = sampled_epsilon(law, log_delta)
    assume(epsilon is not None)
    assert epsilon is not None
    again = sampled_log_delta(law, epsilon)
    if again is not None:
        assert again <= log_delta
    variation = sampled_log_delta(law, 0.0)
    assert epsilon == 0 or variation is None or variation >= log_delta - 1e-9


@pytest.mark.parametrize(("rate", "count"), [(1e-6, 100), (1e-4, 100), (1e-5, 3000)])
def test_no_epsilon_is_an_ordinary_question(rate: float, count: int) -> None:
    run = cm.Gaussian(noise_multiplier=1.0).poisson(rate=rate) * count
    found = run.guarantee(epsilon=0.0)
    assert found.exact
    assert run.delta(epsilon=1e-3 * rate) <= found.delta
    assert run.epsilon(delta=found.delta * (1 + 1e-9)) == 0.0


@pytest.mark.parametrize(("rate", "count"), [(0.5, 3), (0.01, 10), (0.1, 30)])
def test_delta_is_never_above_the_chance_to_be_in_a_sample(rate: float, count: int) -> None:
    """Noise of 0.05 hides nothing from whoever is in one: the bound is attained."""
    run = cm.Gaussian(noise_multiplier=0.05).poisson(rate=rate) * count
    chance = -math.expm1(count * math.log1p(-rate))
    assert chance * (1 - 1e-9) <= run.delta(epsilon=0.0) <= chance * (1 + 1e-8)


@pytest.mark.parametrize("epsilon", [0.0, 3.0, 40.0])
@pytest.mark.parametrize("rate", [Fraction(1, 2), Fraction(1, 1024)])
def test_outputs_that_show_who_is_in_a_sample(rate: Fraction, epsilon: float) -> None:
    """Nested integrals say the same of two releases, of which the bound is not told."""
    run = cm.Gaussian(noise_multiplier=0.04).poisson(rate=float(rate)) * 2
    true = stored(delta)([(Sampled("gaussian", Fraction(25), rate, "leaving"), 2)], epsilon)
    found = run.delta(epsilon=epsilon)
    assert true <= arb(found) <= true * (1 + arb("3e-9"))
    assert abs(true - (1 - (1 - float(rate)) ** 2)) < 1e-9


@given(st.lists(st.tuples(log_uniform(0.05, 20.0), log_uniform(1e-6, 0.95)), min_size=2, max_size=2))
@examples(8)
def test_couplings_bound_the_total_variation(releases: list[tuple[float, float]]) -> None:
    """Two different samples, whose total variation nested integrals know, and no pair of the library's."""
    samples = [(GaussianNoise(mean).poisson(rate)[0], 1) for mean, rate in releases]
    bound = ComposedPairs.of(samples).log_joint_variation
    try:
        true = delta(
            [(Sampled("gaussian", Fraction(mean), Fraction(rate), "leaving"), 1) for mean, rate in releases], 0.0
        )
    except OutOfReach:  # of the reference: two of its integrals do not agree
        reject()
    assert true.log() <= arb(bound)
    assert bound <= math.log(-math.expm1(sum(math.log1p(-rate) for _, rate in releases))) + 2e-9


@pytest.mark.parametrize("units", [1, 3, 6, 1000])
def test_couplings_bound_the_total_variation_next_to_the_smallest_doubles(units: int) -> None:
    """Of N(μ, 1) against N(0, 1) it is μ/√(2π), for μ so small."""
    mean = units * 5e-324
    bound = ComposedPairs.of([(GaussianPair(mean), 1)]).log_joint_variation
    assert (arb(mean) / (2 * arb.pi()).sqrt()).log() <= arb(bound)
