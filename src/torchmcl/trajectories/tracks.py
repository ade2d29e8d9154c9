"""Tracks of pedestrians: where everybody was at each frame, in meters."""

import array
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path

import numpy as np
from jaxtyping import Float, Int

from torchmcl.errors import UserError
from torchmcl.trajectories.rows import LARGEST_FRAME, check_positions, iter_rows, to_meters

__all__ = ["STEP", "Tracks", "read_tracks"]

MOST_STEPS = 1e7
"""Of the grid of resampled tracks: 46 days."""

STEP = 0.4
"""Seconds from one position to the next in everything that is learned and predicted."""


@dataclass(frozen=True, eq=False)
class Tracks:
    """Rows of (frame, pedestrian, position), sorted by pedestrian and then by frame.

    Args:
        frames: The number of the frame of each row.
        agents: The pedestrian of each row, as an index into `names`.
        positions: Meters.
        names: What the file calls each pedestrian.
        grid: All frames that follow each other in steps of 0.4 s; by default those at which anybody is present.

    Example:
        >>> tracks = Tracks.of(frames=[10, 20, 10], agents=["a", "a", "b"], positions=[[0, 0], [1, 0], [5, 5]])
        >>> tracks.instants, tracks.spacing
        (array([10, 20]), 10)
    """

    frames: Int[np.ndarray, "rows"]
    agents: Int[np.ndarray, "rows"]
    positions: Float[np.ndarray, "rows 2"]
    names: tuple[str, ...]
    grid: Int[np.ndarray, "instants"] | None = None

    @classmethod
    def of(cls, frames: object, agents: object, positions: object) -> "Tracks":
        """Tracks from columns in any order.

        Args:
            frames: Whole numbers, one for each row.
            agents: Who is where: any labels.
            positions: `(rows, 2)`, meters.

        Returns:
            The tracks, sorted.

        Raises:
            UserError: A pedestrian that has two positions at one frame.
            ValueError: Frames that are not whole, positions that are not finite, columns of different lengths.
        """
        numbers, places = _whole(frames), _finite(positions)
        try:
            labels, codes = np.unique(np.asarray(agents).reshape(-1), return_inverse=True)
        except TypeError:
            raise TypeError("agents must be labels that can be sorted, such as names or numbers") from None
        if not len(numbers) == len(codes) == len(places):
            raise ValueError(
                "frames, agents and positions must have as many rows as each other, "
                f"got {len(numbers)}, {len(codes)} and {len(places)}"
            )
        order = np.lexsort((numbers, codes))
        made = cls(
            numbers[order],
            codes.astype(np.int64)[order],
            places[order],
            tuple(str(label) for label in labels),
        )
        twice = np.flatnonzero((np.diff(made.frames) == 0) & (np.diff(made.agents) == 0))
        if len(twice):
            row = int(twice[0])
            raise UserError(
                f"pedestrian {made.names[made.agents[row]]} has two positions at frame {made.frames[row]}"
            )
        return made

    def __len__(self) -> int:
        return len(self.frames)

    @cached_property
    def instants(self) -> Int[np.ndarray, "instants"]:
        """The frames that follow each other: by default those at which anybody is present."""
        return np.unique(self.frames) if self.grid is None else self.grid

    @cached_property
    def index(self) -> Int[np.ndarray, "rows"]:
        """The place of each row's frame among `instants`: successive frames of the file differ by one."""
        return np.searchsorted(self.instants, self.frames)

    @cached_property
    def spacing(self) -> int:
        """The most common number of frames between two positions of a pedestrian; 1 where nobody has two."""
        steps = np.diff(self.frames)[np.diff(self.agents) == 0]
        if not len(steps):
            return 1
        values, counts = np.unique(steps, return_counts=True)
        return int(values[counts.argmax()])

    def resampled(
        self, fps: float | None = None, *, gaps: float = 0.0, anchor: int | None = None
    ) -> "Tracks":
        """The same walks at one position every 0.4 s, by linear interpolation.

        Nothing is extrapolated. A pedestrian is absent between two positions that are farther apart than those of
        the file usually are, unless the gap is at most `gaps` seconds.

        Args:
            fps: Frames per second of the frame numbers; by default the usual spacing of the file is taken as 0.4 s.
            gaps: The longest gap, in seconds, that is interpolated.
            anchor: A frame that is on the new grid; the first one by default.

        Returns:
            Tracks whose frames are those of the new grid, rounded to whole numbers.
        """
        check_rate(fps, gaps=gaps)
        fps = self.spacing / STEP if fps is None else fps
        stride = STEP * fps
        start = float(self.instants[0] if anchor is None else anchor) if len(self) else 0.0
        limit = max(self.spacing, gaps * fps) * (1 + 1e-9)
        self._check_size(stride)
        rows = [self._at_grid(*piece, start, stride) for piece in self._pieces(limit)]
        kept = [row for row in rows if len(row[0])]
        if not kept:
            return replace(self, frames=self.frames[:0], agents=self.agents[:0], positions=self.positions[:0])
        steps, agents, positions = (np.concatenate(column) for column in zip(*kept, strict=True))
        grid = np.arange(steps.min(), steps.max() + 1)
        return Tracks(
            _frame(steps, start, stride), agents, positions, self.names, _frame(grid, start, stride)
        )

    def _check_size(self, stride: float) -> None:
        """Refuse a grid that would fill the memory, of a rate or a frame that is a mistake."""
        steps = (float(self.frames.max()) - float(self.frames.min())) / stride if len(self) else 0.0
        if steps > MOST_STEPS:
            raise UserError(
                f"frames {self.frames.min()} to {self.frames.max()} would be {steps:.3g} steps of {STEP} s, "
                f"must be at most {MOST_STEPS:g}: is fps right, and every frame?"
            )

    def _pieces(self, limit: float) -> list[tuple[int, int]]:
        """Ranges of rows of one pedestrian without a gap longer than `limit` frames."""
        cuts = np.flatnonzero((np.diff(self.agents) != 0) | (np.diff(self.frames) > limit)) + 1
        ends = [0, *cuts.tolist(), len(self)]
        return list(pairwise(ends)) if len(self) else []

    def _at_grid(
        self, first: int, last: int, start: float, stride: float
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        frames = (self.frames[first:last] - start) / stride
        steps = np.arange(np.ceil(frames[0] - 1e-6), np.floor(frames[-1] + 1e-6) + 1)
        xy = [np.interp(steps, frames, self.positions[first:last, axis]) for axis in (0, 1)]
        return steps, np.full(len(steps), self.agents[first]), np.stack(xy, -1)


def _whole(frames: object) -> Int[np.ndarray, "rows"]:
    """Numbers of frames; fractions would be cut off without a word."""
    given = np.asarray(frames)
    if given.dtype.kind not in "iuf" and given.size:
        raise TypeError(f"frames must be whole numbers, got {given.dtype}")
    wrong = (
        given[~(np.abs(given.astype(np.float64)) <= LARGEST_FRAME) | (given % 1 != 0)]
        if given.size
        else given
    )
    if wrong.size:
        raise ValueError(f"frames must be whole numbers of at most 2^53, got {wrong.flat[0]}")
    return given.reshape(-1).astype(np.int64)


def _finite(positions: object) -> Float[np.ndarray, "rows 2"]:
    given = np.asarray(positions)
    if given.dtype.kind not in "iuf":
        raise TypeError(f"positions must be real numbers, got {given.dtype}")
    if given.size and (given.ndim != 2 or given.shape[1] != 2):
        raise ValueError(f"positions must be (rows, 2), got {given.shape}")
    if not np.isfinite(given).all():
        raise ValueError("positions must be finite: leave out rows without a position")
    return given.reshape(-1, 2).astype(np.float64)


def _frame(steps: np.ndarray, start: float, stride: float) -> np.ndarray:
    """Frame numbers; of a rate below 2.5 frames per second they count steps, so that no two are equal."""
    return np.rint(start + steps * stride if stride >= 1 else steps).astype(np.int64)


def read_tracks(
    path: str | Path,
    *,
    fps: float | None = None,
    gaps: float = 0.0,
    unit: float = 1.0,
    homography: Float[np.ndarray, "3 3"] | None = None,
    columns: Mapping[str, str] | None = None,
) -> Tracks:
    """Read a file of tracks.

    Args:
        path: `frame id x y` text with or without a header, CSV with named columns, or TrajNet++ ndjson.
        fps: Frames per second of the frame numbers: positions are resampled to one every 0.4 s. By default the
            frames are taken as they are, as the ETH/UCY protocol has it.
        gaps: The longest gap, in seconds, that is interpolated; none by default.
        unit: Meters that a unit of the file has.
        homography: From pixels to meters.
        columns: The names of the columns where the header has names of its own; see `iter_rows`.

    Returns:
        The tracks.

    Raises:
        UserError: A line that cannot be read or contradicts an earlier one, with its number.
    """
    check_rate(fps, unit, gaps)
    lines, frames = array.array("q"), array.array("q")
    codes, xy = array.array("q"), array.array("d")
    names: dict[str, int] = {}
    for row in iter_rows(path, columns):
        lines.append(row.line)
        frames.append(row.frame)
        codes.append(names.setdefault(row.agent, len(names)))
        xy.extend((row.x, row.y))
    if not frames:
        raise UserError(f"{path}, line 1: the file has no rows; it must have rows of frame, id, x and y")
    positions = to_meters(np.frombuffer(xy).reshape(-1, 2), homography, unit)
    line, frame, code = (np.frombuffer(column, np.int64) for column in (lines, frames, codes))
    _check_rows(path, names, line, frame, code, positions)
    order = np.lexsort((frame, code))
    read = Tracks(frame[order], code[order], positions[order], tuple(names))
    return read if fps is None and not gaps else read.resampled(fps, gaps=gaps)


def check_rate(fps: float | None, unit: float = 1.0, gaps: float = 0.0) -> None:
    """Refuse frame rates, units and gaps that mean nothing."""
    if fps is not None and not 0 < fps < float("inf"):
        raise UserError(f"fps is {fps:g}, must be a positive number of frames per second")
    if not 0 < unit < float("inf"):
        raise UserError(f"unit is {unit:g}, must be a positive number of meters")
    if not 0 <= gaps < float("inf"):
        raise UserError(f"gaps is {gaps:g}, must be a number of seconds, at least 0")


def _check_rows(
    path: str | Path,
    names: dict[str, int],
    lines: np.ndarray,
    frames: np.ndarray,
    codes: np.ndarray,
    positions: np.ndarray,
) -> None:
    check_positions(path, positions, lines)
    order = np.lexsort((lines, frames, codes))
    same = (np.diff(frames[order]) == 0) & (np.diff(codes[order]) == 0)
    if same.any():
        at = np.flatnonzero(same)
        second = order[at[lines[order[at + 1]].argmin()] + 1]
        first = order[at[lines[order[at + 1]].argmin()]]
        raise UserError(
            f"{path}, line {lines[second]}: pedestrian {list(names)[codes[second]]} is at frame {frames[second]} "
            f"already in line {lines[first]}"
        )
