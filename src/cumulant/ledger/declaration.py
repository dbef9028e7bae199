"""What an account promises: the theorem of slots and reserves, and the exact price of a declaration.

**Theorem.** Declare the product of pairs

    R = ⊗_j (P_j, Q_j)^{n_j}  ⊗  N(√b, 1) against N(0, 1)  ⊗  F_s  ⊗  S_{α,B}.

Then choose, again and again, by looking at whatever was released before: a slot j with n_j >= 1 and a release that
(P_j, Q_j) dominates, after which n_j is one less; or a release that N(μ, 1) against N(0, 1) dominates with μ² <= b,
after which b is less by μ²; or one that fails with probability δ₀ beside, after which s is less by -log(1-δ₀); or one
whose Rényi divergence of order α is at most e <= B, after which B is less by e; or stop. The whole interaction is
dominated by R of the opening: δ(ε) of R, which the exact engine computes once, holds whatever happens.

**Proof.** Fix an ordered pair of neighbours, and let H_λ(P || Q) = ∫ (dP - λ dQ)₊. By induction on the rounds that are
left let R' dominate what follows the first release, for every output o of it. R' is what the declaration has left, and
that is known before o. With r the likelihood ratio of o,

    H_λ(everything) = E_Q[ r H_{λ/r}(what follows | o) ] <= E_Q[ r H_{λ/r}(R') ] = H_λ(release ⊗ R') <= H_λ(R),

the last as domination is preserved by products, and a slot ⊗ R' is R; or as N(√(b-μ²)) ⊗ N(μ) is N(√b); as F_s ⊗ F_u is
F_{s+u} (with probability 1 - e^-s everything is revealed, under P by one output and under Q by another); as a release
of Rényi divergence e, followed by S_{α,B-e}, is dominated by S_{α,B} (`renyi_purse`). Stopping: H_λ >= (1-λ)₊ for every
pair. The bound does not depend on the number of rounds, and H_λ of an endless transcript is the supremum over its
beginnings. ∎

Where slots are known by Rényi curves only, the same induction with E_Q[r^α] in place of H_λ bounds the Rényi divergence
at every order at once, so that the best order may be chosen in the end.

Holds for:  one relation; under add-or-remove-one and zero-out each direction has its own product, and the price is the
            larger. Noise and samples are fresh in every round: rounds that share a permutation, a sample or correlated
            noise are one slot. Slot and charge are fixed before the output, and do not depend on the sample. No release
            is about a complement or an anti-join of the data, where adding a record removes one.
Tightness:  attained by spending every slot as declared, and the reserve on Gaussian noise.

**Blocks.** If every record lies in one block, whichever others there are, neighbours differ in one block, and releases
about other blocks have the same law on both. So each block has the declaration for itself. Under replace-one the new
record may lie in another block: then two blocks would differ, and blocks are refused.

**Stages.** Everything that was released up to the end of stage j is dominated by the product of the lines of stages up
to j. Each of these statements holds; which of them is quoted must not depend on the outputs.

**Beyond the lines.** Where the last reserve is what the budget leaves, the account also admits pure DP that its lines
do not pay for, from the last stage on, up to ε: `pure` has the lemma. So it never admits less than basic composition.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

from cumulant import parameters
from cumulant.composition import Composed
from cumulant.errors import BudgetExceeded, InvalidParameter, MixedNeighbors
from cumulant.ledger.lines import (
    FailureReserve,
    GaussianReserve,
    Lines,
    PureBeyond,
    RenyiReserve,
    composed_of,
    line_from_dict,
    slots_of,
)
from cumulant.ledger.pure import PureSum, stated
from cumulant.mechanisms.approximate_dp import ApproximateDP
from cumulant.mechanisms.base import AbstractMechanism
from cumulant.neighbors import NAMED, Neighbors
from cumulant.planning import calibrate
from cumulant.printed import given, rounded_up

SMALLEST_RESERVE = 1e-9  # b, a squared mean: less pays for nothing that anyone releases, and answers end there


@final
@parameters.by_name
@dataclass(frozen=True, kw_only=True, slots=True)
class Stage:
    """A part of a declaration that may be used once it has begun: slots, and b of a Gaussian reserve."""

    plan: AbstractMechanism | None = None
    reserve: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "plan", checked_plan(self.plan))
        object.__setattr__(self, "reserve", parameters.nonnegative("reserve", self.reserve))

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return {"plan": None if self.plan is None else self.plan.to_dict(), "reserve": self.reserve}


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Declaration:
    """A budget (ε, δ) for one relation, and the lines that were set aside within it."""

    epsilon: float
    delta: float
    neighbors: Neighbors
    unit: str
    lines: Lines

    @property
    def stages(self) -> int:
        """How many stages there are."""
        return 1 + max((line.stage for line in self.lines), default=0)

    def priced(self, *, stage: int | None = None) -> Composed:
        """Return R: what dominates all that the lines pay for up to the end of a stage, by default of the last."""
        return composed_of(self._lines_until(stage))

    def _lines_until(self, stage: int | None) -> Lines:
        last = self.stages - 1 if stage is None else stage
        return tuple(line for line in self.lines if line.stage <= last)

    def price(self, *, stage: int | None = None) -> float:
        """Return the ε that may be claimed at δ at the end of a stage, whatever was chosen by looking: an odometer.

        >>> from cumulant import ADD_REMOVE, Gaussian
        >>> step = Gaussian(noise_multiplier=1.0).poisson(rate=0.01)
        >>> lines = (*slots_of(step * 1000, stage=0), GaussianReserve(stage=1, noise_multiplier=2.0))
        >>> account = Declaration(epsilon=3.0, delta=1e-5, neighbors=ADD_REMOVE, unit="one customer", lines=lines)
        >>> account.price(stage=0), account.price()
        (1.828236..., 2.762887...)
        """
        price = price_of_run(self.priced(stage=stage), epsilon=self.epsilon, delta=self.delta)
        beyond = [line.epsilon for line in self._lines_until(stage) if isinstance(line, PureBeyond)]
        return max([price, *beyond])  # beyond the lines everything together is pure DP of this ε, and no less

    def promised_delta(self, *, epsilon: float) -> float:
        """Return the δ that holds at another ε, whatever was chosen: `pure` says what it is below pure DP."""
        largest = max([epsilon, *(line.epsilon for line in self.lines if isinstance(line, PureBeyond))])
        delta = float(self.priced().delta(epsilon=largest))
        below = ApproximateDP(epsilon=largest, delta=delta) if largest > epsilon else None
        return delta if below is None else float(below.delta(epsilon=epsilon))

    def to_dict(self) -> dict[str, Any]:
        """Return plain data that `declaration_from_dict` reads back."""
        return {
            "epsilon": self.epsilon,
            "delta": self.delta,
            "neighbors": self.neighbors.name,
            "unit": self.unit,
            "lines": [line.to_dict() for line in self.lines],
        }


def declaration_from_dict(data: dict[str, Any]) -> Declaration:
    """Return the declaration that `to_dict` described."""
    return Declaration(
        epsilon=data["epsilon"],
        delta=data["delta"],
        neighbors=Neighbors[data["neighbors"]],
        unit=data["unit"],
        lines=tuple(line_from_dict(line) for line in data["lines"]),
    )


def declare(
    *,
    epsilon: float,
    delta: float,
    neighbors: Neighbors,
    unit: str,
    stages: Sequence[Stage],
    reserve: float | None,
    failure: float,
    renyi: tuple[float, float] | None,
) -> Declaration:
    """Return a declaration within a budget; without a `reserve`, what it leaves becomes the reserve of the last stage.

    With pure DP beyond it; with δ = 0 that is all, as no Gaussian fits. A declaration over its budget is
    `BudgetExceeded`.
    """
    epsilon, delta = parameters.nonnegative("epsilon", epsilon), parameters.probability("delta", delta)
    parameters.require(isinstance(neighbors, Neighbors), f"neighbors must be {NAMED}", neighbors)
    fixed = _fixed_lines(stages, reserve, failure, renyi)
    plan = composed_of(fixed)
    check_relation(plan, neighbors)
    price = price_of_run(plan, epsilon=epsilon, delta=delta)
    if not price <= epsilon:
        raise BudgetExceeded(
            f"this declaration costs epsilon={rounded_up(price)} at delta={given(delta)}, over the budget of "
            f"{given(epsilon)}; declare fewer slots or a smaller reserve; nothing was recorded",
            epsilon=price,
            budget=epsilon,
            delta=delta,
        )
    rest = _rest(plan, epsilon, delta, stage=len(stages) - 1) if reserve is None else ()
    return Declaration(epsilon=epsilon, delta=delta, neighbors=neighbors, unit=unit, lines=(*fixed, *rest))


def _fixed_lines(
    stages: Sequence[Stage], reserve: float | None, failure: float, renyi: tuple[float, float] | None
) -> Lines:
    lines: Lines = ()
    for place, stage in enumerate(stages):
        more = reserve if reserve is not None and place == len(stages) - 1 else 0.0
        squared = parameters.nonnegative("reserve", more) + stage.reserve
        lines += slots_of(stage.plan, stage=place)
        if squared > 0:  # the reserve is 1/σ² exactly, and priced as such
            sigma = parameters.positive("1/√reserve", 1 / math.sqrt(squared))
            lines += (GaussianReserve(stage=place, noise_multiplier=sigma),)
    if parameters.probability("failure", failure) > 0:
        parameters.require(failure < 1, "failure must be a probability below 1", failure)
        lines += (FailureReserve(stage=0, delta=float(failure)),)
    if renyi is not None:
        rule = "renyi must be a pair: an order > 1 and its budget > 0"
        parameters.require(isinstance(renyi, Sequence) and len(renyi) == 2, rule, renyi)
        order, budget = parameters.order(renyi[0]), parameters.positive("the budget of renyi", renyi[1])
        parameters.require(order > 1, rule, renyi)
        lines += (RenyiReserve(stage=0, order=order, budget=budget),)
    return lines


def price_of_run(run: Composed, *, epsilon: float, delta: float) -> float:
    """Return ε of a run at δ; no more than the budget if it is pure and its stated ε_i add up to that."""
    price = float(run.epsilon(delta=delta))
    return min(price, epsilon) if PureSum(run.releases()).is_within(stated(epsilon)) else price


def _rest(plan: Composed, epsilon: float, delta: float, *, stage: int) -> Lines:
    """Return the largest reserve that the budget leaves beside a plan, if any, and pure DP beyond."""
    beyond = PureBeyond(stage=stage, epsilon=epsilon)
    if delta == 0:
        return (beyond,)
    try:
        noise = calibrate(
            lambda sigma: Composed.of([(plan, 1), GaussianReserve(stage=stage, noise_multiplier=sigma).priced()]),
            epsilon=epsilon,
            delta=delta,
        )
    except InvalidParameter:  # no noise at all fits beside the plan, or any does: δ = 1
        return (beyond,)
    reserve = GaussianReserve(stage=stage, noise_multiplier=noise)
    return (reserve, beyond) if noise**-2 >= SMALLEST_RESERVE else (beyond,)


def check_relation(mechanism: AbstractMechanism, neighbors: Neighbors) -> None:
    """Refuse what is about another relation than the account's."""
    there = mechanism.neighbors
    if there is not None and there is not neighbors:
        raise MixedNeighbors(
            f"this account is for {neighbors.value}, the release is for {there.value}; give it `neighbors=` of the "
            "account, or open an account for the other relation; nothing was recorded"
        )


def checked_plan(plan: Any) -> AbstractMechanism | None:
    """Return a plan: a mechanism, or nothing."""
    rule = "plan must be a cumulant mechanism, such as step * 1000"
    parameters.require(plan is None or isinstance(plan, AbstractMechanism), rule, plan)
    return plan  # type: ignore[no-any-return]
