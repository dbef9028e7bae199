"""One of several pairs, drawn at random and told: the loss is that of the pair that was drawn."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

import numpy as np

from cumulant.errors import OutOfReach
from cumulant.numerics.decay import Cells
from cumulant.numerics.logspace import Array
from cumulant.pairs.discrete import DiscreteLosses, TiltedNodes
from cumulant.pairs.pair import DominatingPair

MOST_MIXED_NODES = 4e6  # of all parts together


@final
@dataclass(frozen=True, slots=True)
class MixedPair(DominatingPair):
    """Pairs with their probabilities, whose rest reveals nothing.

    `failure` is the probability of what reveals all, `unseen` that of pairs that are left out.
    """

    parts: tuple[tuple[float, DominatingPair], ...]
    failure: float = 0.0
    unseen: float = 0.0

    @property
    def _rest(self) -> float:
        return max(1 - math.fsum([self.failure, self.unseen, *(share for share, _ in self.parts)]), 0.0)

    @property
    def supremum(self) -> float:
        return max([0.0, *(pair.supremum for _, pair in self.parts)])

    @property
    def left_out(self) -> float:  # type: ignore[override]
        return self.unseen + sum(share * pair.left_out for share, pair in self.parts)

    def nodes(self, theta: float, omega: float) -> DiscreteLosses:
        found = [(math.log(share), pair.nodes(theta, omega)) for share, pair in self.parts]
        if sum(nodes.losses.shape[1] for _, nodes in found) > MOST_MIXED_NODES:
            raise OutOfReach(f"a mixture tilted by {theta:g} takes more than {MOST_MIXED_NODES:g} nodes")
        losses = [nodes.losses[0] for _, nodes in found]
        log_masses = [log_share + nodes.log_masses[0] for log_share, nodes in found]
        if self._rest > 0:
            losses, log_masses = [*losses, np.zeros(1)], [*log_masses, np.array([math.log(self._rest)])]
        return DiscreteLosses.of(
            np.concatenate(losses),
            np.concatenate(log_masses),
            loss_units=max(nodes.loss_units for _, nodes in found),
            missing=self.left_out + self.failure,
        )

    def nodes_at(self, theta: float, omega: float, k_theta: float) -> TiltedNodes:
        found = [pair.nodes_at(theta, omega, k_theta - math.log(share)) for share, pair in self.parts]
        return TiltedNodes.joined(found, self._rest * math.exp(-k_theta))

    def cells(self, theta: float, k_theta: float | Array) -> Cells:
        """Those of the part that weighs most, tilted: what cells leave out counts for nothing."""
        found = [pair.cells(theta, k_theta - math.log(share)) for share, pair in self.parts]
        return max(found, key=lambda cells: float(np.sum(cells.mass)))

    @property
    def has_atoms(self) -> bool:
        return True

    octaves = 2

    @property
    def components(self) -> int:  # type: ignore[override]
        return len(self.parts)

    def count_nodes(self, theta: float, omega: float) -> float:
        return sum(pair.count_nodes(theta, omega) for _, pair in self.parts)

    def waves(self, theta: float) -> float:
        return sum(pair.waves(theta) for _, pair in self.parts)

    def waves_at(self, theta: float) -> float:
        return sum(pair.waves_at(theta) for _, pair in self.parts)
