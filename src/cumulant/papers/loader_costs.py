"""What a data loader costs: one run of DP-SGD, ε against its epochs, by everything that a loader may do."""

from __future__ import annotations

from typing import Any

from cumulant.composition import Composed
from cumulant.neighbors import REPLACE_ONE, ZERO_OUT, Neighbors
from cumulant.papers.sheet import BLUE, GREEN, ORANGE, PINK, RED, Sheet, sampled
from cumulant.report.chart import Chart, Series, geometric_counts
from cumulant.training import dp_sgd

DELTA = 1e-5
RUN: dict[str, Any] = {"noise_multiplier": 1.0, "batch_size": 100, "dataset_size": 10_000}  # 100 batches an epoch
LAST = 100  # epochs


def loaders(*, points: int = 13) -> Sheet:
    """Return ε of one run under zero-out and under replace-one, a curve for every loader."""
    counts = geometric_counts(LAST, points=points)
    return Sheet(
        title="What does your loader do? σ = 1, 100 batches an epoch, δ = $10^{-5}$",
        rows=(
            (
                _chart(counts, "zero-out: a null record in its place", ZERO_OUT, _zero_out(counts)),
                _chart(counts, "replace-one: any other record in its place", REPLACE_ONE, _replace_one(counts)),
            ),
        ),
    )


def _chart(counts: tuple[int, ...], title: str, relation: Neighbors, curves: tuple[Series, ...]) -> Chart:
    """Return a chart, with the interval of a shuffled loader."""

    def shuffled(epochs: int) -> Composed:
        return dp_sgd(**RUN, epochs=epochs, sampling="shuffled", neighbors=relation)

    proven, attained = "shuffled, cut into batches: proven", "shuffled, cut into batches: attained"
    ends = [shuffled(count).epsilon_interval(delta=DELTA) for count in counts]
    x = tuple(map(float, counts))
    interval = (
        Series(label=proven, x=x, y=tuple(end.upper for end in ends), color=RED),
        Series(label=attained, x=x, y=tuple(end.lower for end in ends), color=RED, line="--"),
    )
    return Chart(
        curves=(*interval, *curves), x_label="epochs", y_label="ε, nats", x_scale="log", y_scale="log", title=title
    )


def _zero_out(counts: tuple[int, ...]) -> tuple[Series, ...]:
    return (
        _curve(counts, "one batch, drawn once and kept", ORANGE, sampling="random_allocation", bins="kept"),
        _curve(counts, "a coin in every step", BLUE, sampling="poisson", neighbors=ZERO_OUT),
        _curve(counts, "one batch, drawn anew in each epoch", GREEN, sampling="random_allocation", bins="fresh"),
    )


def _replace_one(counts: tuple[int, ...]) -> tuple[Series, ...]:
    return (
        _curve(counts, "a subset of fixed size in every step", PINK, sampling="without_replacement"),
        _curve(counts, "a coin in every step", BLUE, sampling="poisson", neighbors=REPLACE_ONE),
    )


def _curve(counts: tuple[int, ...], label: str, color: str, **loader: Any) -> Series:
    return sampled(counts, lambda epochs: dp_sgd(**RUN, epochs=epochs, **loader).epsilon(delta=DELTA), label, color)
