"""How many hypotheses, and do all of them work?

The oracle error always falls with K. The log-likelihood of held-out data does not: it
says when more hypotheses stop helping. And a histogram of winners shows hypotheses that
have stopped learning: they never win.
"""

import sys
from functools import partial

import torch
from matplotlib.figure import Figure
from torch import Tensor, nn

from torchmcl import (
    Box,
    Gaussian,
    Hypotheses,
    HypothesisHead,
    WinnerHistogram,
    oracle_error,
    relaxed,
    rmcl_loss,
)

torch.manual_seed(0)
SUPPORT = Box([5, 5], [11, 11])


def draw(count: int) -> tuple[Tensor, Tensor]:
    """Inputs `(count, 1)` and targets `(count, 1, 2)`: four clusters that turn with them."""
    inputs = torch.rand(count, 1)
    corner = torch.randint(4, (count,)) * torch.pi / 2 + inputs[:, 0]
    centre = 8 + 1.5 * torch.stack([corner.cos(), corner.sin()], -1)
    return inputs, (centre + 0.25 * torch.randn(count, 2))[:, None]


def trained(head: HypothesisHead, steps: int = 300, **options) -> nn.Module:
    network = nn.Sequential(nn.Linear(1, 64), nn.ReLU(), head)
    optimizer = torch.optim.Adam(network.parameters())
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr=2e-2, total_steps=steps
    )
    for _ in range(steps):
        inputs, targets = draw(256)
        loss = rmcl_loss(network(inputs), targets, **options)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    return network


def answers(network: nn.Module, inputs: Tensor) -> Hypotheses:
    with torch.no_grad():
        return network(inputs)


sizes = [1, 2, 4, 8, 16, 32]
inputs, targets = draw(300)
likelihood, oracle = [], []
for size in sizes:
    answer = answers(
        trained(HypothesisHead(64, size, 2, "softmax", spread=SUPPORT)), inputs
    )
    oracle.append(oracle_error(answer, targets).mean().item())
    law = Gaussian(oracle[-1])  # as wide as targets are away from their hypothesis
    likelihood.append(answer.density(law).log_prob(targets[:, 0]).mean().item())

starts = {
    "all start at the origin": (None, {}),
    "… and losers learn a little": (None, {"assign": partial(relaxed, epsilon=0.1)}),
    "start spread over the data": (SUPPORT, {}),
}
inputs, targets = draw(4000)
winners = {}
for name, (spread, options) in starts.items():
    winners[name] = WinnerHistogram(16)
    winners[name].update(
        answers(
            trained(HypothesisHead(64, 16, 2, "softmax", spread), **options), inputs
        ),
        targets,
    )

figure = Figure(figsize=(9, 3.8), layout="constrained")
left, right = figure.subplots(1, 2)
left.plot(likelihood, "o-", color="tab:blue")
left.set(xlabel="K", title="Held-out data")
left.set_xticks(range(len(sizes)), sizes)
left.set_ylabel("mean log-likelihood", color="tab:blue")
other = left.twinx()
other.plot(oracle, "s--", color="tab:orange")
other.set_ylabel("oracle error", color="tab:orange")
for name, metric in winners.items():
    shares = metric.compute().sort(descending=True).values / 4000
    right.plot(
        range(1, 17), shares, "o-", label=f"{name}: {metric.never} of 16 never win"
    )
right.set(
    xlabel="hypotheses, the most frequent winner first",
    xticks=[1, 4, 8, 12, 16],
    ylabel="share of items won",
    title="Who wins?",
)
right.legend(fontsize=8)
figure.savefig(sys.argv[1] if len(sys.argv) > 1 else "choosing_k.png", dpi=110)
