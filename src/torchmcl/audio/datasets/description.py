"""The CSV file beside a recording that says which events sound when and where."""

import csv
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np

from torchmcl.audio.datasets.recording import Event, Problem

__all__ = ["HEADER", "read_description"]

HEADER = "sound_event_recording,start_time,end_time,ele,azi,dist"
_COLUMNS = HEADER.split(",")
_LARGEST = 1 << 20
_RANGES = {
    "start_time": (0, math.inf),
    "end_time": (0, math.inf),
    "ele": (-90, 90),
    "azi": (-180, 180),
    "dist": (0, math.inf),
}
_TOUCHING = 1e-3
"""Seconds; times are rounded in the files, so a shorter overlap counts as one event after the other."""


def read_description(
    path: Path, label: Callable[[str], str], duration: float, overlap: int | None
) -> tuple[tuple[Event, ...], list[Problem]]:
    """Read the CSV file of a recording.

    Columns are taken by position (elevation before azimuth); the header must be there. An event that outlasts its
    recording ends with it.

    Args:
        path: The file, of at most 1 MB.
        label: The class of an event from its name.
        duration: Of the recording, in seconds.
        overlap: Events that may sound at once; `None` for any number.

    Returns:
        The events and all problems of the file.
    """
    lines, problem = _lines(path)
    if problem:
        return (), [problem]
    events: list[Event] = []
    numbers: list[int] = []
    problems: list[Problem] = []
    for number, row in lines:
        event = _event(row, label, duration)
        if isinstance(event, str):
            problems.append(Problem(path, event, number))
        else:
            events.append(event)
            numbers.append(number)
    if not problems and events and overlap is not None:
        problems += _overlaps(path, events, numbers, overlap)
    return tuple(events), problems


def _lines(path: Path) -> tuple[list[tuple[int, list[str]]], Problem | None]:
    """The rows below the header with their line numbers, without empty ones."""
    size = path.stat().st_size
    if size > _LARGEST:
        return [], Problem(path, f"is {size} bytes long, must be at most {_LARGEST}")
    try:
        reader = csv.reader(path.read_text(encoding="utf-8-sig").splitlines())
        rows = [(reader.line_num, [field.strip() for field in row]) for row in reader if row]
    except UnicodeDecodeError:
        return [], Problem(path, "is not UTF-8 text")
    except csv.Error as error:
        return [], Problem(path, f"is not CSV ({error})", reader.line_num)
    header = rows[0][1] if rows else []
    if len(header) != len(_COLUMNS) or _number(header[1]) is not None:
        return [], Problem(path, f"the header is missing, must be {HEADER}", 1)
    if header[3].lower().startswith("az") or header[4].lower().startswith("el"):
        return [], Problem(path, f"the header has azimuth before elevation, must be {HEADER}", 1)
    return rows[1:], None


def _event(row: list[str], label: Callable[[str], str], duration: float) -> Event | str:
    """The event of a row, or what is wrong with it."""
    if len(row) != len(_COLUMNS):
        return f"{len(row)} columns, must be {len(_COLUMNS)} ({HEADER})"
    if not row[0]:
        return f"{_COLUMNS[0]} is empty"
    values = []
    for (column, (low, high)), field in zip(_RANGES.items(), row[1:], strict=True):
        value = _number(field)
        if value is None or not math.isfinite(value):
            return f"{column} is {field!r}, must be a finite number"
        if not low <= value <= high:
            return f"{column} is {field}, must be " + (
                f"{low} to {high}" if high < math.inf else "at least 0"
            )
        values.append(value)
    start, end, elevation, azimuth, distance = values
    if end <= start:
        return f"end_time is {row[2]}, must be after start_time {row[1]}"
    if start >= duration:
        return f"start_time is {row[1]}, must be before the end of the recording at {duration:.3f}"
    end = min(end, duration)
    return Event(row[0], label(row[0]), start, end, math.radians(azimuth), math.radians(elevation), distance)


def _number(field: str) -> float | None:
    try:
        return float(field)
    except ValueError:
        return None


def _overlaps(path: Path, events: list[Event], numbers: list[int], overlap: int) -> list[Problem]:
    """Where an event starts while too many others sound, the first such place."""
    start = np.array([event.start for event in events])
    end = np.maximum(np.array([event.end for event in events]) - _TOUCHING, start)
    begun = np.searchsorted(np.sort(start), start, side="right")
    over = np.searchsorted(np.sort(end), start, side="right")
    sounding = begun - over
    broken = np.flatnonzero(sounding > overlap)
    if not len(broken):
        return []
    first = broken[np.argmin(start[broken])]
    what = f"{sounding[first]} events sound at {start[first]:.3f} s, ov{overlap} announces at most {overlap}"
    return [Problem(path, what, numbers[first])]
