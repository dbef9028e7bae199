"""Amplification by a sampler of one's own: the method of Balle, Barthe and Gaboardi (2018), Section 3, step by step.

A sampler is a law of batches for every dataset. Two neighbouring datasets have two laws ω, ω'; `maximal_coupling` takes
them apart, `best_coupling` says how far their parts are from each other, and `sampler_profile` what that is worth.
All probabilities are fractions, so couplings are exact: a double stands for the fraction that it is.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, final

import numpy as np

from cumulant.numerics.logspace import Array
from cumulant.numerics.rounding import float_above
from cumulant.parameters import require, whole_number
from cumulant.profiles.profile import NOTHING, GroupProfiles, PrivacyProfile, larger_profile
from cumulant.profiles.sampling import amplified_epsilon, base_epsilon, coupling_profile

Batch = tuple[Any, ...]
Probability = float | Fraction
Law = Mapping[Batch, Probability] | Sequence[tuple[Batch, Probability]]
"""Batches with their probabilities; a batch may come several times in a list."""

Exact = dict[Batch, Fraction]
Distance = Callable[[Batch, Batch], int]
"""How many neighbours lead from one batch to another."""

NEARLY_ONE = 1e-9  # how far probabilities may add up from 1 before they are scaled


def replaced_records(one: Batch, other: Batch) -> int:
    """Return how many records of a batch have to be replaced: the distance of replace-one.

    Batches of different sizes are at no distance; use `added_or_removed_records` for such samplers.
    """
    require(len(one) == len(other), f"batches must have the same size under replace-one, {one!r} has not", other)
    return (Counter(one) - Counter(other)).total()


def added_or_removed_records(one: Batch, other: Batch) -> int:
    """Return how many records have to be added or removed: the distance of add-or-remove-one."""
    return (Counter(one) - Counter(other)).total() + (Counter(other) - Counter(one)).total()


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Overlap:
    """ω = (1-η)ω₀ + ηω₁ and ω' = (1-η)ω₀ + ηω₁': η, ω₀, ω₁, ω₁' = rate, shared, own, other; no ω₀ at η = 1."""

    rate: Fraction
    shared: Exact
    own: Exact
    other: Exact


def maximal_coupling(sample: Law, neighbor_sample: Law) -> Overlap:
    """Return what two laws of batches share, and what is left of each.

    Balle, Barthe and Gaboardi (2018), Section 3: ω₀ ∝ min(ω, ω'), η = TV(ω, ω') = 1 - Σ min(ω, ω').

    >>> overlap = maximal_coupling({("a", "b"): 0.5, ("b", "c"): 0.5}, {("x", "b"): 0.5, ("b", "c"): 0.5})
    >>> overlap.rate, overlap.own
    (Fraction(1, 2), {('a', 'b'): Fraction(1, 1)})
    """
    one, other = _exact(sample), _exact(neighbor_sample)
    shared = {batch: min(p, other[batch]) for batch, p in one.items() if batch in other}
    rate = 1 - sum(shared.values(), Fraction(0))
    left, right = ({b: p - shared.get(b, 0) for b, p in law.items() if p > shared.get(b, 0)} for law in (one, other))
    return Overlap(rate=rate, shared=_scaled(shared, 1 - rate), own=_scaled(left, rate), other=_scaled(right, rate))


def nearest_distances(law: Law, other: Law, *, distance: Distance) -> dict[int, Fraction]:
    """Return k ↦ ν(Y_k), Y_k the batches of ν at distance k from the support of ν': Theorem 7."""
    found: dict[int, Fraction] = {}
    support = _exact(other)
    for batch, p in _exact(law).items():
        k = min(distance(batch, there) for there in support)
        found[k] = found.get(k, Fraction(0)) + p
    return found


def are_compatible(law: Law, other: Law, *, distance: Distance) -> bool:
    """Return whether ν and ν' are distance-compatible: some coupling only joins batches that are nearest.

    Balle, Barthe and Gaboardi (2018), before Theorem 7. Decided exactly: the least mean distance of a coupling is that
    of the nearest batches, or it is not.
    """
    nearest = nearest_distances(law, other, distance=distance)
    return _mean(best_coupling(law, other, distance=distance)) == _mean(nearest)


def best_coupling(law: Law, other: Law, *, distance: Distance) -> dict[int, Fraction]:
    """Return the law of the distance under a coupling of two laws with the least mean distance.

    Where they are compatible it is ν(Y_k), which is the best for every ε (Theorem 7); elsewhere it is a coupling.
    """
    rows, columns = _exact(law), _exact(other)
    flows = _transport(list(rows.values()), list(columns.values()), [[distance(a, b) for b in columns] for a in rows])
    found: dict[int, Fraction] = {}
    for k, mass in flows:
        found[k] = found.get(k, Fraction(0)) + mass
    return found


def sampler_profile(groups: GroupProfiles, sample: Law, neighbor_sample: Law, *, distance: Distance) -> PrivacyProfile:
    """Return the profile of a mechanism on samples of two neighbouring datasets, the larger of both orders.

    Balle, Barthe and Gaboardi (2018), Theorem 2, (3), (5) and Theorem 7: with e^{ε'} = 1 + η(e^ε - 1), β = e^{ε'-ε},

        δ'(ε') = η Σ_k [(1-β) Pr[d(y, y₀) = k] + β Pr[d(y, y') = k]] δ_k(ε),

    y from ω₁, y₀ from ω₀, y' from ω₁', coupled by `best_coupling`.

    Holds for:  the two datasets whose samples are given; take the `larger_profile` over all neighbours. `groups` are
                the mechanism's, for the relation whose `distance` is given, on batches.
    Tightness:  Theorems 8 to 11 where ω₁ is compatible with ω₀ and with ω₁'; attained there (Lemma 12).

    A sampler in two lines, which takes the first two of three records, or the last two:

    >>> from cumulant.profiles.profile import binary_groups
    >>> def sampler(x): return [(x[:2], 0.5), (x[1:], 0.5)]
    >>> one, other = sampler(("a", "b", "c")), sampler(("z", "b", "c"))
    >>> profile = sampler_profile(binary_groups(1.0), one, other, distance=replaced_records)
    >>> round(profile.pure, 6) == round(math.log(1 + 0.5 * (math.e - 1)), 6)
    True
    """
    overlap = maximal_coupling(sample, neighbor_sample)
    there = _one_way(groups, overlap, overlap.own, overlap.other, distance)
    back = _one_way(groups, overlap, overlap.other, overlap.own, distance)
    return larger_profile(there, back)


def multiplicity_profile(groups: GroupProfiles, law: Mapping[int, Probability]) -> PrivacyProfile:
    """Return δ'(ε') = Σ_{k>=1} w_k δ_k(ε), e^{ε'} = 1 + (1-w_0)(e^ε - 1), from how often a record is in the batch.

    The same for samplers that treat the record that differs apart: given that it comes k times, other records of the
    dataset in its k places give the law of batches without it. Poisson sampling has w_1 = γ, a batch without
    replacement w_1 = m/n, draws with replacement a binomial law.

    Holds for:  replace-one, or, where k places are left empty instead, add-or-remove-one.
    Tightness:  attained by the randomized membership mechanism (Lemma 12).
    """
    weights = {whole_number("a multiplicity", k): _fraction(p) for k, p in law.items()}
    total = sum(weights.values(), Fraction(0))
    require(abs(total - 1) <= NEARLY_ONE, "probabilities of a law must add up to 1", float(total))
    rate = float_above(sum((p for k, p in weights.items() if k > 0), Fraction(0)) / total)
    if rate == 0:
        return NOTHING
    mixed = coupling_profile(groups, {k: min(1.0, float_above(p / total)) for k, p in weights.items() if k > 0})
    share = min(1.0, rate)
    pure = amplified_epsilon(mixed.pure, share)
    return PrivacyProfile.of(lambda epsilons: mixed.log_deltas(base_epsilon(epsilons, share)), pure)


def _one_way(groups: GroupProfiles, overlap: Overlap, own: Exact, other: Exact, distance: Distance) -> PrivacyProfile:
    """Return the bound for H(ω M ‖ ω' M) in one order."""
    if overlap.rate == 0:
        return NOTHING
    rate = min(1.0, float_above(overlap.rate))
    to_other = _of_coupling(groups, best_coupling(own, other, distance=distance))
    to_shared = _of_coupling(groups, best_coupling(own, overlap.shared, distance=distance)) if rate < 1 else to_other
    pure, missing = amplified_epsilon(max(to_other.pure, to_shared.pure), rate), float_above(1 - overlap.rate)

    def log_deltas(epsilons: Array) -> Array:
        base = base_epsilon(epsilons, rate)
        beta, rest = np.log(rate + missing * np.exp(-base)), np.log(-missing * np.expm1(-base))  # log β and log (1-β)
        parts = np.logaddexp(beta + to_other.log_deltas(base), rest + to_shared.log_deltas(base))
        return math.log(rate) + parts + 1e-13

    return PrivacyProfile.of(log_deltas, pure)


def _of_coupling(groups: GroupProfiles, distances: Mapping[int, Fraction]) -> PrivacyProfile:
    return coupling_profile(groups, {k: min(1.0, float_above(p)) for k, p in distances.items() if k > 0})


# Fractions ------------------------------------------------------------------------------------------------------------


def _exact(law: Law) -> Exact:
    """Return the law as fractions that add up to 1."""
    values: Exact = {}
    for batch, p in law.items() if isinstance(law, Mapping) else law:
        values[tuple(batch)] = values.get(tuple(batch), Fraction(0)) + _fraction(p)
    total = sum(values.values(), Fraction(0))
    require(abs(total - 1) <= NEARLY_ONE, "probabilities of batches must add up to 1", float(total))
    return {batch: p / total for batch, p in values.items() if p > 0}


def _fraction(p: Probability) -> Fraction:
    require(isinstance(p, Fraction | float | int) and 0 <= p <= 1, "a probability must be a number from 0 to 1", p)
    return Fraction(p)


def _scaled(law: Exact, total: Fraction) -> Exact:
    return {batch: p / total for batch, p in law.items() if p > 0} if total > 0 else {}


def _mean(distances: Mapping[int, Fraction]) -> Fraction:
    return sum((k * p for k, p in distances.items()), Fraction(0))


def _transport(
    supply: list[Fraction], demand: list[Fraction], cost: Sequence[Sequence[int]]
) -> list[tuple[int, Fraction]]:
    """Return (cost, mass) of a cheapest transport: along cheapest paths, one after another, until all is moved."""
    flow: dict[tuple[int, int], Fraction] = {}
    supply, demand = list(supply), list(demand)
    while any(supply):
        path = _cheapest_path(supply, demand, cost, flow)
        back = [(i, j) for (j, i) in zip(path[1::2], path[2::2], strict=False)]
        moved = min([supply[path[0]], demand[path[-1]], *(flow[edge] for edge in back)])
        for i, j in zip(path[::2], path[1::2], strict=True):
            flow[i, j] = flow.get((i, j), Fraction(0)) + moved
        for edge in back:
            flow[edge] -= moved
        supply[path[0]] -= moved
        demand[path[-1]] -= moved
    return [(cost[i][j], mass) for (i, j), mass in flow.items() if mass > 0]


def _cheapest_path(
    supply: list[Fraction],
    demand: list[Fraction],
    cost: Sequence[Sequence[int]],
    flow: Mapping[tuple[int, int], Fraction],
) -> list[int]:
    """Return rows and columns in turn, from a row with supply left to a column with demand left, by Bellman and Ford.

    From a row any column may be reached, from a column those rows that send to it, whose cost is taken back.
    """
    n = len(supply)
    length = [0 if supply[i] > 0 else math.inf for i in range(n)] + [math.inf] * len(demand)
    before: dict[int, int] = {}
    waiting = deque(i for i in range(n) if supply[i] > 0)
    while waiting:
        here = waiting.popleft()
        if here < n:
            edges = [(n + j, cost[here][j]) for j in range(len(demand))]
        else:
            edges = [(i, -cost[i][here - n]) for i in range(n) if flow.get((i, here - n), 0) > 0]
        for there, price in edges:
            if length[here] + price < length[there]:
                length[there], before[there] = length[here] + price, here
                if there not in waiting:
                    waiting.append(there)
    end = min((n + j for j in range(len(demand)) if demand[j] > 0), key=lambda node: length[node])
    path = [end]
    while path[-1] in before and not (path[-1] < n and supply[path[-1]] > 0 and length[path[-1]] == 0):
        path.append(before[path[-1]])
    return [node if node < n else node - n for node in reversed(path)]
