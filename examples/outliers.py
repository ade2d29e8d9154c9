"""Outliers among the training targets.

One measurement in fifty is nonsense. Least squares follows it; in rMCL a few hypotheses
are drawn to it and learn that they are hardly ever right, so that their scores give
them away and `prune` leaves them out.
"""

import sys

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import nn

from torchmcl import HypothesisHead, rmcl_loss

torch.manual_seed(0)
rng = np.random.default_rng(0)
x = rng.uniform(size=4000)
y = np.sin(6 * x) + 0.1 * rng.normal(size=4000)
broken = rng.uniform(size=4000) < 0.02
y[broken] = rng.uniform(20, 60, size=broken.sum())
inputs, targets = (
    torch.from_numpy(x[:, None]).float(),
    torch.from_numpy(y[:, None]).float(),
)


def trained(head: nn.Module, loss_of) -> nn.Module:
    network = nn.Sequential(
        nn.Linear(1, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), head
    )
    optimizer = torch.optim.Adam(network.parameters())
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr=1e-2, total_steps=800
    )
    for _ in range(800):
        rows = torch.randint(len(inputs), (256,))
        loss = loss_of(network(inputs[rows]), targets[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    return network


single = trained(nn.Linear(64, 1), nn.functional.mse_loss)
network = trained(
    HypothesisHead(64, 6, 1, scores="softmax"),
    lambda answer, y: rmcl_loss(answer, y[:, None]),
)

grid = torch.linspace(0, 1, 100)[:, None]
with torch.no_grad():
    line, answer = single(grid)[:, 0], network(grid)
clean = answer.prune(0.05)
truth = torch.sin(6 * grid[:, 0])
errors = {
    "least squares": (line - truth).abs().mean().item(),
    "mean of all hypotheses": (answer.mean[:, 0] - truth).abs().mean().item(),
    "mean after pruning": (clean.mean[:, 0] - truth).abs().mean().item(),
}

figure = Figure(figsize=(9, 3.8), layout="constrained")
whole, zoomed = figure.subplots(1, 2)
for axis in (whole, zoomed):
    axis.scatter(x, y, s=3, color="0.8")
    axis.scatter(
        grid.repeat(1, 6),
        answer.points[..., 0],
        c=answer.probs,
        s=8,
        cmap="Blues",
        vmin=-0.2,
        vmax=1,
        zorder=3,
    )
whole.set(
    xlabel="x", ylabel="y", title="All data, and hypotheses (blue, darker if likelier)"
)
zoomed.plot(
    grid,
    line,
    color="tab:red",
    label=f"least squares, error {errors['least squares']:.2f}",
)
zoomed.plot(
    grid,
    clean.mean[:, 0],
    color="black",
    linewidth=1,
    zorder=4,
    label=f"mean after pruning, error {errors['mean after pruning']:.2f}",
)
zoomed.set(xlabel="x", ylim=(-1.6, 3.5), title="Where the data is")
zoomed.legend(fontsize=8)
figure.savefig(sys.argv[1] if len(sys.argv) > 1 else "outliers.png", dpi=110)
print(errors)
