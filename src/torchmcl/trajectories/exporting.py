"""A forecaster as a self-contained graph: from positions of pedestrians to their futures."""

import copy
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim

from torchmcl.export.graph import Graph, Value
from torchmcl.hypotheses import Hypotheses
from torchmcl.trajectories.features import Seen, speed_unit
from torchmcl.trajectories.forecaster import Forecaster, mirrored
from torchmcl.trajectories.network import NeighborAttention
from torchmcl.trajectories.pose import completed
from torchmcl.trajectories.recipe import look
from torchmcl.trajectories.tracks import STEP
from torchmcl.trajectories.windows import NEIGHBORS, OBSERVED, PREDICTED

__all__ = ["forecaster_graph"]


class DenseAttention(nn.Module):
    """`NeighborAttention` over all slots, whose shapes do not depend on how many neighbors there are.

    Args:
        attention: Whose weights are used.
    """

    def __init__(self, attention: NeighborAttention) -> None:
        super().__init__()
        self.heads, self.embed = attention.heads, attention.embed
        self.query, self.key = attention.query, attention.key

    def forward(self, known: Tensor, seen: Seen) -> Tensor:
        """As `NeighborAttention` has it."""
        embedded = self.embed(seen.around)
        parts = embedded.unflatten(-1, (self.heads, -1))
        match = (self.query(known)[:, None] * self.key(embedded)).unflatten(-1, (self.heads, -1)).sum(-1)
        score = match / parts.shape[-1] ** 0.5
        score = torch.where(seen.present[..., None], score, -torch.inf)
        weight = torch.cat([torch.zeros_like(score[:, :1]), score], 1).softmax(1)[:, 1:]
        return (weight[..., None] * parts).sum(1).flatten(1)


class ForecasterGraph(nn.Module):
    """What `Forecaster` does with positions at 0.4 s a step, without its checks.

    Args:
        forecaster: That has learned.
    """

    spread: Tensor

    def __init__(self, forecaster: Forecaster) -> None:
        super().__init__()
        self.network = copy.deepcopy(forecaster.trained)
        if self.network.architecture.neighbors:
            self.network.attention = DenseAttention(self.network.attention)  # type: ignore[assignment]
        self.temperature = forecaster.adjustment.temperature
        self.register_buffer("spread", torch.tensor(forecaster.adjustment.widths), persistent=False)

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        """Futures, probabilities and widths, from positions and frames."""
        observed, frames = inputs
        origin = observed[:, -1]
        # Relative to the present, single precision is enough: differences of large coordinates are taken before.
        past = _last(observed - origin[:, None]).float()
        around = _neighbors(observed, past, frames)
        seen, pose = look(past, around)
        told: Hypotheses = self.network(seen)
        told = mirrored(told, pose.straight & past[:, -3, 0].isfinite())
        assert told.logits is not None
        moved = Hypotheses(pose.back(told.points), told.logits / self.temperature, "softmax")
        points = moved.points.unflatten(-1, (PREDICTED, 2)).double() + origin[:, None, None]
        widths = speed_unit(completed(past))[:, None] * self.spread
        return points, moved.probs, widths


def forecaster_graph(forecaster: Forecaster) -> Graph:
    """A forecaster for export.

    Args:
        forecaster: That has learned.

    Returns:
        Inputs `observed` and `frames`; outputs `points`, `probs` and `widths`.
    """
    meters = "meters, in the coordinates of `observed`"
    inputs = (
        Value(
            "observed",
            ("agents", "steps", "xy"),
            f"past positions every {STEP} s, the last one now: meters; NaN before the first known one, and at least "
            f"the last two are known; of more than {OBSERVED} steps the last ones are used",
        ),
        Value(
            "frames", ("agents",), "equal numbers for pedestrians who are seen together; all different: alone"
        ),
    )
    outputs = (
        Value("points", ("agents", "futures", "step", "xy"), f"positions every {STEP} s, {meters}"),
        Value("probs", ("agents", "futures"), "probability that a future is the nearest to what happens"),
        Value("widths", ("agents", "step"), "standard deviation around a position, meters"),
    )
    dynamic = {"agents": Dim("agents"), "steps": Dim("steps", min=2)}
    details: dict[str, Any] = {"step_seconds": STEP, "steps_ahead": PREDICTED, "neighbors": NEIGHBORS}
    return Graph("Forecaster", ForecasterGraph(forecaster), inputs, outputs, dynamic, _examples(), details)


def _last(past: Tensor) -> Tensor:
    """The last eight positions, NaN before the first one."""
    lacking = torch.full_like(past[:, :1], torch.nan).expand(-1, OBSERVED, -1)
    padded = torch.cat([lacking, past], 1)[:, -OBSERVED:]
    return torch.where(padded.isfinite().all(-1, keepdim=True), padded, torch.nan)


def _neighbors(observed: Tensor, past: Tensor, frames: Tensor) -> Tensor:
    """`windows.neighbors` without a loop over frames."""
    now = observed[:, -1]
    last = -past[:, -2]
    mean = -past[:, -4] / 3
    mean = torch.where(mean.isfinite(), mean, last)
    relative = (now - now[:, None]).float()
    # Not `len`, which would fix the number of pedestrians.
    index = torch.arange(now.shape[0])
    beside = (frames == frames[:, None]) & (index != index[:, None])
    distance = torch.where(beside, relative.norm(dim=-1), torch.inf)
    # As many empty places as there are neighbors, so that there are always enough to choose from.
    nobody = torch.full_like(distance[:, :1], torch.inf).expand(-1, NEIGHBORS)
    least, chosen = torch.cat([distance, nobody], 1).topk(NEIGHBORS, largest=False)
    chosen = torch.where(least.isfinite(), chosen, 0)
    place = relative.gather(1, chosen[..., None].expand(-1, -1, 2))
    motion = torch.cat([last, mean], -1)[chosen]
    found = torch.cat([place, motion], -1)
    return torch.where(least.isfinite()[..., None], found, torch.nan)


def _examples() -> tuple[tuple[Tensor, ...], ...]:
    """Walks that bend, some of them seen together, some of them seen late."""
    random = torch.Generator().manual_seed(0)
    found = []
    for agents, steps in ((5, 8), (2, 3), (14, 11)):
        velocity = torch.randn(agents, 1, 2, generator=random, dtype=torch.float64) / 3
        jitter = torch.randn(agents, steps, 2, generator=random, dtype=torch.float64) / 20
        start = 4 * torch.randn(agents, 1, 2, generator=random, dtype=torch.float64)
        observed = start + (velocity + jitter).cumsum(1)
        observed[0, :-2] = torch.nan
        found.append((observed, torch.arange(agents) // 12))
    return tuple(found)
