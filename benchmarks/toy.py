"""Training rMCL on the toy problem from end to end, against the bare steps of a mean squared error."""

from statistics import median

import torch
from torch import nn
from torch.optim import AdamW

from benchmarks import Row, durations, show
from torchmcl.toy.presets import PAPER, Settings
from torchmcl.toy.train import fit, steps

__all__ = ["rows"]


def rows() -> list[Row]:
    """The paper's settings.

    Ours draws the samples, shuffles, trains by Lightning, validates and keeps the best weights after each
    epoch, and reports progress. The other is the same network with as many outputs, one batch over and over,
    nothing but forward, backward and optimiser. Each takes many seconds, in which the speed of a machine may
    change: the ratio is the median of those of neighbours.
    """
    seconds = durations(
        {"ours": lambda: fit("rmcl", PAPER, seed=0), "bare": lambda: _bare(PAPER)}, repetitions=7
    )
    ratio = median(ours / bare for ours, bare in zip(*seconds.values(), strict=True))
    name = "toy training of rMCL end to end, over bare steps with MSE"
    return [Row(name, median(seconds["ours"]), median(seconds["bare"]), ratio, 1.3)]


def _bare(settings: Settings) -> None:
    units, outputs = settings.units, 3 * settings.hypotheses
    network = nn.Sequential(
        nn.Linear(1, units), nn.ReLU(), nn.Linear(units, units), nn.ReLU(), nn.Linear(units, outputs)
    )
    optimizer = AdamW(network.parameters(), lr=settings.learning_rate, weight_decay=0.0, fused=True)
    x, y = torch.rand(settings.batch_size, 1), torch.rand(settings.batch_size, outputs)
    for _ in range(steps("rmcl", settings)):
        optimizer.zero_grad()
        nn.functional.mse_loss(network(x), y).backward()
        optimizer.step()


if __name__ == "__main__":
    show(rows())
