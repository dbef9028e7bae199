"""Curves people would rather look at: needs the extra `cumulant[plot]`.

Every function draws on the given matplotlib axes, or on new ones, and returns them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from cumulant.errors import CumulantError
from cumulant.mechanisms.base import AbstractMechanism

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Labelled = Mapping[str, AbstractMechanism]


def rdp(mechanisms: Labelled, *, orders: Sequence[float] | None = None, axes: Axes | None = None) -> Axes:
    """Draw the Rényi DP of mechanisms against the order, and below it what is attained, where that is known."""
    axes = _axes(axes)
    chosen = np.geomspace(1.05, 500, 80) if orders is None else np.asarray(orders, dtype=float)
    for label, mechanism in mechanisms.items():
        line = axes.loglog(chosen, mechanism.rdp(order=chosen), label=label)[0]
        whole, attained = _attained(mechanism, chosen)
        axes.loglog(whole, attained, linestyle="none", marker=".", markersize=4, color=line.get_color())
    axes.set(xlabel="order α", ylabel="Rényi DP ε(α)")
    return _finished(axes)


def epsilon_against_count(
    mechanisms: Labelled, *, counts: Sequence[int], delta: float, method: str = "best", axes: Axes | None = None
) -> Axes:
    """Draw ε at δ against how often each mechanism is released."""
    axes = _axes(axes)
    for label, mechanism in mechanisms.items():
        values = [(mechanism * count).epsilon(delta=delta, method=method) for count in counts]
        axes.loglog(counts, values, label=label)
    axes.set(xlabel="number of releases", ylabel=f"ε at δ = {delta:g}")
    return _finished(axes)


def delta_against_epsilon(
    mechanisms: Labelled, *, epsilons: Sequence[float], method: str = "best", axes: Axes | None = None
) -> Axes:
    """Draw δ against ε, on a scale that does not underflow."""
    axes = _axes(axes)
    for label, mechanism in mechanisms.items():
        logs = [mechanism.log_delta(epsilon=epsilon, method=method) / math.log(10) for epsilon in epsilons]
        axes.plot(epsilons, logs, label=label)
    axes.set(xlabel="ε", ylabel="log₁₀ δ")
    return _finished(axes)


def _attained(mechanism: AbstractMechanism, orders: Any) -> tuple[list[float], list[float]]:
    """Return integer orders in range and the lower ends of the RDP there, none where no lower bound is known."""
    whole = np.unique(np.geomspace(2, max(2.0, float(np.max(orders))), 12).round())
    try:
        return whole.tolist(), [mechanism.rdp_interval(order=float(order)).lower for order in whole]
    except CumulantError:
        return [], []


def _axes(axes: Axes | None) -> Axes:
    if axes is not None:
        return axes
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise CumulantError("plots need matplotlib: pip install 'cumulant[plot]'") from None
    return Figure(figsize=(6.4, 4.4), layout="constrained").subplots()


def _finished(axes: Axes) -> Axes:
    axes.grid(visible=True, which="major", alpha=0.3)
    axes.legend(frameon=False)
    return axes
