"""The picture of the README: ε against steps by every method, of its first question."""

from __future__ import annotations

from collections.abc import Mapping

from cumulant.comparison import compare
from cumulant.mechanisms.gaussian import Gaussian
from cumulant.papers.sheet import BLACK, BLUE, GREY, ORANGE, RED, Sheet
from cumulant.report.chart import Chart, Series, geometric_counts

STEP = Gaussian(noise_multiplier=1.0).poisson(rate=0.01)
DELTA = 1e-5
FEWEST, MOST = 10, 10_000  # steps
STYLES: Mapping[str, tuple[str, str]] = {
    "strong composition": (GREY, ":"),
    "optimal composition": (ORANGE, "-."),
    "Rényi DP by Mironov": (RED, "--"),
    "Rényi DP, optimal conversion": (BLUE, "--"),
    "exact": (BLACK, "-"),
}
"""The colour and the line of each method that is drawn."""
NEAREST = 3  # methods that are drawn once more


def methods(*, points: int = 13) -> Sheet:
    """Return ε at δ = 1e-5 against steps of σ = 1 at a rate of 0.01, by composition theorems, Rényi DP, and exact."""
    counts = [count for count in geometric_counts(MOST, points=points) if count >= FEWEST]
    rows = [{row.method: row.epsilon for row in compare(STEP * count, delta=DELTA).rows} for count in counts]
    steps = tuple(float(count) for count in counts)
    curves = tuple(
        Series(label=method, x=steps, y=tuple(row[method] or float("nan") for row in rows), color=color, line=line)
        for method, (color, line) in STYLES.items()
    )
    every, nearest = (
        Chart(curves=some, x_label="steps", y_label="ε at δ = $10^{-5}$", x_scale="log", y_scale="log", title=title)
        for some, title in ((curves, "every method"), (curves[-NEAREST:], "the last three, closer"))
    )
    return Sheet(title="DP-SGD, noise 1 × the clipping norm, one record in a hundred", rows=((every, nearest),))
