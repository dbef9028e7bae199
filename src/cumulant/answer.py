"""The values that questions end in."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, final

from cumulant.neighbors import Neighbors
from cumulant.printed import delta_rounded_up, given, percent_up, rounded_down, rounded_up

EXACTLY = 1e-6  # the share of ε within which an answer is exact
CLOSELY = 1e-9  # the share within which closed forms, profiles and plain lines are


ROUTES = {
    "nothing": "no release: whatever was seen does not depend on the data",
    "closed form": "the closed form for composed Gaussians (Balle and Wang 2018, Theorem 5)",
    "largest loss": "the largest privacy loss: pure DP",
    "affinity": "hardly any overlap of the dominating pair (Bhattacharyya's coefficient): δ is 1",
    "total variation": "the total variation of the dominating pair, by Pinsker's inequality or added up over releases",
    "every sum": "every sum of losses of few releases, term by term",
    "pieces": "the dominating pair of few releases, its CGF inverted term by term",
    "band": "the dominating pair, a band of its characteristic function and the best bounds that it gives",
    "profiles": "profiles of what has no dominating pair, made into pairs and composed with those of the others",
    "contour": "the dominating pair, its CGF inverted along the saddle-point line",
    "lattice contour": "the dominating pair, its CGF inverted over one period of the lattice of losses",
}

Method = Literal["best", "exact", "rdp"]
"""How an answer is proven: the smallest bound known, the pairs themselves, or Rényi DP."""


@final
@dataclass(frozen=True, slots=True)
class Interval:
    """A lower and an upper bound of one number.

    `certified` says that every step to both ends was ball arithmetic, or rounding to the outside with a proven bound.
    Where it is False the ends rest on estimates of rounding in doubles, and `unproven` is how wide that part is.

    >>> 1.5 in Interval(1.0, 2.0)
    True
    """

    lower: float
    upper: float
    certified: bool = False
    unproven: float = 0.0

    @property
    def width(self) -> float:
        return self.upper - self.lower

    def __contains__(self, value: float) -> bool:
        return self.lower <= value <= self.upper

    def words(self, *, digits: int = 10) -> str:
        """Return both ends of ε, rounded to the outside, and how sure they are."""
        sure = "certified, rounding included" if self.certified else "up to estimates of rounding"
        ends = rounded_down(self.lower, digits=digits), rounded_up(self.upper, digits=digits)
        return f"{ends[0]} <= epsilon <= {ends[1]} ({sure})"

    def to_dict(self) -> dict[str, Any]:
        return {"lower": self.lower, "upper": self.upper, "certified": self.certified}

    def _repr_html_(self) -> str:
        """Return both ends, for notebooks."""
        sure = "certified" if self.certified else "up to estimates of rounding"
        return table_html(sure, [(rounded_down(self.lower), rounded_up(self.upper))], ("not below", "not above"))


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Guarantee:
    """One (ε, δ) promise and how it was proven.

    `method` is "exact", "pairs" where dominating pairs were inverted but the answer is not known to be exact, "profile"
    or "rdp". `order` is the Rényi order that proved it; infinity is pure DP, None means that no order was needed.
    `stated_delta` is δ where it began as a number: asked for, or the failure probability of an approximate DP release.

    `exact` says that some neighbours need an ε within 1e-6 of this one (or 1e-9). `at_most_above` is how far the answer
    can be above what some neighbours need, relative to that: mostly 1e-9, None where it is not known. Next to 0 an ε
    that is above by 1e-12 counts as above by 1e-9 of it.

    >>> import cumulant as cm
    >>> found = cm.Laplace(scale=2.0).guarantee(delta=1e-5)
    >>> round(found.epsilon, 6), found.exact, found.at_most_above
    (0.49998, True, 1e-09)
    """

    epsilon: float
    log_delta: float
    method: str
    theorem: str
    order: float | None
    exact: bool
    stated_delta: float | None = None
    at_most_above: float | None = None

    @property
    def delta(self) -> float:
        return delta_from_log(self.log_delta) if self.stated_delta is None else self.stated_delta

    @property
    def delta_text(self) -> str:
        """δ for a text: as it was stated, or rounded up."""
        return delta_rounded_up(self.log_delta) if self.stated_delta is None else given(self.stated_delta)

    @property
    def rows(self) -> list[tuple[str, str]]:
        """What proves the promise, and how near it is to the truth."""
        return [("proven by", self.theorem + order_text(self.order)), ("which is", tightness_text(self))]

    def _repr_html_(self) -> str:
        """Return the promise and its proof, for notebooks."""
        return table_html(f"ε = {rounded_up(self.epsilon)} at δ = {self.delta_text}", self.rows)

    @classmethod
    def by_pairs(cls, epsilon: float, log_delta: float, route: str, *, excess: float | None) -> Guarantee:
        """`excess` is how far above the truth the answer can be; None where no neighbours attain the pairs.

        Only where the answer is exact, the method is called so.
        """
        excess = _share_known(epsilon, log_delta, excess)
        exact = excess is not None and excess <= EXACTLY
        return cls(
            epsilon=epsilon,
            log_delta=log_delta,
            method="exact" if exact else "pairs",
            theorem=ROUTES[route],
            order=None,
            exact=exact,
            at_most_above=None if excess is None else above_of(excess),
        )

    @classmethod
    def by_profile(cls, epsilon: float, log_delta: float, *, theorem: str, at_most_above: float | None) -> Guarantee:
        at_most_above = _share_known(epsilon, log_delta, at_most_above)
        return cls(
            epsilon=epsilon,
            log_delta=log_delta,
            method="profile",
            theorem=theorem,
            order=None,
            exact=at_most_above is not None and at_most_above <= EXACTLY,
            at_most_above=at_most_above,
        )

    @classmethod
    def by_rdp(cls, epsilon: float, log_delta: float, order: float | None) -> Guarantee:
        theorem = "the optimal conversion from Rényi DP (Asoodeh et al. 2020, Theorem 3)"
        return cls(epsilon=epsilon, log_delta=log_delta, method="rdp", theorem=theorem, order=order, exact=False)


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """One line of an explanation: a release, as code and with its count in words, and what bounds it."""

    mechanism: str
    words: str
    count: int
    theorem: str
    exact: bool
    neighbors: str

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Explanation:
    """How a guarantee of a run came about; `str` is a short report, `to_dict` is JSON.

    >>> import cumulant as cm
    >>> print(cm.PureDP(epsilon=0.5).explain(delta=0.0))
    epsilon = 0.5 at delta = 0
      ...
    """

    guarantee: Guarantee
    neighbors: Neighbors | None
    parts: tuple[Part, ...]
    advice: tuple[str, ...] = ()

    @property
    def rows(self) -> list[tuple[str, str]]:
        """What there is to say of the proof, each with its label; a row without one goes on with that before."""
        parts = [row for part in self.parts for row in (("release", part.words), ("", part.theorem))]
        better = [("instead", text) for text in self.advice]
        return [*self.guarantee.rows, ("holds for", relation_text(self.neighbors)), *parts, *better]

    def __str__(self) -> str:
        g = self.guarantee
        rows = (f"  {label:<12}{text}" for label, text in self.rows)
        return "\n".join((f"epsilon = {rounded_up(g.epsilon)} at delta = {g.delta_text}", *rows))

    def _repr_html_(self) -> str:
        """Return a table for notebooks."""
        g = self.guarantee
        return table_html(f"ε = {rounded_up(g.epsilon)} at δ = {g.delta_text}", self.rows)

    def to_dict(self) -> dict[str, Any]:
        said = ("epsilon", "delta", "log_delta", "method", "theorem", "order", "exact", "at_most_above")
        return {
            **{name: getattr(self.guarantee, name) for name in said},
            "neighbors": relation_text(self.neighbors),
            "parts": [part.to_dict() for part in self.parts],
            **({"advice": list(self.advice)} if self.advice else {}),
        }


def table_html(caption: str, rows: Iterable[Sequence[str]], head: Sequence[str] = ()) -> str:
    """Return a table in HTML, every cell escaped.

    >>> table_html("a < b", [("x", "1")])
    '<table><caption>a &lt; b</caption><tbody><tr><td>x</td><td>1</td></tr></tbody></table>'
    """
    from html import escape

    def row(cells: Sequence[str], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in cells) + "</tr>"

    top = f"<thead>{row(head, 'th')}</thead>" if head else ""
    body = "".join(row(cells, "td") for cells in rows)
    return f"<table><caption>{escape(caption)}</caption>{top}<tbody>{body}</tbody></table>"


def relation_text(neighbors: Neighbors | None) -> str:
    """Return a relation in words."""
    return neighbors.value if neighbors else "the relation that the sensitivity is measured for"


def tightness_text(guarantee: Guarantee) -> str:
    """Return in words how far the answer can be above the truth.

    >>> tightness_text(Guarantee.by_pairs(1.0, -11.0, "contour", excess=0.2))
    'an upper bound, at most 25 % above the smallest ε that is true'
    """
    if guarantee.exact:
        return "exact"
    if guarantee.at_most_above is None or math.isinf(guarantee.at_most_above):
        return "an upper bound"
    digits = max(2, len(str(math.ceil(100 * guarantee.at_most_above))))  # no power of ten
    percent = percent_up(guarantee.at_most_above, digits=digits, most=math.inf)
    return f"an upper bound, at most {percent} % above the smallest ε that is true"


def _share_known(epsilon: float, log_delta: float, share: float | None) -> float | None:
    """Return how far an ε is known to be above what is needed: not at all at a δ of 1, which may have been rounded."""
    return math.inf if share is not None and log_delta >= 0 and epsilon > CLOSELY else share


def above_of(share: float) -> float:
    """Return how far an answer is above the truth, relative to the truth, from its excess as a share of itself."""
    return share / (1 - share) if share < 1 else math.inf


def order_text(order: float | None) -> str:
    """Return ", at order α" where an order was used; one that is long is only said to be near.

    >>> order_text(8.0), order_text(12.3456), order_text(None)
    (', at order 8', ', at an order near 12.35', '')
    """
    if order is None:
        return ""
    text = f"{order:.4g}"
    return f", at order {text}" if float(text) == order else f", at an order near {text}"


def delta_from_log(log_delta: float) -> float:
    """Return δ as a double, never below it; what underflows becomes the smallest double.

    >>> delta_from_log(-1000.0), delta_from_log(-math.inf)
    (5e-324, 0.0)
    """
    if log_delta == -math.inf:
        return 0.0
    product = math.exp(log_delta) * (1 + 4e-16 * (1 + abs(log_delta)))
    if product < 1e-290:  # doubles lie far apart there, in the end: a relative margin may round away
        product = product + 1e-323 if product > 0 else 5e-324
    return min(1.0, product)
