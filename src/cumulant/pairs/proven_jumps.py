"""How far the moments of jumps have fallen at high frequencies, in balls: see `cumulant.inversion.ball_jumps`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cumulant.numerics.balls import as_ball, log_sum_ball
from cumulant.pairs.band_law import BandLaw
from cumulant.pairs.coordinate import CoordinatePair
from cumulant.pairs.proven_rule import Moment, log_integral, whole_span

if TYPE_CHECKING:
    from flint import arb

NEAR = 6.0  # over the sharpness, before the near cut


def bound_jumps(jumps: CoordinatePair, theta: arb, omega: arb, y: arb, likely: float) -> arb:
    """Return a bound of |J(θ+iω')| for all ω' >= ω, J = E_P[(χ_f - χ_q) e^{zL}].

    Moved to Im t = y, where 0 < μy < π/2,

        |J(θ+iω)| <= ∫ |φ(χ_f - χ_q)| w(t)^{1+θ} e^{-ω·arg w(t+iy)} dt,   tan arg w = s sin μy/(1 - s + s cos μy),

    as |w(t+iy)| <= w(t), s = γe^u/w. That falls with ω, and arg w grows with s, so with t.

    Holds for:  Gaussian noise in a Poisson sample when a record leaves; `likely` says when it is good enough.
    Tightness:  a few nats above the integral, of which jumps near the first cut are what is left.
    """
    law, branch, nothing = jumps.law, jumps.branches[0], as_ball(0.0)
    assert isinstance(law, BandLaw)
    sampling = branch.factors[0][1]
    sine, cosine = (law.slope_ball(nothing) * y).sin_cos()
    assert cosine > 0

    def log_bound(low: arb, high: arb) -> arb:
        share = sampling.share_ball(law.ratio_ball(low))
        turned = (share * sine / (1 - share + share * cosine)).atan()
        power = (1 + theta) * sampling.value_ball(law.ratio_ball(high))
        return law.log_density_bound(low, high, y) + power - omega * turned

    first, last = whole_span(branch, float(theta))
    edges = [first, *sorted({max(law.near.at - NEAR / law.near.sharpness, first + 1), law.near.at, law.far.at}), last]
    inner = log_integral(log_bound, edges, likely)[0]
    # beyond the outermost rectangles jumps count as if they did not turn
    tails = Moment(branch, theta, nothing, nothing).log_tails(as_ball(first), as_ball(last), y)
    return log_sum_ball([inner, tails]).exp()
