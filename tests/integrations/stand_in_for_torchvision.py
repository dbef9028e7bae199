"""What tests of Opacus take of torchvision: images at random; its networks are not there."""

from __future__ import annotations

import contextlib
import importlib.machinery
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import torch
from torch.utils.data import Dataset


class FakeData(Dataset[Any]):  # type: ignore[misc]
    """Noise with labels, the same whenever it is asked for."""

    def __init__(self, size: int, image_size: tuple[int, ...], num_classes: int, transform: Any = None) -> None:
        self.size, self.shape, self.classes = size, image_size, num_classes

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        if index >= self.size:
            raise IndexError(index)
        generator = torch.Generator().manual_seed(index)
        image = torch.randn(self.shape, generator=generator)
        return image, int(torch.randint(self.classes, (), generator=generator))


@contextlib.contextmanager
def stand_in() -> Iterator[None]:
    """Let modules be imported that need torchvision, and take its name back."""
    package, datasets, transforms, models = (
        ModuleType(name) for name in ("torchvision", *(f"torchvision.{part}" for part in PARTS))
    )
    package.__spec__ = importlib.machinery.ModuleSpec("torchvision", None)
    vars(package).update(datasets=datasets, transforms=transforms, models=models)
    vars(datasets).update(FakeData=FakeData)
    vars(transforms).update(dict.fromkeys(("Compose", "ToTensor", "Normalize"), lambda *arguments: None))
    named = {module.__name__: module for module in (package, datasets, transforms, models)}
    before = {name: sys.modules.pop(name, None) for name in named}
    sys.modules.update(named)
    try:  # what else is imported meanwhile stays: a second import of parts of torch would fail
        yield
    finally:
        for name, module in before.items():
            del sys.modules[name]
            if module is not None:
                sys.modules[name] = module


PARTS = ("datasets", "transforms", "models")
