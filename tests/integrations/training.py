"""A small model, separable data and a loop: what every test of an integration with PyTorch trains."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def separable(size: int = 600) -> TensorDataset:
    """Return points on both sides of a line."""
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(size, 8, generator=generator)
    return TensorDataset(x, (x[:, 0] > 0).long())


def parts(*, size: int = 600, batch: int = 60, **loading: Any) -> dict[str, Any]:
    """Return what `make_private` takes; two layers, so that clipping is over several tensors."""
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(8, 6), nn.ReLU(), nn.Linear(6, 2))
    return {
        "module": module,
        "optimizer": torch.optim.SGD(module.parameters(), lr=0.5),
        "data_loader": DataLoader(separable(size), batch_size=batch, **loading),
        "max_grad_norm": 1.0,
    }


def train(model: Any, optimizer: Any, loader: Any, *, epochs: int = 1, criterion: Any = None) -> None:
    loss = nn.CrossEntropyLoss() if criterion is None else criterion
    for _ in range(epochs):
        for x, y in loader:
            optimizer.zero_grad()
            loss(model(x), y).backward()
            optimizer.step()


def accuracy(model: Any) -> float:
    x, y = separable().tensors
    with torch.no_grad():
        return float((model(x).argmax(dim=1) == y).float().mean())


def weights(model: Any) -> list[torch.Tensor]:
    return [parameter.detach().clone() for parameter in model.parameters()]
