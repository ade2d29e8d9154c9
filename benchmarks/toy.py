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
from torchmcl.toy.train import fit, steps

__all__ = ["rows"]

REPETITIONS = 5


def rows() -> list[Row]:
    """The paper's settings.

    Ours draws the samples, shuffles, trains by Lightning, validates and keeps the best weights after each
    epoch, and reports progress. The other is the same layers with as many outputs, one batch over and over,
    nothing but forward, backward and PyTorch's fastest optimiser, and gradients dropped as cheaply as ours. They
    take turns after each epoch, for the speed of a machine may change within seconds.
    """
    _taking_turns(PAPER)
    ours, bare = zip(*(_taking_turns(PAPER) for _ in range(REPETITIONS)), strict=True)
    ratio = median(a / b for a, b in zip(ours, bare, strict=True))
    name = "toy training of rMCL end to end, over bare steps with MSE"
    return [Row(name, median(ours), median(bare), ratio, 1.3)]


def _taking_turns(settings: Settings) -> tuple[float, float]:
    """The seconds of a whole training, and of as many bare steps done between its epochs."""
    step = _bare(settings)
    epoch = steps("rmcl", settings) // settings.epochs
    done, bare = 0, 0.0

    def advance() -> None:
        nonlocal done, bare
        done += 1
        if done % epoch == 0:
            start = time.perf_counter()
            for _ in range(epoch):
                step()
            bare += time.perf_counter() - start

    start = time.perf_counter()
    fit("rmcl", settings, 0, advance)
    return time.perf_counter() - start - bare, bare


def _bare(settings: Settings) -> Callable[[], None]:
    units, outputs = settings.units, 3 * settings.hypotheses
    network = nn.Sequential(
        nn.Linear(1, units), nn.ReLU(), nn.Linear(units, units), nn.ReLU(), nn.Linear(units, outputs)
    )
    parameters = list(network.parameters())
    optimizer = AdamW(parameters, lr=settings.learning_rate, weight_decay=0.0, fused=True)
    x, y = torch.rand(settings.batch_size, 1), torch.rand(settings.batch_size, outputs)

    def step() -> None:
        for parameter in parameters:
            parameter.grad = None
        mse_loss(network(x), y).backward()
        optimizer.step()

    return step


if __name__ == "__main__":
    show(rows())
