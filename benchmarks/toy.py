"""Training rMCL on the toy problem from end to end, against the bare steps of a mean squared error."""

import time
from collections.abc import Callable
from statistics import median

import torch
from torch import nn
from torch.nn.functional import mse_loss
from torch.optim import AdamW

from benchmarks import Row, show
from torchmcl.toy.presets import PAPER, Settings
from torchmcl.toy.train import samples, steps, train

__all__ = ["rows"]

REPETITIONS = 3


def rows() -> list[Row]:
    """CPU seconds under the paper's settings, by turns; the ratio is reported, no bound is promised.

    Ours shuffles, trains by Lightning, validates and keeps the best weights after each epoch. The other is the same
    layers with as many outputs, one batch over and over, nothing but forward, backward and the optimizer.
    """
    data = samples(PAPER, 0)
    ours, bare = [], []
    for _ in range(REPETITIONS):
        ours.append(_seconds(lambda: train("rmcl", PAPER, 0, data)))
        bare.append(_seconds(lambda: _bare(PAPER)))
    ratio = median(a / b for a, b in zip(ours, bare, strict=True))
    return [
        Row(
            "toy training of rMCL end to end, over bare steps with MSE",
            median(ours),
            median(bare),
            ratio,
            None,
        )
    ]


def _seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def _bare(settings: Settings) -> None:
    units, outputs = settings.units, 3 * settings.hypotheses
    network = nn.Sequential(
        nn.Linear(1, units), nn.ReLU(), nn.Linear(units, units), nn.ReLU(), nn.Linear(units, outputs)
    )
    optimizer = AdamW(network.parameters(), lr=settings.learning_rate, weight_decay=0.0, fused=True)
    x, y = torch.rand(settings.batch_size, 1), torch.rand(settings.batch_size, outputs)
    for _ in range(steps("rmcl", settings)):
        optimizer.zero_grad()
        mse_loss(network(x), y).backward()
        optimizer.step()


if __name__ == "__main__":
    show(rows())
