"""Histories from a file that is read once, frame by frame."""

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from torchmcl.errors import UserError
from torchmcl.trajectories.rows import Row, check_positions, iter_rows, to_meters
from torchmcl.trajectories.tracks import STEP, Tracks, check_rate
from torchmcl.trajectories.windows import OBSERVED

__all__ = ["Instant", "Source", "instant_at", "instant_of", "instants"]

GRID = 1e-6
"""The part of a step by which a frame may miss the grid of 0.4 s."""

Walk = deque[tuple[int, float, float]]
"""Frame, x and y of one pedestrian, in order."""

LOOK_AT = 2000
"""Rows by which the usual distance of frames is found; more where they are of one frame or two."""


@dataclass(frozen=True)
class Source:
    """A file of tracks and how to read it.

    Args:
        path: Text, CSV or ndjson; see `iter_rows`.
        fps: Frames per second of the frame numbers. By default the most common distance of a pedestrian's frames, in
            the first 2,000 rows and three frames, is taken as 0.4 s.
        unit: Meters that a unit of the file has.
        homography: From pixels to meters.
        columns: Names of the columns, where they are unusual.
    """

    path: Path
    fps: float | None = None
    unit: float = 1.0
    homography: Float[np.ndarray, "3 3"] | None = None
    columns: Mapping[str, str] | None = None


@dataclass(frozen=True, eq=False)
class Instant:
    """Who is seen at one frame.

    Args:
        frame: The number of the frame.
        names: Of the pedestrians whose last two steps are known.
        observed: Up to 8 positions of each, NaN where unknown.
        stride: Frames that a step of 0.4 s has.
        line: The last line of the file that was read for it; 0 where tracks were in memory.
    """

    frame: int
    names: tuple[str, ...]
    observed: Float[Tensor, "agents 8 2"]
    stride: float
    line: int = 0


def instants(source: Source) -> Iterator[Instant]:
    """The instants of a file about every 0.4 s, in one pass that keeps 3.2 s of the file in memory.

    The present is always a frame of the file; earlier positions between two frames are interpolated linearly, unless
    the pedestrian was absent in between. Nothing looks ahead.

    Args:
        source: A file that is sorted by frame.

    Yields:
        Instants in order; those at which nobody has two known steps are left out.

    Raises:
        UserError: A line that cannot be read, or that is out of order.
    """
    check_rate(source.fps, source.unit)
    spacing = _spacing(source)
    stride = float(spacing) if source.fps is None else source.fps * STEP
    walks: dict[str, Walk] = {}
    start, due = None, 0
    for frame, rows in _frames(source):
        start = frame if start is None else start
        for row, (x, y) in zip(rows, _meters(rows, source), strict=True):
            walks.setdefault(row.agent, deque()).append((frame, float(x), float(y)))
        steps = int((frame - start) / stride + GRID)
        if steps >= due:
            due = steps + 1
            found = instant_of(walks, frame, stride, spacing)
            if found is not None:
                yield replace(found, line=rows[-1].line)
        _forget(walks, frame - OBSERVED * stride - 2 * spacing)


def instant_at(tracks: Tracks, frame: int, fps: float | None = None) -> Instant | None:
    """Who is seen at a frame of tracks that are in memory.

    Args:
        tracks: As they are in the file.
        frame: The present.
        fps: Frames per second of the frame numbers; by default the usual spacing is taken as 0.4 s.

    Returns:
        `None` where nobody has two known steps.
    """
    stride = float(tracks.spacing) if fps is None else fps * STEP
    walks: dict[str, Walk] = {}
    for agent in tracks.agents[tracks.frames == frame]:
        own = np.flatnonzero((tracks.agents == agent) & (tracks.frames <= frame))
        columns = (tracks.frames[own], *tracks.positions[own].T)
        walks[tracks.names[agent]] = deque(zip(*(column.tolist() for column in columns), strict=True))
    return instant_of(walks, frame, stride, tracks.spacing)


def _spacing(source: Source) -> int:
    last: dict[str, int] = {}
    counts: dict[int, int] = {}
    frames = set()
    for number, row in enumerate(iter_rows(source.path, source.columns)):
        if row.agent in last:
            step = row.frame - last[row.agent]
            counts[step] = counts.get(step, 0) + 1
        last[row.agent] = row.frame
        frames.add(row.frame)
        if number >= LOOK_AT and len(frames) > 3:
            break
    if not last:
        raise UserError(
            f"{source.path}, line 1: the file has no rows; it must have rows of frame, id, x and y"
        )
    positive = {step: count for step, count in counts.items() if step > 0}
    return max(positive, key=lambda step: (positive[step], -step)) if positive else 1


def _frames(source: Source) -> Iterator[tuple[int, list[Row]]]:
    """The rows of each frame."""
    rows: dict[str, Row] = {}
    frame: int | None = None
    for row in iter_rows(source.path, source.columns):
        if frame is not None and row.frame < frame:
            raise UserError(
                f"{source.path}, line {row.line}: frame {row.frame} comes after frame {frame}; "
                "sort the file by frame to forecast all of its frames"
            )
        if frame is not None and row.frame != frame:
            yield frame, list(rows.values())
            rows = {}
        if row.agent in rows:
            raise UserError(
                f"{source.path}, line {row.line}: pedestrian {row.agent} is at frame {row.frame} "
                f"already in line {rows[row.agent].line}"
            )
        frame, rows[row.agent] = row.frame, row
    if frame is not None:
        yield frame, list(rows.values())


def _meters(rows: list[Row], source: Source) -> np.ndarray:
    positions = to_meters(np.array([[row.x, row.y] for row in rows]), source.homography, source.unit)
    check_positions(source.path, positions, [row.line for row in rows])
    return positions


def instant_of(walks: Mapping[str, Walk], now: int, stride: float, spacing: int) -> Instant | None:
    """Who of some walks is seen at a frame.

    Args:
        walks: The (frame, x, y) of each pedestrian, none later than now.
        now: The present.
        stride: Frames that a step of 0.4 s has.
        spacing: The usual distance of frames; where it is larger, the pedestrian was absent.

    Returns:
        `None` where nobody has two known steps.
    """
    wanted = now - stride * np.arange(OBSERVED - 1, -1, -1)
    here = {name: walk for name, walk in walks.items() if walk[-1][0] == now}
    found = {name: _positions(walk, wanted, stride, spacing) for name, walk in here.items()}
    seen = {name: past for name, past in found.items() if np.isfinite(past[-2:]).all()}
    if not seen:
        return None
    observed = torch.from_numpy(np.stack(list(seen.values())))
    return Instant(now, tuple(seen), observed, stride)


def _positions(walk: Walk, wanted: np.ndarray, stride: float, spacing: int) -> np.ndarray:
    """Positions at the wanted frames; NaN outside of the walk, in its gaps, and before its last gap."""
    known = np.array(walk)
    past = np.stack([np.interp(wanted, known[:, 0], known[:, axis]) for axis in (1, 2)], -1)
    after = np.searchsorted(known[:, 0], wanted - GRID * stride)
    inside = (after < len(known)) & (wanted >= known[0, 0] - GRID * stride)
    after = np.minimum(after, len(known) - 1)
    exact = np.abs(known[after, 0] - wanted) <= GRID * stride
    joined = known[after, 0] - known[np.maximum(after - 1, 0), 0] <= spacing
    good = inside & (exact | joined)
    past[~np.logical_and.accumulate(good[::-1])[::-1]] = np.nan
    return past


def _forget(walks: dict[str, Walk], before: float) -> None:
    for name in list(walks):
        walk = walks[name]
        while walk and walk[0][0] < before:
            walk.popleft()
        if not walk:
            del walks[name]
