"""Laplace noise on vectors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

from cumulant.mechanisms.base import AbstractMechanism
from cumulant.mechanisms.known import Known
from cumulant.mechanisms.laplace import Laplace
from cumulant.numerics.logspace import reciprocal_up
from cumulant.pairs.atoms import Binary
from cumulant.pairs.noise import FiniteNoise, LaplaceNoise
from cumulant.parameters import by_name, noise_for_group, positive
from cumulant.profiles.profile import binary_groups


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class LaplaceVector(AbstractMechanism):
    """Add independent Laplace(0, b) noise to every coordinate of a vector, b in units of its L1 sensitivity.

    A neighbour moves the coordinates by θ_i/b with Σ θ_i <= θ = 1/b, and K is Σ_i K(θ_i), K(θ) that of `Laplace`. K is
    convex in θ and K(0) = 0, so the sum is largest where one coordinate takes all (Zhu and Wang 2019, Remark 19,
    for moments). The pair of one coordinate is not known to dominate the others at every ratio: what does, is that of
    θ-DP.

    Holds for:  vectors of any dimension; `Laplace` for a single number, which is tighter.
    Tightness:  Rényi DP is exact, and so is θ; ε at δ > 0 is between one coordinate and θ-DP.

    >>> round((LaplaceVector(scale=2.0) * 10).epsilon(delta=1e-5, method="rdp"), 4)
    4.9902
    """

    theorem: ClassVar[str] = "RDP of the Laplace mechanism, coordinate by coordinate (Mironov 2017, Proposition 6)"

    scale: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", positive("scale", self.scale))

    def _known(self) -> Known:
        theta = reciprocal_up(self.scale)
        return Known.by_noise(
            FiniteNoise(Binary(theta)),
            curve=Laplace(scale=self.scale)._curve,
            attained=LaplaceNoise(theta, self.scale),
            groups=binary_groups(theta),
            tight=lambda relation: False,
            sharper_curve=True,
        )

    @by_name
    def group(self, *, size: int) -> LaplaceVector:
        """The sensitivity of a group is `size` times that of one (triangle inequality)."""
        return LaplaceVector(scale=noise_for_group("scale", self.scale, size))
