"""Training by `training.fit` from end to end, against bare steps: the toy problem, and a small table."""

import time
from collections.abc import Callable
from statistics import median

import torch
from torch import Tensor, nn
from torch.nn.functional import mse_loss
from torch.optim import AdamW

from benchmarks import Row, show
from torchmcl import HypothesisHead, rmcl_loss
from torchmcl.toy.presets import PAPER, Settings
from torchmcl.toy.train import samples, steps, train
from torchmcl.training import Optimization, TensorBatches, fit

__all__ = ["rows"]

REPETITIONS = 3
ROWS, SIZE, EPOCHS = 920, 46, 30


def rows() -> list[Row]:
    """CPU seconds, by turns; the ratios are reported, no bound is promised.

    Ours shuffles, trains by Lightning, validates and keeps the best weights after each epoch. The other of the toy is
    the same layers with as many outputs, one batch over and over, nothing but forward, backward and the optimizer. The
    other of the table is a loop with the same network, loss and batches, and no validation.
    """
    data = samples(PAPER, 0)
    toy = _compare(lambda: train("rmcl", PAPER, 0, data), lambda: _bare_toy(PAPER))
    x, y = torch.rand(ROWS, 8), torch.rand(ROWS, 1, 1)
    table = _compare(lambda: _fit_table(x, y), lambda: _bare_table(x, y))
    return [
        Row("toy training of rMCL end to end, over bare steps with MSE", *toy),
        Row("training on a table of 920 rows end to end, over a bare loop", *table),
    ]


def _compare(ours: Callable[[], object], other: Callable[[], object]) -> tuple[float, float, float]:
    pairs = [(_seconds(ours), _seconds(other)) for _ in range(REPETITIONS)]
    return (
        median(own for own, _ in pairs),
        median(bare for _, bare in pairs),
        median(own / bare for own, bare in pairs),
    )


def _seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def _bare_toy(settings: Settings) -> None:
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


def _network() -> nn.Module:
    return nn.Sequential(
        nn.Linear(8, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), HypothesisHead(128, 10, 1)
    )


def _fit_table(x: Tensor, y: Tensor) -> None:
    batches = TensorBatches(x, y, batch_size=SIZE, shuffle_seed=0)
    validation = TensorBatches(x[:100], y[:100], batch_size=100)
    fit(_network, rmcl_loss, batches, validation, seed=0, optimization=Optimization(epochs=EPOCHS))


def _bare_table(x: Tensor, y: Tensor) -> None:
    network = _network()
    optimizer = AdamW(network.parameters(), lr=1e-3, fused=True)
    batches = TensorBatches(x, y, batch_size=SIZE, shuffle_seed=0)
    for _ in range(EPOCHS):
        for inputs, targets in batches:
            optimizer.zero_grad()
            rmcl_loss(network(inputs), targets).backward()
            optimizer.step()


if __name__ == "__main__":
    show(rows())
