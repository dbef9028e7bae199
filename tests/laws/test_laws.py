"""Laws that every mechanism obeys, whatever it is."""

from __future__ import annotations

import json
import math
from functools import partial

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import cumulant as cm
from cumulant.answer import Method
from cumulant.mechanisms.base import AbstractMechanism
from cumulant.mechanisms.group import Group
from strategies import (
    ASKING,
    SCHEMES,
    SLOW,
    TABLE,
    anything,
    deltas,
    examples,
    noisier,
    orders,
    two_of_a_relation,
)

ORDERS = 1 + np.array([1e-3, 0.1, 0.5, 1.0, 1.7, 7.5, 31.0, 255.0, 1e4])
ROUNDING = 1e-12  # what two evaluations of one K may differ by
BUMPY = cm.ExponentialFamily(distance=1.0, smoothness=lambda _: 1.0, lipschitz=lambda _: 3.0)
GAMMAS = cm.FamilyPair(family="gamma", natural=(1.0, -1.421875), neighbor_natural=(1.9048374180359595, -1.0))
NEXT_TO_A_WALL = (
    cm.Gaussian(noise_multiplier=1.0) * 12
    + cm.FamilyPair(family="gamma", natural=(1.0, -1.4375), neighbor_natural=(1.9105103613800343, -1.0)) * 5
)  # K is infinite from a finite order on, and the best order is next to that
MOMENTS = examples(40)
SLOW_IN_GROUPS = (cm.GaussianMixture, cm.FamilyPair, cm.ExponentialFamily)  # seconds for a moment: with CUMULANT_SLOW=1
SEARCH = 1e-9  # how far above the optimum an answer may end


def test_every_mechanism_has_an_entry() -> None:
    """A mechanism that no law was tried on is untested."""
    missing = {*cm.mechanisms.__all__, "Composed"} - {kind.__name__ for kind in TABLE}
    assert not missing, f"add {missing} to strategies.TABLE"


def test_every_scheme_has_an_entry() -> None:
    missing = {*cm.sampling.__all__, "Group"} - {kind.__name__ for kind in SCHEMES}
    assert not missing, f"add {missing} to strategies.SCHEMES"


@pytest.mark.parametrize("kind", TABLE, ids=lambda kind: kind.__name__)
@given(st.data())
@examples(2)
def test_every_mechanism_on_every_scheme(kind: type[AbstractMechanism], data: st.DataObject) -> None:
    """Each that has a theorem, in each relation; the laws below draw the samples that answer quickly more often."""
    for sampled, scheme in SCHEMES.items():
        for relation in scheme.relations if scheme.takes(kind) else ():
            in_groups = sampled is Group or relation is cm.REPLACE_ONE
            left_out = (*scheme.refuses, *(SLOW_IN_GROUPS if in_groups and not SLOW else ()))
            if kind in left_out:
                continue
            sample = data.draw(scheme.draw(relation, TABLE[kind].draw.filter(partial(has_none, left_out))))
            assert sample.neighbors in (relation, None)
            kl, at_three, pure = sample.rdp(order=[1.0, 3.0, math.inf])
            assert 0 <= kl <= at_three * (1 + ROUNDING)
            assert at_three <= pure * (1 + ROUNDING)
            assert (sample * 3).rdp(order=3.0) == pytest.approx(3 * at_three, rel=ROUNDING)


def has_none(kinds: tuple[type[AbstractMechanism], ...], mechanism: AbstractMechanism) -> bool:
    return all(type(release) not in kinds for release, _ in mechanism.releases())


@given(anything())
@MOMENTS
def test_cgf_vanishes_at_zero(mechanism: AbstractMechanism) -> None:
    assert mechanism.cgf(order=1.0) == 0.0


@given(anything(), orders(), orders(), st.floats(0.001, 0.999))
@example(BUMPY, 5.0, 9.0, 0.25)
@MOMENTS
def test_cgf_is_convex(mechanism: AbstractMechanism, a: float, b: float, weight: float) -> None:
    middle = a + weight * (b - a)
    k_a, k_middle, k_b = mechanism.cgf(order=[a, middle, b])
    if math.isfinite(k_a + k_b) and a != b:
        share = (middle - a) / (b - a)
        assert k_middle <= ((1 - share) * k_a + share * k_b) * (1 + ROUNDING)


@given(anything(), orders(), orders())
@MOMENTS
def test_cgf_is_order_less_one_times_rdp(mechanism: AbstractMechanism, a: float, b: float) -> None:
    both = np.array([[a, b]])
    np.testing.assert_allclose(mechanism.cgf(order=both), (both - 1) * mechanism.rdp(order=both), rtol=ROUNDING)


@given(anything(), orders(), orders())
@MOMENTS
def test_rdp_grows_with_the_order(mechanism: AbstractMechanism, a: float, b: float) -> None:
    low, high = sorted((a, b))
    kl, at_low, at_high, pure = mechanism.rdp(order=[1.0, low, high, math.inf])
    assert 0 <= kl <= at_low * (1 + ROUNDING)
    assert at_low <= at_high * (1 + ROUNDING)
    assert at_high <= pure * (1 + ROUNDING)


@given(anything(), st.integers(1, 50))
@MOMENTS
def test_n_copies_cost_n_times_one(mechanism: AbstractMechanism, n: int) -> None:
    """No mechanism may forget its count."""
    np.testing.assert_allclose((mechanism * n).cgf(order=ORDERS), n * mechanism.cgf(order=ORDERS), rtol=ROUNDING)
    np.testing.assert_allclose(
        (mechanism * n).rdp(order=[1, math.inf]), n * mechanism.rdp(order=[1, math.inf]), rtol=ROUNDING
    )


@given(two_of_a_relation())
@MOMENTS
def test_two_releases_cost_their_sum(both: tuple[AbstractMechanism, AbstractMechanism]) -> None:
    one, other = both
    np.testing.assert_allclose(
        (one + other).cgf(order=ORDERS), one.cgf(order=ORDERS) + other.cgf(order=ORDERS), rtol=ROUNDING
    )


@given(two_of_a_relation(), st.integers(0, 50), deltas())
@ASKING
def test_composition_is_commutative(both: tuple[AbstractMechanism, AbstractMechanism], n: int, delta: float) -> None:
    one, other = both
    there, back = one * n + other, other + n * one
    assert dict(there.parts) == dict(back.parts)
    np.testing.assert_allclose(there.epsilon(delta=delta), back.epsilon(delta=delta), rtol=SEARCH, atol=1e-15)


@given(anything(), deltas(), deltas(), st.sampled_from(["best", "rdp"]))
@example(cm.Laplace(scale=1e5), 1e-300, 1e-60, "best")
@ASKING
def test_epsilon_falls_as_delta_grows(mechanism: AbstractMechanism, a: float, b: float, method: Method) -> None:
    low, high = sorted((a, b))
    assert mechanism.epsilon(delta=high, method=method) <= mechanism.epsilon(delta=low, method=method) * (1 + SEARCH)


@given(anything(), deltas(), st.sampled_from(["best", "rdp"]))
@example(cm.ApproximateDP(epsilon=1.0, delta=1e-6), 1e-6, "best")
@example(cm.Laplace(scale=0.07536247436921377), 0.99999, "rdp")
@ASKING
def test_delta_of_epsilon_keeps_the_promise(mechanism: AbstractMechanism, delta: float, method: Method) -> None:
    epsilon = mechanism.epsilon(delta=delta, method=method)
    if epsilon < math.inf:
        assert mechanism.delta(epsilon=epsilon, method=method) <= delta


@given(anything(), st.floats(-1e6, -700.0), st.sampled_from(["best", "rdp"]))
@example(cm.Laplace(scale=1e5), -740.0, "best")
@example(NEXT_TO_A_WALL, -475704.0, "best")
@example(GAMMAS * 30, -475698.0, "best")
@ASKING
def test_log_delta_of_epsilon_keeps_the_promise(mechanism: AbstractMechanism, log_delta: float, method: Method) -> None:
    """Far below the smallest float, too."""
    epsilon = mechanism.epsilon(log_delta=log_delta, method=method)
    assert epsilon >= 0
    if epsilon < math.inf:
        assert mechanism.log_delta(epsilon=epsilon, method=method) <= log_delta


@given(anything(), deltas(), st.sampled_from(["best", "rdp"]))
@ASKING
def test_epsilon_is_a_number(mechanism: AbstractMechanism, delta: float, method: Method) -> None:
    assert mechanism.epsilon(delta=delta, method=method) >= 0  # which NaN is not
    assert mechanism.epsilon(delta=1.0, method=method) == 0


@given(anything(), st.floats(0, 1e3), st.sampled_from(["best", "rdp"]))
@ASKING
def test_delta_is_a_probability(mechanism: AbstractMechanism, epsilon: float, method: Method) -> None:
    guarantee = mechanism.guarantee(epsilon=epsilon, method=method)
    delta, log_delta = guarantee.delta, guarantee.log_delta
    assert 0 <= delta <= 1
    assert log_delta <= 0
    if guarantee.stated_delta is None:
        assert delta >= math.exp(log_delta) * (1 - 1e-15)
    else:  # a failure probability as it was stated, whose logarithm is rounded up
        assert delta == guarantee.stated_delta
        assert math.log(delta) <= log_delta <= math.log(delta) + 4e-15 * (1 + abs(log_delta))


@pytest.mark.slow
@given(anything(), st.floats(1, 100), deltas())
@ASKING
def test_more_noise_never_costs_more(mechanism: AbstractMechanism, factor: float, delta: float) -> None:
    quiet = noisier(mechanism, factor)
    assert (quiet.rdp(order=ORDERS) <= mechanism.rdp(order=ORDERS) * (1 + ROUNDING)).all()
    for method in ("best", "rdp"):
        assert quiet.epsilon(delta=delta, method=method) <= mechanism.epsilon(delta=delta, method=method) * (1 + SEARCH)


@given(two_of_a_relation(), deltas())
@ASKING
def test_another_release_never_costs_less(both: tuple[AbstractMechanism, AbstractMechanism], delta: float) -> None:
    one, other = both
    alone, together = (mechanism.epsilon(delta=delta, method="rdp") for mechanism in (one, one + other))
    assert together >= alone * (1 - SEARCH)


def holds_a_function(mechanism: AbstractMechanism) -> bool:
    return any(
        callable(getattr(part, name, None)) for part, _ in mechanism.releases() for name in ("smoothness", "lipschitz")
    )


@given(anything())
@example(cm.TruncatedCDP(rho=1.0, omega=math.inf))
@example(cm.RenyiCurve([(2.0, 1.0), (3.0, math.inf)]))
@MOMENTS
def test_json_round_trip(mechanism: AbstractMechanism) -> None:
    """Strict JSON, which has no Infinity."""
    if holds_a_function(mechanism):
        with pytest.raises(cm.InvalidParameter):
            mechanism.to_dict()
    else:
        text = json.dumps(mechanism.to_dict(), allow_nan=False)
        assert cm.from_dict(json.loads(text)) == mechanism


@given(anything(), deltas())
@ASKING
def test_explanations_are_json_and_agree(mechanism: AbstractMechanism, delta: float) -> None:
    explanation = mechanism.explain(delta=delta)
    assert explanation.guarantee.epsilon == mechanism.epsilon(delta=delta)
    assert json.loads(json.dumps(explanation.to_dict()))["parts"] == explanation.to_dict()["parts"]
    assert str(explanation)
