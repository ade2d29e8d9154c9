"""Your own network and your own training loop.

A picture shows a bar with a dot at one end. It moves on, four times out of five towards
the dot: where will it be? A convolutional network that answers with one point becomes
one that answers with two, and its loop changes in the loss alone.
"""

import sys

import torch
from matplotlib.figure import Figure
from torch import nn

from torchmcl import multi_hypothesis, rmcl_loss

torch.manual_seed(0)


def draw(count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Pictures `(count, 1, 16, 16)`, and where their bars went `(count, 2)`."""
    angle = 2 * torch.pi * torch.rand(count)
    ahead = torch.stack([angle.cos(), angle.sin()], -1)
    axis = torch.linspace(-1, 1, 16)
    place = torch.stack(torch.meshgrid(axis, axis, indexing="xy"), -1)
    along = (place * ahead[:, None, None]).sum(-1)
    across = (place * ahead[:, None, None].flip(-1) * torch.tensor([1.0, -1.0])).sum(-1)
    bar = (along.abs() < 0.7) & (across.abs() < 0.12)
    dot = (along - 0.7).square() + across.square() < 0.06
    way = torch.where(torch.rand(count, 1) < 0.8, 1.0, -1.0)
    return (bar | dot).float()[:, None], way * ahead + 0.05 * torch.randn(count, 2)


network = nn.Sequential(
    nn.Conv2d(1, 16, 3, stride=2), nn.ReLU(), nn.Conv2d(16, 32, 3, stride=2), nn.ReLU(),
    nn.Flatten(), nn.Linear(288, 64), nn.ReLU(), nn.Linear(64, 2),
)  # fmt: skip
network = multi_hypothesis(network, hypotheses=2, scores="softmax")
optimizer = torch.optim.Adam(network.parameters(), lr=3e-3)
for _ in range(400):
    pictures, went = draw(128)
    loss = rmcl_loss(network(pictures), went[:, None])  # one target for each input
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

torch.manual_seed(5)
pictures, _ = draw(5)
with torch.no_grad():
    answer = network(pictures)

figure = Figure(figsize=(9, 2.2), layout="constrained")
for axis, picture, each in zip(figure.subplots(1, 5), pictures, answer, strict=True):
    axis.imshow(
        picture[0].numpy(), extent=(-1, 1, -1, 1), origin="lower", cmap="Greys", vmax=2
    )
    for (across, up), prob in zip(
        each.points.tolist(), each.probs.tolist(), strict=True
    ):
        axis.annotate(
            "",
            (across, up),
            (0, 0),
            arrowprops={"arrowstyle": "->", "lw": 4 * prob, "color": "tab:blue"},
        )
        axis.text(
            1.25 * across,
            1.25 * up,
            f"{prob:.2f}",
            ha="center",
            va="center",
            color="tab:blue",
        )
    axis.plot(*each.mean, "x", color="tab:red")
    axis.set(xlim=(-1.6, 1.6), ylim=(-1.6, 1.6), xticks=[], yticks=[])
figure.suptitle(
    "Two hypotheses with probabilities (blue), and their mean (red cross)", fontsize=10
)
figure.savefig(sys.argv[1] if len(sys.argv) > 1 else "own_network.png", dpi=110)
