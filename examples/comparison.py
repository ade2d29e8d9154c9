"""Least squares, a mixture density network and rMCL on the same data.

The same network body, the same number of steps. The conditional distribution is known,
so each answer can be compared with it by the Earth Mover's Distance.
"""

import sys

import torch
from matplotlib.figure import Figure
from torch import Tensor, nn

from torchmcl import Box, Hypotheses, HypothesisHead, emd, rmcl_loss

GRID = torch.linspace(-2, 2, 400)
NOISE, K = 0.2, 10


def forward(y: Tensor) -> Tensor:
    """What is measured, but for the noise; the networks learn the way back."""
    return y - 1.2 * torch.sin(torch.pi / 2 * y)


class MixtureDensity(nn.Linear):
    """A mixture of K normal laws."""

    def __init__(self, features: int) -> None:
        super().__init__(features, 3 * K)

    def forward(self, features: Tensor) -> torch.distributions.Distribution:
        logits, mean, width = super().forward(features).chunk(3, -1)
        parts = torch.distributions.Normal(mean, width.exp().clamp(min=1e-3))
        return torch.distributions.MixtureSameFamily(
            torch.distributions.Categorical(logits=logits), parts
        )


def trained(head: nn.Module, loss_of) -> nn.Module:
    torch.manual_seed(0)
    network = nn.Sequential(
        nn.Linear(1, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), head
    )
    optimizer = torch.optim.Adam(network.parameters())
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr=5e-3, total_steps=1000
    )
    for _ in range(1000):
        y = 4 * torch.rand(256, 1) - 2
        x = forward(y) + NOISE * (2 * torch.rand_like(y) - 1)
        loss = loss_of(network(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    return network


x = torch.linspace(-1.6, 1.6, 41)
possible = (
    forward(GRID) - x[:, None]
).abs() < NOISE  # given x, all y with the right x nearby are equally likely
truth = GRID.expand(41, -1)[..., None]
single = trained(nn.Linear(128, 1), nn.functional.mse_loss)
mixture = trained(MixtureDensity(128), lambda law, y: -law.log_prob(y[:, 0]).mean())
scored = trained(
    HypothesisHead(128, K, 1, "softmax", Box(-2, 2)),
    lambda answer, y: rmcl_loss(answer, y[:, None]),
)
with torch.no_grad():
    answers = {
        "least squares": Hypotheses(single(x[:, None])[:, None]),
        "mixture density network, 500 draws": Hypotheses(
            mixture(x[:, None]).sample((500,)).T[..., None]
        ),
        "rMCL, 10 hypotheses": scored(x[:, None]),
    }
distances = {name: emd(answer, truth, possible) for name, answer in answers.items()}

figure = Figure(figsize=(9, 3.4), layout="constrained")
for axis, (name, answer) in zip(
    figure.subplots(1, 3, sharey=True), answers.items(), strict=True
):
    axis.pcolormesh(
        x.numpy(),
        GRID.numpy(),
        possible.T.numpy(),
        cmap="Greys",
        vmax=4,
        shading="nearest",
    )
    size = 3000 * answer.probs.flatten() / len(x)
    axis.scatter(
        x.repeat_interleave(answer.n_hypotheses),
        answer.points.flatten(),
        s=size.clamp(max=12),
        linewidths=0,
    )
    axis.set_title(f"{name}\nEMD {distances[name].mean():.3f}", fontsize=10)
    axis.set(xlabel="x", ylim=(-2.4, 2.4))
figure.savefig(sys.argv[1] if len(sys.argv) > 1 else "comparison.png", dpi=110)
