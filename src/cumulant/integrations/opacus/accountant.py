"""An accountant for Opacus, whose ε is exact.

Opacus and its tools read and write `history`, the list of (noise multiplier, sample rate, steps), so everything is
derived from it, as it is when it is asked about. What it does not say, how batches were drawn, is looked at where
Opacus attaches it to an optimizer.

Opacus divides sums by int(len(dataset) * rate), samples with 1/len(loader) and takes len(loader) steps an epoch. All
three follow from the number of records, so what holds is zero-out, where that number is public (`Neighbors.joins`).
"""

from __future__ import annotations

import math
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, final

import torch
from opacus.accountants import IAccountant, register_accountant
from opacus.optimizers import AdaClipDPOptimizer

import cumulant as cm
from cumulant import parameters
from cumulant.accountant import agreed_budget
from cumulant.integrations.opacus.epochs import UNKNOWN, Epoch, Epochs
from cumulant.integrations.opacus.loaders import Drawn, drawn_by
from cumulant.mechanisms.base import AbstractMechanism
from cumulant.neighbors import Neighbors
from cumulant.parameters import require
from cumulant.printed import given
from cumulant.sampling.once_per_epoch import OncePerEpoch
from cumulant.training import torch_coin

Row = tuple[float, float, int]
"""A noise multiplier, a sample rate, and how many steps had both."""

Loader = Literal["poisson", "random_allocation", "shuffled"]
"""How batches are drawn."""

DRAWN: Mapping[str, Drawn] = {
    "poisson": "poisson",
    "random_allocation": "random allocation",
    "shuffled": "counted epochs",
}
"""What is seen of a loader that draws so."""

MECHANISM = "cumulant"  # the name in Opacus and in its checkpoints
OTHERS = ("prv", "rdp", "gdp")  # accountants of Opacus, whose checkpoints hold the same history

OTHERWISE_DRAWN = (
    "these batches are not drawn as is accounted for, and Opacus' history would be read as if they were; use "
    'cumulant.integrations.opacus.PrivacyEngine: with sampling="poisson" or "random_allocation" it draws them, with '
    'sampling="shuffled" it keeps the loader and counts every epoch'
)

ADAPTIVE = (
    "adaptive clipping divides the noisy count of unclipped gradients by the true size of the batch, which is private, "
    'so no theorem covers it as it is implemented; use clipping="flat" or "per_layer"'
)

PRIVATE_SIZE = (
    "what Opacus divides sums by, its rate and its number of steps follow from the number of records, which is private "
    "under add-or-remove-one; use cumulant.integrations.opacus.PrivacyEngine(public_size=...), or cumulant.ZERO_OUT"
)
Charge = Callable[[AbstractMechanism, int], None]
"""What is told a release and how often, before it is recorded."""


def register() -> None:
    """Let `opacus.PrivacyEngine(accountant="cumulant")`, and Opacus' search for noise, take this accountant."""
    register_accountant(MECHANISM, CumulantAccountant, force=True)


@final
class CumulantAccountant(IAccountant):  # type: ignore[misc]
    """What training has spent, exactly, and no step beyond a budget.

    Give epsilon and delta to make them a budget: the step that would exceed it raises `BudgetExceeded`, and the weights
    stay as they are. `sampling="random_allocation"` and "shuffled" count epochs that the engine's loader has begun; the
    second without amplification.

    Batches that are drawn have neighbors=cumulant.ZERO_OUT, which is what training with Opacus keeps; with
    cumulant.ADD_REMOVE divisor, rate and steps are stated to be public numbers. Shuffled ones have
    cumulant.REPLACE_ONE.
    """

    def __init__(
        self,
        *,
        epsilon: float | None = None,
        delta: float | None = None,
        sampling: Loader = "poisson",
        neighbors: Neighbors | None = None,
        charge: Charge | None = None,
    ) -> None:
        require(sampling in list(DRAWN), f"sampling must be {' or '.join(map(repr, DRAWN))}", sampling)
        self.sampling = sampling
        self.neighbors = _relation(sampling, neighbors)
        self._budget = cm.Accountant(epsilon=epsilon, delta=delta).budget
        self._left: tuple[Any, float] | None = None
        self.charge = charge
        self.epochs = Epochs()
        self._epochs_charged: Counter[Epoch] = Counter()
        self.history = []

    @property
    def history(self) -> list[Row]:
        """What Opacus keeps: (noise multiplier, sample rate, steps), one row for equal steps.

        The list itself, as in Opacus: what is changed in it counts from the next question on.
        """
        return self._history

    @history.setter
    def history(self, rows: Iterable[Any]) -> None:
        """Take over a copy; numbers may be tensors, and counts floats."""
        self._history = [_row(row) for row in rows]

    @property
    def budget(self) -> tuple[float, float] | None:
        """The (ε, δ) that no step exceeds; assign another pair, or None."""
        return self._budget

    @budget.setter
    def budget(self, pair: tuple[float, float] | None) -> None:
        epsilon, delta = (None, None) if pair is None else pair
        self._budget = cm.Accountant(epsilon=epsilon, delta=delta).budget

    # What Opacus asks ----------------------------------------------------------------------------

    def step(self, *, noise_multiplier: float, sample_rate: float) -> None:
        """Record one step, unless it would exceed the budget."""
        sigma, rate, _ = _row((noise_multiplier, sample_rate, 1))
        if self.sampling != "poisson" and self.epochs_begun == 0:
            raise cm.UnprovenCombination("a step before any epoch was begun: train with the loader of make_private")
        left = self._steps_left(sigma, rate)
        if left < 1:
            epsilon, delta = self.budget or (math.inf, 0.0)
            raise cm.BudgetExceeded(
                f"one more step would take epsilon over the budget of {given(epsilon)} at delta={given(delta)}, after "
                f"{len(self)} steps; it was not taken"
            )
        self._charge_one(sigma, rate)
        _append(self._history, sigma, rate)
        self.epochs.step()
        self._left = self._asked(sigma, rate), left - 1

    def get_epsilon(self, delta: float, *args: Any, method: str = "best", **others: Any) -> float:
        """Return ε at δ of all steps so far, rounded up. What other accountants take is ignored."""
        if any(sigma == 0 and rate > 0 for sigma, rate, _ in self._rows()):
            return math.inf
        return float(self.run.epsilon(delta=float(delta), method=method))  # type: ignore[arg-type]

    def __len__(self) -> int:
        """The number of steps, as the interface says; Opacus' own accountants return the number of rows."""
        return sum(count for _, _, count in self._rows())

    @classmethod
    def mechanism(cls) -> str:
        return MECHANISM

    def get_optimizer_hook_fn(self, sample_rate: float) -> Callable[[Any], None]:
        """Return the hook for an optimizer's step, after a look at the loader that Opacus attaches it with.

        Whoever attaches it without Opacus' engine states with the rate that batches are Poisson samples of it.
        """
        caller = sys._getframe(1)
        if caller.f_globals.get("__name__") == "opacus.privacy_engine":
            self._check_loader(caller.f_locals.get("data_loader"))
            if self.neighbors is cm.ADD_REMOVE and getattr(caller.f_locals.get("self"), "public_size", None) is None:
                raise cm.UnprovenCombination(PRIVATE_SIZE)

        def hook(optimizer: Any) -> None:
            batches = optimizer.accumulated_iterations
            self._check_step(optimizer, batches)
            self.step(noise_multiplier=optimizer.noise_multiplier, sample_rate=min(sample_rate * batches, 1.0))

        return hook

    def _check_step(self, optimizer: Any, batches: int) -> None:
        """Refuse, before the weights change, what an optimizer did that no theorem here covers."""
        if isinstance(optimizer, AdaClipDPOptimizer) or hasattr(optimizer, "_adjusted_noise_multiplier"):
            raise cm.UnprovenCombination(ADAPTIVE)
        if batches > 1 and self.sampling != "shuffled":
            raise cm.UnprovenCombination(
                f"gradients of {batches} batches were accumulated in one step: a record may be in several of them; "
                "draw larger batches, and split them with BatchMemoryManager"
            )
        if batches > 1:
            self.epochs.check_accumulated()

    def _check_loader(self, loader: Any) -> None:
        if self.sampling == "poisson" and torch.get_default_dtype() not in (torch.float32, torch.float64):
            raise cm.UnprovenCombination(
                f"coins of type {torch.get_default_dtype()} are coarser than those accounted for; draw batches with "
                "torch.set_default_dtype(torch.float32)"
            )
        drawn = drawn_by(loader)
        if drawn == "poisson without empty batches":
            raise cm.UnprovenCombination(
                "the distributed sampler of Opacus leaves out empty batches, so that the number of steps depends on "
                "the data; cumulant.integrations.opacus.PrivacyEngine keeps them"
            )
        if drawn != DRAWN[self.sampling]:
            raise cm.UnprovenCombination(OTHERWISE_DRAWN)

    def state_dict(self, destination: Any = None) -> Any:
        """Return the history, and beside it the sampling, the epochs and the budget: numbers, text and lists."""
        state = super().state_dict(destination)
        state[MECHANISM] = {
            "sampling": self.sampling,
            "neighbors": self.neighbors.name,
            "epochs_begun": self.epochs.paid.total(),
            "epochs": [[epoch.batches, count, epoch.is_anew] for epoch, count in self.epochs.paid.items()],
            "budget": None if self.budget is None else list(self.budget),
        }
        return state

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take over a copy of a state, also of Opacus' own accountants, which are about Poisson sampling.

        The budget of the state becomes the accountant's; one that was given here must be the same.
        """
        if not state_dict or "history" not in state_dict or "mechanism" not in state_dict:
            raise cm.InvalidParameter("a state needs the keys 'history' and 'mechanism', as Opacus writes them")
        known = state_dict["mechanism"]
        require(known in (MECHANISM, *OTHERS), f"the state must be of {', '.join((MECHANISM, *OTHERS))}", known)
        ours = state_dict.get(MECHANISM, {"sampling": "poisson", "epochs_begun": 0, "budget": None})
        rows = [_row(row) for row in state_dict["history"]]
        if ours["sampling"] != self.sampling:
            raise cm.InvalidParameter(
                f"the state is of {ours['sampling']} batches, this accountant of {self.sampling} ones; they protect "
                "different things and do not add"
            )
        stated = ours.get("neighbors", _relation(self.sampling, None).name)
        if stated != self.neighbors.name:
            raise cm.InvalidParameter(
                f"the state is about {stated}, this accountant about {self.neighbors.name}; they protect different "
                "things and do not add"
            )
        stated_budget = None if ours["budget"] is None else (float(ours["budget"][0]), float(ours["budget"][1]))
        budget = agreed_budget(self.budget, stated_budget)
        if known != MECHANISM:
            warnings.warn(
                f"a checkpoint of {known!r} does not say how its batches were drawn; they are read as Poisson samples",
                stacklevel=2,
            )
        self.history = rows
        self.epochs.begun = Epochs(ours.get("epochs", [(UNKNOWN, ours["epochs_begun"], False)])).begun
        self.epochs.step()
        self._epochs_charged = self.epochs.paid.copy()
        self.budget = budget

    # What it knows beside ------------------------------------------------------------------------

    @property
    def epochs_begun(self) -> int:
        """How many epochs a loader that is counted has begun."""
        return self.epochs.begun.total()

    @property
    def run(self) -> cm.Composed:
        """Everything so far as one mechanism."""
        if self.sampling != "poisson":
            noise = min((sigma for sigma, _, _ in self._rows()), default=None)
            return cm.Composed(()) if noise is None else self._epochs_at(noise, self.epochs.paid)
        return cm.Composed.of((self.release(sigma, rate), n) for sigma, rate, n in self._rows() if rate > 0)

    def _rows(self) -> list[Row]:
        """Return the history as it is now, checked: anybody may have changed it."""
        return [_row(row) for row in self._history]

    def release(self, noise_multiplier: float, sample_rate: float) -> AbstractMechanism:
        """Return what one step releases; where every record takes part once in an epoch what one epoch does."""
        if self.sampling != "poisson":
            return self.epoch(noise_multiplier, Epoch(round(1 / sample_rate)))
        gaussian = cm.Gaussian(noise_multiplier=noise_multiplier)
        return gaussian.poisson(rate=torch_coin(sample_rate), neighbors=self.neighbors)

    def epoch(self, noise_multiplier: float, epoch: Epoch) -> AbstractMechanism:
        """Return what one epoch releases in which every record takes part once; its order has a lower end, or none."""
        gaussian = cm.Gaussian(noise_multiplier=noise_multiplier)
        if self.sampling == "random_allocation":
            return gaussian.random_allocation(steps=epoch.batches, neighbors=self.neighbors)
        if epoch.is_anew:
            return gaussian.shuffled(batches=epoch.batches, neighbors=self.neighbors)
        return OncePerEpoch(mechanism=cm.Gaussian(noise_multiplier=noise_multiplier / 2))

    def _epochs_at(self, sigma: float, epochs: Counter[Epoch]) -> cm.Composed:
        """Return epochs, all with the smallest noise of the run: nothing says in which step a record takes part.

        Where steps took several batches there were fewer of them, and no lower end is claimed.
        """
        unknown = self.epochs.accumulated
        return cm.Composed.of(
            (self.epoch(sigma, Epoch(epoch.batches) if unknown else epoch), count) for epoch, count in epochs.items()
        )

    def keep_the_loader(self) -> None:
        """Account for the batches of a loader that is kept, as long as no others were accounted for."""
        if len(self) > 0 or self.sampling != "poisson" or self.neighbors is cm.ADD_REMOVE:
            raise cm.UnprovenCombination(OTHERWISE_DRAWN)
        self.sampling, self.neighbors = "shuffled", cm.REPLACE_ONE

    def _charge_one(self, sigma: float, rate: float) -> None:
        """Tell what a step releases: where epochs are paid for those that were begun since the last one."""
        if self.charge is None:
            return
        if self.sampling == "poisson":
            self.charge(self.release(sigma, rate), 1)
            return
        if any(sigma < earlier for earlier, _, _ in self._rows()):
            raise cm.UnprovenCombination("noise that falls makes epochs dearer that were charged already")
        for epoch, count in (self.epochs.begun - self._epochs_charged).items():
            self.charge(self.epoch(sigma, epoch), count)
        self._epochs_charged = self.epochs.begun.copy()

    def _steps_left(self, sigma: float, rate: float) -> float:
        """Return how many more such steps the budget allows; known after a step, while nothing else changes."""
        if self.budget is None:
            return math.inf
        if self._left is not None and self._left[0] == self._asked(sigma, rate):
            return self._left[1]
        if sigma == 0 or not math.isfinite(self.get_epsilon(self.budget[1])):
            return 0
        epsilon, delta = self.budget
        if self.sampling != "poisson":  # an epoch that has begun is paid as a whole
            whole = self._epochs_at(min([sigma, *(s for s, _, _ in self._rows())]), self.epochs.begun)
            return sys.maxsize if whole.epsilon(delta=delta) <= epsilon else 0
        try:
            return cm.max_count(self.release(sigma, rate), spent=self.run, epsilon=epsilon, delta=delta)
        except cm.BudgetExceeded:
            return 0

    def _asked(self, sigma: float, rate: float) -> Any:
        """Return all that the number of steps that are left depends on."""
        return sigma, rate, self.budget, self.epochs_begun, list(self._history)


def _relation(sampling: Loader, neighbors: Any) -> Neighbors:
    """Return the relation of a way to draw batches, or the one that is stated of it."""
    own = (cm.REPLACE_ONE,) if sampling == "shuffled" else (cm.ZERO_OUT, cm.ADD_REMOVE)
    require(
        neighbors is None or neighbors in own,
        f"neighbors of {sampling} batches must be {' or '.join(map(repr, own))}",
        neighbors,
    )
    return own[0] if neighbors is None else neighbors


def _row(row: Any) -> Row:
    """Return a row of plain numbers, checked."""
    try:
        sigma, rate, count = (float(value) for value in row)
    except (TypeError, ValueError):
        raise cm.InvalidParameter(f"a row must be (noise multiplier, sample rate, steps), got {row!r}") from None
    parameters.nonnegative("noise_multiplier", sigma)
    require(
        0 <= rate <= 1,
        "sample_rate must be between 0 and 1; above, one step had the gradients of several batches",
        rate,
    )
    require(count.is_integer(), "steps must be a whole number", row[2])
    return sigma, rate, parameters.count(int(count))


def _append(history: list[Row], sigma: float, rate: float) -> None:
    """Add one step, to the last row if that has both its numbers."""
    last = _row(history[-1]) if history else None
    if last is not None and last[:2] == (sigma, rate):
        history[-1] = (sigma, rate, last[2] + 1)
    else:
        history.append((sigma, rate, 1))
