"""What is known by a profile or a curve alone, as a pair: it dominates, and `best` is never above what is provable."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from mpmath import mp, mpf

import cumulant as cm
from cumulant.composition_theorems.naive_and_strong import naive_composition
from cumulant.composition_theorems.rounds import Rounds
from cumulant.composition_theorems.unequal import optimal_composition_epsilon_interval
from cumulant.inversion.solve import epsilon_of_pairs
from cumulant.mechanisms.base import AbstractMechanism
from cumulant.pairs.finite_pair import FinitePair
from cumulant.profiles.profile import (
    PrivacyProfile,
    approximate_profile,
    binary_profile,
    gaussian_profile,
    laplace_profile,
)
from cumulant.profiles.to_pair import pair_of_curve, pair_of_profile

Real = Any

ROUNDING = 1e-14  # of a probability, and what a profile is rounded up by

PROFILES = {
    "gaussian": gaussian_profile(1.0),
    "little noise": gaussian_profile(5.0),
    "much noise": gaussian_profile(0.01),
    "laplace": laplace_profile(0.5),
    "binary": binary_profile(2.0),
    "approximate": approximate_profile(0.3, 1e-3),
}


def hockey(pair: FinitePair, t: Real) -> Real:
    """Return ∫ (dP - t dQ)_+ from the pair's own table, in many digits."""
    columns = pair.atoms.columns()
    rows = zip(columns.losses.tolist(), columns.log_masses.tolist(), strict=True)
    terms = (mp.exp(p) * (1 - t * mp.exp(-mpf(loss))) for loss, p in rows)
    return mpf(columns.failure) + mp.fsum(x for x in terms if x > 0)


def divergence(profile: PrivacyProfile, t: Real) -> Real:
    """Return H_t that a profile claims, for t < 1 by the other order of the neighbours."""
    if t >= 1:
        return mp.exp(profile.log_delta(float(mp.log(t)))) * (1 - ROUNDING)
    return (1 - t + t * mp.exp(profile.log_delta(float(-mp.log(t))))) * (1 - ROUNDING)


@pytest.mark.parametrize("name", PROFILES)
def test_pairs_of_profiles_dominate(name: str) -> None:
    profile = PROFILES[name]
    pair = pair_of_profile(profile)
    assert pair is not None
    reach = min(profile.pure, 20.0)
    with mp.workdps(40):
        for epsilon in np.concatenate([np.linspace(-reach, reach, 41), [1e-4, -1e-4, 0.0123]]).tolist():
            t = mp.exp(mpf(epsilon))
            if profile.log_delta(abs(epsilon)) > -60:
                assert hockey(pair, t) >= divergence(profile, t)
        assert hockey(pair, mpf(0)) == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("name", ["gaussian", "laplace", "binary"])
def test_pairs_of_profiles_are_near(name: str) -> None:
    profile = PROFILES[name]
    pair = pair_of_profile(profile)
    assert pair is not None
    for delta in (1e-2, 1e-5, 1e-9):
        found = epsilon_of_pairs((((pair, 1),),), math.log(delta)).value
        assert profile.epsilon(math.log(delta)) <= found * (1 + 1e-9)
        assert found <= profile.epsilon(math.log(delta)) * 1.002


def test_a_profile_of_next_to_nothing_has_no_pair() -> None:
    assert pair_of_profile(gaussian_profile(1e-6)) is None
    assert pair_of_curve(cm.ApproximateDP(epsilon=0.1, delta=1e-3)._known().curve()) is None


@pytest.mark.parametrize("count", [1, 30, 1000, 5657])
@pytest.mark.parametrize("epsilon", [1e-3, 0.05, 0.3])
def test_a_largest_loss_stays_where_its_mass_underflows(epsilon: float, count: int) -> None:
    """δ just below n·ε is e^-n log 2 and less; its pair must still reach n·ε, or δ(ε) would be 0 before it."""
    curve = (cm.PureDP(epsilon=epsilon) * count)._known().curve()
    pair = pair_of_curve(curve)
    assert pair is None or pair.supremum >= Fraction(count) * Fraction(epsilon)
    box = cm.RenyiCurve([(2.0, epsilon * epsilon), (math.inf, epsilon)])
    run = box * count + cm.StatedPair(probabilities=(0.5, 0.5), neighbor_probabilities=(0.5 + 2.0**-40, 0.5 - 2.0**-40))
    assert run.log_delta(epsilon=0.99 * count * epsilon) > -math.inf


@pytest.mark.parametrize(
    "mechanism",
    [cm.Gaussian(noise_multiplier=2.0), cm.Laplace(scale=0.5), cm.RandomizedResponse(p=0.9)],
    ids=["gaussian", "laplace", "response"],
)
def test_pairs_of_curves_dominate_what_has_that_curve(mechanism: AbstractMechanism) -> None:
    """A mechanism whose pair is known is more private than what its curve alone says, at every t."""
    known = mechanism._known()
    pair, profile = pair_of_curve(known.curve()), known.profile()
    assert pair is not None
    assert profile is not None
    with mp.workdps(40):
        for epsilon in np.linspace(-6.0, 6.0, 31).tolist():
            if profile.log_delta(abs(epsilon)) > -60:
                t = mp.exp(mpf(epsilon))
                assert hockey(pair, t) >= divergence(profile, t)


def test_pairs_of_curves_hold_among_other_releases() -> None:
    """What only the curve is told of a Gaussian lies between what its pair says and Rényi DP of all."""
    steps = cm.Gaussian(noise_multiplier=1.0).poisson(rate=0.01) * 1000
    gaussian, curve = cm.Gaussian(noise_multiplier=4.0), cm.ZCDP(rho=1 / 32)
    exact, best, rdp = (
        (steps + gaussian).epsilon(delta=1e-5),
        (steps + curve).epsilon(delta=1e-5),
        (steps + curve).epsilon(delta=1e-5, method="rdp"),
    )
    assert exact < best < 0.97 * rdp
    guarantee = (steps + curve).guarantee(delta=1e-5)
    assert not guarantee.exact
    assert guarantee.theorem.startswith("profiles")
    assert (steps + curve).delta(epsilon=best) <= 1e-5 * (1 + 1e-9)


def test_exact_still_asks_for_pairs() -> None:
    with pytest.raises(cm.UnprovenCombination):
        (cm.Gaussian(noise_multiplier=1.0) + cm.ZCDP(rho=0.1)).epsilon(delta=1e-5, method="exact")


def test_sampling_with_replacement_under_add_or_remove_one_composes_by_its_profile() -> None:
    step = cm.Laplace(scale=2.0).with_replacement(draws=10, population=1000, neighbors=cm.ADD_REMOVE)
    run = step * 10
    assert run.epsilon(delta=1e-5) < 0.95 * run.epsilon(delta=1e-5, method="rdp")
    assert run.epsilon(delta=1e-5) >= step.epsilon(delta=1e-5)


def random_part(rng: np.random.Generator) -> tuple[AbstractMechanism, Rounds | None]:
    kind, count = int(rng.integers(4)), int(rng.integers(1, 9))
    epsilon, delta = float(rng.uniform(0.01, 0.8)), float(10 ** rng.uniform(-9, -6))
    if kind == 0:
        return cm.PureDP(epsilon=epsilon) * count, Rounds(epsilon=epsilon, delta=0.0, count=count)
    if kind == 1:
        return cm.ApproximateDP(epsilon=epsilon, delta=delta) * count, Rounds(epsilon=epsilon, delta=delta, count=count)
    if kind == 2:
        return cm.ZCDP(rho=epsilon**2 / 8) * count, None
    return cm.RenyiCurve([(2.0, epsilon**2), (6.0, 3 * epsilon**2), (20.0, 10 * epsilon**2)]), None


@pytest.mark.parametrize("seed", range(8))
def test_best_is_never_above_what_is_provable(seed: int) -> None:
    rng = np.random.default_rng(seed)
    parts = [random_part(rng) for _ in range(int(rng.integers(2, 4)))]
    run = cm.Composed.of((mechanism, 1) for mechanism, _ in parts)
    delta = 1e-4
    best = run.epsilon(delta=delta)
    assert best <= run.epsilon(delta=delta, method="rdp") * (1 + 1e-12)
    rounds = [part for _, part in parts if part is not None]
    if len(rounds) == len(parts):
        assert best <= run.epsilon(delta=delta, method="exact") * (1 + 1e-12)
        assert best <= optimal_composition_epsilon_interval(rounds, delta=delta).upper * (1 + 1e-9)
    # naive composition: ε of black boxes at half of δ, beside the sums of the others
    stated = naive_composition(rounds) if rounds else (0.0, 0.0)
    others = [mechanism for mechanism, part in parts if part is None]
    if stated[1] < delta / 2:
        rest = cm.Composed.of((mechanism, 1) for mechanism in others).epsilon(delta=delta / 2) if others else 0.0
        assert best <= stated[0] + rest + 1e-9
