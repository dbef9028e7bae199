"""Two processes train one model by gloo; each prints its history, what was charged, and what Opacus' engine does."""

from __future__ import annotations

import datetime
import os
import socket
import sys
import warnings
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

warnings.simplefilter("ignore")


def work(rank: int, port: int) -> None:
    import opacus
    from opacus.distributed import DifferentiallyPrivateDistributedDataParallel as Parallel

    import cumulant as cm
    from cumulant.integrations.opacus import PrivacyEngine, register

    torch.set_num_threads(1)
    address = f"tcp://127.0.0.1:{port}"
    dist.init_process_group(
        "gloo", init_method=address, rank=rank, world_size=2, timeout=datetime.timedelta(seconds=240)
    )
    torch.manual_seed(rank)
    data = TensorDataset(torch.randn(40, 4), torch.randint(0, 2, (40,)))

    def parts() -> dict[str, Any]:
        module = Parallel(nn.Linear(4, 2))
        optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
        loader = DataLoader(data, batch_size=2)
        return {"module": module, "optimizer": optimizer, "data_loader": loader, "max_grad_norm": 1.0}

    charged: list[Any] = []
    engine = PrivacyEngine(charge=lambda release, count: charged.append(release))
    model, optimizer, loader = engine.make_private(**parts(), noise_multiplier=1.0)
    for _ in range(2):
        for x, y in loader:
            optimizer.zero_grad()
            nn.CrossEntropyLoss(reduction="sum")(model(x), y).backward()
            optimizer.step()
    allocated = PrivacyEngine(sampling="random_allocation")
    _, _, loader = allocated.make_private(**parts(), noise_multiplier=1.0)
    mine = [[int(i) for i in batch] for batch in loader.batch_sampler]
    found: list[Any] = [None, None]
    dist.all_gather_object(found, mine)
    records = sorted(i for batches in found for batch in batches for i in batch)
    assert records == list(range(40))
    assert [len(batches) for batches in found] == [20, 20]
    register()
    try:
        opacus.PrivacyEngine(accountant="cumulant").make_private(**parts(), noise_multiplier=1.0)
        verdict = "taken"
    except cm.UnprovenCombination:
        verdict = "refused"
    sys.stdout.write(f"rank {rank}: {engine.accountant.history}, charged {len(charged)}, {verdict}\n")
    sys.stdout.flush()
    dist.barrier()
    dist.destroy_process_group()


def free_port() -> int:
    with socket.socket() as there:
        there.bind(("127.0.0.1", 0))
        port: int = there.getsockname()[1]
        return port


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    torch.multiprocessing.spawn(work, args=(free_port(),), nprocs=2)
