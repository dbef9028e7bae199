"""Opacus' engine, seeing how batches are drawn: what it cannot prove is refused before training.

And what a training run takes of a ledger, if one pays for it.
"""

from __future__ import annotations

import uuid
import warnings
from collections import Counter
from typing import TYPE_CHECKING, Any, Literal, final

import opacus
import torch
from opacus.utils.fast_gradient_clipping_utils import DPLossFastGradientClipping

import cumulant as cm
from cumulant.integrations.opacus.accountant import (
    ADAPTIVE,
    MECHANISM,
    Charge,
    CumulantAccountant,
    Loader,
    register,
)
from cumulant.integrations.opacus.epochs import Epoch
from cumulant.integrations.opacus.loaders import (
    AllocatedBatches,
    KeepsEmptyBatches,
    PoissonBatches,
    counted,
    draw_with,
    drawn_by,
    refuse_repeats,
    shuffles_anew,
    tell_what_is_not_used,
    with_batch_sampler,
)
from cumulant.mechanisms.base import AbstractMechanism
from cumulant.parameters import require, whole_number
from cumulant.printed import rounded_up

if TYPE_CHECKING:
    from cumulant.ledger import Hold, Ledger
    from cumulant.ledger.values import Receipt


KEPT_LOADER = (
    "poisson_sampling=False keeps the loader, and it is accounted for as it is: every epoch it begins is paid without "
    "amplification, and the promise is about replacing a record; "
    'PrivacyEngine(sampling="random_allocation") uses every record once in an epoch, too, and costs far less'
)


@final
class PrivacyEngine(opacus.PrivacyEngine):  # type: ignore[misc]
    """`opacus.PrivacyEngine` with an exact accountant that keeps a budget.

    epsilon, delta:  the budget; the step that would exceed it raises `BudgetExceeded` and changes nothing.
    sampling:        "poisson", as Opacus draws by default; "random_allocation" to draw anew in every epoch one of its
                     batches for every record, which costs less and uses all records; or "shuffled" to keep the loader
                     that is given, as poisson_sampling=False does, which must use every record at most once in an
                     epoch: then every epoch begun is paid without amplification, and the promise is about replacing a
                     record.
    public_size:     a public number of records, such as one that was published, or rounded: rate, steps and divisor
                     then follow from it and not from the data, whose true number may be any, and the promise is about
                     adding or removing a record. Without it the number of records is public, and the promise is that
                     of zero-out: about a record that is replaced by one that adds nothing.

    ledger, account: of a `cumulant.Ledger`, which pays: a run with a target ε is reserved as a whole before its first
                     step, and `settle` gives back what was not taken; other runs spend every step. `key` names the run.
    charge:          called before a step is recorded with what it releases and how often, in one process of several;
                     what it raises stops the step.
    """

    def __init__(
        self,
        *,
        accountant: str = MECHANISM,
        secure_mode: bool = False,
        epsilon: float | None = None,
        delta: float | None = None,
        sampling: Loader = "poisson",
        public_size: int | None = None,
        ledger: Ledger | None = None,
        account: str | None = None,
        key: str | None = None,
        charge: Charge | None = None,
    ) -> None:
        require(
            accountant == MECHANISM, f"accountant must be {MECHANISM!r}; Opacus' own engine takes others", accountant
        )
        require((ledger is None) == (account is None), "a ledger and one of its accounts go together", account)
        require(ledger is None or charge is None, "give a ledger or a charge, not both", charge)
        self.paid_run = PaidRun(ledger, account, key) if ledger is not None and account is not None else None
        charge = self.paid_run.charge if self.paid_run is not None else charge
        once = charge if _is_first_process() else None
        self.public_size = None if public_size is None else whole_number("public_size", public_size, at_least=1)
        require(
            public_size is None or sampling != "shuffled",
            "public_size is for batches that are drawn: replacing a record keeps their number",
            public_size,
        )
        self._divisor: int | None = None  # of sums, known once a loader is
        relation = None if public_size is None else cm.ADD_REMOVE
        kept = CumulantAccountant(  # before Opacus warns
            epsilon=epsilon, delta=delta, sampling=sampling, neighbors=relation, charge=once
        )
        register()
        super().__init__(accountant=MECHANISM, secure_mode=secure_mode)
        self.accountant = kept
        self.planned: cm.Composed | None = None

    def make_private(  # the signature of Opacus, with sampling from the engine
        self,
        *,
        poisson_sampling: bool | None = None,
        clipping: str = "flat",
        rand_on_empty: bool = False,
        grad_sample_mode: str = "hooks",
        **others: Any,
    ) -> Any:
        """Make training private as `opacus.PrivacyEngine.make_private` does; refuse what no theorem covers."""
        if clipping == "adaptive":
            raise cm.UnprovenCombination(ADAPTIVE)
        self._agree(poisson_sampling)
        made = super().make_private(
            poisson_sampling=self.accountant.sampling != "shuffled",  # others draw, and forbid to accumulate
            clipping=clipping,
            rand_on_empty=rand_on_empty,
            grad_sample_mode=grad_sample_mode,
            **others,
        )
        if "ghost" in grad_sample_mode:
            _refuse_accumulation(*made[:2])
        self.accountant.epochs.watch(made[1])
        return made

    def _agree(self, poisson_sampling: bool | None) -> None:
        """Keep the loader if that is asked for; refuse what contradicts the sampling of the engine."""
        sampling = self.accountant.sampling
        if poisson_sampling is None or poisson_sampling == {"poisson": True, "shuffled": False}.get(sampling):
            return
        if sampling != "poisson":
            raise cm.UnprovenCombination(
                f"poisson_sampling={poisson_sampling} contradicts PrivacyEngine(sampling={sampling!r})"
            )
        self.accountant.keep_the_loader()
        warnings.warn(KEPT_LOADER, stacklevel=3)

    def make_private_with_epsilon(
        self,
        *,
        data_loader: Any,
        target_epsilon: float,
        target_delta: float,
        epochs: int,
        poisson_sampling: bool | None = None,
        **others: Any,
    ) -> Any:
        """Make training private with the least noise for which everything so far and these epochs stay within ε at δ.

        The target becomes the budget of the accountant, unless it has one already.
        """
        self._agree(poisson_sampling)
        noise = self.noise_for(data_loader, epsilon=target_epsilon, delta=target_delta, epochs=epochs)
        if self.paid_run is not None and _is_first_process():
            self.paid_run.plan(self._more(data_loader, noise, epochs))  # refused before anything is made private
        made = self.make_private(data_loader=data_loader, noise_multiplier=noise, **others)
        self.planned = self._whole(data_loader, noise, epochs)
        if self.accountant.budget is None:
            self.accountant.budget = float(target_epsilon), float(target_delta)
        return made

    def noise_for(self, data_loader: Any, *, epsilon: float, delta: float, epochs: int) -> float:
        """Return the least noise multiplier, to 1e-9 relative, for epochs of a loader after everything so far."""
        return cm.calibrate(lambda noise: self._whole(data_loader, noise, epochs), epsilon=epsilon, delta=delta)

    def _whole(self, loader: Any, noise: float, epochs: int) -> cm.Composed:
        """Return everything so far and a number of epochs more."""
        return self.accountant.run + self._more(loader, noise, epochs)

    def _more(self, loader: Any, noise: float, epochs: int) -> cm.Composed:
        """Return a number of epochs, with the coin and the steps of Opacus' loader."""
        whole_number("epochs", epochs)
        batches = self._batches(loader)
        if self.accountant.sampling != "poisson":
            is_anew = self.accountant.sampling == "random_allocation" or shuffles_anew(loader.batch_sampler)
            return self.accountant.epoch(noise, Epoch(batches, is_anew)) * epochs
        batches = int(1 / (1 / batches))  # as the sampler counts
        return self.accountant.release(noise, 1 / batches) * (epochs * batches)

    def settle(self) -> Receipt | None:
        """Give back to the ledger what was reserved and not taken; None in processes that do not write."""
        require(self.paid_run is not None, "settle needs PrivacyEngine(ledger=..., account=...)", None)
        return self.paid_run.settle() if self.paid_run is not None and _is_first_process() else None

    def statement(
        self,
        *,
        delta: float,
        format: Literal["text", "markdown", "json"] = "text",  # noqa: A002 - the word that people look for
        user_records: int = 1,
    ) -> str:
        """Return in words what training promises: the run that was planned, or what was spent if that is more.

        A run that stops early, at a moment that may depend on the data, still has the promise of the plan.
        """
        spent, planned = self.accountant.run, self.planned
        more = planned is None or spent.epsilon(delta=delta) > planned.epsilon(delta=delta)
        run = spent if more or planned is None else planned
        return run.statement(delta=delta, format=format, user_records=user_records)

    def _prepare_data_loader(self, data_loader: Any, *, poisson_sampling: bool, **others: Any) -> Any:
        """Prepare the loader as Opacus does: with public numbers, with empty batches, with epochs that are counted."""
        epochs, batches = self.accountant.epochs, self._batches(data_loader)
        if not poisson_sampling:
            refuse_repeats(data_loader)
            kept = super()._prepare_data_loader(data_loader, poisson_sampling=False, **others)
            return with_batch_sampler(kept, counted(kept.batch_sampler, epochs))
        allocated = self.accountant.sampling == "random_allocation"
        every = f"every one of all {len(data_loader.dataset)} records"
        tell_what_is_not_used(
            data_loader,
            f"{every} draws one of {batches} batches in each epoch"
            if allocated
            else f"batches are Poisson samples, which {every} joins with probability {rounded_up(1 / batches)}",
        )
        loader = super()._prepare_data_loader(data_loader, poisson_sampling=True, **others)
        if self.public_size is not None:
            self._divisor = self.public_size // batches
        if allocated:
            return with_batch_sampler(loader, counted(self._allocated(loader, batches), epochs))
        if self.public_size is not None:
            draw_with(loader, 1 / batches)
        if drawn_by(loader) == "poisson without empty batches":
            return with_batch_sampler(loader, KeepsEmptyBatches.of(loader.batch_sampler, epochs))
        PoissonBatches.watch(loader.batch_sampler, epochs)
        return loader

    def _allocated(self, loader: Any, batches: int) -> AllocatedBatches:
        """Return batches that records draw, by the generator of Opacus' loader: the secure one in secure mode."""
        process, processes = 0, 1
        if loader.distributed:
            process, processes = torch.distributed.get_rank(), torch.distributed.get_world_size()
        return AllocatedBatches(
            records=len(loader.dataset),
            batches=batches,
            generator=loader.batch_sampler.generator,
            process=process,
            processes=processes,
        )

    def _prepare_criterion(
        self, *, module: Any, optimizer: Any, criterion: Any, loss_reduction: str = "mean", **_: Any
    ) -> Any:
        """Prepare the criterion as Opacus does, for losses that its clipping is for."""
        return LossOfRecords(module, optimizer, criterion, loss_reduction)

    def _batches(self, loader: Any) -> int:
        """Return how many batches an epoch of a loader has, of as many records as are public."""
        if self.public_size is None:
            return len(loader)
        if loader.batch_size is None:
            raise cm.UnprovenCombination(
                "what a batch sampler draws follows from the records; with public_size give the DataLoader a batch_size"
            )
        whole, rest = divmod(self.public_size, loader.batch_size)
        return int(max(whole + (rest > 0 and not loader.drop_last), 1))

    def _prepare_optimizer(self, *, expected_batch_size: float, distributed: bool = False, **others: Any) -> Any:
        """Prepare the optimizer as Opacus does, dividing sums by a public number if there is one."""
        if self._divisor is not None:
            processes = torch.distributed.get_world_size() if distributed else 1
            expected_batch_size = self._divisor / processes
        return super()._prepare_optimizer(expected_batch_size=expected_batch_size, distributed=distributed, **others)


@final
class LossOfRecords(DPLossFastGradientClipping):  # type: ignore[misc]
    """Opacus' loss for ghost clipping, of one number for every record.

    Opacus multiplies it by the factors that clip, which are one number for every record. Of a loss with more dimensions
    every factor meets every record, and nothing is clipped.
    """

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        loss = super().__call__(*arguments, **named)
        if loss.loss_per_sample.dim() != 1:
            raise cm.UnprovenCombination(
                f"with ghost clipping a loss must be one number for every record, this one has the shape "
                f"{tuple(loss.loss_per_sample.shape)}: Opacus would multiply every record by the factors of all, and "
                "clip none; flatten what the criterion gets"
            )
        return loss


def _is_first_process() -> bool:
    return not torch.distributed.is_initialized() or torch.distributed.get_rank() == 0


def _refuse_accumulation(module: Any, optimizer: Any) -> None:
    """Refuse steps of several batches with ghost clipping, whose optimizer always says that it was one.

    Every backward pass of a batch asks the module for its clipping factors once, and every batch, or part of one that
    BatchMemoryManager has split, ends in one call of the optimizer.
    """
    factors, take, pending = module.get_clipping_coef, optimizer.pre_step, [0]

    def get_clipping_coef(*arguments: Any, **named: Any) -> Any:
        pending[0] += 1
        return factors(*arguments, **named)

    def pre_step(*arguments: Any, **named: Any) -> Any:
        several, pending[0] = pending[0] > 1, 0
        if several:
            raise cm.UnprovenCombination(
                "gradients of several batches were accumulated in one step with ghost clipping: a record may be in "
                "several of them, and no theorem here covers that; draw larger batches, and split them with "
                "BatchMemoryManager"
            )
        return take(*arguments, **named)

    module.get_clipping_coef, optimizer.pre_step = get_clipping_coef, pre_step


@final
class PaidRun:
    """What one training run takes of an account.

    `plan` reserves all its steps before the first one, so a refusal comes before days of training; `settle` gives back
    those that were not taken. A run without a plan spends every step by itself.
    """

    def __init__(self, ledger: Ledger, account: str, key: str | None = None) -> None:
        self.key = f"training-{uuid.uuid4().hex}" if key is None else key
        self._ledger, self._account = ledger, account
        self._hold: Hold | None = None
        self._left: Counter[AbstractMechanism] = Counter()
        self._taken: Counter[AbstractMechanism] = Counter()

    def plan(self, run: AbstractMechanism) -> None:
        """Reserve a run, and mark it as started."""
        from cumulant.ledger.training import reserve_run

        self._hold = reserve_run(self._ledger, self._account, run, key=self.key, label="training")
        self._left = Counter(dict(run.releases()))

    def charge(self, release: AbstractMechanism, count: int) -> None:
        """Pay for a step before it is recorded; what is refused leaves everything as it was."""
        if self._hold is None:
            number = self._taken.total() + count
            self._ledger.spend(self._account, release * count, key=f"{self.key} step-{number}", label="training step")
        elif self._left[release] < count:
            raise cm.BudgetExceeded(
                f"this step is not part of what run {self.key!r} has reserved of account {self._account!r}, "
                "or all such steps were taken; nothing was recorded"
            )
        self._left[release] -= count
        self._taken[release] += count

    def settle(self) -> Receipt:
        """Say how many of the reserved steps were taken: the others come back to the account."""
        from cumulant.ledger.training import settle_run

        if self._hold is None:
            raise cm.InvalidParameter("this run has reserved nothing: every step was spent by itself")
        return settle_run(self._hold, cm.Composed.of(self._taken.items()))
