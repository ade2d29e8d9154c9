"""Train on as many processes as said, each with its share of every batch."""

from functools import partial
from pathlib import Path

import torch
from torch import nn

from torchmcl.heads import HypothesisHead
from torchmcl.losses import rmcl_loss
from torchmcl.metrics import OracleError
from torchmcl.training import Hardware, Optimization, TensorBatches, fit

SIZE, COUNT = 24, 96


def main(rank: int, processes: int, path: Path) -> None:
    random = torch.Generator().manual_seed(0)
    x, y = torch.rand(COUNT, 1, generator=random), torch.rand(COUNT, 3, 2, generator=random)
    active = torch.rand(COUNT, 3, generator=random) < torch.linspace(0, 1, COUNT)[:, None]
    own = TensorBatches(*(each[rank::processes] for each in (x, y, active)), batch_size=SIZE // processes)

    def network() -> nn.Module:
        return nn.Sequential(nn.Linear(1, 16), nn.ReLU(), HypothesisHead(16, 5, 2))

    fitted = fit(
        network, partial(rmcl_loss, negatives=1), own, own, seed=3, hardware=Hardware("cpu", processes),
        optimization=Optimization(epochs=5, learning_rate=0.01, ema=0.9), metrics={"oracle": OracleError()},
    )  # fmt: skip
    if rank == 0:
        torch.save({"weights": fitted.network.state_dict(), "history": fitted.history}, path)
