"""Rényi divergences of the laws of the fast hunt: closed forms and finite sums in balls, else a sum over nodes."""

from __future__ import annotations

import math

import numpy as np
from flint import arb

from benchmarks.fast_truth_laws import AnyLaw, Ball, Laplace, Law, Normal, arb_sum, ball
from benchmarks.fast_truth_line import Beyond, Nodes, transform

ERROR = 1e-11  # relative, of a sum over nodes
ROUGH = 1e-4  # from which it says nothing


def divergence(law: AnyLaw, order: float) -> Ball:
    """Return D_α(P ‖ Q), or a lower bound of it: 0 where it is not known."""
    if order == math.inf:
        return law.largest_loss()
    if isinstance(law, Law):
        if law.rate == 0:
            return arb(0)
        if law.finite:
            return _of_table(law, order)
        if law.rate == 1:
            return _of_noise(law.base, order) if isinstance(law.base, Normal | Laplace) else arb(0)
    return arb(_over_nodes(law, order)) if order > 1 else arb(0)


def _of_table(law: Law, order: float) -> Ball:
    pairs = [(a, b) for a, b in law.masses() if not a.is_zero()]
    if any(b.is_zero() for _, b in pairs):
        return arb.pos_inf()
    if order == 1:
        return arb_sum(a * (a / b).log() for a, b in pairs)
    alpha = arb(order)
    return arb_sum(a * ((alpha - 1) * (a / b).log()).exp() for a, b in pairs).log() / (alpha - 1)


def _of_noise(base: Normal | Laplace, order: float) -> Ball:
    """Mironov (2017), Propositions 6 and 7."""
    alpha = arb(order)
    if isinstance(base, Normal):
        return alpha * ball(base.square) / 2
    theta = ball(base.theta)
    if order == 1:
        return (-theta).expm1() + theta
    moment = alpha * ((alpha - 1) * theta).exp() + (alpha - 1) * (-alpha * theta).exp()
    return (moment / (2 * alpha - 1)).log() / (alpha - 1)


def _over_nodes(law: AnyLaw, order: float) -> float:
    try:
        with np.errstate(all="ignore"):
            nodes = transform(law, order - 1, 0.0, 1.5)
            if not isinstance(nodes, Nodes):
                return 0.0
            excess, tilted = nodes.at(order - 1)
            spread = order * float(tilted @ np.abs(nodes.losses))
    except (Beyond, OverflowError, ValueError):
        return 0.0
    error = ERROR + (2e-15 * spread / excess if excess > 0 else 1.0)
    return math.log1p(excess) / (order - 1) * (1 - error) if error < ROUGH else 0.0
