"""Opacus with this accountant: real training, and every trap that was found in it."""

from __future__ import annotations

import io
import itertools
import math
import random
import subprocess
import sys
from collections import OrderedDict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

opacus = pytest.importorskip("opacus", reason="Opacus is not installed: pip install '.[opacus]'")

import torch  # noqa: E402
from opacus.accountants import PRVAccountant, RDPAccountant, create_accountant  # noqa: E402
from opacus.accountants.utils import get_noise_multiplier  # noqa: E402
from opacus.schedulers import ExponentialNoise  # noqa: E402
from opacus.utils.batch_memory_manager import BatchMemoryManager  # noqa: E402
from torch import nn  # noqa: E402
from torch.utils.data import DataLoader, RandomSampler, SubsetRandomSampler, TensorDataset, WeightedRandomSampler  # noqa: E402

import cumulant as cm  # noqa: E402
from cumulant.integrations.opacus import CumulantAccountant, PrivacyEngine, register  # noqa: E402
from cumulant.sampling.once_per_epoch import OncePerEpoch  # noqa: E402
from cumulant.sampling.shuffled import Shuffled  # noqa: E402
from cumulant.training import torch_coin  # noqa: E402
from integrations.training import accuracy, parts, separable, train, weights  # noqa: E402

pytestmark = [
    pytest.mark.filterwarnings("ignore:Secure RNG"),
    pytest.mark.filterwarnings("ignore:Full backward hook"),
    pytest.mark.filterwarnings("ignore:.*expanded weights.*"),
    pytest.mark.filterwarnings("ignore:GDP accounting"),
    pytest.mark.filterwarnings("ignore:.*non-zero privacy budget"),
]
MODES = ["hooks", "functorch", "ew", "ghost"]
TESTS = Path(__file__).parents[1]


def step(sigma: float, rate: float, relation: Any = cm.ZERO_OUT) -> Any:
    return cm.Gaussian(noise_multiplier=sigma).poisson(rate=torch_coin(rate), neighbors=relation)


def private(engine: Any, **arguments: Any) -> tuple[Any, Any, Any, Any]:
    """Return model, optimizer, criterion and loader, whether Opacus makes a criterion or not."""
    made = engine.make_private(**arguments)
    return (*made[:2], made[2] if len(made) == 4 else nn.CrossEntropyLoss(), made[-1])


# Training -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
def test_every_mode_trains_and_knows_its_epsilon(mode: str) -> None:
    engine = PrivacyEngine()
    model, optimizer, criterion, loader = private(engine, **parts(), noise_multiplier=1.0, grad_sample_mode=mode)
    seen = []
    for _ in range(4):
        train(model, optimizer, loader, criterion=criterion)
        seen.append(engine.get_epsilon(1e-5))
    assert engine.accountant.history == [(1.0, 0.1, 40)]
    assert seen == [(step(1.0, 0.1) * n).epsilon(delta=1e-5) for n in (10, 20, 30, 40)]
    optimizer.zero_grad()  # expanded weights want that before the next call
    assert accuracy(model) > 0.8


@pytest.mark.parametrize("mode", ["hooks", "ghost"])
def test_batch_memory_manager_counts_logical_steps(mode: str) -> None:
    engine = PrivacyEngine()
    model, optimizer, criterion, loader = private(engine, **parts(), noise_multiplier=1.0, grad_sample_mode=mode)
    with BatchMemoryManager(data_loader=loader, max_physical_batch_size=16, optimizer=optimizer) as split:
        train(model, optimizer, split, criterion=criterion)
    assert engine.accountant.history == [(1.0, 0.1, 10)]


@pytest.mark.parametrize("mode", ["hooks", "ghost"])
@pytest.mark.parametrize("sampling", ["poisson", "random_allocation", "shuffled"])
def test_what_is_left_of_a_split_batch_is_dropped(sampling: Any, mode: str) -> None:
    """An epoch that is left in the middle of a batch: its parts would be added to the next one, with the same records.

    Every gradient is 1: the first sum that is released counts the records of its own batch.
    """
    module = nn.Linear(1, 1, bias=False)
    arguments = {"module": module, "optimizer": torch.optim.SGD(module.parameters(), lr=0.0), "max_grad_norm": 1.0}
    arguments["data_loader"] = DataLoader(TensorDataset(torch.ones(40, 1)), batch_size=20)
    engine = PrivacyEngine(sampling=sampling)
    summed = {"criterion": nn.MSELoss(reduction="sum"), "loss_reduction": "sum"}
    made = private(engine, **arguments, **summed, noise_multiplier=0.0, grad_sample_mode=mode)
    model, optimizer, criterion, loader = made
    nn.init.zeros_(module.weight)

    def one(x: Any) -> None:
        optimizer.zero_grad()
        loss = criterion if mode == "ghost" else nn.MSELoss(reduction="sum")
        loss(model(x).flatten(), -torch.ones(len(x))).backward()  # a gradient of 2 for every record, clipped to 1
        optimizer.step()

    with BatchMemoryManager(data_loader=loader, max_physical_batch_size=3, optimizer=optimizer) as split:
        for (x,) in itertools.islice(split, 2):
            one(x)
        assert len(engine.accountant) == 0
        records = 0
        for (x,) in split:
            one(x)
            records += len(x)
            if len(engine.accountant) > 0:
                break
    assert records > 6
    assert float(module.weight.grad) == pytest.approx(records, rel=1e-4)


@pytest.mark.parametrize("engine", [opacus.PrivacyEngine, PrivacyEngine])
def test_ghost_clipping_of_a_loss_with_two_dimensions_is_refused(engine: Any) -> None:
    """Opacus lets every factor meet every record there: each of seven counts seven times, and none is clipped."""
    module = nn.Linear(1, 1, bias=False)
    nn.init.zeros_(module.weight)
    model, optimizer, criterion, _ = engine().make_private(
        module=module,
        optimizer=torch.optim.SGD(module.parameters(), lr=0.0),
        criterion=nn.MSELoss(reduction="sum"),
        data_loader=DataLoader(TensorDataset(torch.ones(7, 1)), batch_size=7),
        noise_multiplier=0.0,
        max_grad_norm=1.0,
        loss_reduction="sum",
        grad_sample_mode="ghost",
    )
    x = torch.ones(7, 1)
    if engine is PrivacyEngine:
        with pytest.raises(cm.UnprovenCombination, match=r"for every record, this one has the shape \(7, 1\)"):
            criterion(model(x), -x)
    else:
        criterion(model(x), -x).backward()
        optimizer.step()
        assert float(module.weight.grad) == pytest.approx(49.0, rel=1e-4)  # seven gradients of norm 1 are 7


def test_per_layer_clipping_is_accounted_alike() -> None:
    engine = PrivacyEngine()
    arguments = {**parts(), "max_grad_norm": [1.0] * 4}
    model, optimizer, _, loader = private(engine, **arguments, noise_multiplier=1.0, clipping="per_layer")
    train(model, optimizer, loader)
    assert engine.get_epsilon(1e-5) == (step(1.0, 0.1) * 10).epsilon(delta=1e-5)


def test_a_noise_schedule_is_composed() -> None:
    engine = PrivacyEngine()
    model, optimizer, _, loader = private(engine, **parts(), noise_multiplier=1.0)
    schedule = ExponentialNoise(optimizer, gamma=0.9)
    for _ in range(3):
        train(model, optimizer, loader)
        schedule.step()
    assert [sigma for sigma, _, _ in engine.accountant.history] == pytest.approx([1.0, 0.9, 0.81])
    assert [count for _, _, count in engine.accountant.history] == [10, 10, 10]
    run = cm.Composed.of((step(sigma, 0.1), count) for sigma, _, count in engine.accountant.history)
    assert engine.get_epsilon(1e-5) == run.epsilon(delta=1e-5)


def test_the_target_is_met_to_the_last_digit() -> None:
    """Certified in balls: the noise is enough, and a millionth less is not."""
    engine = PrivacyEngine()
    arguments: dict[str, Any] = {"target_epsilon": 3.0, "target_delta": 1e-5, "epochs": 5}
    model, optimizer, loader = engine.make_private_with_epsilon(**parts(), **arguments)
    sigma = optimizer.noise_multiplier
    assert (step(sigma, 0.1) * 50).epsilon_interval(delta=1e-5).upper <= 3.0
    assert (step(sigma * (1 - 1e-6), 0.1) * 50).epsilon_interval(delta=1e-5).lower > 3.0
    train(model, optimizer, loader, epochs=5)
    assert 2.999 < engine.get_epsilon(1e-5) <= 3.0
    with pytest.raises(cm.BudgetExceeded):  # the target is the budget
        train(model, optimizer, loader)


def test_a_second_target_counts_what_was_spent() -> None:
    engine = PrivacyEngine()
    first: dict[str, Any] = {"target_epsilon": 1.0, "target_delta": 1e-5, "epochs": 2}
    model, optimizer, loader = engine.make_private_with_epsilon(**parts(), **first)
    train(model, optimizer, loader, epochs=2)
    noise = engine.noise_for(parts()["data_loader"], epsilon=2.0, delta=1e-5, epochs=3)
    whole = engine.accountant.run + step(noise, 0.1) * 30
    assert 1.9999 < whole.epsilon(delta=1e-5) <= 2.0


# The engine of Opacus, with the accountant registered -----------------------------------------------------------------


def test_registered_it_is_an_accountant_of_opacus() -> None:
    register()
    engine = opacus.PrivacyEngine(accountant="cumulant")
    model, optimizer, _, loader = private(engine, **parts(), noise_multiplier=1.0)
    train(model, optimizer, loader, epochs=2)
    assert engine.get_epsilon(1e-5) == (step(1.0, 0.1) * 20).epsilon(delta=1e-5)
    assert engine.get_epsilon(delta=1e-5) < RDPAccountant.get_epsilon(_with(RDPAccountant(), engine), delta=1e-5)
    by_prv = PRVAccountant.get_epsilon(_with(PRVAccountant(), engine), delta=1e-5)
    assert by_prv - 0.02 < engine.get_epsilon(1e-5) <= by_prv + 1e-9  # its own error bound is 0.01 on each side


def _with(accountant: Any, engine: Any) -> Any:
    accountant.history = list(engine.accountant.history)
    return accountant


def test_trap_1_the_search_of_opacus_writes_the_history_and_passes_keywords_on() -> None:
    register()
    arguments: dict[str, Any] = {"target_epsilon": 3.0, "target_delta": 1e-5, "sample_rate": 0.05, "epochs": 5}
    rough = get_noise_multiplier(accountant="cumulant", unclipped_num_std=2.5, **arguments)
    fine = get_noise_multiplier(accountant="cumulant", epsilon_tolerance=1e-7, **arguments)
    exact = cm.calibrate(lambda s: step(s, 0.05) * 100, epsilon=3.0, delta=1e-5)
    assert exact <= fine <= exact * (1 + 1e-6)
    assert exact <= rough <= exact * 1.02


def test_trap_2_rows_are_not_steps_states_are_not_aliased_and_foreign_ones_are_read() -> None:
    accountant = CumulantAccountant()
    for _ in range(3):
        accountant.step(noise_multiplier=1.0, sample_rate=0.1)
    accountant.step(noise_multiplier=2.0, sample_rate=0.1)
    assert len(accountant) == 4
    state = {"history": [(torch.tensor(1.0), 0.1, 5.0)], "mechanism": "prv"}
    with pytest.warns(UserWarning, match="read as Poisson samples"):
        accountant.load_state_dict(state)
    assert accountant.history == [(1.0, 0.1, 5)]
    accountant.step(noise_multiplier=1.0, sample_rate=0.1)
    assert state["history"][0][2] == 5.0
    with pytest.raises(cm.InvalidParameter, match="whole number"):
        accountant.load_state_dict({"history": [(1.0, 0.1, 5.5)], "mechanism": "rdp"})
    assert len(accountant) == 6


@pytest.mark.parametrize("mechanism", ["prv", "rdp", "gdp"])
def test_a_checkpoint_of_another_accountant_goes_on_here(mechanism: str) -> None:
    before = opacus.PrivacyEngine(accountant=mechanism)
    model, optimizer, _, loader = private(before, **parts(), noise_multiplier=1.0)
    train(model, optimizer, loader)
    file = io.BytesIO()
    before.save_checkpoint(path=file, module=model, optimizer=optimizer)
    file.seek(0)
    after = PrivacyEngine()
    model, optimizer, _, loader = private(after, **parts(), noise_multiplier=1.0)
    with pytest.warns(UserWarning, match="does not say how its batches were drawn"):
        after.load_checkpoint(path=file, module=model, optimizer=optimizer)
    train(model, optimizer, loader)
    assert after.accountant.history == [(1.0, 0.1, 20)]


@pytest.mark.parametrize(("size", "batch"), [(500, 77), (600, 250), (1000, 333)])
def test_trap_3_the_rate_is_that_of_the_loader(size: int, batch: int) -> None:
    """With drop_last it is above batch / data; ε by the sizes would be below the truth."""
    engine = PrivacyEngine()
    arguments = parts(size=size, batch=batch, drop_last=True)
    model, optimizer, _, loader = private(engine, **arguments, noise_multiplier=2.0)
    train(model, optimizer, loader, epochs=2)
    batches = size // batch
    assert engine.accountant.history == [(2.0, 1 / batches, 2 * batches)]
    by_sizes = cm.dp_sgd(noise_multiplier=2.0, batch_size=batch, dataset_size=size, steps=2 * batches)
    by_loader = cm.dp_sgd(noise_multiplier=2.0, sample_rate=torch_coin(1 / batches), steps=2 * batches)
    assert by_sizes.epsilon(delta=1e-5) < engine.get_epsilon(1e-5) == by_loader.epsilon(delta=1e-5)


@pytest.mark.parametrize("batches", [93])
def test_where_a_division_rounds_the_sampler_has_one_batch_less(batches: int) -> None:
    """int(1 / (1 / 93)) is 92: the rate that is recorded, 1/92, is above that of the coin, 1/93: the safe side."""
    engine = PrivacyEngine()
    arguments = parts(size=2 * batches, batch=2)
    target: dict[str, Any] = {"target_epsilon": 3.0, "target_delta": 1e-5, "epochs": 1}
    model, optimizer, loader = engine.make_private_with_epsilon(**arguments, **target)
    assert (loader.sample_rate, len(loader)) == (1 / batches, batches - 1)
    train(model, optimizer, loader)
    assert len(engine.accountant) == batches - 1
    assert 2.99 < engine.get_epsilon(1e-5) <= 3.0


# Trap 4: batches that are not drawn by Poisson sampling ---------------------------------------------------------------


@pytest.mark.parametrize("shuffle", [True, False])
def test_trap_4_opacus_records_batches_that_are_no_poisson_samples_as_if_they_were(shuffle: bool) -> None:
    register()
    target: dict[str, Any] = {"target_epsilon": 3.0, "target_delta": 1e-5, "epochs": 5, "poisson_sampling": False}
    first, second = (opacus.PrivacyEngine(accountant="cumulant") for _ in range(2))
    with pytest.raises(cm.UnprovenCombination, match='sampling="shuffled"'):
        first.make_private(**parts(shuffle=shuffle), noise_multiplier=1.0, poisson_sampling=False)
    with pytest.raises(cm.UnprovenCombination, match='sampling="shuffled"'):
        second.make_private_with_epsilon(**parts(shuffle=shuffle), **target)


@pytest.mark.parametrize("shuffle", [True, False])
def test_a_loader_that_is_kept_is_accounted_for_as_it_is(shuffle: bool) -> None:
    engine = PrivacyEngine()
    with pytest.warns(UserWarning, match="every epoch it begins is paid without amplification") as seen:
        made = engine.make_private(**parts(shuffle=shuffle), noise_multiplier=5.0, poisson_sampling=False)
    assert seen[-1].filename == __file__
    train(*made, epochs=3)
    shuffled = cm.dp_sgd(noise_multiplier=5.0, sample_rate=0.1, epochs=3, sampling="shuffled")
    assert engine.get_epsilon(1e-5) == shuffled.epsilon(delta=1e-5)
    said = " ".join(engine.statement(delta=1e-5).split())
    assert "replace-one" in said
    if shuffle:  # an interval, and what to do instead
        assert engine.accountant.run == shuffled
        assert "an epoch of shuffled records in 10 steps" in said
        assert "a number for Poisson samples is not a bound for a shuffled loader; to have epsilon = " in said
        return
    assert engine.accountant.run == OncePerEpoch(mechanism=cm.Gaussian(noise_multiplier=2.5)) * 3
    assert "interval" not in said  # an order that is known attains it, and one that is not is not what runs


@pytest.mark.parametrize(
    ("size", "loading", "anew"),
    [
        (600, {"shuffle": True}, True),
        (590, {"shuffle": True}, True),
        (590, {"shuffle": True, "drop_last": True}, False),
        (600, {"shuffle": True, "drop_last": True}, True),
        (600, {}, False),
        (600, {"sampler": SubsetRandomSampler(range(60))}, False),
        (600, {"sampler": RandomSampler(range(600), num_samples=300)}, False),
    ],
)
def test_a_lower_end_is_for_orders_of_all_records_drawn_anew(size: int, loading: dict[str, Any], anew: bool) -> None:
    engine = PrivacyEngine(sampling="shuffled")
    made = engine.make_private(**parts(size=size, **loading), noise_multiplier=5.0)
    train(*made)
    ((epoch, count),) = engine.accountant.run.parts
    assert count == 1
    assert isinstance(epoch, Shuffled) is anew
    assert epoch.epsilon(delta=1e-5) == pytest.approx(cm.Gaussian(noise_multiplier=2.5).epsilon(delta=1e-5))


def test_a_loader_that_is_kept_meets_a_target() -> None:
    engine = PrivacyEngine()
    target: dict[str, Any] = {"target_epsilon": 4.0, "target_delta": 1e-5, "epochs": 3, "poisson_sampling": False}
    with pytest.warns(UserWarning, match="keeps the loader"):
        model, optimizer, loader = engine.make_private_with_epsilon(**parts(shuffle=True), **target)
    train(model, optimizer, loader, epochs=3)
    assert 3.9999 < engine.get_epsilon(1e-5) <= 4.0


@pytest.mark.parametrize("before", [{"public_size": 600}, {"sampling": "random_allocation"}, {}])
def test_a_loader_is_not_kept_where_batches_were_drawn(before: dict[str, Any]) -> None:
    engine = PrivacyEngine(**before)
    if not before:
        engine.accountant.step(noise_multiplier=1.0, sample_rate=0.1)
    with pytest.raises(cm.UnprovenCombination):
        engine.make_private(**parts(), noise_multiplier=1.0, poisson_sampling=False)


def test_a_shuffled_loader_has_its_own_number() -> None:
    engine = PrivacyEngine(sampling="shuffled")
    model, optimizer, _, loader = private(engine, **parts(shuffle=True), noise_multiplier=5.0)
    train(model, optimizer, loader, epochs=3)
    assert engine.accountant.history == [(5.0, 0.1, 30)]
    shuffled = cm.dp_sgd(noise_multiplier=5.0, sample_rate=0.1, epochs=3, sampling="shuffled")
    assert engine.get_epsilon(1e-5) == shuffled.epsilon(delta=1e-5)
    assert engine.get_epsilon(1e-5) > 5 * (step(5.0, 0.1) * 30).epsilon(delta=1e-5)  # what Poisson sampling would give
    assert "replace-one" in engine.statement(delta=1e-5)


def test_an_epoch_that_is_left_early_is_an_epoch() -> None:
    engine = PrivacyEngine(sampling="shuffled")
    model, optimizer, _, loader = private(engine, **parts(shuffle=True), noise_multiplier=5.0)
    for _ in range(7):
        x, y = next(iter(loader))
        optimizer.zero_grad()
        nn.CrossEntropyLoss()(model(x), y).backward()
        optimizer.step()
    assert (engine.accountant.epochs_begun, len(engine.accountant)) == (7, 7)
    assert engine.get_epsilon(1e-5) == pytest.approx((cm.Gaussian(noise_multiplier=2.5) * 7).epsilon(delta=1e-5))


def test_shuffled_epochs_with_workers_and_split_batches_are_counted_once() -> None:
    engine = PrivacyEngine(sampling="shuffled")
    model, optimizer, _, loader = private(engine, **parts(shuffle=True), noise_multiplier=5.0)
    with BatchMemoryManager(data_loader=loader, max_physical_batch_size=16, optimizer=optimizer) as split:
        train(model, optimizer, split, epochs=2)
    assert (engine.accountant.epochs_begun, len(engine.accountant)) == (2, 20)


def test_a_shuffled_budget_ends_with_an_epoch() -> None:
    engine = PrivacyEngine(sampling="shuffled", epsilon=4.0, delta=1e-5)
    model, optimizer, _, loader = private(engine, **parts(shuffle=True), noise_multiplier=5.0)
    most = cm.max_count(engine.accountant.release(5.0, 1.0), epsilon=4.0, delta=1e-5)
    train(model, optimizer, loader, epochs=most)
    before = weights(model)
    with pytest.raises(cm.BudgetExceeded):
        train(model, optimizer, loader)
    assert len(engine.accountant) == 10 * most
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))


def test_shuffled_noise_for_a_target() -> None:
    engine = PrivacyEngine(sampling="shuffled")
    target: dict[str, Any] = {"target_epsilon": 4.0, "target_delta": 1e-5, "epochs": 3}
    model, optimizer, loader = engine.make_private_with_epsilon(**parts(shuffle=True), **target)
    train(model, optimizer, loader, epochs=3)
    assert 3.9999 < engine.get_epsilon(1e-5) <= 4.0


def test_loaders_that_repeat_records_are_refused() -> None:
    data = separable()
    samplers = [
        RandomSampler(data, replacement=True),
        RandomSampler(data, num_samples=1200),
        WeightedRandomSampler([1.0] * len(data), len(data)),
    ]
    for sampler in samplers:
        loader = DataLoader(data, batch_size=60, sampler=sampler)
        with pytest.raises(cm.UnprovenCombination, match="several times in an epoch"):
            private(PrivacyEngine(sampling="shuffled"), **{**parts(), "data_loader": loader}, noise_multiplier=1.0)


def test_two_samplings_do_not_add() -> None:
    shuffled = PrivacyEngine(sampling="shuffled").accountant
    with pytest.raises(cm.InvalidParameter, match="do not add"):
        shuffled.load_state_dict({"history": [(1.0, 0.1, 5)], "mechanism": "prv"})
    with pytest.raises(cm.UnprovenCombination, match="contradicts"):
        private(PrivacyEngine(sampling="shuffled"), **parts(), noise_multiplier=1.0, poisson_sampling=True)
    with pytest.raises(cm.UnprovenCombination, match="before any epoch"):
        shuffled.step(noise_multiplier=1.0, sample_rate=0.1)


# Traps 5 to 10 --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("sampling", ["poisson", "shuffled"])
def test_trap_5_accumulated_batches_are_refused_with_ghost_clipping(sampling: Any, scaled: bool) -> None:
    """Its optimizer says that one batch was accumulated, whatever was."""
    engine = PrivacyEngine(sampling=sampling)
    model, optimizer, criterion, loader = private(engine, **parts(), noise_multiplier=1.0, grad_sample_mode="ghost")
    before = weights(model)
    batches = iter(loader)
    for _ in range(2):
        x, y = next(batches)
        loss = criterion(model(x), y)
        (loss / 2 if scaled else loss).backward()
    assert optimizer.accumulated_iterations == 1
    with pytest.raises(cm.UnprovenCombination, match="several batches"):
        optimizer.step()
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))
    assert len(engine.accountant) == 0


def test_accumulated_batches_are_refused_without_a_wrapper() -> None:
    engine, arguments = PrivacyEngine(), parts()
    model = arguments["module"]
    made = engine.make_private(**arguments, noise_multiplier=1.0, grad_sample_mode="ghost", wrap_model=False)
    optimizer, criterion, loader = made[1:]
    train(model, optimizer, loader, criterion=criterion)
    assert len(engine.accountant) == 10
    for _, (x, y) in zip(range(2), loader, strict=False):
        criterion(model(x), y).backward()
    with pytest.raises(cm.UnprovenCombination, match="several batches"):
        optimizer.step()


def accumulate(model: Any, loader: Any, count: int) -> None:
    for x, y in itertools.islice(loader, count):
        nn.CrossEntropyLoss()(model(x), y).backward()


def test_batches_of_one_epoch_are_accumulated() -> None:
    """Every record is in one of them at most, so the sum of all moves as that of one."""
    engine = PrivacyEngine(sampling="shuffled")
    model, optimizer, _, loader = private(engine, **parts(shuffle=True), noise_multiplier=5.0)
    for _ in range(2):
        batches = iter(loader)
        for count in (2, 5, 3):
            accumulate(model, batches, count)
            assert optimizer.accumulated_iterations == count
            optimizer.step()
            optimizer.zero_grad()
    assert engine.accountant.history == [(5.0, 0.2, 1), (5.0, 0.5, 1), (5.0, pytest.approx(0.3), 1)] * 2
    assert engine.accountant.run == OncePerEpoch(mechanism=cm.Gaussian(noise_multiplier=2.5)) * 2  # of fewer steps


def two_epochs(kind: str, model: Any, loader: Any) -> None:
    """Accumulate batches that may share records."""
    if kind == "goes on":
        accumulate(model, loader, 1)
        accumulate(model, loader, 1)
    elif kind == "side by side":
        for (x, y), (u, v) in itertools.islice(zip(loader, loader, strict=True), 1):
            nn.CrossEntropyLoss()(model(torch.cat([x, u])), torch.cat([y, v])).backward()
            accumulate(model, [(x, y)], 1)
    else:
        first = iter(loader)
        next(first)
        next(iter(loader))
        accumulate(model, first, 2)


@pytest.mark.parametrize("kind", ["goes on", "side by side", "goes back"])
def test_batches_of_two_epochs_are_not_accumulated(kind: str) -> None:
    engine = PrivacyEngine(sampling="shuffled")
    model, optimizer, _, loader = private(engine, **parts(shuffle=True), noise_multiplier=5.0)
    before = weights(model)
    two_epochs(kind, model, loader)
    with pytest.raises(cm.UnprovenCombination, match="of two epochs were accumulated"):
        optimizer.step()
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))
    assert len(engine.accountant) == 0


def test_gradients_that_were_cleared_are_of_no_epoch() -> None:
    engine = PrivacyEngine(sampling="shuffled")
    model, optimizer, _, loader = private(engine, **parts(shuffle=True), noise_multiplier=5.0)
    batches = iter(loader)
    accumulate(model, batches, 1)
    optimizer.step()
    optimizer.zero_grad()
    accumulate(model, batches, 1)  # what is left over
    optimizer.zero_grad()
    accumulate(model, loader, 2)
    optimizer.step()
    assert engine.accountant.history == [(5.0, 0.1, 1), (5.0, 0.2, 1)]


@pytest.mark.parametrize("sampling", ["poisson", "random_allocation"])
def test_opacus_does_not_accumulate_batches_that_are_drawn(sampling: Any) -> None:
    engine = PrivacyEngine(sampling=sampling)
    model, _, _, loader = private(engine, **parts(), noise_multiplier=5.0)
    with pytest.raises(ValueError, match="accumulat"):
        accumulate(model, loader, 2)
    optimizer = SimpleNamespace(accumulated_iterations=2, noise_multiplier=1.0)
    with pytest.raises(cm.UnprovenCombination, match="2 batches were accumulated"):
        engine.accountant.get_optimizer_hook_fn(0.1)(optimizer)


def test_trap_6_two_processes_take_the_same_steps_with_empty_batches() -> None:
    """Twenty batches of two records on average among two processes: most epochs have empty ones."""
    command = [sys.executable, str(TESTS / "integrations" / "two_processes.py")]
    run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert run.returncode == 0, run.stderr
    lines = sorted(line for line in run.stdout.splitlines() if line.startswith("rank"))
    assert lines == [f"rank {rank}: [(1.0, 0.05, 40)], charged {40 if rank == 0 else 0}, refused" for rank in range(2)]


@pytest.mark.parametrize("rate", [0.05, 1 / 49, 1e-4, 1e-6, 1e-7])
def test_trap_7_the_coin_is_on_the_grid_of_single_precision(rate: float) -> None:
    """Every value that torch.rand can take is tried against the rate."""
    grid = torch.arange(2**24, dtype=torch.float32) / 2**24
    assert int((grid < rate).sum()) / 2**24 == torch_coin(rate)
    drawn = torch.rand(100_000, generator=torch.Generator().manual_seed(0)).double() * 2**24
    assert torch.equal(drawn, drawn.round())


def test_coins_of_half_precision_are_refused() -> None:
    """torch.rand would lie on a grid of 2^-11 there."""
    before = torch.get_default_dtype()
    arguments = parts()
    torch.set_default_dtype(torch.float16)
    try:
        with pytest.raises(cm.UnprovenCombination, match="coarser"):
            PrivacyEngine().make_private(**arguments, noise_multiplier=1.0)
    finally:
        torch.set_default_dtype(before)


def test_trap_8_adaptive_clipping_is_refused() -> None:
    register()
    more: dict[str, Any] = {"target_unclipped_quantile": 0.5, "clipbound_learning_rate": 0.2, "max_clipbound": 10.0}
    more |= {"min_clipbound": 0.01, "unclipped_num_std": 2.5}
    with pytest.raises(cm.UnprovenCombination, match="true size of the batch"):
        PrivacyEngine().make_private(**parts(), noise_multiplier=1.0, clipping="adaptive", **more)
    engine = opacus.PrivacyEngine(accountant="cumulant")  # which learns of it with the first step
    model, optimizer, _, loader = private(engine, **parts(), noise_multiplier=1.0, clipping="adaptive", **more)
    before = weights(model)
    with pytest.raises(cm.UnprovenCombination, match="true size of the batch"):
        train(model, optimizer, loader)
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))


def test_a_made_up_record_in_empty_batches_is_refused() -> None:
    register()
    for engine in (PrivacyEngine(), opacus.PrivacyEngine(accountant="cumulant")):
        with pytest.raises(cm.UnprovenCombination, match="rand_on_empty"):
            engine.make_private(**parts(), noise_multiplier=1.0, rand_on_empty=True)


@pytest.mark.parametrize("mode", ["hooks", "ghost"])
def test_trap_9_the_guard_stops_at_the_last_step_of_the_budget(mode: str) -> None:
    engine = PrivacyEngine(epsilon=2.0, delta=1e-5)
    model, optimizer, criterion, loader = private(engine, **parts(), noise_multiplier=1.0, grad_sample_mode=mode)
    most = cm.max_count(step(1.0, 0.1), epsilon=2.0, delta=1e-5)
    while len(engine.accountant) < most:
        train(model, optimizer, itertools.islice(loader, 1), criterion=criterion)
    before = weights(model)
    with pytest.raises(cm.BudgetExceeded, match=f"after {most} steps"):
        train(model, optimizer, loader, criterion=criterion)
    assert len(engine.accountant) == most
    assert engine.get_epsilon(1e-5) <= 2.0 < (step(1.0, 0.1) * (most + 1)).epsilon(delta=1e-5)
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))


def test_trap_10_the_statement_is_about_the_plan() -> None:
    """Whoever stops early, for whatever reason, still has the promise of the planned run."""
    engine = PrivacyEngine()
    target: dict[str, Any] = {"target_epsilon": 3.0, "target_delta": 1e-5, "epochs": 5}
    model, optimizer, loader = engine.make_private_with_epsilon(**parts(), **target)
    train(model, optimizer, loader, epochs=2)
    assert engine.get_epsilon(1e-5) < 2.5
    stated = engine.statement(delta=1e-5)
    assert float(stated.split()[2]) == pytest.approx(3.0, abs=1e-6)
    assert "50 x Gaussian noise" in stated


# Checkpoints and budgets ----------------------------------------------------------------------------------------------


def test_training_resumes_with_its_budget() -> None:
    whole = PrivacyEngine(epsilon=4.0, delta=1e-5)
    model, optimizer, _, loader = private(whole, **parts(), noise_multiplier=1.0)
    train(model, optimizer, loader)
    file = io.BytesIO()
    whole.save_checkpoint(path=file, module=model, optimizer=optimizer)
    file.seek(0)
    resumed = PrivacyEngine()
    model, optimizer, _, loader = private(resumed, **parts(), noise_multiplier=1.0)
    resumed.load_checkpoint(path=file, module=model, optimizer=optimizer)
    assert resumed.accountant.budget == (4.0, 1e-5)
    with pytest.raises(cm.BudgetExceeded):
        train(model, optimizer, loader, epochs=99)
    assert len(resumed.accountant) == cm.max_count(step(1.0, 0.1), epsilon=4.0, delta=1e-5) > 10
    file.seek(0)
    with pytest.raises(cm.InvalidParameter, match="give the accountant the same, or none"):
        PrivacyEngine(epsilon=3.0, delta=1e-5).load_checkpoint(path=file, module=model, optimizer=optimizer)


@pytest.mark.parametrize("make", [lambda: PrivacyEngine(epsilon=2.0, delta=1e-5).accountant, cm.Accountant])
def test_a_state_is_loaded_without_running_code(make: Any) -> None:
    accountant = make()
    if isinstance(accountant, cm.Accountant):
        accountant.compose(step(1.0, 0.1), count=3, label="training")
    else:
        accountant.step(noise_multiplier=torch.tensor(1.0), sample_rate=0.1)
    file = io.BytesIO()
    torch.save(accountant.state_dict(), file)
    file.seek(0)
    state = torch.load(file, weights_only=True)
    fresh = type(accountant)()
    fresh.load_state_dict(state)
    assert (fresh.history, fresh.budget) == (accountant.history, accountant.budget)


def test_shuffled_epochs_are_resumed() -> None:
    engine = PrivacyEngine(sampling="shuffled")
    model, optimizer, _, loader = private(engine, **parts(shuffle=True), noise_multiplier=5.0)
    train(model, optimizer, loader, epochs=2)
    fresh = CumulantAccountant(sampling="shuffled")
    fresh.load_state_dict(engine.accountant.state_dict())
    assert fresh.get_epsilon(1e-5) == engine.get_epsilon(1e-5)


def test_a_charge_comes_before_the_step_and_may_stop_it() -> None:
    charged: list[Any] = []

    def charge(release: Any, count: int) -> None:
        if len(charged) == 3:
            raise cm.BudgetExceeded("the ledger has nothing left")
        charged.append((release, count))

    engine = PrivacyEngine(charge=charge)
    model, optimizer, _, loader = private(engine, **parts(), noise_multiplier=1.0)
    with pytest.raises(cm.BudgetExceeded, match="nothing left"):
        train(model, optimizer, loader)
    assert charged == [(step(1.0, 0.1), 1)] * 3
    assert len(engine.accountant) == 3


def test_a_ledger_pays_for_the_plan_and_takes_back_what_was_not_used(tmp_path: Path) -> None:
    ledger = cm.Ledger(f"sqlite:///{tmp_path / 'budget.db'}")
    planned: dict[str, Any] = {"target_epsilon": 3.0, "target_delta": 1e-5, "epochs": 5}
    noise = PrivacyEngine().noise_for(parts()["data_loader"], epsilon=3.0, delta=1e-5, epochs=5)
    plan = step(noise, 0.1) * 50
    ledger.open("customers", epsilon=3.0, delta=1e-5, neighbors=cm.ZERO_OUT, unit="one customer", plan=plan)
    engine = PrivacyEngine(ledger=ledger, account="customers", key="train-1")
    model, optimizer, loader = engine.make_private_with_epsilon(**parts(), **planned)
    train(model, optimizer, loader, epochs=2)
    other = PrivacyEngine(ledger=ledger, account="customers", key="train-2")
    with pytest.raises(cm.BudgetExceeded):  # before a step was taken: all slots are reserved
        other.make_private_with_epsilon(**parts(), **planned)
    assert engine.settle() is not None
    engine = PrivacyEngine(ledger=ledger, account="customers")
    model, optimizer, _, loader = private(engine, **parts(), noise_multiplier=noise)
    train(model, optimizer, loader, epochs=3)  # what came back, step by step
    with pytest.raises(cm.BudgetExceeded):
        train(model, optimizer, loader)
    ledger.verify()


def test_a_ledger_needs_an_account(tmp_path: Path) -> None:
    ledger = cm.Ledger(f"sqlite:///{tmp_path / 'budget.db'}")
    with pytest.raises(cm.InvalidParameter, match="go together"):
        PrivacyEngine(ledger=ledger)
    with pytest.raises(cm.InvalidParameter, match="settle needs"):
        PrivacyEngine().settle()


def test_shuffled_epochs_are_charged_once() -> None:
    charged: list[Any] = []
    engine = PrivacyEngine(sampling="shuffled", charge=lambda release, count: charged.append(count))
    model, optimizer, _, loader = private(engine, **parts(shuffle=True), noise_multiplier=5.0)
    next(iter(loader))
    train(model, optimizer, loader, epochs=2)
    assert charged == [2, 1]
    optimizer.noise_multiplier = 1.0
    with pytest.raises(cm.UnprovenCombination, match="noise that falls"):
        train(model, optimizer, loader)


# Numbers --------------------------------------------------------------------------------------------------------------


def test_corners_of_the_history() -> None:
    accountant = CumulantAccountant()
    assert accountant.get_epsilon(1e-5) == 0.0
    accountant.history = [(0.0, 0.05, 3)]
    assert accountant.get_epsilon(1e-5) == math.inf
    accountant.history = [(1.0, 0.05, 3), (2.0, 0.05, 1), (1.0, 0.05, 4)]
    assert accountant.get_epsilon(1e-5) == (step(1.0, 0.05) * 7 + step(2.0, 0.05)).epsilon(delta=1e-5)
    for row in [(1.0, 1.5, 1), (-1.0, 0.1, 1), (math.nan, 0.1, 1), (1.0, 0.1, -1), (1.0, 0.1), "row"]:
        with pytest.raises(cm.InvalidParameter):
            accountant.history = [row]
    assert len(accountant) == 8
    states: list[Any] = [None, {}, {"history": []}, {"history": [], "mechanism": "other"}]
    for state in states:
        with pytest.raises(cm.InvalidParameter):
            accountant.load_state_dict(state)


def test_a_budget_with_nothing_left_takes_no_step() -> None:
    accountant = CumulantAccountant(epsilon=1.0, delta=1e-5)
    accountant.history = [(0.5, 0.5, 1000)]
    with pytest.raises(cm.BudgetExceeded):
        accountant.step(noise_multiplier=100.0, sample_rate=0.01)
    accountant.history = []
    with pytest.raises(cm.BudgetExceeded):
        accountant.step(noise_multiplier=0.0, sample_rate=0.01)


def test_the_state_is_opacus_own_with_one_key_more() -> None:
    register()
    state = create_accountant("cumulant").state_dict()
    assert isinstance(state, OrderedDict)
    assert list(state) == ["history", "mechanism", "cumulant"]


def test_refusals_of_the_engine() -> None:
    with pytest.raises(cm.InvalidParameter, match="accountant must be 'cumulant'"):
        PrivacyEngine(accountant="prv")
    with pytest.raises(cm.InvalidParameter, match="a budget needs both"):
        PrivacyEngine(epsilon=1.0)
    with pytest.raises(cm.InvalidParameter, match="sampling must be"):
        PrivacyEngine(sampling="fixed")  # type: ignore[arg-type]


# What follows from the number of records ------------------------------------------------------------------------------


def one_step(engine: Any, size: int) -> tuple[Any, Any, float]:
    """Return the optimizer, the loader and what sums are divided by, measured: gradients are 0, so noise is left."""
    torch.manual_seed(0)
    module = nn.Linear(300, 300, bias=False)
    data = TensorDataset(torch.zeros(size, 300))
    optimizer = torch.optim.SGD(module.parameters(), lr=1.0)
    made = {"module": module, "optimizer": optimizer, "data_loader": DataLoader(data, batch_size=192)}
    model, optimizer, loader = engine.make_private(**made, noise_multiplier=1.0, max_grad_norm=1.0)
    before = module.weight.detach().clone()
    for (batch,) in itertools.islice(loader, 1):
        optimizer.zero_grad()
        (model(batch) ** 2).sum().backward()
        optimizer.step()
    return optimizer, loader, 1 / float((module.weight.detach() - before).std())


def test_divisor_rate_and_steps_follow_from_the_number_of_records() -> None:
    """959, 960 and 961 records are told apart by them: so Opacus does not keep add-or-remove-one."""
    found = {size: one_step(PrivacyEngine(), size) for size in (959, 960, 961)}
    divisors = {size: optimizer.expected_batch_size for size, (optimizer, _, _) in found.items()}
    assert divisors == {959: 191, 960: 192, 961: 160}
    assert [len(loader) for _, loader, _ in found.values()] == [5, 5, 6]
    for size, (_, _, measured) in found.items():
        assert measured == pytest.approx(divisors[size], rel=0.01)  # 90,000 samples of the noise: σ / √180,000 = 0.24 %


def test_the_statement_says_the_relation_that_holds() -> None:
    engine = PrivacyEngine()
    model, optimizer, _, loader = private(engine, **parts(), noise_multiplier=1.0)
    train(model, optimizer, loader)
    said = " ".join(engine.statement(delta=1e-5).split())
    assert engine.accountant.run.neighbors is cm.ZERO_OUT
    assert "a null record, which adds nothing, in its place (zero-out)" in said
    assert "the number of records is public: rates, the number of releases and what sums are divided by may" in said
    assert "add-or-remove-one" not in said
    register()
    plain = opacus.PrivacyEngine(accountant="cumulant")
    model, optimizer, _, loader = private(plain, **parts(), noise_multiplier=1.0)
    train(model, optimizer, loader)
    assert plain.accountant.run.neighbors is cm.ZERO_OUT


@pytest.mark.parametrize("mode", ["hooks", "ghost"])
def test_public_numbers_do_not_follow_from_the_data(mode: str) -> None:
    """Neighbours by a record, or many: rate, steps and divisor are the same, so add-or-remove-one holds."""
    seen = set()
    for size in (180, 599, 600, 601, 660):
        engine = PrivacyEngine(public_size=600)
        arguments = parts(size=size)
        model, optimizer, criterion, loader = private(engine, **arguments, noise_multiplier=1.0, grad_sample_mode=mode)
        sampler = loader.batch_sampler
        assert sampler.num_samples == size
        train(model, optimizer, loader, criterion=criterion)
        seen.add((sampler.sample_rate, len(loader), optimizer.expected_batch_size, *engine.accountant.history))
        assert engine.get_epsilon(1e-5) == (step(1.0, 0.1) * 10).epsilon(delta=1e-5)
    assert seen == {(0.1, 10, 60.0, (1.0, 0.1, 10))}
    said = " ".join(engine.statement(delta=1e-5).split())
    assert "whether one record was in the data (add-or-remove-one)" in said
    assert "the number of records is private" in said


def test_public_numbers_are_measured() -> None:
    for size in (900, 959, 961):
        optimizer, loader, measured = one_step(PrivacyEngine(public_size=960), size)
        assert (optimizer.expected_batch_size, len(loader)) == (192, 5)
        assert measured == pytest.approx(192, rel=0.01)


def test_a_target_is_met_with_public_numbers() -> None:
    engine = PrivacyEngine(public_size=500)
    target: dict[str, Any] = {"target_epsilon": 3.0, "target_delta": 1e-5, "epochs": 5}
    model, optimizer, loader = engine.make_private_with_epsilon(**parts(), **target)
    planned = step(optimizer.noise_multiplier, 1 / 9, cm.ADD_REMOVE) * 45  # 500 records in batches of 60 are 9
    assert engine.planned == planned
    assert 2.9999 < planned.epsilon(delta=1e-5) <= 3.0
    train(model, optimizer, loader, epochs=5)
    assert engine.accountant.run == planned
    with pytest.raises(cm.BudgetExceeded):
        train(model, optimizer, loader)


@pytest.mark.parametrize("batches", [49, 93])
def test_a_public_divisor_is_no_less_than_one(batches: int) -> None:
    """int(49 * (1 / 49)) would be 0."""
    engine = PrivacyEngine(public_size=batches)
    _, optimizer, _, loader = private(engine, **parts(size=40, batch=1), noise_multiplier=1.0)
    assert (loader.batch_sampler.sample_rate, optimizer.expected_batch_size) == (1 / batches, 1.0)


def test_public_size_is_refused_where_it_says_nothing() -> None:
    with pytest.raises(cm.InvalidParameter, match="public_size is for batches that are drawn"):
        PrivacyEngine(public_size=600, sampling="shuffled")
    with pytest.raises(cm.InvalidParameter, match="public_size must be"):
        PrivacyEngine(public_size=0)
    loader = DataLoader(separable(), batch_sampler=[[0, 1], [2, 3]])
    with pytest.raises(cm.UnprovenCombination, match="give the DataLoader a batch_size"):
        private(PrivacyEngine(public_size=600), **{**parts(), "data_loader": loader}, noise_multiplier=1.0)
    register()
    claims = opacus.PrivacyEngine(accountant="cumulant")
    claims.accountant = CumulantAccountant(neighbors=cm.ADD_REMOVE)
    with pytest.raises(cm.UnprovenCombination, match=r"PrivacyEngine\(public_size=\.\.\.\)"):
        private(claims, **parts(), noise_multiplier=1.0)
    with pytest.raises(cm.InvalidParameter, match="neighbors of shuffled batches"):
        CumulantAccountant(sampling="shuffled", neighbors=cm.ZERO_OUT)


def test_states_of_two_relations_do_not_add() -> None:
    public, private_size = CumulantAccountant(neighbors=cm.ADD_REMOVE), CumulantAccountant()
    public.step(noise_multiplier=1.0, sample_rate=0.1)
    with pytest.raises(cm.InvalidParameter, match="about ADD_REMOVE, this accountant about ZERO_OUT"):
        private_size.load_state_dict(public.state_dict())
    fresh = CumulantAccountant(neighbors=cm.ADD_REMOVE)
    fresh.load_state_dict(public.state_dict())
    assert fresh.run == public.run
    with pytest.raises(cm.InvalidParameter, match="do not add"):
        fresh.load_state_dict({"history": [(1.0, 0.1, 5)], "mechanism": "prv"})
    before: dict[str, Any] = {"sampling": "poisson", "epochs_begun": 0, "budget": None}  # a state without a relation
    private_size.load_state_dict({"history": [(1.0, 0.1, 5)], "mechanism": "cumulant", "cumulant": before})
    assert private_size.run.neighbors is cm.ZERO_OUT


def samplers(data: Any) -> dict[str, Any]:
    return {
        "WeightedRandomSampler": WeightedRandomSampler([1.0] * len(data), 120),
        "SubsetRandomSampler": SubsetRandomSampler(range(60)),
        "RandomSampler": RandomSampler(data, replacement=True),
    }


@pytest.mark.parametrize("name", ["WeightedRandomSampler", "SubsetRandomSampler", "RandomSampler"])
def test_a_sampler_that_is_not_used_is_told(name: str) -> None:
    loader = DataLoader(separable(), batch_size=60, sampler=samplers(separable())[name])
    rate = 1 / len(loader)
    engine = PrivacyEngine()
    with pytest.warns(
        UserWarning, match=rf"{name} is not used.*all 600 records joins with probability {rate:g}"
    ) as seen:
        made = private(engine, **{**parts(), "data_loader": loader}, noise_multiplier=1.0)
    assert seen[-1].filename == __file__
    assert made[-1].batch_sampler.num_samples == 600


@pytest.mark.parametrize("shuffle", [False, True])
def test_usual_loaders_are_not_warned_about(shuffle: bool) -> None:
    engine = PrivacyEngine()
    made = private(engine, **parts(shuffle=shuffle), noise_multiplier=1.0)
    engine.make_private(**{**parts(), "data_loader": made[-1]}, noise_multiplier=1.0)  # warnings are errors


# What is changed by hand takes effect at once -------------------------------------------------------------------------


def edits(kind: str, accountant: CumulantAccountant) -> None:
    row = (0.5, 0.5, 1000)
    rows = accountant.history
    match kind:
        case "append":
            rows.append(row)
        case "slice":
            rows[:] = [row]
        case "item":
            rows[0] = row
        case "assign":
            accountant.history = [row]
        case "tensors":
            rows.append((torch.tensor(0.5), 0.5, torch.tensor(1000.0)))
        case "budget":
            accountant.budget = (1e-3, 1e-5)


@pytest.mark.parametrize("kind", ["append", "slice", "item", "assign", "tensors", "budget"])
def test_edits_take_effect_at_once(kind: str) -> None:
    accountant = CumulantAccountant(epsilon=3.0, delta=1e-5)
    held = accountant.history
    for _ in range(2):
        accountant.step(noise_multiplier=1.0, sample_rate=0.01)
    assert held is accountant.history == [(1.0, 0.01, 2)]
    edits(kind, accountant)
    before = accountant.get_epsilon(1e-5)
    assert before > accountant.budget[0]  # type: ignore[index]
    with pytest.raises(cm.BudgetExceeded):
        accountant.step(noise_multiplier=1.0, sample_rate=0.01)
    assert accountant.get_epsilon(1e-5) == before
    accountant.history.clear()
    accountant.budget = (3.0, 1e-5)
    accountant.step(noise_multiplier=1.0, sample_rate=0.01)
    assert len(accountant) == 1


def test_a_budget_that_comes_late_is_kept() -> None:
    accountant = PrivacyEngine().accountant
    for _ in range(3):
        accountant.step(noise_multiplier=1.0, sample_rate=0.5)
    accountant.budget = (0.5, 1e-5)
    with pytest.raises(cm.BudgetExceeded):
        accountant.step(noise_multiplier=1.0, sample_rate=0.5)
    accountant.budget = None
    accountant.step(noise_multiplier=1.0, sample_rate=0.5)
    with pytest.raises(cm.InvalidParameter):
        accountant.budget = (-1.0, 1e-5)
    accountant.history.append("row")  # type: ignore[arg-type]
    with pytest.raises(cm.InvalidParameter, match="a row must be"):
        accountant.get_epsilon(1e-5)


def test_budgets_and_steps_in_any_order_never_exceed() -> None:
    """Steps, budgets and edits at random: after every step that was taken ε is within the budget of that moment."""
    draw = random.Random(5)
    accountant = CumulantAccountant(epsilon=2.0, delta=1e-5)
    taken = refused = 0
    for _ in range(120):
        move = draw.random()
        if move < 0.1:
            accountant.budget = (draw.uniform(0.5, 4.0), 1e-5)
        elif move < 0.2:
            accountant.history.append((draw.choice([1.0, 2.0]), 0.05, draw.randint(1, 4)))
        elif move < 0.25:
            del accountant.history[draw.randrange(3) :]
        else:
            try:
                accountant.step(noise_multiplier=draw.choice([1.0, 2.0]), sample_rate=0.05)
            except cm.BudgetExceeded:
                refused += 1
            else:
                taken += 1
                assert accountant.budget is not None
                assert accountant.get_epsilon(1e-5) <= accountant.budget[0]
    assert min(taken, refused) > 5
