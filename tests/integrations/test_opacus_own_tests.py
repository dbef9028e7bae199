"""The tests that Opacus ships, with this engine and accountant in place of theirs; docs/with-opacus.md has the list."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("opacus", reason="Opacus is not installed: pip install '.[opacus]'")

import torch
from opacus.accountants import registry

from cumulant.integrations.opacus import CumulantAccountant, PrivacyEngine, register
from integrations.peers import Reasons, check, failures_of
from integrations.stand_in_for_torchvision import stand_in

torch.set_num_threads(1)  # threads that wait for each other cost more than they bring here
PAGE = Path(__file__).parents[2] / "docs" / "with-opacus.md"

NUMBERS: Reasons = {
    "asks for the number of an accountant that is not exact": (
        "rdp_accountant",
        "gdp_accountant",
        "prv_accountant",
        "get_noise_multiplier_rdp_*",
        "get_noise_multiplier_prv_*",
        "get_noise_multiplier_gdp",
    ),
    "asks for a refusal of the state of another accountant, which is read": ("accountant_load_state_dict",),
}
ADAPTIVE: Reasons = {"no theorem covers adaptive clipping": ("privacy_accounting_with_adaclip_e2e",)}
NETWORKS: Reasons = {
    "needs networks of torchvision, which is not installed here": (
        "model_validator",
        "model_validator_after_fix",
        "validator_weight_update_check",
    )
}
PASSING = {
    "accountants_test": 6,
    "accounting_noise_multiplier_test": 6,
    "batch_memory_manager_test": 7,
    "dpdataloader_test": 19,
    "gradient_accumulation_test": 8,
    "poisson_test": 4,
    "privacy_engine_validation_test": 10,
    "randomness_test": 23,
    "privacy_engine_test": 10,
}
LISTED = {
    "accountants_test": NUMBERS,
    "accounting_noise_multiplier_test": ADAPTIVE,
    "privacy_engine_test": NETWORKS,
}
CLASSES = {  # of 18, which differ in the model and in the way gradients are taken
    "privacy_engine_test": (
        "PrivacyEngineConvNetTest",
        "PrivacyEngineTextTestFunctorch",
        "PrivacyEngineTiedWeightsHooksTest",
    )
}


class Engine:
    """Our engine for whoever constructs theirs, and names an accountant of theirs."""

    get_compatible_module = PrivacyEngine.get_compatible_module

    def __init__(self, *, accountant: str = "prv", secure_mode: bool = False) -> None:
        self.ours = PrivacyEngine(secure_mode=secure_mode)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.ours, name)


@pytest.mark.parametrize("module", PASSING)
def test_the_tests_of_opacus(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    register()
    for name in ("rdp", "prv", "gdp"):
        monkeypatch.setitem(registry._ACCOUNTANTS, name, CumulantAccountant)
    ours = {
        "PrivacyEngine": Engine,
        **dict.fromkeys(("RDPAccountant", "PRVAccountant", "GaussianAccountant"), CumulantAccountant),
    }
    with stand_in():
        names, failed, passed = failures_of(f"opacus.tests.{module}", ours, CLASSES.get(module))
    reasons = LISTED.get(module, {})
    check(names, failed, reasons)
    assert passed >= PASSING[module]
    page = " ".join(PAGE.read_text(encoding="utf-8").split())
    for reason, patterns in reasons.items():
        assert reason in page
        for name in patterns:
            assert re.search(rf"`{re.escape(name)}`", page), f"the page does not list {name}"
