"""Opacus with batches that every record draws by itself: random allocation, trained, observed and accounted for."""

from __future__ import annotations

import io
import sys
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

opacus = pytest.importorskip("opacus", reason="Opacus is not installed: pip install '.[opacus]'")

import torch  # noqa: E402
from opacus.utils.batch_memory_manager import BatchMemoryManager  # noqa: E402
from torch import nn  # noqa: E402
from torch.utils.data import DataLoader, TensorDataset, WeightedRandomSampler  # noqa: E402

import cumulant as cm  # noqa: E402
from cumulant.integrations.opacus import CumulantAccountant, PrivacyEngine, register  # noqa: E402
from cumulant.integrations.opacus.loaders import AllocatedBatches, uniform_draws  # noqa: E402
from integrations.training import accuracy, parts, separable, train, weights  # noqa: E402

pytestmark = [
    pytest.mark.filterwarnings("ignore:Secure RNG"),
    pytest.mark.filterwarnings("ignore:Full backward hook"),
    pytest.mark.filterwarnings("ignore:.*expanded weights.*"),
]


def epochs(sigma: float, count: int, *, steps: int = 10, relation: Any = cm.ZERO_OUT) -> Any:
    return cm.Gaussian(noise_multiplier=sigma).random_allocation(steps=steps, neighbors=relation) * count


def numbered(size: int, batch: int, **loading: Any) -> dict[str, Any]:
    """Return what `make_private` takes, of records that carry their number."""
    module = nn.Linear(1, 1)
    data = TensorDataset(torch.arange(size, dtype=torch.float32).reshape(-1, 1))
    return {
        "module": module,
        "optimizer": torch.optim.SGD(module.parameters(), lr=0.0),
        "data_loader": DataLoader(data, batch_size=batch, **loading),
        "max_grad_norm": 1.0,
    }


def seen_in(loader: Any) -> list[list[int]]:
    """Return the records of every batch of an epoch."""
    return [batch[0].flatten().int().tolist() for batch in loader]


# Training -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["hooks", "functorch", "ew", "ghost"])
def test_training_learns_and_knows_its_epsilon(mode: str) -> None:
    engine = PrivacyEngine(sampling="random_allocation")
    made = engine.make_private(**parts(), noise_multiplier=1.0, grad_sample_mode=mode)
    model, optimizer, loader = made[0], made[1], made[-1]
    found = []
    for _ in range(4):
        train(model, optimizer, loader, criterion=made[2] if len(made) == 4 else None)
        found.append(engine.get_epsilon(1e-5))
    assert engine.accountant.history == [(1.0, 0.1, 40)]
    assert engine.accountant.epochs_begun == 4
    assert found == [epochs(1.0, n).epsilon(delta=1e-5) for n in (1, 2, 3, 4)]
    said: dict[str, Any] = {"sampling": "random_allocation", "bins": "fresh", "neighbors": cm.ZERO_OUT}
    assert engine.accountant.run == cm.dp_sgd(noise_multiplier=1.0, sample_rate=0.1, epochs=4, **said)
    by_coins = cm.dp_sgd(noise_multiplier=1.0, sample_rate=0.1, epochs=4, neighbors=cm.ZERO_OUT)
    assert found[-1] < by_coins.epsilon(delta=1e-5)
    optimizer.zero_grad()
    assert accuracy(model) > 0.8


def test_the_statement_says_what_the_loader_does() -> None:
    engine = PrivacyEngine(sampling="random_allocation")
    model, optimizer, loader = engine.make_private(**parts(), noise_multiplier=1.0)
    train(model, optimizer, loader, epochs=2)
    said = " ".join(engine.statement(delta=1e-5).split())
    for part in (
        "2 x an epoch of 10 steps of which every record draws one for itself",
        "batches are drawn anew in every epoch",
        "no batch is filled up or cut to a size",
        "a null record, which adds nothing, in its place (zero-out)",
    ):
        assert part in said
    assert "Poisson" not in said


def test_every_record_is_in_one_batch_of_every_epoch_drawn_anew() -> None:
    engine = PrivacyEngine(sampling="random_allocation")
    torch.manual_seed(7)
    _, _, loader = engine.make_private(**numbered(600, 60), noise_multiplier=1.0)
    walks = [seen_in(loader) for _ in range(3)]
    for walk in walks:
        assert len(walk) == len(loader) == 10
        assert sorted(record for batch in walk for record in batch) == list(range(600))
        assert len({len(batch) for batch in walk}) > 3  # Bin(600, 1/10), not cut to 60
    where = [{record: k for k, batch in enumerate(walk) for record in batch} for walk in walks]
    for one, other in ((0, 1), (1, 2)):  # Bin(600, 1/10) records are in the same batch again
        assert 30 < sum(where[one][record] == where[other][record] for record in range(600)) < 95
    assert engine.accountant.epochs_begun == 3


def test_draws_are_uniform_and_independent() -> None:
    """Of pairs of records in three batches all nine outcomes are as likely: χ² with 8 degrees, 26.1 at 0.1 %."""
    draws = [uniform_draws(2, 3, torch.Generator().manual_seed(seed)).tolist() for seed in range(9000)]
    counts = Counter(map(tuple, draws))
    assert sum((counts[a, b] - 1000) ** 2 / 1000 for a in range(3) for b in range(3)) < 26.1


@pytest.mark.parametrize("choices", [1, 2, 3, 10, 196, 10_007, 2**24 + 1])
def test_what_is_drawn_is_a_power_of_two(choices: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Remainders of 32 bits are uniform for these alone; what lies beyond the choices is drawn again."""
    drawn: list[int] = []
    original = torch.randint

    def randint(most: int, *arguments: Any, **named: Any) -> torch.Tensor:
        drawn.append(most)
        return original(most, *arguments, **named)

    monkeypatch.setattr(torch, "randint", randint)
    found = uniform_draws(2000, choices)
    assert set(drawn) == {1 << (choices - 1).bit_length()}
    assert 0 <= int(found.min()) <= int(found.max()) < choices


def test_the_sum_is_divided_by_a_fixed_number() -> None:
    """Without noise a step is the sum of clipped gradients over 60, whatever the size of the batch."""
    engine = PrivacyEngine(sampling="random_allocation")
    arguments = numbered(600, 60)
    model, optimizer, loader = engine.make_private(**arguments, noise_multiplier=0.0)
    assert optimizer.expected_batch_size == 60
    sizes = []
    for (x,) in loader:
        optimizer.zero_grad()
        model(x).sum().backward()  # the gradient of a record is (x, 1), of norm √(x² + 1), and is clipped to 1
        optimizer.step()
        clipped = (torch.cat([x, torch.ones_like(x)], dim=1) / torch.sqrt(x**2 + 1)).sum(dim=0)
        assert torch.cat([p.grad.flatten() for p in model.parameters()]) == pytest.approx(clipped / 60, rel=1e-4)
        sizes.append(len(x))
    assert len(set(sizes)) > 3


def test_empty_batches_are_released() -> None:
    """Twenty records draw twenty batches: about seven are empty, and every one is a step with noise."""
    engine = PrivacyEngine(sampling="random_allocation")
    torch.manual_seed(0)
    arguments = {**parts(size=20, batch=1)}
    model, optimizer, loader = engine.make_private(**arguments, noise_multiplier=1.0)
    empty = moved = 0
    for x, y in loader:
        before = weights(model)
        optimizer.zero_grad()
        nn.CrossEntropyLoss(reduction="sum")(model(x), y).backward()
        optimizer.step()
        moved += not all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))
        empty += len(x) == 0
    assert empty > 2
    assert (moved, engine.accountant.history) == (20, [(1.0, 0.05, 20)])


# Where randomness comes from ------------------------------------------------------------------------------------------


def test_the_generator_of_the_loader_draws() -> None:
    found = []
    for seed in (3, 3, 4):
        engine = PrivacyEngine(sampling="random_allocation")
        generator = torch.Generator().manual_seed(seed)
        arguments = numbered(60, 6, generator=generator)
        _, _, loader = engine.make_private(**arguments, noise_multiplier=1.0)
        assert loader.batch_sampler.batches.generator is generator
        found.append([sorted(batch) for batch in seen_in(loader)])
    assert found[0] == found[1] != found[2]


def test_the_secure_generator_draws_in_secure_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    secure = torch.Generator().manual_seed(11)
    asked: list[str] = []

    def create(device: str) -> torch.Generator:
        asked.append(device)
        return secure

    monkeypatch.setitem(sys.modules, "torchcsprng", SimpleNamespace(create_random_device_generator=create))
    engine = PrivacyEngine(sampling="random_allocation", secure_mode=True)
    arguments = numbered(60, 6, generator=torch.Generator().manual_seed(3))
    _, optimizer, loader = engine.make_private(**arguments, noise_multiplier=1.0)
    assert asked == ["/dev/urandom"]
    assert loader.batch_sampler.batches.generator is secure is optimizer.generator
    before = secure.get_state()
    next(iter(loader))
    assert not torch.equal(before, secure.get_state())


# Accounting -----------------------------------------------------------------------------------------------------------


def test_an_epoch_that_is_left_early_is_an_epoch() -> None:
    engine = PrivacyEngine(sampling="random_allocation")
    model, optimizer, loader = engine.make_private(**parts(), noise_multiplier=1.0)
    for _ in range(3):
        train(model, optimizer, [next(iter(loader))])
    assert (engine.accountant.epochs_begun, len(engine.accountant)) == (3, 3)
    assert engine.accountant.run == epochs(1.0, 3)


@pytest.mark.parametrize("workers", [0, 1])
def test_workers_and_split_batches_count_an_epoch_once(workers: int) -> None:
    engine = PrivacyEngine(sampling="random_allocation")
    loading: dict[str, Any] = {"num_workers": workers, "multiprocessing_context": "spawn" if workers else None}
    model, optimizer, loader = engine.make_private(**parts(**loading), noise_multiplier=1.0)
    with BatchMemoryManager(data_loader=loader, max_physical_batch_size=16, optimizer=optimizer) as split:
        train(model, optimizer, split)
    assert (engine.accountant.epochs_begun, engine.accountant.history) == (1, [(1.0, 0.1, 10)])


def test_a_target_is_met_and_kept() -> None:
    engine = PrivacyEngine(sampling="random_allocation")
    target: dict[str, Any] = {"target_epsilon": 3.0, "target_delta": 1e-5, "epochs": 5}
    model, optimizer, loader = engine.make_private_with_epsilon(**parts(), **target)
    by_coins = PrivacyEngine().noise_for(parts()["data_loader"], epsilon=3.0, delta=1e-5, epochs=5)
    assert optimizer.noise_multiplier < by_coins
    train(model, optimizer, loader, epochs=5)
    before, spent = weights(model), engine.get_epsilon(1e-5)
    assert 2.9999 < spent <= 3.0
    with pytest.raises(cm.BudgetExceeded):
        train(model, optimizer, loader)
    assert engine.get_epsilon(1e-5) == spent
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))


@pytest.mark.parametrize("size", [180, 599, 600, 601, 660])
def test_public_numbers_do_not_follow_from_the_data(size: int) -> None:
    engine = PrivacyEngine(sampling="random_allocation", public_size=600)
    model, optimizer, loader = engine.make_private(**parts(size=size), noise_multiplier=1.0)
    train(model, optimizer, loader)
    assert (len(loader), optimizer.expected_batch_size) == (10, 60.0)
    assert engine.accountant.history == [(1.0, 0.1, 10)]
    assert engine.accountant.run == epochs(1.0, 1, relation=cm.ADD_REMOVE)


def test_two_loaders_have_epochs_of_their_own() -> None:
    engine = PrivacyEngine(sampling="random_allocation")
    data = separable()
    for batch, sigma in ((60, 2.0), (30, 1.0)):
        arguments = {**parts(), "data_loader": DataLoader(data, batch_size=batch)}
        train(*engine.make_private(**arguments, noise_multiplier=sigma))
    assert engine.accountant.run == epochs(1.0, 1) + epochs(1.0, 1, steps=20)  # at the least noise of the run


def test_training_resumes() -> None:
    before = PrivacyEngine(sampling="random_allocation", epsilon=6.0, delta=1e-5)
    model, optimizer, loader = before.make_private(**parts(), noise_multiplier=1.0)
    train(model, optimizer, loader, epochs=2)
    file = io.BytesIO()
    before.save_checkpoint(path=file, module=model, optimizer=optimizer)
    file.seek(0)
    after = PrivacyEngine(sampling="random_allocation")
    model, optimizer, loader = after.make_private(**parts(), noise_multiplier=1.0)
    after.load_checkpoint(path=file, module=model, optimizer=optimizer)
    assert after.accountant.run == before.accountant.run == epochs(1.0, 2)
    with pytest.raises(cm.BudgetExceeded):
        train(model, optimizer, loader, epochs=99)
    assert after.accountant.run == epochs(1.0, cm.max_count(epochs(1.0, 1), epsilon=6.0, delta=1e-5))
    assert after.get_epsilon(1e-5) <= 6.0  # of the epoch that was refused nothing was released
    file.seek(0)
    with pytest.raises(cm.InvalidParameter, match="do not add"):
        PrivacyEngine().load_checkpoint(path=file, module=model)


def test_epochs_are_charged_when_they_begin() -> None:
    charged: list[Any] = []
    engine = PrivacyEngine(sampling="random_allocation", charge=lambda release, count: charged.append((release, count)))
    model, optimizer, loader = engine.make_private(**parts(), noise_multiplier=1.0)
    train(model, optimizer, loader, epochs=2)
    ((epoch, _),) = epochs(1.0, 1).parts
    assert charged == [(epoch, 1)] * 2


def test_a_ledger_pays_for_epochs(tmp_path: Any) -> None:
    noise = PrivacyEngine(sampling="random_allocation").noise_for(
        parts()["data_loader"], epsilon=3.0, delta=1e-5, epochs=5
    )
    ledger = cm.Ledger(f"sqlite:///{tmp_path / 'budget.db'}")
    plan = epochs(noise, 5)
    ledger.open("customers", epsilon=3.0, delta=1e-5, neighbors=cm.ZERO_OUT, unit="one customer", plan=plan)
    engine = PrivacyEngine(sampling="random_allocation", ledger=ledger, account="customers", key="train-1")
    target: dict[str, Any] = {"target_epsilon": 3.0, "target_delta": 1e-5, "epochs": 5}
    model, optimizer, loader = engine.make_private_with_epsilon(**parts(), **target)
    train(model, optimizer, loader, epochs=2)
    assert engine.settle() is not None
    ledger.verify()


# Refusals -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("poisson", [True, False])
def test_another_sampling_contradicts(poisson: bool) -> None:
    engine = PrivacyEngine(sampling="random_allocation")
    with pytest.raises(cm.UnprovenCombination, match="contradicts PrivacyEngine"):
        engine.make_private(**parts(), noise_multiplier=1.0, poisson_sampling=poisson)


def test_the_engine_of_opacus_does_not_draw_so() -> None:
    register()
    theirs = opacus.PrivacyEngine(accountant="cumulant")
    theirs.accountant = CumulantAccountant(sampling="random_allocation")
    with pytest.raises(cm.UnprovenCombination, match="not drawn as is accounted for"):
        theirs.make_private(**parts(), noise_multiplier=1.0)
    with pytest.raises(cm.UnprovenCombination, match="before any epoch"):
        CumulantAccountant(sampling="random_allocation").step(noise_multiplier=1.0, sample_rate=0.1)


def test_a_sampler_that_is_not_used_is_told() -> None:
    data = separable()
    loader = DataLoader(data, batch_size=60, sampler=WeightedRandomSampler([1.0] * 600, 600))
    engine = PrivacyEngine(sampling="random_allocation")
    with pytest.warns(UserWarning, match="every one of all 600 records draws one of 10 batches in each epoch"):
        engine.make_private(**{**parts(), "data_loader": loader}, noise_multiplier=1.0)


def test_batches_without_opacus() -> None:
    batches = AllocatedBatches(records=100, batches=7, generator=torch.Generator().manual_seed(0))
    loader = DataLoader(TensorDataset(torch.arange(100)), batch_sampler=batches, collate_fn=list)
    assert len(loader) == 7
    assert sorted(int(record) for batch in loader for (record,) in batch) == list(range(100))
