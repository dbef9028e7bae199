"""Lines of Gaussian noise whose widths share their losses, against sums in balls."""

from __future__ import annotations

import math

import numpy as np
import pytest
from flint import acb, arb, ctx

from cumulant.pairs.coordinate import CoordinatePair
from cumulant.pairs.cut_law import CutLaw
from cumulant.pairs.maps import Join, Leave
from cumulant.pairs.noise import GaussianNoise, LaplaceNoise
from cumulant.pairs.shared_line import LineAt, can_share, lines_together

CUT = 7.0, 6.0  # where, and how sharply
LINE = LineAt((4.0, 2.0, 8.0), 0.5, 128)
LOOKED_AT = 0, 1, 17, 60, 127  # points of it
PLENTY = 2e7  # sines


def pair_of(mean: float, rate: float, leaves: bool, is_cut: bool) -> CoordinatePair:
    noise = GaussianNoise(mean)
    return CoordinatePair(CutLaw(noise, *CUT) if is_cut else noise, Leave(rate) if leaves else Join(rate))


def moment(pair: CoordinatePair, mean: float, z: complex) -> acb:
    """Return E e^{zL}, by a sum of step 1/64: within |Im t| < 0.3 an integrand grows by e^40 at most."""
    rate, m = arb(pair.sampling.rate), arb(mean)
    power = acb(z) + 1 if isinstance(pair.sampling, Leave) else -acb(z)
    total = acb(0)
    for k in range(-16 * 64, 36 * 64):
        t = arb(k) / 64
        w = 1 - rate + rate * (m * t - m * m / 2).exp()
        kept = (arb(CUT[1]) * (t - arb(CUT[0]))).erfc() / 2 if isinstance(pair.law, CutLaw) else arb(1)
        total += acb((-t * t / 2).exp() * kept) * (power * w.log()).exp()
    return total / (64 * (2 * arb.pi()).sqrt())


@pytest.mark.parametrize(
    ("mean", "rate", "leaves", "is_cut"),
    [
        (0.93, 0.01, True, False),
        (0.93, 0.01, True, True),
        (0.93, 0.01, False, False),
        (0.52, 0.3, True, False),
        (0.52, 0.3, True, True),
        (2.1, 0.05, False, False),
    ],
)
def test_shared_lines_against_quadrature(mean: float, rate: float, leaves: bool, is_cut: bool) -> None:
    """K is within its error of the truth, and that error is small: a mass that is cut off counts as missing."""
    pair = pair_of(mean, rate, leaves, is_cut)
    found = lines_together([pair], LINE, PLENTY)
    assert found is not None
    ((real, imaginary, error), at_tilts) = found[0]
    with ctx.workprec(120):
        for j in LOOKED_AT:
            z = complex(LINE.tilts[0], LINE.eta * j)
            off = acb(float(real[j]), float(imaginary[j])).exp() / moment(pair, mean, z) - 1
            assert float(abs(off)) <= math.expm1(float(error[j]))
        for tau, k in zip(LINE.tilts[1:], at_tilts, strict=True):
            truth = float(moment(pair, mean, complex(tau)).real.log())
            assert k == pytest.approx(truth, rel=1e-12, abs=(1 + tau) * pair.left_out + 1e-18)
    assert np.max(error) < 1e-9 + 200 * pair.left_out * math.exp(-float(np.min(real)))


def test_pairs_of_one_band_share_their_losses_and_do_not_change_one_another() -> None:
    pairs = [pair_of(mean, 0.01, True, False) for mean in (0.93, 0.931, 0.6)]
    together = lines_together(pairs, LINE, PLENTY)
    assert together is not None
    for pair, (line, at_tilts) in zip(pairs, together, strict=True):
        alone = lines_together([pair], LINE, PLENTY)
        assert alone is not None
        assert np.array_equal(alone[0][0], line)
        assert np.array_equal(alone[0][1], at_tilts)


def test_other_pairs_do_not_share() -> None:
    laplace = CoordinatePair(LaplaceNoise(0.5), Leave(0.1))
    unsampled = CoordinatePair(GaussianNoise(0.5), Leave(1.0))
    assert not can_share(laplace)
    assert not can_share(unsampled)
    assert lines_together([pair_of(0.9, 0.01, True, False), laplace], LINE, PLENTY) is None


def test_what_is_too_long_or_beyond_doubles_is_left_to_others() -> None:
    pair = pair_of(0.9, 0.01, True, False)
    assert lines_together([pair], LineAt((4.0,), 4.0, 8192), PLENTY) is None
    assert lines_together([pair_of(40.0, 0.01, True, False)], LINE, PLENTY) is None


def test_where_a_record_joins_nothing_is_cut() -> None:
    """A cut would leave out losses of Q, which `left_out` does not bound."""
    assert can_share(pair_of(1.0, 0.1, leaves=True, is_cut=True))
    assert can_share(pair_of(1.0, 0.1, leaves=False, is_cut=False))
    assert not can_share(pair_of(1.0, 0.1, leaves=False, is_cut=True))
