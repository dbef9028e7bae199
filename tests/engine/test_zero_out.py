"""A record replaced by one that adds nothing, where the number of records is public: what holds, and what does not."""

from __future__ import annotations

import itertools
import json
import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import cumulant as cm
from cli_runner import answered, call
from cumulant.sampling.once_per_epoch import OncePerEpoch

BASES: dict[str, cm.Composed | Any] = {
    "gaussian": cm.Gaussian(noise_multiplier=0.8),
    "laplace": cm.Laplace(scale=1.5),
    "randomized response": cm.RandomizedResponse(p=0.7),
    "pure": cm.PureDP(epsilon=0.5),
    "approximate": cm.ApproximateDP(epsilon=0.5, delta=1e-6),
    "curve": cm.RenyiCurve(lambda order: 0.05 * order),
    "one-sided pair": cm.StatedPair(probabilities=(0.7, 0.2, 0.1), neighbor_probabilities=(0.5, 0.2, 0.3)),
    "stated for add-or-remove": cm.StatedPair(
        probabilities=(0.7, 0.2, 0.1), neighbor_probabilities=(0.5, 0.2, 0.3), relation=cm.ADD_REMOVE
    ),
    "composed": cm.Gaussian(noise_multiplier=2.0) * 3,
}
NULL = "null"

# By enumeration -------------------------------------------------------------------------------------------------------


def told(records: tuple[str, ...], rate: Fraction, truth: Fraction) -> Fraction:
    """Return the probability of a yes to "is x in the sample?" by randomized response; every sample is enumerated."""
    yes = Fraction(0)
    for coins in itertools.product((True, False), repeat=len(records)):
        mass = math.prod(rate if coin else 1 - rate for coin in coins)
        drawn = [record for record, coin in zip(records, coins, strict=True) if coin and record != NULL]
        yes += mass * (truth if "x" in drawn else 1 - truth)
    return yes


def outcomes(records: tuple[str, ...], truth: Fraction) -> dict[tuple[bool, ...], Fraction]:
    """Return the law of a program that samples at 1 / n, as often as there are records."""
    n = len(records)
    yes = told(records, Fraction(1, n), truth)
    return {
        answers: math.prod((yes if answer else 1 - yes for answer in answers), start=Fraction(1))
        for answers in itertools.product((True, False), repeat=n)
    }


def attained(first: dict[Any, Fraction], second: dict[Any, Fraction], epsilon: float) -> float:
    """Return δ at ε of one law against another."""
    bound = Fraction(math.exp(epsilon))
    return float(sum((max(mass - bound * second.get(key, Fraction(0)), Fraction(0)) for key, mass in first.items())))


@pytest.mark.parametrize("others", [("a",), ("a", "b"), ("a", NULL, "b")])
@pytest.mark.parametrize("epsilon", [0.0, 0.1, 0.5, 1.0])
def test_a_program_that_uses_the_number_of_records(others: tuple[str, ...], epsilon: float) -> None:
    """Rate and steps follow from n: zero-out is attained, and add-or-remove-one of the same numbers is not true."""
    truth, n = Fraction(3, 4), len(others) + 1
    there, null, gone = (outcomes(records, truth) for records in (("x", *others), (NULL, *others), others))
    step = cm.RandomizedResponse(p=0.75).poisson(rate=1 / n, neighbors=cm.ZERO_OUT)
    exact = max(attained(there, null, epsilon), attained(null, there, epsilon))
    assert exact * (1 - 1e-9) <= (step * n).delta(epsilon=epsilon) <= exact * (1 + 1e-6) + 1e-15
    assert max(attained(there, gone, epsilon), attained(gone, there, epsilon)) == 1.0 > 2 * exact


# The numbers of add-or-remove-one -------------------------------------------------------------------------------------


def answers(run: Any) -> list[float]:
    """Return numbers of every kind."""
    return [
        run.epsilon(delta=1e-5),
        run.delta(epsilon=0.4),
        run.rdp(order=3.5) if run._known().failure() == 0 else 0.0,
        run.tradeoff(false_positive_rate=0.1),
        run.epsilon(delta=1e-5, method="rdp"),
    ]


@pytest.mark.parametrize("name", BASES)
@pytest.mark.parametrize("rate", [0.0, 0.05, 1.0])
def test_poisson_samples_cost_what_they_do_where_a_record_joins(name: str, rate: float) -> None:
    joins, nulls = (BASES[name].poisson(rate=rate, neighbors=it) for it in (cm.ADD_REMOVE, cm.ZERO_OUT))
    assert nulls.neighbors is cm.ZERO_OUT
    for there, here in ((joins, nulls), (joins * 3, nulls * 3)):
        assert answers(here) == answers(there)
        assert here.explain(delta=1e-5).guarantee == there.explain(delta=1e-5).guarantee


@pytest.mark.parametrize("name", [name for name in BASES if name not in ("approximate", "curve")])
def test_groups_cost_what_they_do_where_they_join(name: str) -> None:
    joins, nulls = (BASES[name].poisson(rate=0.05, neighbors=it).group(size=2) for it in (cm.ADD_REMOVE, cm.ZERO_OUT))
    assert nulls.rdp(order=3.0) == joins.rdp(order=3.0)


@pytest.mark.parametrize("name", ["gaussian", "laplace", "randomized response", "one-sided pair"])
def test_both_ends_are_certified_alike(name: str) -> None:
    joins, nulls = (BASES[name].poisson(rate=0.2, neighbors=it) * 2 for it in (cm.ADD_REMOVE, cm.ZERO_OUT))
    assert nulls.epsilon_interval(delta=1e-5) == joins.epsilon_interval(delta=1e-5)


def test_what_is_not_sampled_goes_one_way_beside_it() -> None:
    """A pair that is not symmetric keeps its direction, as the record is there in every release or in none."""
    pair = BASES["one-sided pair"]
    for one, other in ((cm.ADD_REMOVE, cm.ZERO_OUT),):
        runs = [cm.Gaussian(noise_multiplier=1.0).poisson(rate=0.1, neighbors=it) + pair * 5 for it in (one, other)]
        assert runs[0].epsilon(delta=1e-5) == runs[1].epsilon(delta=1e-5) < (pair * 6).epsilon(delta=1e-5) + 5


# Where it goes, and where it does not ---------------------------------------------------------------------------------


@pytest.mark.parametrize("draw", ["without_replacement", "with_replacement"])
def test_samples_of_fixed_size_are_refused(draw: str) -> None:
    sizes = {"batch": 10} if draw == "without_replacement" else {"draws": 10}
    with pytest.raises(cm.UnprovenCombination, match="has no theorem here for zero-out"):
        getattr(cm.Gaussian(noise_multiplier=1.0), draw)(**sizes, population=100, neighbors=cm.ZERO_OUT)


def test_epochs_and_other_loaders_are_refused() -> None:
    with pytest.raises(cm.UnprovenCombination, match="no theorem here for zero-out"):
        OncePerEpoch(mechanism=cm.Gaussian(noise_multiplier=1.0), relation=cm.ZERO_OUT)
    with pytest.raises(cm.UnprovenCombination, match="no theorem here for zero-out"):
        cm.dp_sgd(noise_multiplier=1.0, sample_rate=0.1, steps=1, sampling="without_replacement", neighbors=cm.ZERO_OUT)
    with pytest.raises(cm.InvalidParameter, match=r"neighbors must be cumulant\.ADD_REMOVE"):
        cm.dp_sgd(noise_multiplier=1.0, sample_rate=0.1, steps=1, neighbors="zero-out")  # type: ignore[arg-type]


def test_a_sample_of_what_may_use_the_number_of_records_is_refused() -> None:
    stated = cm.StatedPair(probabilities=(0.7, 0.3), neighbor_probabilities=(0.3, 0.7), relation=cm.ZERO_OUT)
    for inner in (stated, cm.Gaussian(noise_multiplier=1.0).poisson(rate=0.1, neighbors=cm.ZERO_OUT)):
        for relation in (None, cm.ADD_REMOVE, cm.ZERO_OUT):
            with pytest.raises(cm.UnprovenCombination, match="private in a sample"):
                inner.poisson(rate=0.5, neighbors=relation)
    twice = cm.Gaussian(noise_multiplier=1.0).poisson(rate=0.1).poisson(rate=0.5, neighbors=cm.ZERO_OUT)
    assert twice.epsilon(delta=1e-5) == cm.Gaussian(noise_multiplier=1.0).poisson(rate=0.05).epsilon(delta=1e-5)


@pytest.mark.parametrize("other", [cm.ADD_REMOVE, cm.REPLACE_ONE])
def test_relations_do_not_mix(other: Any) -> None:
    gaussian = cm.Gaussian(noise_multiplier=1.0)
    null, more = gaussian.poisson(rate=0.1, neighbors=cm.ZERO_OUT), gaussian.poisson(rate=0.1, neighbors=other)
    with pytest.raises(cm.MixedNeighbors):
        null + more
    with pytest.raises(cm.MixedNeighbors):
        cm.parallel([null, more])
    accountant = cm.Accountant()
    accountant.compose(null, count=3)
    with pytest.raises(cm.MixedNeighbors, match="zero-out"):
        accountant.compose(more)
    assert accountant.epsilon(delta=1e-5) == (null * 3).epsilon(delta=1e-5)
    fresh = cm.Accountant()
    fresh.load_state_dict(accountant.state_dict())
    with pytest.raises(cm.MixedNeighbors):
        fresh.compose(more)


def test_it_is_written_read_and_said() -> None:
    run = cm.dp_sgd(noise_multiplier=1.0, sample_rate=0.01, steps=100, neighbors=cm.ZERO_OUT)
    assert run.neighbors is cm.ZERO_OUT
    again = cm.from_dict(json.loads(json.dumps(run.to_dict())))
    assert again == run != cm.dp_sgd(noise_multiplier=1.0, sample_rate=0.01, steps=100)
    assert "holds for   zero-out" in str(run.explain(delta=1e-5))
    stated = json.loads(run.statement(delta=1e-5, format="json"))
    assert stated["neighbors"] == "zero-out"
    text = " ".join(run.statement(delta=1e-5).split())
    assert "a null record, which adds nothing, in its place" in text
    assert "the number of records is public" in text
    assert "null records in their place" in " ".join(run.statement(delta=1e-5, user_records=2).split())


def test_noise_for_a_target_is_the_same() -> None:
    plan: dict[str, Any] = {"sample_rate": 0.01, "steps": 100, "epsilon": 1.0, "delta": 1e-5}
    assert cm.dp_sgd_noise(**plan, neighbors=cm.ZERO_OUT) == cm.dp_sgd_noise(**plan)


def test_the_command_knows_it(tmp_path: Path) -> None:
    run = "epsilon --noise-multiplier 1 --rate 0.01 --steps 100 --delta 1e-5"
    found = answered(run + " --neighbors zero-out")
    assert found["answer"]["epsilon"] == answered(run)["answer"]["epsilon"]
    assert found["explanation"]["neighbors"] == "zero-out"
    sgd = "sgd --noise-multiplier 1 --batch-size 100 --dataset-size 10000 --epochs 1 --delta 1e-5 --loader opacus"
    said = answered(sgd)
    assert said["training"]["neighbors"] == "zero-out"
    assert "null record" in said["statement"]["promise"]
    assert "the number of records is public" in said["statement"]["assumes"]
    place = f"sqlite:///{tmp_path / 'budget.db'}"
    opened = call(f"ledger open a --ledger {place} --epsilon 1 --delta 1e-6 --unit person --relation zero-out")
    assert opened.exit_code == 0, opened.output
    assert "person, zero-out" in call(f"ledger status a --ledger {place}").output


# A ledger -------------------------------------------------------------------------------------------------------------


def test_a_ledger_keeps_it(tmp_path: Path) -> None:
    """The same slots, charges and prices as where a record joins, and no release of another relation."""
    ledger = cm.Ledger(f"sqlite:///{tmp_path / 'budget.db'}")
    gaussian, pair = cm.Gaussian(noise_multiplier=1.0), BASES["one-sided pair"]
    reports = []
    for name, relation in (("joins", cm.ADD_REMOVE), ("nulls", cm.ZERO_OUT)):
        step = gaussian.poisson(rate=0.01, neighbors=relation)
        ledger.open(name, epsilon=2.0, delta=1e-5, neighbors=relation, unit="one customer", plan=step * 100)
        ledger.spend(name, step * 40, key="train")
        ledger.spend(name, cm.Gaussian(noise_multiplier=2.0).poisson(rate=0.005, neighbors=relation), key="less")
        ledger.spend(name, pair.poisson(rate=0.01, neighbors=relation), key="table")
        ledger.spend(name, cm.Laplace(scale=50.0), key="count")
        status = ledger.status(name)
        reports.append((status.price, status.shares_left(), status.fits(step)))
    assert reports[0] == reports[1]
    with pytest.raises(cm.MixedNeighbors, match="this account is for zero-out"):
        ledger.spend("nulls", gaussian.poisson(rate=0.01), key="other")
    with pytest.raises(cm.UnprovenCombination, match="blocks need add-or-remove-one"):
        ledger.open("b", epsilon=1.0, delta=1e-5, neighbors=cm.ZERO_OUT, unit="one customer", blocks=["a", "b"])
    ledger.verify()
