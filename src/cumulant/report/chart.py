"""Charts as numbers: what `cumulant.plot` draws, computed without matplotlib.

All take one mechanism, several, or a mapping from labels to mechanisms; the questions that take a `method` take several
methods, too.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, final

import numpy as np

from cumulant import parameters
from cumulant.answer import Method
from cumulant.errors import CumulantError
from cumulant.mechanisms.base import AbstractMechanism
from cumulant.printed import delta_rounded_up, given

Mechanisms = AbstractMechanism | Iterable[AbstractMechanism] | Mapping[str, AbstractMechanism]
Methods = Method | Sequence[Method]

COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")  # told apart by all eyes
LINES = ("-", "--", ":", "-.")
SMALLEST_DELTA = math.log(1e-12)  # where a chart of δ ends, if nothing else is asked for
POINTS = 40  # of one series
LEAST_ACCUSED = 1e-6  # share of others, where a chart of attacks begins
COINCIDE = 0.005  # of values: curves that differ by less hide one another
BROADER = 2.4  # points, of a curve below one that hides it
LONGEST_LABEL = 90  # characters


# What a chart holds -----------------------------------------------------------------------------------------------


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Series:
    """One line of a chart; a `line` of "." is drawn as points."""

    label: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    color: str = COLORS[0]
    line: str = "-"
    width: float = 1.6

    def to_dict(self) -> dict[str, Any]:
        return {"label": self.label, "x": _plain(self.x), "y": _plain(self.y)}


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Chart:
    """The numbers of a chart; a scale of "exponent" means that values are logarithms to base 10."""

    curves: tuple[Series, ...]
    x_label: str
    y_label: str
    x_scale: str = "linear"
    y_scale: str = "linear"
    title: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON-ready data; infinities become text."""
        return {
            "title": self.title,
            "x": {"label": self.x_label, "scale": self.x_scale},
            "y": {"label": self.y_label, "scale": self.y_scale},
            "curves": [curve.to_dict() for curve in self.curves],
        }


# The questions ----------------------------------------------------------------------------------------------------


@parameters.by_name
def rdp_chart(mechanisms: Mechanisms, *, orders: float | Sequence[float] = 512.0) -> Chart:
    """Return the Rényi DP against the order, a proven bound, and as points what is attained, where that is known.

    One number for `orders` is the last of a geometric choice. Lower bounds are known at whole orders.
    """
    chosen = _spread(orders, lambda last: np.geomspace(1.05, last, POINTS))
    curves: list[Series] = []
    for (label, mechanism), color in _colored(labelled(mechanisms)):
        upper = tuple(float(value) for value in mechanism.rdp(order=np.array(chosen)))
        curves.append(Series(label=label, x=chosen, y=upper, color=color))
        if attained := _attained(mechanism, chosen):
            x, y = zip(*attained, strict=True)
            curves.append(Series(label=f"{label}: attained", x=x, y=y, color=color, line="."))
    return Chart(curves=tuple(curves), x_label="order α", y_label="Rényi DP ε(α), nats", x_scale="log", y_scale="log")


@parameters.by_name
def epsilon_against_count_chart(
    mechanisms: Mechanisms,
    *,
    counts: int | Sequence[int],
    delta: float | None = None,
    log_delta: float | None = None,
    method: Methods = "best",
) -> Chart:
    """Return ε at δ against how often each mechanism is released; one number for `counts` is the last of them.

    Counts in between are chosen geometrically: ε grows like a power of the count, so few of them draw the curve.
    """
    log_delta = parameters.log_of_delta(delta=delta, log_delta=log_delta)
    chosen = geometric_counts(counts) if isinstance(counts, int) else tuple(counts)

    def epsilons(mechanism: AbstractMechanism, how: Method) -> list[float]:
        return list(mechanism.epsilon_curve(counts=chosen, log_delta=log_delta, method=how))

    return Chart(
        curves=_asked(mechanisms, method, [float(count) for count in chosen], epsilons),
        x_label="number of releases",
        y_label=f"ε, nats, at δ = {power_of_ten(log_delta)}",
        x_scale="log",
        y_scale="log",
    )


@parameters.by_name
def delta_against_epsilon_chart(
    mechanisms: Mechanisms, *, epsilons: float | Sequence[float] | None = None, method: Methods = "best"
) -> Chart:
    """Return log₁₀ δ, which does not underflow, against ε; one number for `epsilons` is the last of them."""
    named = labelled(mechanisms)
    if epsilons is None:
        epsilons = max((_reach(mechanism) for mechanism in named.values()), default=1.0)
    chosen = _spread(epsilons, lambda last: np.linspace(0.0, last, POINTS))

    def exponents(mechanism: AbstractMechanism, how: Method) -> list[float]:
        return list(mechanism.log_delta(epsilon=chosen, method=how) / math.log(10))

    curves = _asked(named, method, chosen, exponents)
    return Chart(curves=curves, x_label="ε, nats", y_label="δ", y_scale="exponent")


@parameters.by_name
def tradeoff_chart(
    mechanisms: Mechanisms, *, false_positive_rates: Sequence[float] | None = None, method: Methods = "best"
) -> Chart:
    """Return the smallest false negative rate of an attacker against the false positive rate: f-DP.

    The diagonal, false negatives of 1 - α, is an attacker who guesses: the higher a curve, the more private.
    """
    t = np.linspace(0.0, 1.0, POINTS + 1)
    # dense at both ends, where the curve is steep
    chosen = _spread((1 - np.cos(math.pi * t)) / 2 if false_positive_rates is None else false_positive_rates)

    def misses(mechanism: AbstractMechanism, how: Method) -> list[float]:
        return list(mechanism.tradeoff(false_positive_rate=chosen, method=how))

    guessing = Series(label="guessing", x=(0.0, 1.0), y=(1.0, 0.0), color="#999999", line=":", width=1.0)
    return Chart(
        curves=(*_asked(mechanisms, method, chosen, misses), guessing),
        x_label="false positive rate",
        y_label="smallest false negative rate",
    )


@parameters.by_name
def attack_chart(
    mechanisms: Mechanisms, *, false_positive_rates: Sequence[float] | None = None, method: Methods = "best"
) -> Chart:
    """Return the largest share of members that an attacker finds, against the share of others whom he accuses.

    The same as `tradeoff_chart`, upside down and on logarithmic axes: attacks that accuse few are those that convince.
    """
    chosen = _spread(np.geomspace(LEAST_ACCUSED, 1.0, POINTS) if false_positive_rates is None else false_positive_rates)

    def found(mechanism: AbstractMechanism, how: Method) -> list[float]:
        missed = mechanism.tradeoff(false_positive_rate=chosen, method=how)
        return [min(1.0, math.nextafter(1 - one, 2.0)) for one in missed]  # safe side: up

    ends = (min(chosen), max(chosen))
    guessing = Series(label="guessing", x=ends, y=ends, color="#999999", line=":", width=1.0)
    return Chart(
        curves=(*_asked(mechanisms, method, chosen, found), guessing),
        x_label="share of others who are accused",
        y_label="share of members found, at most",
        x_scale="log",
        y_scale="log",
    )


# Parts ------------------------------------------------------------------------------------------------------------


def labelled(mechanisms: Mechanisms) -> Mapping[str, AbstractMechanism]:
    """Return mechanisms by label: the one given, or a short description."""
    if isinstance(mechanisms, Mapping):
        return mechanisms
    several = [mechanisms] if isinstance(mechanisms, AbstractMechanism) else list(mechanisms)
    short = [described(mechanism) for mechanism in several]
    return {
        label if short.count(label) == 1 else repr(mechanism): mechanism
        for label, mechanism in zip(short, several, strict=True)
    }


def described(mechanism: AbstractMechanism) -> str:
    """Return a mechanism in words that fit a legend; where they do not, whole words are left out.

    >>> from cumulant import Gaussian, Laplace
    >>> described(Gaussian(noise_multiplier=2.0) * 10 + Laplace(scale=1.5))
    '10 × Gaussian (noise multiplier 2) + Laplace (scale 1.5)'
    """
    parts = [(f"{count} × " if count != 1 else "") + _described_release(part) for part, count in mechanism.releases()]
    text = " + ".join(parts)
    if len(text) <= LONGEST_LABEL:
        return text
    kept, _, _ = text[: LONGEST_LABEL - 1].rpartition(" ")  # half a number would be another number
    return f"{kept} …"


def geometric_counts(last: int, *, points: int = POINTS) -> tuple[int, ...]:
    """Return whole numbers from 1 to `last`, about evenly spread on a logarithmic scale.

    >>> geometric_counts(1000, points=7)
    (1, 3, 10, 32, 100, 316, 1000)
    """
    last = parameters.whole_number("counts", last, at_least=1)
    between = (round(math.exp(math.log(last) * i / (points - 1))) for i in range(points - 1))
    return tuple(sorted({count for count in between if count < last} | {last}))


def power_of_ten(log_delta: float) -> str:
    """Return δ for a label, never below it.

    >>> power_of_ten(math.log(1e-5)), power_of_ten(math.log(2e-5)), power_of_ten(-1000.0), power_of_ten(-math.inf)
    ('$10^{-5}$', '2e-05', '5.07596e-435', '0')
    """
    text = delta_rounded_up(log_delta)
    whole = re.fullmatch(r"1e(-?\d+)|1\.0+e(-?\d+)", text)
    return text if whole is None else f"$10^{{{int(whole[1] or whole[2])}}}$"


def _described_release(mechanism: AbstractMechanism) -> str:
    numbers = [
        f"{field.name.replace('_', ' ')} {given(value)}"
        for field in fields(mechanism)  # type: ignore[arg-type]  # mechanisms are dataclasses
        if field.repr and isinstance(value := getattr(mechanism, field.name), int | float) and value is not False
    ]
    kind = re.sub(r"(?<=[a-z])[A-Z]", lambda letter: f" {letter[0].lower()}", type(mechanism).__name__)
    text = kind + (f" ({', '.join(numbers)})" if numbers else "")
    inner = getattr(mechanism, "mechanism", None)
    return f"{described(inner)}, {text}" if isinstance(inner, AbstractMechanism) else text


def _asked(
    mechanisms: Mechanisms,
    method: Methods,
    x: Sequence[float],
    answers: Callable[[AbstractMechanism, Method], list[float]],
) -> tuple[Series, ...]:
    """Return a curve for every mechanism, by color, and every method, by line."""
    methods: list[Method] = [method] if isinstance(method, str) else list(method)
    return _told_apart(
        Series(
            label=label if len(methods) == 1 else f"{label}: {how}",
            x=tuple(x),
            y=tuple(float(value) for value in answers(mechanism, how)),
            color=color,
            line=LINES[i % len(LINES)],
        )
        for (label, mechanism), color in _colored(labelled(mechanisms))
        for i, how in enumerate(methods)
    )


def _told_apart(drawn: Iterable[Series]) -> tuple[Series, ...]:
    """Return curves of which each is the broader, and pale, the more of the later ones lie upon it: all are seen."""
    curves = tuple(drawn)
    above = [sum(_coincide(curve, other) for other in curves[i + 1 :]) for i, curve in enumerate(curves)]
    return tuple(
        replace(curve, width=curve.width + BROADER * hidden, color=_pale(curve.color)) if hidden else curve
        for curve, hidden in zip(curves, above, strict=True)
    )


def _pale(color: str) -> str:
    """Return a colour half way to white.

    >>> _pale("#0072b2")
    '#7fb8d8'
    """
    return "#" + "".join(f"{(int(color[i : i + 2], 16) + 255) // 2:02x}" for i in (1, 3, 5))


def _coincide(curve: Series, other: Series) -> bool:
    return curve.x == other.x and bool(np.allclose(curve.y, other.y, rtol=COINCIDE, atol=0.0))


def _colored(named: Mapping[str, AbstractMechanism]) -> Iterator[tuple[tuple[str, AbstractMechanism], str]]:
    for i, item in enumerate(named.items()):
        yield item, COLORS[i % len(COLORS)]


def _attained(mechanism: AbstractMechanism, orders: Sequence[float]) -> list[tuple[float, float]]:
    """Return whole orders in range with the lower ends of the RDP there, none where no lower bound is known."""
    last = max(orders)
    if last < 2:
        return []
    whole = np.unique(np.geomspace(2, last, POINTS // 2).round())
    try:
        return [(float(order), mechanism.rdp_interval(order=float(order)).lower) for order in whole]
    except CumulantError:
        return []


def _reach(mechanism: AbstractMechanism) -> float:
    """Return the ε at which δ has become small, or, for one that has a failure probability, as small as it gets."""
    for log_delta in (SMALLEST_DELTA, SMALLEST_DELTA / 2, SMALLEST_DELTA / 8):
        epsilon = float(mechanism.epsilon(log_delta=log_delta, method="rdp"))
        if 0 < epsilon < math.inf:
            return epsilon
    return 1.0


def _spread(chosen: Any, spread: Callable[[float], Any] | None = None) -> tuple[float, ...]:
    """Return the numbers as a tuple; one number is the last of those that `spread` makes."""
    if spread is not None and np.ndim(chosen) == 0:
        chosen = spread(chosen)
    return tuple(float(value) for value in chosen)


def _plain(values: Sequence[float]) -> list[float | str]:
    return [value if math.isfinite(value) else str(value) for value in values]
