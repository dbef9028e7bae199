"""Calibration inside other people's tools: their own accountants and this library's, in one process."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

Calibrate = Callable[[], float]
RATE, STEPS, EPSILON, DELTA = 0.05, 100, 3.0, 1e-5  # of the question for Opacus: five epochs of twenty batches


@dataclass(frozen=True)
class Timed:
    """The noise that was found, how far above the least noise it is, and how long that took."""

    tool: str
    accountant: str
    noise: float
    excess: float
    seconds: float

    def __str__(self) -> str:
        return f"{self.tool:<34}{self.accountant:<10}{self.noise:>12.7f}{self.excess:>12.1e}{self.seconds:>10.3f} s"


def measure() -> Iterator[Timed]:
    """Yield every tool that is installed with every accountant it has; the best of three runs, after one to warm up."""
    warnings.simplefilter("ignore")
    for tool, needs, questions in (
        ("Opacus make_private_with_epsilon", "opacus", opacus_questions),
        ("dp_accounting calibrate", "dp_accounting", dp_accounting_questions),
        ("JAX Privacy calibrate", "jax_privacy", jax_privacy_questions),
    ):
        if find_spec(needs) is not None:
            least, asked = questions()
            for accountant, calibrate in asked.items():
                calibrate()
                times = []
                for _ in range(3):
                    start = time.perf_counter()
                    noise = calibrate()
                    times.append(time.perf_counter() - start)
                yield Timed(tool, accountant, noise, noise / least - 1, min(times))


def opacus_questions() -> tuple[float, dict[str, Calibrate]]:
    """Return the least noise, and `make_private_with_epsilon` with each accountant; the model is a single layer."""
    import opacus
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    import cumulant as cm
    from cumulant.integrations.opacus import PrivacyEngine
    from cumulant.training import torch_coin

    data = TensorDataset(torch.randn(1000, 8), torch.randint(0, 2, (1000,)))

    def calibrated(engine: Any) -> float:
        module = torch.nn.Linear(8, 2)
        _, optimizer, _ = engine.make_private_with_epsilon(
            module=module,
            optimizer=torch.optim.SGD(module.parameters(), lr=0.1),
            data_loader=DataLoader(data, batch_size=50),
            max_grad_norm=1.0,
            target_epsilon=EPSILON,
            target_delta=DELTA,
            epochs=5,
        )
        return float(optimizer.noise_multiplier)

    least = cm.dp_sgd_noise(epsilon=EPSILON, delta=DELTA, sample_rate=torch_coin(RATE), steps=STEPS)
    engines: dict[str, Calibrate] = {"cumulant": lambda: calibrated(PrivacyEngine())}
    for name in ("prv", "rdp"):
        engines[name] = lambda name=name: calibrated(opacus.PrivacyEngine(accountant=name))  # type: ignore[misc]
    return least, engines


def dp_accounting_questions() -> tuple[float, dict[str, Calibrate]]:
    """Return the least noise, and `calibrate_dp_mechanism` with each accountant: 512 steps of a tenth of the data."""
    import dp_accounting

    import cumulant as cm
    from cumulant.integrations.dp_accounting import CumulantAccountant

    def dpsgd(noise: float) -> Any:
        gaussian = dp_accounting.GaussianDpEvent(noise)
        return dp_accounting.SelfComposedDpEvent(dp_accounting.PoissonSampledDpEvent(0.1, gaussian), 512)

    def calibrated(accountant: Any) -> float:
        return float(dp_accounting.calibrate_dp_mechanism(accountant, dpsgd, 1.0, 1e-6))

    least = cm.dp_sgd_noise(epsilon=1.0, delta=1e-6, sample_rate=0.1, steps=512)
    return least, {
        "cumulant": lambda: calibrated(CumulantAccountant),
        "PLD": lambda: calibrated(dp_accounting.pld.PLDAccountant),
    }


def jax_privacy_questions() -> tuple[float, dict[str, Calibrate]]:
    """Return the least noise, and `calibrate_noise_multiplier` with each accountant: 500 steps of 1 % of the data."""
    from jax_privacy import accounting

    import cumulant as cm
    from cumulant.integrations.dp_accounting.jax_privacy import CumulantAccountantConfig

    def calibrated(config: Any) -> float:
        return float(
            accounting.calibrate_noise_multiplier(
                target_epsilon=1.0,
                accountant=accounting.DpsgdTrainingAccountant(dp_accountant_config=config),
                batch_sizes=100,
                num_updates=500,
                num_samples=10_000,
                target_delta=1e-5,
                tol=1e-6,
            )
        )

    least = cm.dp_sgd_noise(epsilon=1.0, delta=1e-5, sample_rate=0.01, steps=500)
    return least, {
        "cumulant": lambda: calibrated(CumulantAccountantConfig()),
        "PLD": lambda: calibrated(accounting.PldAccountantConfig()),
    }
