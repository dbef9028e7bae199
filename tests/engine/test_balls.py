"""Sums in balls: every number they stand for lies inside, whichever way they are added."""

from __future__ import annotations

import math

import numpy as np
import pytest
from flint import acb, arb

from cumulant.numerics.balls import _transform_by_products, _transform_by_series, precision, turned_sum


@pytest.mark.parametrize("seed", range(24))
def test_transforms_enclose_the_sums(seed: int) -> None:
    """Against plain sums with three times the bits; positions of any size and sign, weights that are wide, too."""
    generator = np.random.default_rng(seed)
    bits, count = int(generator.choice([64, 128, 200])), int(generator.choice([1, 2, 3, 8, 17, 64]))
    reach, step = float(10.0 ** generator.uniform(-3, 4)), float(10.0 ** generator.uniform(-4, 2))
    positions = [float(x) for x in generator.normal(size=50) * reach]
    weights = [float(w) for w in generator.normal(size=50) * 10.0 ** generator.uniform(-9, 0, size=50)]
    radius = float(generator.choice([0.0, 1e-12]))
    with precision(3 * bits):
        exact = []
        for j in range(count):
            turned = [
                acb(w) * (acb(0, 1) * (arb(step) * j * arb(x))).exp() for x, w in zip(positions, weights, strict=True)
            ]
            exact.append(sum(turned, acb(0)))
    with precision(bits):
        places, masses = [arb(x) for x in positions], [arb(w, radius) for w in weights]
        for transform in (_transform_by_series, _transform_by_products):
            for ball, value in zip(transform(places, masses, arb(step), count), exact, strict=True):
                assert ball.contains(value)
                assert radius or float(ball.real.rad()) <= 2.0 ** (24 - bits) * (1 + reach * step * count)
        turned = [acb(w) for w in weights]
        with precision(3 * bits):
            plain = sum((w * (acb(0, -1) * arb(step) * j).exp() for j, w in enumerate(turned)), acb(0)).real
        assert turned_sum(turned, arb(step)).contains(plain)


def test_a_sum_of_one_term_is_that_term() -> None:
    assert turned_sum([acb(3)], arb(math.pi)).contains(arb(3))
