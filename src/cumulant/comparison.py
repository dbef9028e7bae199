"""One run by every road to (ε, δ) that there is: composition theorems, Rényi DP, and the exact answer.

>>> import cumulant as cm
>>> step = cm.Gaussian(noise_multiplier=1.0).poisson(rate=0.01)
>>> for row in cm.compare(step * 1000, delta=1e-5).rows:
...     print(f"{row.method:<30}{row.epsilon:.4f}")
naive composition             839.3934
strong composition            1258.6408
optimal composition           453.6307
Rényi DP by Mironov           2.5377
Rényi DP by Canonne et al.    2.1013
Rényi DP, optimal conversion  2.1008
exact                         1.8282
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any, final

from cumulant import parameters
from cumulant.answer import EXACTLY, Interval, table_html
from cumulant.composition_theorems.calibrated import calibrated_composition
from cumulant.composition_theorems.naive_and_strong import naive_composition, strong_composition
from cumulant.composition_theorems.rounds import Rounds
from cumulant.composition_theorems.unequal import optimal_composition_epsilon_interval
from cumulant.curves.best_order import Rule, epsilon_from_cgf
from cumulant.curves.conversion import canonne_kamath_steinke_epsilon, mironov_epsilon, optimal_epsilon
from cumulant.errors import CumulantError, UnprovenCombination
from cumulant.mechanisms.base import AbstractMechanism
from cumulant.numerics.rounding import ROUNDING
from cumulant.printed import delta_rounded_up, rounded_down, rounded_up

SHARES = (0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99)  # of δ that rounds may use up; every one of them proves its ε
ACCURACY = 1e-4  # of the optimum for rounds that differ
NEXT_TO_NOTHING = 1e-3  # ε below which ends are near by 1e-9, not by a share of it

CONVERSIONS: tuple[tuple[str, str, Rule], ...] = (
    ("Rényi DP by Mironov", "Mironov 2017, Proposition 3", mironov_epsilon),
    ("Rényi DP by Canonne et al.", "Canonne, Kamath and Steinke 2020", canonne_kamath_steinke_epsilon),
    ("Rényi DP, optimal conversion", "Asoodeh et al. 2020, Theorem 3", optimal_epsilon),
)

Curve = Callable[[float], float]
Parts = tuple[tuple[Curve, int], ...]


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """What one method proves: ε, its certified lower end if there is one, or why there is no answer."""

    method: str
    theorem: str
    interval: Interval | None
    reason: str | None = None

    @property
    def epsilon(self) -> float | None:
        return None if self.interval is None else self.interval.upper

    def to_dict(self) -> dict[str, Any]:
        lower = None if self.interval is None or self.interval.lower <= 0 else self.interval.lower
        return {
            "method": self.method,
            "theorem": self.theorem,
            "epsilon": self.epsilon,
            "certified_lower": lower,
            "reason": self.reason,
        }


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Comparison:
    """What every method proves about one run at one δ, weakest first.

    >>> import cumulant as cm
    >>> rows = compare(cm.Gaussian(noise_multiplier=5.0) * 100, delta=1e-6).rows
    >>> [row.method for row in rows][-2:]
    ['Rényi DP, optimal conversion', 'exact']
    """

    log_delta: float
    rows: tuple[Row, ...]

    def to_dict(self) -> dict[str, Any]:
        return {"log_delta": self.log_delta, "rows": [row.to_dict() for row in self.rows]}

    def __str__(self) -> str:
        return "\n".join(table(self.rows))

    def _repr_html_(self) -> str:
        """Return a table for notebooks."""
        cells = [(row.method, _cell(row), row.theorem if row.reason is None else row.reason) for row in self.rows]
        return table_html(f"ε at δ = {delta_rounded_up(self.log_delta)}", cells, ("method", "ε", "theorem"))


@parameters.by_name
def compare(run: AbstractMechanism, *, delta: float | None = None, log_delta: float | None = None) -> Comparison:
    """Return what every method proves about a run at δ, given as a number in [0, 1] or as its logarithm.

    Naive, strong and optimal composition know one (ε, δ) per release; Rényi DP knows a curve; the exact answer knows
    the whole privacy loss, and comes with its lower end.

    >>> import cumulant as cm
    >>> print(compare(cm.Laplace(scale=5.0) * 10, delta=1e-6))
      naive composition ...
    """
    log = parameters.log_of_delta(delta=delta, log_delta=log_delta)
    return Comparison(log_delta=log, rows=tuple(_rows(run, log)))


def table(rows: Sequence[Row], *, width: int = 80) -> Iterator[str]:
    """Yield one line per method, within 80 columns; within fewer the theorem has a line of its own."""
    for row in rows:
        line = f"  {row.method:<30}{_cell(row):>12}"
        if width < 80:
            yield from (line, f"    {row.theorem}")
        else:
            yield f"{line}  {row.theorem}"
        if row.interval is not None and row.interval.lower > 0:
            sure = "  certified: not below" if row.interval.certified else "  not below"
            yield f"  {sure:<30}{rounded_down(row.interval.lower, digits=8):>12}"
        if row.reason is not None:
            yield f"      {_short(row.reason, width - 8)}"


def _cell(row: Row) -> str:
    return "-" if row.epsilon is None else rounded_up(row.epsilon, digits=8)


def _short(reason: str, longest: int) -> str:
    """Return the first clause of a refusal, cut to the line."""
    clause = reason.split(";", maxsplit=1)[0]
    return clause if len(clause) <= longest else clause[: longest - 3] + "..."


def _rows(run: AbstractMechanism, log_delta: float) -> Iterator[Row]:
    parts: Parts = tuple((_curve(release), count) for release, count in run.releases())
    delta = math.exp(log_delta) * (1 - 800 * ROUNDING)  # safe side: log δ was rounded, by up to 750 units
    if parts:
        yield _row("naive composition", "Dwork et al. 2006", lambda: naive(parts, delta))
        yield _row("strong composition", "Dwork, Rothblum and Vadhan 2010", lambda: strong(parts, delta))
        theorem = "Kairouz, Oh and Viswanath 2017" if len(parts) == 1 else "Murtagh and Vadhan 2018"
        yield _row("optimal composition", theorem, lambda: optimal(parts, delta))
    for name, theorem, rule in CONVERSIONS:
        yield _row(name, theorem, partial(converted, run, log_delta, rule))
    yield _from_both_sides(run, log_delta)


def _from_both_sides(run: AbstractMechanism, log_delta: float) -> Row:
    """Return the row of the interval, which is called exact where its ends are as near as an exact answer's."""
    row = _row("exact", "the pair itself", lambda: run.epsilon_interval(log_delta=log_delta))
    if row.interval is None:
        return row
    if not row.interval.width <= EXACTLY * max(row.interval.upper, NEXT_TO_NOTHING):
        return replace(row, method="both ends", theorem="proven from above, attained from below")
    return replace(row, theorem="the pair itself, certified") if row.interval.certified else row


def _curve(release: AbstractMechanism) -> Curve:
    """Return log δ ↦ ε of one release by its tightest bound; points are kept, as the theorems ask them again."""
    return cache(lambda log_delta: release.epsilon(log_delta=log_delta))


def naive(parts: Parts, delta: float) -> float:
    """Return the better of no δ for any round and one δ for every round."""
    return min(naive_composition(found)[0] if found else math.inf for found in _splits(parts, delta, shares=(1.0,)))


def strong(parts: Parts, delta: float) -> float:
    """Return the best over how much of δ the rounds use up; the rest is the theorem's slack."""
    if len(parts) > 1:
        raise UnprovenCombination("the theorem is about rounds of equal cost")
    splits = zip((0.0, *SHARES), _splits(parts, delta, shares=SHARES), strict=True)
    rest = 1 - ROUNDING  # safe side: less slack
    return min(
        strong_composition(found[0], slack=(1 - share) * delta * rest)[0] if found else math.inf
        for share, found in splits
    )


def optimal(parts: Parts, delta: float) -> float:
    """Return the best of one (ε, δ) per round; where rounds differ, of a few ways to share δ among them."""
    if len(parts) == 1:
        ((curve, count),) = parts
        return calibrated_composition(curve, count=count, delta=delta)[0]
    found = [split for split in _splits(parts, delta, shares=(0.1, 0.5, 0.9, 1.0)) if split]
    tried = (optimal_composition_epsilon_interval(split, delta=delta, accuracy=ACCURACY).upper for split in found)
    return min(tried, default=math.inf)


def converted(run: AbstractMechanism, log_delta: float, rule: Rule) -> float:
    """Return ε by one conversion from Rényi DP at its best order."""
    return epsilon_from_cgf(run._known().curve(), log_delta, rule)[0]


def _splits(parts: Parts, delta: float, *, shares: tuple[float, ...]) -> Iterator[list[Rounds] | None]:
    """Yield the rounds without δ, and with each share of δ spread evenly; None where some round has no finite ε."""
    rounds = sum(count for _, count in parts)
    for share in (0.0, *shares):
        each = share * delta / rounds * (1 - ROUNDING)  # safe side: rounded down
        log_each = math.log(each) * (1 + ROUNDING) if each > 0 else -math.inf
        costs = [(curve(log_each), count) for curve, count in parts]
        finite = all(epsilon < math.inf for epsilon, _ in costs)
        yield [Rounds(epsilon=epsilon, delta=each, count=count) for epsilon, count in costs] if finite else None


def _row(method: str, theorem: str, answer: Callable[[], float | Interval]) -> Row:
    try:
        found = answer()
    except CumulantError as error:
        return Row(method=method, theorem=theorem, interval=None, reason=str(error))
    interval = found if isinstance(found, Interval) else Interval(0.0, found)
    if interval.upper == math.inf:
        return Row(method=method, theorem=theorem, interval=None, reason="nothing finite is proven this way")
    return Row(method=method, theorem=theorem, interval=interval)
