"""Files of tracks, row by row: `frame id x y` text, CSV with named columns, TrajNet++ ndjson."""

import csv
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float, Int

from torchmcl.errors import UserError
from torchmcl.runs.files import check_file

__all__ = ["COLUMNS", "Row", "check_positions", "iter_rows", "read_homography", "to_meters"]

COLUMNS = {
    "frame": ("frame", "frame_id", "frameid", "frame_number", "f"),
    "id": ("id", "track_id", "trackid", "agent", "agent_id", "ped_id", "pedestrian", "pedestrian_id", "p"),
    "x": ("x", "pos_x", "position_x", "x_m", "world_x"),
    "y": ("y", "pos_y", "position_y", "y_m", "world_y"),
}
"""The names under which the header of a file may list its columns; upper and lower case are the same."""

LARGEST_FRAME = 2**53
LARGEST_HOMOGRAPHY = 2**16
"""Bytes of a file with nine numbers and remarks."""
FARTHEST = 1e8
"""Meters from the origin, ten times the largest map coordinates: beyond, steps of a walk are lost in rounding."""


@dataclass(frozen=True, slots=True)
class Row:
    """One pedestrian at one frame, and the line of the file that says so."""

    line: int
    frame: int
    agent: str
    x: float
    y: float


def iter_rows(path: str | Path, columns: Mapping[str, str] | None = None) -> Iterator[Row]:
    """The rows of a file of tracks, one at a time: memory does not grow with the file.

    The format is recognized by the first line: `{` begins TrajNet++ ndjson, of which the lines that hold a `track`
    without a `prediction_number` are used; words begin a header; numbers begin `frame id x y`. Columns are separated
    by tabs, spaces, commas or semicolons; empty lines and lines that begin with `#` are skipped. Numbers beyond those
    four need a header, for nobody knows which of them the position is.

    Args:
        path: The file.
        columns: The name of the column that holds each of `frame`, `id`, `x` and `y`, where the header has names
            other than those of `COLUMNS`.

    Yields:
        The rows in the order of the file.

    Raises:
        UserError: A line that cannot be read, with its number.
    """
    path = Path(path)
    places: dict[str, int] | None = None
    names, ndjson = 0, False
    check_file(path)
    with path.open(encoding="utf-8-sig", errors="backslashreplace") as stream:
        for number, text in enumerate(stream, start=1):
            text = text.strip()
            if not text or text.startswith("#"):
                continue
            where = f"{path}, line {number}"
            if places is None:
                ndjson = text.startswith("{")
                places, names = ({}, 0) if ndjson else _places(_cells(text, where), columns, where)
                if names:
                    continue
            if ndjson:
                row = _json_row(text, number, where)
            else:
                row = _text_row(_cells(text, where), places, names, number, where)
            if row is not None:
                yield row


def _cells(text: str, where: str) -> list[str]:
    separator = next((mark for mark in (",", ";") if mark in text), None)
    if separator is not None and '"' in text:
        try:
            [cells] = csv.reader([text], delimiter=separator, skipinitialspace=True)
        except csv.Error as error:
            raise UserError(f"{where}: {error}") from None
        return [cell.strip() for cell in cells]
    return [cell.strip().strip('"') for cell in text.split(separator)]


def _places(cells: list[str], columns: Mapping[str, str] | None, where: str) -> tuple[dict[str, int], int]:
    """Where each column is, and how many names the line has; 0 if it is no header."""
    if columns is None and all(_is_number(cell) for cell in (cells[0], *cells[2:4])):
        return {"frame": 0, "id": 1, "x": 2, "y": 3}, 0
    names = [cell.lower() for cell in cells]
    wanted = {key: (columns[key].lower(),) if columns and key in columns else COLUMNS[key] for key in COLUMNS}
    found = {key: next((names.index(n) for n in some if n in names), None) for key, some in wanted.items()}
    twice = next((n for some in wanted.values() for n in some if names.count(n) > 1), None)
    if twice is not None:
        raise UserError(f"{where}: has two columns named {twice!r}")
    missing = [f"{key} ({' or '.join(wanted[key][:3])})" for key, place in found.items() if place is None]
    if missing:
        raise UserError(
            f"{where}: is neither 'frame id x y' in numbers nor a header with the columns frame, id, x and y; "
            f"missing: {', '.join(missing)}"
        )
    return {key: place for key, place in found.items() if place is not None}, len(names)


def _number(cell: str) -> float:
    """Without the underscores that Python allows in numbers: `1_12` and `11_2` are two names."""
    if "_" in cell:
        raise ValueError(f"{cell!r} is no number")
    return float(cell)


def _is_number(cell: str) -> bool:
    try:
        _number(cell)
    except ValueError:
        return False
    return True


def _text_row(cells: list[str], places: dict[str, int], names: int, number: int, where: str) -> Row:
    if len(cells) <= max(places.values()):
        raise UserError(
            f"{where}: has {len(cells)} {'column' if len(cells) == 1 else 'columns'}, "
            f"at least {max(places.values()) + 1} are needed (frame, id, x, y)"
        )
    if any(cells[names or len(places) :]):
        known = f", the header has {names}" if names else " and no header: which are frame, id, x and y?"
        raise UserError(f"{where}: has {len(cells)} columns{known}")
    frame, agent, x, y = (cells[places[key]] for key in ("frame", "id", "x", "y"))
    return _row(frame, agent, x, y, number, where)


def _json_row(text: str, number: int, where: str) -> Row | None:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{where}: is not JSON ({str(error).splitlines()[0]})") from None
    if not isinstance(value, dict) or not isinstance(value.get("track", {}), dict):
        raise UserError(f"{where}: must be an object with a 'track' or a 'scene'")
    track = value.get("track")
    if track is None or track.get("prediction_number") is not None:
        return None
    missing = [key for key in ("f", "p", "x", "y") if key not in track]
    if missing:
        raise UserError(f"{where}: the track has no {', '.join(map(repr, missing))}")
    return _row(str(track["f"]), str(track["p"]), str(track["x"]), str(track["y"]), number, where)


def _row(frame: str, agent: str, x: str, y: str, number: int, where: str) -> Row:
    values = []
    for name, cell in (("frame", frame), ("x", x), ("y", y)):
        try:
            value = _number(cell)
        except ValueError:
            raise UserError(f"{where}: {name} is {cell!r}, must be a number") from None
        if not math.isfinite(value):
            raise UserError(f"{where}: {name} is {cell}, must be finite")
        values.append(value)
    if not values[0].is_integer() or abs(values[0]) > LARGEST_FRAME:
        raise UserError(f"{where}: frame is {frame}, must be a whole number")
    return Row(number, int(values[0]), _label(agent, where), values[1], values[2])


def _label(agent: str, where: str) -> str:
    """The identifier as text; `1.0` and `1` are the same pedestrian.

    Whole numbers beyond those that floats tell apart stay as they are written.
    """
    if not agent or agent.lower() in ("nan", "none", "null"):
        raise UserError(f"{where}: id is {agent!r}, must name a pedestrian")
    try:
        value = _number(agent)
    except ValueError:
        return agent
    return str(int(value)) if value.is_integer() and abs(value) < LARGEST_FRAME else agent


def read_homography(path: str | Path) -> Float[np.ndarray, "3 3"]:
    """A 3 x 3 matrix from pixels to meters: three lines of three numbers.

    Args:
        path: The file; columns are separated by spaces, tabs or commas.

    Returns:
        The matrix.

    Raises:
        UserError: The matrix is not 3 x 3, not finite, or cannot be inverted.
    """
    rows: list[list[float]] = []
    check_file(Path(path), LARGEST_HOMOGRAPHY)
    try:
        lines = Path(path).read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError:
        raise UserError(f"{path}: is not text, a homography is three lines of three numbers") from None
    for number, text in enumerate(lines, start=1):
        if not text.strip() or text.startswith("#"):
            continue
        cells = _cells(text.strip(), f"{path}, line {number}")
        if len(rows) == 3 or len(cells) != 3 or not all(map(_is_number, cells)):
            raise UserError(
                f"{path}, line {number}: is {text.strip()[:40]!r}, "
                "a homography is three lines of three numbers"
            )
        rows.append([float(cell) for cell in cells])
        if not np.isfinite(rows[-1]).all():
            raise UserError(f"{path}, line {number}: a homography must be finite")
    if len(rows) != 3:
        raise UserError(
            f"{path}, line {len(lines)}: ends after {len(rows)} of the three rows of a homography"
        )
    matrix = np.array(rows)
    if np.linalg.cond(matrix) > 1e12:
        raise UserError(f"{path}, lines 1 to {len(lines)}: the homography cannot be inverted")
    return matrix


def to_meters(
    points: Float[np.ndarray, "rows 2"],
    homography: Float[np.ndarray, "3 3"] | None = None,
    unit: float = 1.0,
) -> Float[np.ndarray, "rows 2"]:
    """Positions in meters: through a homography, or by the length of a unit.

    Args:
        points: Positions as they are in the file.
        homography: From pixels to meters, in homogeneous coordinates; its scale does not matter.
        unit: Meters that a unit of the file has, 0.01 for centimeters.

    Returns:
        The positions; not finite where the homography maps to infinity.

    Example:
        >>> to_meters(np.array([[100.0, 50.0]]), unit=0.01)
        array([[1. , 0.5]])
    """
    if homography is None:
        return points * unit
    mapped = np.concatenate([points, np.ones((len(points), 1))], 1) @ homography.T
    with np.errstate(divide="ignore", invalid="ignore"):
        return mapped[:, :2] / mapped[:, 2:] * unit


def check_positions(
    path: str | Path, positions: Float[np.ndarray, "rows 2"], lines: Sequence[int] | Int[np.ndarray, "rows"]
) -> None:
    """Refuse positions that are no place: infinite after a homography, or too far away to tell steps apart.

    Args:
        path: The file, for the message.
        positions: Meters.
        lines: The line of each position.

    Raises:
        UserError: With the first such line.
    """
    wrong = np.flatnonzero(~(np.abs(positions) <= FARTHEST).all(-1))
    if not len(wrong):
        return
    first = wrong[0]
    if np.isfinite(positions[first]).all():
        problem = f"the position is more than {FARTHEST:g} m from the origin"
    else:
        problem = "the homography maps this position to infinity"
    raise UserError(f"{path}, line {lines[first]}: {problem}")
