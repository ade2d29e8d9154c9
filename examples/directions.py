"""Directions on the sphere.

Two loudspeakers hang on a turning rig; only the angle of the rig is known, and each
measurement is one of them. Distances are great circles, so nothing happens at azimuth
180°, where numbers jump and directions do not.
"""

import sys
from functools import partial

import torch
from matplotlib.figure import Figure
from torch import nn

from torchmcl import Gaussian, HypothesisHead, Sphere, great_circle, rmcl_loss

torch.manual_seed(0)


def measure(rig: torch.Tensor) -> torch.Tensor:
    """A direction `(n, 2)` in radians: in three cases out of four the upper loudspeaker."""
    upper = torch.rand(len(rig)) < 0.75
    azimuth = torch.where(upper, rig, 2.5 - 0.5 * rig) + 0.15 * torch.randn(len(rig))
    elevation = torch.where(upper, 0.6, -0.4) + 0.1 * torch.randn(len(rig))
    return torch.stack(
        [torch.remainder(azimuth + torch.pi, 2 * torch.pi) - torch.pi, elevation], -1
    )


def inputs(rig: torch.Tensor) -> torch.Tensor:
    return torch.stack([rig.cos(), rig.sin(), (rig / 2).cos(), (rig / 2).sin()], -1)


network = nn.Sequential(
    nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(),
    HypothesisHead(64, hypotheses=6, dim=2, scores="softmax", spread=Sphere()),
)  # fmt: skip
optimizer = torch.optim.Adam(network.parameters())
schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1e-2, total_steps=800)
loss_of = partial(rmcl_loss, distance=great_circle)
for _ in range(800):
    rig = 2 * torch.pi * torch.rand(256)
    loss = loss_of(network(inputs(rig)), measure(rig)[:, None])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    schedule.step()

azimuth, elevation = (
    torch.linspace(-torch.pi, torch.pi, 181),
    torch.linspace(-torch.pi / 2, torch.pi / 2, 91),
)
grid = torch.stack(torch.meshgrid(azimuth, elevation, indexing="xy"), -1)

figure = Figure(figsize=(9, 2.9), layout="constrained")
for axis, angle in zip(
    figure.subplots(1, 2, subplot_kw={"projection": "mollweide"}),
    (1.0, 3.1),
    strict=True,
):
    with torch.no_grad():
        answer = network(inputs(torch.tensor([angle])))[0]
    heat = answer.density(Gaussian(0.2, Sphere())).log_prob(grid).exp()
    # Azimuth grows to the left, as seen from the centre.
    axis.pcolormesh(
        -azimuth.numpy(),
        elevation.numpy(),
        heat.numpy(),
        cmap="Blues",
        shading="gouraud",
        rasterized=True,
    )
    seen = measure(torch.full((40,), angle))
    axis.plot(-seen[:, 0], seen[:, 1], ".", color="tab:red", markersize=3)
    axis.set_title(f"rig at {torch.rad2deg(torch.tensor(angle)):.0f}°", fontsize=10)
    axis.set(xticklabels=[], yticklabels=[])
    axis.grid(alpha=0.3)
figure.suptitle(
    "Predicted density (blue) and measurements (red) on the whole sphere", fontsize=10
)
figure.savefig(sys.argv[1] if len(sys.argv) > 1 else "directions.png", dpi=110)
