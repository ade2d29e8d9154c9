"""What a network sees and what it must predict: histories, neighbors and futures."""

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from torchmcl.trajectories.tracks import Tracks

__all__ = [
    "NEIGHBORS",
    "OBSERVED",
    "PREDICTED",
    "Histories",
    "Windows",
    "histories",
    "neighbors",
    "windows_of",
]

OBSERVED = 8
PREDICTED = 12
NEIGHBORS = 10
"""How many of the nearest pedestrians a network is told about."""

PAIRS = 2**22
"""Of pedestrians whose distances are in memory at a time."""


@dataclass(frozen=True, eq=False)
class Histories:
    """Pedestrians at a frame, each with up to 8 past positions; the last one is the present.

    Args:
        observed: Meters; NaN before the pedestrian appeared.
        instants: The place of the present among the frames of the file: equal for those who are seen together.
        frames: The number of that frame.
        agents: Who it is, as an index into the names of the tracks.
        rows: The row of the tracks that holds the present position.
    """

    observed: Float[Tensor, "agents 8 2"]
    instants: Int[Tensor, "agents"]
    frames: Int[Tensor, "agents"]
    agents: Int[Tensor, "agents"]
    rows: Int[Tensor, "agents"]

    def __len__(self) -> int:
        return len(self.observed)

    @property
    def steps(self) -> Int[Tensor, "agents"]:
        """The number of positions that are known."""
        return self.observed[..., 0].isfinite().sum(-1)


@dataclass(frozen=True, eq=False)
class Windows:
    """Pedestrians that are present in 20 successive frames: 8 observed, 12 to predict.

    Args:
        observed: Relative to the last observed position, meters.
        future: The same for the steps to predict.
        neighbors: The nearest pedestrians, see `neighbors`.
        shared: Whether another pedestrian is complete in the same frames: the windows of the protocol `filtered`.
        instants: The place of the last observed frame in the file; windows of one instant are of one scene.
        files: Which of several files a window is from.
        origin: The last observed position, meters.
    """

    observed: Float[Tensor, "windows 8 2"]
    future: Float[Tensor, "windows 12 2"]
    neighbors: Float[Tensor, "windows neighbors 6"]
    shared: Bool[Tensor, "windows"]
    instants: Int[Tensor, "windows"]
    files: Int[Tensor, "windows"]
    origin: Float[Tensor, "windows 2"]

    def __len__(self) -> int:
        return len(self.observed)

    def __getitem__(self, index: Tensor | slice) -> "Windows":
        return Windows(*(getattr(self, field.name)[index] for field in fields(self)))

    @classmethod
    def cat(cls, parts: Sequence["Windows"]) -> "Windows":
        """The windows of several files; `files` tells them apart.

        Args:
            parts: The windows of each file.

        Returns:
            All of them.
        """
        columns = {
            field.name: torch.cat([getattr(part, field.name) for part in parts]) for field in fields(cls)
        }
        columns["files"] = torch.repeat_interleave(
            torch.arange(len(parts)), torch.tensor([len(part) for part in parts])
        )
        return cls(**columns)


def histories(tracks: Tracks, observed: int = OBSERVED) -> Histories:
    """Every pedestrian at every frame at which its position and the one before are known.

    Nothing looks ahead: a history is made of rows of the same pedestrian at the same and at earlier frames.

    Args:
        tracks: Whose successive frames are one step apart.
        observed: The greatest number of past positions.

    Returns:
        The histories, sorted by frame and then by pedestrian.
    """
    rows = np.arange(len(tracks))
    known = np.ones((len(tracks), observed), dtype=bool)
    for back in range(1, observed):
        before = np.maximum(rows - back, 0)
        joined = (tracks.agents[before] == tracks.agents) & (tracks.index[before] == tracks.index - back)
        known[:, -1 - back] = joined & (rows >= back) & known[:, -back]
    take = np.maximum(rows[:, None] + np.arange(1 - observed, 1), 0)
    positions = np.where(known[..., None], tracks.positions[take], np.nan)
    kept = np.flatnonzero(known[:, -2]) if observed > 1 else rows
    kept = kept[np.lexsort((tracks.agents[kept], tracks.index[kept]))]
    columns = (positions, tracks.index, tracks.frames, tracks.agents, rows)
    return Histories(*(torch.from_numpy(np.ascontiguousarray(column[kept])) for column in columns))


def windows_of(tracks: Tracks, observed: int = OBSERVED, predicted: int = PREDICTED) -> Windows:
    """All windows of a file: 20 successive frames of the file in which a pedestrian is present throughout.

    Args:
        tracks: Whose successive frames are one step apart.
        observed: Positions that are seen.
        predicted: Positions to predict.

    Returns:
        The windows, sorted by time and then by pedestrian; the protocol `all` uses every one, `filtered` those that
        are `shared`.
    """
    past = histories(tracks, observed)
    around = neighbors(past.observed, past.instants)
    last = np.minimum(past.rows.numpy() + predicted, len(tracks) - 1)
    complete = past.steps == observed
    complete &= torch.from_numpy(tracks.agents[last]) == past.agents
    complete &= torch.from_numpy(tracks.index[last]) == past.instants + predicted
    rows, instants = past.rows[complete], past.instants[complete]
    ahead = rows[:, None] + torch.arange(1, predicted + 1)
    positions = torch.from_numpy(tracks.positions)
    origin = positions[rows]
    together = torch.bincount(instants)[instants] if len(instants) else instants
    return Windows(
        (past.observed[complete] - origin[:, None]).float(),
        (positions[ahead] - origin[:, None]).float(),
        around[complete].float(),
        together >= 2,
        instants,
        torch.zeros_like(instants),
        origin,
    )


def neighbors(
    observed: Float[Tensor, "agents steps 2"], instants: Int[Tensor, "agents"], count: int = NEIGHBORS
) -> Float[Tensor, "agents neighbors 6"]:
    """The nearest pedestrians of each one, nearest first.

    Of each: its position relative to the pedestrian, its displacement in the last step, and its mean displacement in
    the last three steps (the last step, where fewer are known).

    Args:
        observed: Past positions, NaN where unknown; the last two must be known.
        instants: Equal numbers for those who are seen together.
        count: How many neighbors.

    Returns:
        NaN where there are fewer.
    """
    now, steps = observed[:, -1], observed.shape[1]
    last = now - observed[:, -2]
    mean = (now - observed[:, -4]) / 3 if steps >= 4 else torch.full_like(last, torch.nan)
    mean = torch.where(mean.isfinite(), mean, last)
    found = observed.new_full((len(observed), count, 6), torch.nan)
    order = instants.argsort(stable=True)
    for group in order.split(torch.unique(instants, return_counts=True)[1].tolist()):
        if len(group) < 2:
            continue
        motion = torch.cat([last[group], mean[group]], -1)
        # Some at a time: all pairs of a crowd would fill the memory.
        for some in torch.arange(len(group)).split(max(PAIRS // len(group), 1)):
            relative = now[group] - now[group[some], None]
            distance = relative.norm(dim=-1)
            distance[torch.arange(len(some)), some] = torch.inf
            nearest = distance.argsort(dim=-1, stable=True)[:, : min(count, len(group) - 1)]
            place = relative.take_along_dim(nearest[..., None], 1)
            found[group[some], : nearest.shape[1]] = torch.cat([place, motion[nearest]], -1)
    return found
