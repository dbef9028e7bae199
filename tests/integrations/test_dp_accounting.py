"""dp_accounting with these answers: its tools, its events both ways, and where its own accountants differ."""

from __future__ import annotations

import copy
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

dpa = pytest.importorskip("dp_accounting", reason="dp_accounting is not installed: pip install '.[dp-accounting]'")

from dp_accounting import dp_event as ev  # noqa: E402
from dp_accounting.privacy_accountant import NeighboringRelation as Relation  # noqa: E402

import cumulant as cm  # noqa: E402
from cumulant.integrations.dp_accounting import CumulantAccountant, EventRefused, from_event, to_event  # noqa: E402

ADD, REPLACE, SPECIAL = Relation.ADD_OR_REMOVE_ONE, Relation.REPLACE_ONE, Relation.REPLACE_SPECIAL


def dpsgd(sigma: float, rate: float = 0.1, steps: int = 512) -> Any:
    return dpa.SelfComposedDpEvent(dpa.PoissonSampledDpEvent(rate, dpa.GaussianDpEvent(sigma)), steps)


def ours(event: Any, relation: Any = ADD, delta: float = 1e-5) -> float:
    return CumulantAccountant(relation).compose(event).get_epsilon(delta)  # type: ignore[no-any-return]


def pld(event: Any, relation: Any = ADD, delta: float = 1e-5, grid: float = 1e-4) -> float:
    accountant = dpa.pld.PLDAccountant(relation, value_discretization_interval=grid)
    return accountant.compose(event).get_epsilon(delta)  # type: ignore[no-any-return]


# Its tools ------------------------------------------------------------------------------------------------------------


def test_calibration_is_within_a_millionth() -> None:
    """Certified in balls; dp_accounting's search itself stops within 1e-6."""
    sigma = dpa.calibrate_dp_mechanism(CumulantAccountant, dpsgd, 1.0, 1e-6)
    assert from_event(dpsgd(sigma)).epsilon_interval(delta=1e-6).upper <= 1.0
    assert from_event(dpsgd(sigma * (1 - 1e-6))).epsilon_interval(delta=1e-6).lower > 1.0


def test_calibration_of_steps() -> None:
    """The number in the documentation of JAX Privacy."""
    interval = dpa.LowerEndpointAndGuess(1, 128)
    most = dpa.calibrate_dp_mechanism(
        CumulantAccountant, lambda n: dpsgd(3.0, steps=n), 2.0, 1e-6, discrete=True, bracket_interval=interval
    )
    assert most == 155


def test_no_noise_answers_infinity() -> None:
    """Where the search starts."""
    for event in (
        ev.GaussianDpEvent(0.0),
        ev.LaplaceDpEvent(0.0),
        ev.PoissonSampledDpEvent(0.1, ev.GaussianDpEvent(0)),
    ):
        assert ours(event) == math.inf
        assert CumulantAccountant().compose(event).get_delta(1.0) == 1.0


def test_the_ledger_of_events_is_kept() -> None:
    accountant = CumulantAccountant()
    accountant.compose(dpsgd(1.0)).compose(ev.ComposedDpEvent([ev.GaussianDpEvent(1.0)]), 2)
    assert isinstance(accountant.ledger, ev.ComposedDpEvent)
    fresh = CumulantAccountant().compose(accountant.ledger)
    assert fresh.get_epsilon(1e-5) == accountant.get_epsilon(1e-5)
    assert copy.deepcopy(accountant).get_delta(1.0) == accountant.get_delta(1.0)


def test_a_refused_event_changes_nothing_and_is_named() -> None:
    accountant = CumulantAccountant().compose(ev.GaussianDpEvent(2.0))
    inner = ev.RepeatAndSelectDpEvent(ev.GaussianDpEvent(2.0), 5.0, 1.0)
    event = ev.ComposedDpEvent([ev.GaussianDpEvent(1.0), ev.SelfComposedDpEvent(inner, 3)])
    assert not accountant.supports(event)
    with pytest.raises(dpa.UnsupportedEventError, match=r"caused by subevent RepeatAndSelectDpEvent"):
        accountant.compose(event)
    assert accountant.run == cm.Gaussian(noise_multiplier=2.0) * 1
    with pytest.raises(EventRefused) as caught:
        from_event(event)
    assert caught.value.event == inner


# All event classes ----------------------------------------------------------------------------------------------------

CLASSES: dict[str, Any] = {
    "NoOpDpEvent": ev.NoOpDpEvent(),
    "NonPrivateDpEvent": ev.NonPrivateDpEvent(),
    "RandomizedResponseDpEvent": ev.RandomizedResponseDpEvent(0.5, 3),
    "GaussianDpEvent": ev.GaussianDpEvent(2.0),
    "LaplaceDpEvent": ev.LaplaceDpEvent(2.0),
    "DiscreteLaplaceDpEvent": ev.DiscreteLaplaceDpEvent(0.5, 3),
    "SelfComposedDpEvent": ev.SelfComposedDpEvent(ev.GaussianDpEvent(2.0), 3),
    "ComposedDpEvent": ev.ComposedDpEvent([ev.GaussianDpEvent(2.0), ev.LaplaceDpEvent(3.0)]),
    "PoissonSampledDpEvent": ev.PoissonSampledDpEvent(0.1, ev.GaussianDpEvent(1.0)),
    "SampledWithReplacementDpEvent": ev.SampledWithReplacementDpEvent(1000, 10, ev.GaussianDpEvent(1.0)),
    "SampledWithoutReplacementDpEvent": ev.SampledWithoutReplacementDpEvent(1000, 10, ev.GaussianDpEvent(1.0)),
    "SingleEpochTreeAggregationDpEvent": ev.SingleEpochTreeAggregationDpEvent(2.0, 8),
    "ZCDpEvent": ev.ZCDpEvent(0.1),
    "MixtureOfGaussiansDpEvent": ev.MixtureOfGaussiansDpEvent(1.0, [0.0, 1.0], [0.9, 0.1]),
    "TruncatedSubsampledGaussianDpEvent": ev.TruncatedSubsampledGaussianDpEvent(1000, 0.01, 20, 1.0),
}
REFUSED = {"UnsupportedDpEvent", "RepeatAndSelectDpEvent"}


def test_every_event_class_is_read_or_refused() -> None:
    classes = {name for name, kind in vars(ev).items() if isinstance(kind, type) and issubclass(kind, ev.DpEvent)}
    assert classes - {"DpEvent"} == set(CLASSES) | REFUSED
    for name, event in CLASSES.items():
        assert any(CumulantAccountant(relation).supports(event) for relation in Relation), name
    repeated = ev.RepeatAndSelectDpEvent(ev.GaussianDpEvent(2.0), 5.0, 1.0)
    for event in (ev.UnsupportedDpEvent(), repeated):
        assert not any(CumulantAccountant(relation).supports(event) for relation in Relation)


PARITY: list[tuple[Any, Any]] = [(ev.GaussianDpEvent(2.0), relation) for relation in Relation] + [
    (ev.SelfComposedDpEvent(ev.GaussianDpEvent(2.0), 3), REPLACE),
    (ev.LaplaceDpEvent(2.0), ADD),
    (ev.LaplaceDpEvent(2.0), SPECIAL),
    (ev.SelfComposedDpEvent(ev.LaplaceDpEvent(2.0), 20), ADD),
    (ev.DiscreteLaplaceDpEvent(0.5, 3), ADD),
    (ev.SelfComposedDpEvent(ev.DiscreteLaplaceDpEvent(0.5, 3), 20), SPECIAL),
    (ev.ComposedDpEvent([ev.GaussianDpEvent(2.0), ev.LaplaceDpEvent(3.0)]), ADD),
    (dpsgd(1.0, steps=10), ADD),
    (dpsgd(1.0, steps=10), REPLACE),
    (dpsgd(1.0, steps=10), SPECIAL),
    (ev.SelfComposedDpEvent(ev.PoissonSampledDpEvent(0.1, ev.LaplaceDpEvent(1.0)), 20), ADD),
    (ev.ComposedDpEvent([ev.RandomizedResponseDpEvent(0.5, 3)] * 10), REPLACE),
    (ev.ComposedDpEvent([ev.RandomizedResponseDpEvent(0.5, 3)] * 10), SPECIAL),
    (ev.SelfComposedDpEvent(ev.MixtureOfGaussiansDpEvent(1.0, [0.0, 1.0], [0.99, 0.01]), 100), ADD),
    (ev.MixtureOfGaussiansDpEvent(2.0, [0.0, 1.0, 2.0], [0.81, 0.18, 0.01]), SPECIAL),
]


@pytest.mark.parametrize(("event", "relation"), PARITY, ids=str)
def test_pld_agrees_where_it_is_right(event: Any, relation: Any) -> None:
    """Its grid rounds losses up, by at most its step a release; densities here are within 1e-4 as well."""
    theirs = pld(event, relation, grid=1e-3 if "Mixture" in str(event) else 1e-4)  # mixtures take it seconds on a grid
    assert ours(event, relation) == pytest.approx(theirs, rel=1e-4, abs=2e-3)


# Known differences ----------------------------------------------------------------------------------------------------


def test_pld_forgets_the_count_of_randomized_response() -> None:
    """Ten answers cost what one does there; the same ten as a list are right."""
    event = ev.RandomizedResponseDpEvent(0.5, 3)
    ten = ev.SelfComposedDpEvent(event, 10)
    assert pld(ten, REPLACE) == pld(event, REPLACE)
    assert ours(ten, REPLACE) == pytest.approx(pld(ev.ComposedDpEvent([event] * 10), REPLACE), rel=1e-4)
    assert ours(ten, REPLACE) > 9 * pld(ten, REPLACE)


def test_rdp_forgets_the_factor_two_under_replace_one() -> None:
    """Its ε of replacing a record is that of removing one: below the truth, which a test of two Gaussians attains."""
    event = ev.GaussianDpEvent(2.0)
    rdp = dpa.rdp.RdpAccountant(neighboring_relation=REPLACE).compose(event).get_epsilon(1e-5)
    assert rdp == pytest.approx(2.1657, abs=1e-4)
    truth = cm.Gaussian(noise_multiplier=1.0).epsilon(delta=1e-5)  # two norms apart, in units of that distance
    assert rdp < truth == ours(event, REPLACE) == pytest.approx(pld(event, REPLACE), rel=1e-6)
    batches = ev.SampledWithoutReplacementDpEvent(1000, 10, ev.GaussianDpEvent(1.0))
    assert (
        dpa.rdp.RdpAccountant(neighboring_relation=REPLACE).compose(batches).get_epsilon(1e-5)
        < 1
        < ours(batches, REPLACE)
    )


def test_units_of_noise() -> None:
    """Half the multiplier under replace-one, except inside a Poisson sample; a special record is like none."""
    assert from_event(ev.GaussianDpEvent(2.0), neighboring_relation=REPLACE).parts == (
        (cm.Gaussian(noise_multiplier=1.0), 1),
    )
    assert from_event(ev.LaplaceDpEvent(2.0), neighboring_relation=REPLACE).parts == ((cm.Laplace(scale=1.0), 1),)
    sampled = from_event(dpsgd(2.0), neighboring_relation=REPLACE)
    assert sampled == cm.Gaussian(noise_multiplier=2.0).poisson(rate=0.1, neighbors=cm.REPLACE_ONE) * 512
    nulls = from_event(dpsgd(2.0), neighboring_relation=SPECIAL)
    assert nulls == cm.Gaussian(noise_multiplier=2.0).poisson(rate=0.1, neighbors=cm.ZERO_OUT) * 512
    assert nulls.epsilon(delta=1e-6) == from_event(dpsgd(2.0)).epsilon(delta=1e-6)


def test_discrete_laplace_by_enumeration() -> None:
    """Noise on whole numbers, moved by k: every output is summed up."""
    for a, k in ((0.5, 3), (1.5, 1), (0.1, 7)):
        run = from_event(ev.DiscreteLaplaceDpEvent(a, k))
        for epsilon in (0.0, 0.3 * a * k, 0.9 * a * k):
            masses = [
                (math.tanh(a / 2) * math.exp(-a * abs(x)), math.tanh(a / 2) * math.exp(-a * abs(x - k)))
                for x in range(-400, 400)
            ]
            delta = math.fsum(max(p - math.exp(epsilon) * q, 0.0) for p, q in masses)
            assert delta * (1 - 1e-9) <= run.delta(epsilon=epsilon) <= delta * (1 + 1e-9) + 1e-15


def test_buckets_by_enumeration() -> None:
    for p, k in ((0.5, 3), (0.9, 10), (0.01, 2)):
        run = from_event(ev.RandomizedResponseDpEvent(p, k), neighboring_relation=REPLACE)
        for epsilon in (0.0, 0.2, 1.0):
            true, other = 1 - p + p / k, p / k
            assert run.delta(epsilon=epsilon) == pytest.approx(max(true - math.exp(epsilon) * other, 0.0), abs=1e-12)


def complete_nodes(steps: int) -> int:
    """Return the most nodes of one leaf, by drawing the tree: each node as a range of steps, kept if it is complete."""
    nodes = [range(low, low + 2**k) for k in range(steps.bit_length()) for low in range(0, steps, 2**k)]
    complete = [node for node in nodes if node.stop <= steps]
    return max(sum(leaf in node for node in complete) for leaf in range(steps))


def test_a_tree_costs_the_nodes_that_are_complete() -> None:
    for steps in range(1, 40):
        run = from_event(ev.SingleEpochTreeAggregationDpEvent(2.0, steps), neighboring_relation=SPECIAL)
        assert run == cm.Gaussian(noise_multiplier=2.0) * complete_nodes(steps)


@settings(deadline=None, max_examples=40)
@given(st.floats(0.5, 20.0), st.lists(st.integers(0, 5000), min_size=1, max_size=4))
def test_a_tree_is_never_dearer_than_by_rdp(sigma: float, steps: list[int]) -> None:
    event = ev.SingleEpochTreeAggregationDpEvent(sigma, steps)
    theirs = dpa.rdp.RdpAccountant(neighboring_relation=SPECIAL).compose(event).get_epsilon(1e-6)
    assert ours(event, SPECIAL, 1e-6) <= theirs


def test_a_tree_costs_its_height() -> None:
    assert ours(ev.SingleEpochTreeAggregationDpEvent(5.0, [10, 3]), SPECIAL, 1e-6) == pytest.approx(1.76565, abs=5e-6)
    for steps, height in ((1, 1), (2, 2), (3, 2), (4, 3), (8, 4), (9, 4), (10, 4), ([3, 8], 4), ([0, 3], 2)):
        run = from_event(ev.SingleEpochTreeAggregationDpEvent(2.0, steps), neighboring_relation=SPECIAL)
        assert run == cm.Gaussian(noise_multiplier=2.0) * height
    for relation in (ADD, REPLACE):
        with pytest.raises(EventRefused, match="REPLACE_SPECIAL"):
            from_event(ev.SingleEpochTreeAggregationDpEvent(2.0, 8), neighboring_relation=relation)


@pytest.mark.parametrize(
    ("event", "relation", "said"),
    [
        (ev.RandomizedResponseDpEvent(0.5, 3), ADD, "replace relation"),
        (ev.SampledWithoutReplacementDpEvent(10, 2, ev.GaussianDpEvent(1.0)), ADD, "REPLACE_ONE"),
        (ev.MixtureOfGaussiansDpEvent(1.0, [1.0], [1.0]), REPLACE, "there or not"),
        (ev.MixtureOfGaussiansDpEvent(1.0, [-1.0], [1.0]), ADD, "sensitivities must be a finite number >= 0"),
        (ev.PoissonSampledDpEvent(0.1, ev.ZCDpEvent(0.1)), REPLACE, "zCDP claim"),
        (ev.GaussianDpEvent(-1.0), ADD, "noise_multiplier must be"),
        (ev.PoissonSampledDpEvent(1.5, ev.GaussianDpEvent(1.0)), ADD, "sampling_probability must be"),
        (ev.SelfComposedDpEvent(ev.GaussianDpEvent(1.0), -1), ADD, "count must be"),
        (ev.PoissonSampledDpEvent(0.1, ev.RandomizedResponseDpEvent(0.5, 3)), REPLACE, "replace relation"),
        ("Gaussian", ADD, "no theorem here covers this event"),
    ],
)
def test_refusals_say_why(event: Any, relation: Any, said: str) -> None:
    with pytest.raises(EventRefused, match=said):
        from_event(event, neighboring_relation=relation)


def test_nothing_and_everything() -> None:
    empty = [
        ev.NoOpDpEvent(),
        ev.ComposedDpEvent([]),
        ev.SelfComposedDpEvent(ev.NonPrivateDpEvent(), 0),
        ev.PoissonSampledDpEvent(0.0, ev.GaussianDpEvent(0.0)),
        ev.DiscreteLaplaceDpEvent(0.5, 0),
    ]
    assert [from_event(event).epsilon(delta=0.0) for event in empty] == [0.0] * len(empty)
    assert ours(ev.RandomizedResponseDpEvent(0.0, 1), REPLACE) == 0.0
    assert ours(ev.RandomizedResponseDpEvent(0.0, 2), REPLACE) == math.inf
    assert ours(ev.ZCDpEvent(math.inf)) == math.inf
    assert ours(ev.ComposedDpEvent([dpsgd(1.0), ev.NonPrivateDpEvent()])) == math.inf


# Both ways ------------------------------------------------------------------------------------------------------------

noises = st.floats(0.5, 20.0)
leaves = st.one_of(
    st.builds(ev.GaussianDpEvent, noises),
    st.builds(ev.LaplaceDpEvent, noises),
    st.builds(ev.ZCDpEvent, st.floats(0.001, 1.0), st.just(0.0)),
    st.builds(ev.DiscreteLaplaceDpEvent, st.floats(0.05, 2.0), st.integers(1, 4)),
    st.just(ev.NoOpDpEvent()),
)
poisson = st.builds(ev.PoissonSampledDpEvent, st.floats(0.001, 1.0), st.builds(ev.GaussianDpEvent, noises))
sizes = st.integers(1, 1000).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n)))
batches = st.builds(
    lambda pair, event: ev.SampledWithoutReplacementDpEvent(*pair, event), sizes, st.builds(ev.GaussianDpEvent, noises)
)


def trees(*kinds: Any) -> Any:
    """Return compositions of compositions."""
    return st.recursive(
        st.one_of(leaves, *kinds),
        lambda inner: st.one_of(
            st.builds(ev.SelfComposedDpEvent, inner, st.integers(0, 20)),
            st.lists(inner, max_size=3).map(ev.ComposedDpEvent),
        ),
        max_leaves=4,
    )


@pytest.mark.parametrize(
    ("relation", "kinds"),
    [
        (ADD, (poisson, st.builds(ev.MixtureOfGaussiansDpEvent, noises, st.just([0.0, 1.0]), st.just([0.9, 0.1])))),
        (SPECIAL, (poisson, st.builds(ev.RandomizedResponseDpEvent, st.floats(0.01, 1.0), st.integers(2, 5)))),
        (REPLACE, (batches, st.builds(ev.RandomizedResponseDpEvent, st.floats(0.01, 1.0), st.integers(2, 5)))),
    ],
)
def test_round_trips_of_random_trees(relation: Any, kinds: Any) -> None:
    @given(trees(*kinds))
    @settings(max_examples=60, deadline=None)
    def round_trip(event: Any) -> None:
        there = from_event(event, neighboring_relation=relation)
        back = to_event(there, neighboring_relation=relation)
        again = from_event(back, neighboring_relation=relation)
        assert again == there  # so every answer is the same
        assert ev.DpEvent.from_named_tuple(back.to_named_tuple()) == back

    round_trip()


@pytest.mark.parametrize("event", [dpsgd(1.0), ev.ComposedDpEvent([ev.GaussianDpEvent(2.0), ev.LaplaceDpEvent(3.0)])])
def test_a_round_trip_has_the_same_epsilon(event: Any) -> None:
    for relation in (ADD, SPECIAL, REPLACE):
        there = from_event(event, neighboring_relation=relation)
        back = to_event(there, neighboring_relation=relation)
        assert ours(back, relation) == there.epsilon(delta=1e-5)


def test_mechanisms_without_an_event_are_refused() -> None:
    for mechanism in (cm.PureDP(epsilon=1.0), cm.ApproximateDP(epsilon=1.0, delta=0.1), cm.RandomizedResponse(p=0.7)):
        with pytest.raises(cm.UnprovenCombination, match="has no event"):
            to_event(mechanism)
    with pytest.raises(cm.MixedNeighbors):
        to_event(cm.Gaussian(noise_multiplier=1.0).without_replacement(rate=0.1))
    with pytest.raises(cm.InvalidParameter, match="neighboring_relation"):
        to_event(cm.Laplace(scale=1.0), neighboring_relation="replace")


# Truncated batches and people -----------------------------------------------------------------------------------------


def test_what_truncated_batches_of_nothing_or_without_noise_are() -> None:
    for sizes in ((0, 0.1, 5, 1.0), (100, 0.0, 5, 1.0), (100, 0.1, 0, 1.0), (100, 0.1, 0, 0.0)):
        assert from_event(ev.TruncatedSubsampledGaussianDpEvent(*sizes)) == from_event(ev.NoOpDpEvent())
    bare = CumulantAccountant().compose(ev.TruncatedSubsampledGaussianDpEvent(100, 0.1, 5, 0.0))
    assert bare.get_epsilon(0.5) == math.inf


@pytest.mark.parametrize("relation", Relation)
def test_truncated_batches_go_both_ways(relation: Relation) -> None:
    event = ev.SelfComposedDpEvent(ev.TruncatedSubsampledGaussianDpEvent(1000, 0.05, 60, 1.5), 20)
    run = from_event(event, neighboring_relation=relation)
    assert to_event(run, neighboring_relation=relation) == event
    theirs = dpa.pld.PLDAccountant(neighboring_relation=relation).compose(event).get_epsilon(1e-5)
    assert run.epsilon(delta=1e-5) <= theirs * (1 + 1e-6)  # their pair is that of replacing a record, for all three


def test_people_become_a_mixture_on_the_safe_side() -> None:
    run = cm.Gaussian(noise_multiplier=2.0).poisson(rate=0.01, records_per_user=3) * 1000
    event = to_event(run)
    mixture = from_event(event)
    lower = run.epsilon_interval(delta=1e-5).lower
    assert lower <= mixture.epsilon(delta=1e-5) <= lower * (1 + 1e-9)
    theirs = dpa.pld.PLDAccountant().compose(event).get_epsilon(1e-5)
    assert lower <= theirs <= lower * (1 + 1e-5)
