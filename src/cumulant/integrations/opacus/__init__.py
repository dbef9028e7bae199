"""Opacus with this library's accountant: `register()`, or `PrivacyEngine` in place of Opacus' own.

    from cumulant.integrations.opacus import PrivacyEngine

    engine = PrivacyEngine(epsilon=3.0, delta=1e-5)  # the budget is kept while training
    model, optimizer, loader = engine.make_private_with_epsilon(...)

`PrivacyEngine` sees how batches are drawn, calibrates the noise from the loader, and states what was promised. With
`register()` Opacus' own engine takes `accountant="cumulant"`; what it cannot prove it refuses.
"""

from cumulant.integrations.requirement import require_package

require_package("opacus", distribution="opacus", at_least="1.6", extra="opacus")

from cumulant.integrations.opacus.accountant import CumulantAccountant, register  # noqa: E402
from cumulant.integrations.opacus.engine import PrivacyEngine  # noqa: E402

__all__ = ["CumulantAccountant", "PrivacyEngine", "register"]
