"""Sums over many nodes as products of matrices, a block of nodes at a time."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from cumulant.numerics.complex_plane import Complex, sine_versine_of_multiples
from cumulant.numerics.logspace import Array

MOST_PRODUCTS = 60_000  # of one block: libraries start threads beyond, which cost more than they gain
LEAST_BLOCK = 16  # nodes


def add_products(rows: Array | Complex, columns: Array | Complex) -> Any:
    """Return Σ_k rows[i, k]·columns[j, k].

    Blocks are added up one after the other: a term is rounded as often as its block has nodes, and there are blocks.

    >>> add_products(np.array([[1.0, 2.0]]), np.array([[3.0, 4.0], [5.0, 6.0]])).tolist()
    [[11.0, 17.0]]
    """
    block = max(MOST_PRODUCTS // (len(rows) * len(columns)), LEAST_BLOCK)
    total: Any = rows[:, :block] @ columns[:, :block].T
    for first in range(block, rows.shape[1], block):
        total += rows[:, first : first + block] @ columns[:, first : first + block].T
    return total


def add_turned(losses: Array | Complex, masses: Array | Complex, eta: float, count: int) -> Complex:
    """Return Σ_k m_k e^{ijηL_k} for j < count: every j is a sum of two numbers, so this is a product of matrices.

    >>> found = add_turned(np.array([0.3, 2.0]), np.array([1.0, 4.0]), 0.5, 3)[2]
    >>> bool(abs(found - np.exp(0.3j) - 4 * np.exp(2j)) < 1e-14)
    True
    """
    short = math.isqrt(max(count - 1, 0)) + 1
    rows = np.exp(1j * (eta * short) * np.outer(np.arange(-(-count // short)), losses))
    columns = np.exp(1j * eta * np.outer(np.arange(short), losses)) * masses
    return np.asarray(add_products(rows, columns).reshape(-1)[:count])


def add_versines(losses: Array, masses: Array, eta: float, count: int) -> tuple[Array, Array]:
    """Return Σ_k m_k (1 - cos jηL_k) and Σ_k m_k sin jηL_k for j < count, each to its own relative accuracy.

    >>> even, odd = add_versines(np.array([1e-9]), np.array([2.0]), 1.0, 3)
    >>> round(float(even[2]) * 1e18, 9), round(float(odd[2]) * 1e9, 9)
    (4.0, 4.0)
    """
    short = math.isqrt(max(count - 1, 0)) + 1
    sine_a, versine_a, _ = sine_versine_of_multiples(eta * short * losses, -(-count // short))
    sine_b, versine_b, _ = sine_versine_of_multiples(eta * losses, short)
    across, up = sine_a * masses, versine_a * masses
    # V(a+b) = V(a) + V(b) - V(a)V(b) + sin a sin b, and sin(a+b) = sin a + sin b - sin a V(b) - V(a) sin b
    even = np.sum(up, axis=1)[:, None] + np.sum(versine_b * masses, axis=1)
    even += add_products(across, sine_b) - add_products(up, versine_b)
    odd = np.sum(across, axis=1)[:, None] + np.sum(sine_b * masses, axis=1)
    odd -= add_products(across, versine_b) + add_products(up, sine_b)
    return np.asarray(even.reshape(-1)[:count]), np.asarray(odd.reshape(-1)[:count])
