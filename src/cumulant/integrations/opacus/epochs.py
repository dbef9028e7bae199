"""Epochs as loaders walk through them: what is paid for where every record takes part once in each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, final

import cumulant as cm

UNKNOWN = 1  # batches of an epoch of which only its existence was recorded: as if everyone were in each


class Epoch(NamedTuple):
    """How many batches an epoch has, and whether its order is known to be drawn anew, of all records."""

    batches: int
    is_anew: bool = False


@final
class Epochs:
    """How many epochs were begun, and whether a step had records of two, or of several batches of one.

    Those that were begun when a step was last taken are `paid`; of later ones nothing was released yet.
    """

    def __init__(self, paid: Iterable[tuple[int, int, bool]] = ()) -> None:
        self.paid = Counter({Epoch(int(batches), bool(anew)): int(count) for batches, count, anew in paid if count})
        self.begun = self.paid.copy()
        self.accumulated = False
        self._optimizer: Any = None
        self._walk = 0  # the one that was begun last
        self._before_step = 0  # the one at the step before
        self._interleaved = False

    def watch(self, optimizer: Any) -> None:
        """Look at an optimizer's gradients wherever an epoch begins."""
        self._optimizer = optimizer

    def drop_what_is_left(self) -> None:
        """Forget the sum of a batch that BatchMemoryManager split, and whose epoch was left before its last part.

        Opacus would add it to the next batch: a record in both would change the sum by twice the clipping norm.
        """
        if getattr(self._optimizer, "_is_last_step_skipped", False):
            self._optimizer._is_last_step_skipped = False
            self._optimizer._step_skip_queue.clear()
            for parameter in self._optimizer.params:
                parameter.summed_grad = None

    def walk(self, batches: Any, *, is_anew: bool) -> Iterator[Any]:
        """Yield batches, and count an epoch with the first that is asked for, whether all are walked to or not."""
        self.drop_what_is_left()
        self.begun[Epoch(len(batches), is_anew)] += 1
        self._walk += 1
        mine = self._walk
        for gradient in self._gradients():
            gradient._of_an_epoch_before = True
        for batch in batches:
            self._interleaved = self._interleaved or mine != self._walk
            yield batch

    def check_accumulated(self) -> None:
        """Refuse a step with gradients of several batches, unless all are of one epoch: then no record is in two."""
        self.accumulated = True
        several = self._walk > self._before_step + 1 or self._interleaved
        if several or any(hasattr(gradient, "_of_an_epoch_before") for gradient in self._gradients()):
            raise cm.UnprovenCombination(
                "gradients of batches of two epochs were accumulated in one step, or two were begun since the last: a "
                "record may be in both, and change the sum by twice as much; take a step at the end of an epoch, or "
                "call zero_grad before the next, and look at batches before make_private"
            )

    def step(self) -> None:
        """Say that a step was taken."""
        self.paid = self.begun.copy()
        self._before_step = self._walk

    def _gradients(self) -> Iterator[Any]:
        """Yield the gradients of records that wait for a step, of the first parameter that has some."""
        parameters = () if self._optimizer is None else self._optimizer.params
        waiting: Any = next((p.grad_sample for p in parameters if getattr(p, "grad_sample", None) is not None), [])
        yield from waiting if isinstance(waiting, list) else [waiting]
