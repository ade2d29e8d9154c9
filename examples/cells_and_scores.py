"""From hypotheses to a distribution: cells, scores and laws.

Half of the targets lie in a square at the lower left, a third at the upper right, the
rest anywhere. Ten hypotheses cut the plane into cells; each score is the share of
targets in a cell; a law inside the cells makes a density of them.
"""

import sys

import torch
from matplotlib.figure import Figure
from torch import Tensor

from torchmcl import Box, Gaussian, HypothesisHead, Uniform, rmcl_loss

torch.manual_seed(0)
SQUARE = Box([-1, -1], [1, 1])
LABEL = {"facecolor": "white", "alpha": 0.8, "pad": 0.5, "linewidth": 0}


def draw(count: int) -> Tensor:
    """Targets `(count, 2)`."""
    y = SQUARE.sample((count,))
    kind = torch.rand(count, 1)
    return torch.where(
        kind < 0.5, 0.35 * y - 0.5, torch.where(kind < 0.83, 0.3 * y + 0.55, y)
    )


# There is no input here: the features are a constant, and the head alone learns.
head = HypothesisHead(1, hypotheses=10, dim=2, scores="softmax", spread=SQUARE)
optimizer = torch.optim.Adam(head.parameters())
schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=5e-2, total_steps=600)
for _ in range(600):
    loss = rmcl_loss(head(torch.ones(256, 1)), draw(256)[:, None])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    schedule.step()

with torch.no_grad():
    answer = head(torch.ones(1))
axis = torch.linspace(-1, 1, 300)
grid = torch.stack(torch.meshgrid(axis, axis, indexing="xy"), -1)
targets = draw(1500)
share = torch.bincount(answer.cells(targets), minlength=10) / len(targets)

figure = Figure(figsize=(9, 3.3), layout="constrained")
first, second, third = figure.subplots(1, 3, sharey=True)
first.scatter(*targets.T, s=2, color="0.7")
first.contour(
    axis.numpy(),
    axis.numpy(),
    answer.cells(grid).numpy(),
    levels=torch.arange(10) + 0.5,
    colors="0.4",
    linewidths=0.7,
)
first.scatter(*answer.points.T, s=25, color="tab:blue")
for (across, up), prob in zip(
    answer.points.tolist(), answer.probs.tolist(), strict=True
):
    first.text(
        across,
        up + 0.05,
        f"{prob:.2f}",
        ha="center",
        color="tab:blue",
        fontsize=8,
        bbox=LABEL,
    )
first.set_title("targets, cells, probabilities", fontsize=10)
for place, law, name in (
    (second, Uniform(SQUARE), "uniform"),
    (third, Gaussian(0.2, SQUARE), "Gaussian"),
):
    density = answer.density(law).log_prob(grid).exp()
    place.imshow(density.numpy(), extent=(-1, 1, -1, 1), origin="lower", cmap="Blues")
    place.scatter(*answer.points.T, s=8, color="black")
    place.set_title(f"density, {name} inside the cells", fontsize=10)
for place in (first, second, third):
    place.set(
        xlim=(-1, 1), ylim=(-1, 1), aspect="equal", xticks=[-1, 0, 1], yticks=[-1, 0, 1]
    )
figure.savefig(sys.argv[1] if len(sys.argv) > 1 else "cells_and_scores.png", dpi=110)
