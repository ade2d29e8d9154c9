"""Futures that fork.

A cyclist comes to a crossing and rides on straight, turns left or turns right; where on
the lane the cyclist rides gives a hint. A hypothesis is a whole future, twelve
positions of two coordinates, and its score is the probability of going that way.
"""

import sys

import torch
from matplotlib.figure import Figure
from torch import nn

from torchmcl import HypothesisHead, rmcl_loss

torch.manual_seed(0)
STEPS = torch.arange(1, 13) / 12


def ride(lane: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Six positions `(n, 6, 2)` before the crossing, and one future `(n, 12, 2)`."""
    left, right = torch.sigmoid(-6 * lane - 1), torch.sigmoid(6 * lane - 1)
    chance = torch.stack([torch.full_like(lane, 0.3), left, right], -1)
    turn = torch.tensor([0.0, 1.0, -1.0])[torch.multinomial(chance, 1)[:, 0]]
    heading = turn[:, None] * torch.pi / 2 * (2.5 * STEPS).clamp(
        max=1
    ) + 0.06 * torch.randn(len(lane), 1)
    speed = 1 + 0.2 * torch.randn(len(lane), 1)
    steps = torch.stack([-heading.sin(), heading.cos()], -1) * speed[..., None] / 12
    start = torch.stack([lane, torch.zeros_like(lane)], -1)
    past = start[:, None] + torch.stack(
        [torch.zeros(6), torch.linspace(-0.5, 0, 6)], -1
    )
    return past + 0.01 * torch.randn_like(past), start[:, None] + steps.cumsum(1)


network = nn.Sequential(
    nn.Flatten(), nn.Linear(12, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(),
    HypothesisHead(128, hypotheses=6, dim=24, scores="softmax"),
)  # fmt: skip
optimizer = torch.optim.Adam(network.parameters())
schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=5e-3, total_steps=1000)
for _ in range(1000):
    past, future = ride(torch.rand(256) - 0.5)
    loss = rmcl_loss(network(past), future.flatten(1)[:, None])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    schedule.step()

figure = Figure(figsize=(9, 2.7), layout="constrained")
for axis, lane in zip(
    figure.subplots(1, 3, sharey=True), (-0.4, 0.0, 0.4), strict=True
):
    past, future = ride(torch.full((60,), lane))
    with torch.no_grad():
        answer = network(past[:1])[0]
    axis.plot(*future.permute(2, 1, 0), color="0.85", linewidth=1)
    axis.plot(*past[0].T, color="black", linewidth=3)
    futures = answer.points.unflatten(-1, (12, 2))
    for path, prob in zip(futures, answer.probs.tolist(), strict=True):
        axis.plot(
            *path.T, color="tab:blue", linewidth=1 + 5 * prob, alpha=min(1, 5 * prob)
        )
    aside = futures[:, -1, 0] - lane
    left, right = answer.probs[aside < -0.3].sum(), answer.probs[aside > 0.3].sum()
    axis.set_title(
        f"left {left:.2f}   straight {1 - left - right:.2f}   right {right:.2f}",
        fontsize=10,
    )
    axis.set(xlim=(-1.6, 1.6), ylim=(-0.6, 1.4), xticks=[], yticks=[], aspect="equal")
figure.suptitle(
    "Past (black), possible futures (grey), hypotheses (blue, the broader the likelier)",
    fontsize=10,
)
figure.savefig(sys.argv[1] if len(sys.argv) > 1 else "forking_futures.png", dpi=110)
