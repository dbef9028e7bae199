"""Google's dp_accounting with this library's answers: its events, and an accountant for its tools and for JAX Privacy.

    from cumulant.integrations.dp_accounting import CumulantAccountant

    dp_accounting.calibrate_dp_mechanism(CumulantAccountant, make_event, target_epsilon, target_delta)

`from_event` and `to_event` translate between events and mechanisms.
"""

from cumulant.integrations.requirement import require_package

require_package("dp_accounting", distribution="dp-accounting", at_least="0.6", extra="dp-accounting")

from cumulant.integrations.dp_accounting.accountant import CumulantAccountant  # noqa: E402
from cumulant.integrations.dp_accounting.events import EventRefused, InvalidEvent, from_event, to_event  # noqa: E402

__all__ = ["CumulantAccountant", "EventRefused", "InvalidEvent", "from_event", "to_event"]
