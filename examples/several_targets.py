"""Several targets for each input, and not always as many.

Ships pass a coast: at each time of the day none to three of them are in sight, at
different places. All that are there are given as targets, with a mask; the scores then
add up to how many there are.
"""

import sys

import torch
from matplotlib.figure import Figure
from torch import nn

from torchmcl import Box, HypothesisHead, rmcl_loss

torch.manual_seed(0)


def observe(time: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Places of the ships `(n, 3, 1)`, with noise, and which are in sight `(n, 3)`."""
    places = torch.stack(
        [2 * time - 1, 0.95 - 0.6 * time, -0.6 + 0.2 * torch.sin(9 * time)], -1
    )
    active = torch.stack(
        [time < 0.6, (time > 0.3) & (time < 0.85), (time > 0.45) & (time < 0.75)], -1
    )
    return (places + 0.02 * torch.randn_like(places))[..., None], active


network = nn.Sequential(
    nn.Linear(1, 64),
    nn.ReLU(),
    nn.Linear(64, 64),
    nn.ReLU(),
    HypothesisHead(64, 5, 1, spread=Box(-1, 1)),
)
optimizer = torch.optim.Adam(network.parameters(), lr=5e-3)
schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1e-2, total_steps=1200)
for _ in range(1200):
    time = torch.rand(256)
    targets, active = observe(time)
    loss = rmcl_loss(network(time[:, None]), targets, active)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    schedule.step()

time = torch.linspace(0, 1, 200)
targets, active = observe(time)
with torch.no_grad():
    answer = network(time[:, None])

figure = Figure(figsize=(9, 4.6), layout="constrained")
top, bottom = figure.subplots(2, 1, sharex=True, height_ratios=[2, 1])
top.plot(
    time,
    torch.where(active, targets[..., 0], torch.nan),
    color="0.8",
    linewidth=8,
    zorder=1,
)
shown = top.scatter(
    time.repeat_interleave(5),
    answer.points.flatten(),
    c=answer.scores.flatten(),
    s=6,
    cmap="Blues",
    vmin=0,
    vmax=1,
    zorder=2,
)
figure.colorbar(shown, ax=top, label="score")
top.set(
    ylabel="place",
    title="Ships (grey) and the five hypotheses, coloured by score",
    ylim=(-1.1, 1.1),
)
bottom.plot(time, active.sum(-1), color="0.7", linewidth=4, label="ships in sight")
bottom.plot(time, answer.count, color="tab:blue", label="sum of the scores")
bottom.set(xlabel="time", ylabel="count")
bottom.legend(fontsize=8)
figure.savefig(sys.argv[1] if len(sys.argv) > 1 else "several_targets.png", dpi=110)
