"""An accountant for dp_accounting's tools, and for JAX Privacy, which is built on them."""

from __future__ import annotations

import math
from typing import Any, final

from dp_accounting.privacy_accountant import NeighboringRelation, PrivacyAccountant

from cumulant import parameters
from cumulant.answer import Method
from cumulant.composition import Composed
from cumulant.errors import CumulantError, InvalidParameter
from cumulant.integrations.dp_accounting.events import REVEALED, EventRefused, from_event


@final
class CumulantAccountant(PrivacyAccountant):  # type: ignore[misc]
    """`dp_accounting.PrivacyAccountant` with exact answers, rounded to the safe side.

    An event that no theorem covers raises UnsupportedEventError of dp_accounting, which names the event inside it; a
    number that no event can have, or a negative count, raises ValueError. Where something is released as it is, ε is
    infinite at every δ, also at 1.
    """

    def __init__(
        self,
        neighboring_relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE,
        method: Method = "best",
    ) -> None:
        super().__init__(neighboring_relation)
        self._run = Composed(())
        self._method: Method = method

    def _maybe_compose(self, event: Any, count: int, do_compose: bool) -> Any:
        times = parameters.count(count)
        try:
            run = from_event(event, neighboring_relation=self.neighboring_relation)
            after = self._run + run * times
        except EventRefused as error:
            if times and isinstance(error, InvalidParameter):  # `supports` asks with a count of 0
                raise
            return self.CompositionErrorDetails(invalid_event=error.event, error_message=error.reason)
        except CumulantError as error:
            return self.CompositionErrorDetails(invalid_event=event, error_message=str(error))
        if do_compose:
            self._run = after
        return None

    @property
    def run(self) -> Composed:
        """Everything composed so far, as one mechanism, which answers every question of this library."""
        return self._run

    def get_epsilon(self, target_delta: float) -> float:
        """Return the smallest proven ε at δ, rounded up."""
        if any(release == REVEALED for release, _ in self.run.parts):
            return math.inf
        return float(self.run.epsilon(delta=float(target_delta), method=self._method))

    def get_delta(self, target_epsilon: float) -> float:
        """Return the smallest proven δ at ε, rounded up; at an infinite ε the mass of infinite losses."""
        if target_epsilon == math.inf:
            return self.run._known().failure()
        return float(self.run.delta(epsilon=float(target_epsilon), method=self._method))
