"""The tests that dp_accounting ships, with this accountant in place of theirs; docs/with-jax-privacy.md lists more."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("dp_accounting", reason="dp_accounting is not installed: pip install '.[dp-accounting]'")

import numpy as np
from dp_accounting.privacy_accountant import NeighboringRelation
from dp_accounting.rdp import RdpAccountant

from cumulant.integrations.dp_accounting import CumulantAccountant
from integrations.peers import Reasons, check, failures_of

PAGE = Path(__file__).parents[2] / "docs" / "with-jax-privacy.md"

PLD: Reasons = {
    "asks for a refusal where a theorem here answers": (
        "composition_errors_for_neighboring_relation1",
        "composition_errors_for_neighboring_relation2",
        "composition_errors_for_neighboring_relation3",
        "poisson_subsampling_laplace_not_supported_for_replace_one",
    ),
    "asks for the number of a looser pair": ("truncated_subsampled_gaussian_basic",),
    "asks for δ to 1e-12; an answer here is within 1e-6 of ε": ("mixture_of_gaussians_basic",),
}
RDP: Reasons = {
    "no theorem here covers repeating and selecting": ("repeat_and_select_*", "repeat_select_*"),
    "asks for a refusal where a theorem here answers": ("supports", "log_a_frac_early_termination"),
    "the ValueError has other words here": (
        "compute_rdp_tree_restart_raise_negative_noise",
        "compute_rdp_tree_restart_raise_negative_steps",
        "raises_on_invalid_*",
    ),
    "asks for a number that is above the truth": ("laplace_repetition", "compute_rdp_poisson_sampled_gaussian"),
}


class ByOrders(CumulantAccountant):  # type: ignore[misc]
    """The same with what tests of Rényi DP look at: orders, and ε at each of them."""

    def __init__(self, orders: Any = None, neighboring_relation: Any = NeighboringRelation.ADD_OR_REMOVE_ONE) -> None:
        super().__init__(neighboring_relation)
        self._orders = np.array(RdpAccountant()._orders if orders is None else orders)

    @property
    def _rdp(self) -> Any:
        return np.array([self.run.rdp(order=float(order)) for order in self._orders])


@pytest.mark.parametrize(
    ("module", "replaced", "reasons", "passing"),
    [
        ("pld.pld_privacy_accountant_test", {"pld_privacy_accountant.PLDAccountant": CumulantAccountant}, PLD, 62),
        ("rdp.rdp_privacy_accountant_test", {"rdp_privacy_accountant.RdpAccountant": ByOrders}, RDP, 97),
    ],
    ids=["pld", "rdp"],
)
def test_the_tests_of_an_accountant_of_theirs(module: str, replaced: Any, reasons: Reasons, passing: int) -> None:
    names, failed, passed = failures_of(f"dp_accounting.{module}", replaced)
    check(names, failed, reasons)
    assert passed >= passing
    page = " ".join(PAGE.read_text(encoding="utf-8").split())
    for reason, patterns in reasons.items():
        assert reason in page
        for name in patterns:
            assert re.search(rf"`{re.escape(name)}`", page), f"the page does not list {name}"
