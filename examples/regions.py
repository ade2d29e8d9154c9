"""A density with two branches, its 90 % region, and whether the region keeps its promise.

A reading x fits two true values: one above, one below, the upper one more often the larger
x is. The network answers with ten hypotheses that have scores and widths. Held-out data
calibrate a region that covers 90 % of new outcomes, whatever the network has learned. It has
two pieces where the answer has two branches.
"""

import sys

import torch
from matplotlib.figure import Figure
from torch import nn

from torchmcl import (
    Conformal,
    HypothesisHead,
    likelihood_loss,
    mixture_energy_loss,
    probability_integral_transform,
)
from torchmcl.plots import plot_coverage, plot_density

torch.manual_seed(0)


def measure(n: int) -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.rand(n, 1)
    upper = torch.rand(n, 1) < 0.3 + 0.5 * x
    y = torch.where(upper, 1.5 * x, -x) + (0.05 + 0.15 * x) * torch.randn(n, 1)
    return x, y


network = nn.Sequential(
    nn.Linear(1, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(),
    HypothesisHead(64, hypotheses=10, dim=1, scores="softmax", widths=True),
)  # fmt: skip
optimizer = torch.optim.AdamW(network.parameters())
schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1e-2, total_steps=800)
for _ in range(800):
    x, y = measure(256)
    answer, targets = network(x), y[:, None]
    loss = mixture_energy_loss(answer, targets) + 0.5 * likelihood_loss(answer, targets)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    schedule.step()

network.requires_grad_(False)
(held_x, held_y), (new_x, new_y) = measure(500), measure(2000)
coverage, size = {}, {}
for score in ("quantile", "distance", "density"):
    conformal = Conformal(score, 0.9).calibrate(network(held_x), held_y)
    region = conformal.region(network(new_x))
    coverage[score] = region.contains(new_y).float().mean().item()
    size[score] = region.volume().value.mean().item()
    print(f"{score}: coverage {coverage[score]:.3f}, mean length {size[score]:.2f}")

grid = torch.linspace(0, 1, 200)
pit = probability_integral_transform(network(new_x), new_y[:, None]).flatten()
pieces = conformal.region(network(torch.linspace(0.05, 0.95, 10)[:, None])).intervals

figure = Figure(figsize=(9, 3.8), layout="constrained")
left, right = figure.subplots(1, 2, width_ratios=[1.6, 1])
left.plot(new_x[:600], new_y[:600], ".", color="0.6", markersize=2)
plot_density(left, grid, network(grid[:, None]), y_range=(-1.7, 2.3))
for place, intervals in zip(torch.linspace(0.05, 0.95, 10), pieces, strict=True):
    for ends in intervals[~intervals[:, 0].isnan()]:
        left.plot([place, place], ends, color="tab:red", linewidth=1.5)
left.plot([], [], color="tab:red", label="calibrated 90 % region")
left.set_title("Two branches, and a region with two pieces", fontsize=10)
left.legend(loc="upper left", fontsize=8)
plot_coverage(right, pit)
right.set_title(
    f"Calibrated region: {100 * coverage['density']:.1f} % of new outcomes", fontsize=10
)
figure.savefig(sys.argv[1] if len(sys.argv) > 1 else "regions.png", dpi=110)
