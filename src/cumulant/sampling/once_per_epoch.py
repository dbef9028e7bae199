"""Epochs in which every record takes part once: what a loader does that walks through the data in batches."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, final

from cumulant.errors import UnprovenCombination
from cumulant.mechanisms.base import AbstractMechanism
from cumulant.mechanisms.gaussian import Gaussian
from cumulant.mechanisms.known import Known
from cumulant.neighbors import NAMED, REPLACE_ONE, ZERO_OUT, Neighbors
from cumulant.parameters import by_name, require


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class OncePerEpoch(AbstractMechanism):
    """One epoch of noisy sums of batches in which every record is in one batch, or in none.

    Tell the batches of everyone: then one batch changes with a record, and the others, being about other records with
    fresh noise, tell nothing of it. So an epoch of any number of steps reveals no more than one of them, `mechanism`,
    on everyone. That the order was random is not used: there is no amplification in this bound.

    Holds for:  replace-one, batches of an order that does not look at the records (shuffled or not), half the noise
                multiplier for a sum of clipped vectors; add-or-remove-one, if every record chooses its batch by itself.
                Sums that are divided by a fixed number. Adaptive composition, within an epoch and over epochs.
    Tightness:  attained by an order that is known; above the truth for one that is secret and random, how far is open.

    >>> epoch = OncePerEpoch(mechanism=Gaussian(noise_multiplier=0.5))
    >>> epoch.epsilon(delta=1e-5) == Gaussian(noise_multiplier=0.5).epsilon(delta=1e-5)
    True
    """

    theorem: ClassVar[str] = "every record takes part in one step of an epoch (parallel composition, McSherry 2009)"

    mechanism: Gaussian
    relation: Neighbors = REPLACE_ONE

    def __post_init__(self) -> None:
        require(isinstance(self.mechanism, Gaussian), "mechanism must be a Gaussian", self.mechanism)
        require(isinstance(self.relation, Neighbors), f"relation must be {NAMED}", self.relation)
        if self.relation is ZERO_OUT:
            raise UnprovenCombination(
                "epochs in which every record takes part once have no theorem here for zero-out; ask for "
                "cumulant.REPLACE_ONE, which covers it where the number of records is public"
            )

    @property
    def neighbors(self) -> Neighbors:
        return self.relation

    def _known(self) -> Known:
        """The pair dominates, and nothing says that some neighbours attain it; a sample of epochs has no meaning."""
        step = self.mechanism._known()
        return replace(
            step,
            directions=lambda _: step.directions(self.relation),
            attained=lambda _: None,
            tight=lambda _: False,
            noise=None,
            attained_noise=None,
            groups=None,
            least_rdp=None,
            self_consistent=False,
            fixed_size=self.relation is REPLACE_ONE,
        )

    @by_name
    def group(self, *, size: int) -> OncePerEpoch:
        """Records of a group move one batch most if all are in it; spread over several they move each by less."""
        return OncePerEpoch(mechanism=self.mechanism.group(size=size), relation=self.relation)
