"""Predicted directions as files: CSV, JSON, a heat map and a timeline."""

import csv
import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Float32

from torchmcl.audio.foa import directions, unit_vectors
from torchmcl.audio.targets import HOP
from torchmcl.runs.files import atomic, write_json, write_text

__all__ = ["ENDINGS", "Localization", "sources", "write_predictions"]

OUTPUT = 5
"""Frames of 20 ms in an output frame: 100 ms, as in DCASE."""

DRAWN = 20_000
"""Frames in the timeline at most; a long recording is subsampled."""

NEAR = math.radians(20)
"""Hypotheses within this angle of a better one belong to the same source."""

ENDINGS = (".csv", "-hypotheses.csv", ".json", "-map.png", "-timeline.png")
"""Of the names of the files that are written for a recording."""


class Localization(NamedTuple):
    """The K hypotheses of each frame of 20 ms.

    Args:
        directions: (azimuth, elevation) in radians.
        scores: From 0 to 1; their sum over hypotheses estimates the number of sources.
        times: When each frame starts, in seconds.
    """

    directions: Float32[np.ndarray, "frames hypotheses 2"]
    scores: Float32[np.ndarray, "frames hypotheses"]
    times: Float[np.ndarray, "frames"]


class _Source(NamedTuple):
    """A source in an output frame of 100 ms; angles in degrees."""

    frame: int
    track: int
    azimuth: float
    elevation: float
    score: float


def sources(
    points: Float[np.ndarray, "frames hypotheses 2"], scores: Float[np.ndarray, "frames hypotheses"]
) -> list[Float[np.ndarray, "found 3"]]:
    """The sources of each frame, the strongest first.

    There are as many as the scores add up to, rounded. The strongest source is where the score within 20 degrees is
    largest. Its direction is the mean direction of that score, which is then removed.

    Args:
        points: (azimuth, elevation) in radians.
        scores: Of the same hypotheses.

    Returns:
        For each frame rows of azimuth, elevation (radians) and score.
    """
    vectors = unit_vectors(points)
    near = np.einsum("fkc,fjc->fkj", vectors, vectors) > math.cos(NEAR)
    left = scores.copy()
    counts = np.rint(scores.sum(-1)).astype(int)
    found: list[list[np.ndarray]] = [[] for _ in counts]
    for number in range(int(counts.max(initial=0))):
        mass = (near * left[:, None, :]).sum(-1)
        best = mass.argmax(-1)
        share = near[np.arange(len(best)), best] * left
        mean = directions(np.einsum("fk,fkc->fc", share, vectors) + 1e-12)
        for frame in np.nonzero((counts > number) & (mass.max(-1) > 0.05))[0]:
            found[frame].append(np.append(mean[frame], min(share[frame].sum(), 1.0)))
        left = left - share
    return [np.array(rows).reshape(-1, 3) for rows in found]


def write_predictions(
    blocks: Iterable[Localization], out: Path, stem: str, duration: float, about: dict[str, object]
) -> list[Path]:
    """Write all files of one recording; blocks are read once and not kept.

    `STEM.csv` has a line for each source and 100 ms: frame, class (always 0), track, azimuth, elevation, as DCASE
    has since 2020, without a header. `STEM-hypotheses.csv` has all hypotheses of each 20 ms with their scores.

    Args:
        blocks: Successive pieces of the recording.
        out: Folder of the files.
        stem: What their names begin with.
        duration: Of the recording, in seconds.
        about: What `STEM.json` says besides the sources.

    Returns:
        The paths of the files.
    """
    from torchmcl.audio.plots import HEAT_CELL, heat_map, timeline

    heat = np.zeros((180 // HEAT_CELL, 360 // HEAT_CELL))
    every = max(1, math.ceil(duration / HOP / DRAWN))
    rows: list[_Source] = []
    drawn: list[np.ndarray] = []
    counts: list[np.ndarray] = []
    with atomic(out / f"{stem}-hypotheses.csv") as temporary, temporary.open("w", newline="") as stream:
        table = csv.writer(stream)
        table.writerow(["time", "hypothesis", "azimuth", "elevation", "score"])
        for points, scores, times in blocks:
            degrees = np.degrees(points)
            table.writerows(_long_rows(times, degrees, scores))
            rows += _sources_of(points, scores, first=round(times[0] / HOP))
            heat += _histogram(degrees, scores, HEAT_CELL)
            drawn.append(_drawn_points(times[::every], degrees[::every], scores[::every]))
            counts.append(np.stack([times, scores.sum(-1)], -1)[::every])
    write_text(out / f"{stem}.csv", "".join(map(_line, rows)))
    write_json(out / f"{stem}.json", {**about, "frame": HOP * OUTPUT, "sources": [_plain(r) for r in rows]})
    for ending, figure in (
        ("-map.png", heat_map(heat, stem)),
        ("-timeline.png", timeline(np.concatenate(drawn), np.concatenate(counts), stem)),
    ):
        with atomic(out / f"{stem}{ending}") as temporary:
            figure.savefig(temporary)
    return [out / f"{stem}{ending}" for ending in ENDINGS]


def _line(row: _Source) -> str:
    return f"{row.frame},0,{row.track},{row.azimuth:.0f},{row.elevation:.0f}\n"


def _plain(row: _Source) -> dict[str, float]:
    return {
        "time": round(row.frame * HOP * OUTPUT, 3),
        "track": row.track,
        "azimuth": round(row.azimuth, 1),
        "elevation": round(row.elevation, 1),
        "score": round(row.score, 3),
    }


def _long_rows(times: np.ndarray, degrees: np.ndarray, scores: np.ndarray) -> Iterator[list[object]]:
    for time, places, values in zip(times, degrees, scores, strict=True):
        for index, ((azimuth, elevation), score) in enumerate(zip(places, values, strict=True)):
            yield [f"{time:.2f}", index, f"{azimuth:.1f}", f"{elevation:.1f}", f"{score:.3f}"]


def _sources_of(points: np.ndarray, scores: np.ndarray, first: int) -> list[_Source]:
    """From the frame in the middle of each 100 ms."""
    middle = slice(OUTPUT // 2, None, OUTPUT)
    return [
        _Source(first // OUTPUT + index, track, math.degrees(row[0]), math.degrees(row[1]), float(row[2]))
        for index, rows in enumerate(sources(points[middle], scores[middle]))
        for track, row in enumerate(rows)
    ]


def _drawn_points(
    times: np.ndarray, degrees: np.ndarray, scores: np.ndarray
) -> Float[np.ndarray, "points 4"]:
    at = np.broadcast_to(times[:, None], scores.shape)
    points = np.concatenate([at[..., None], degrees, scores[..., None]], -1).reshape(-1, 4)
    return points[points[:, 3] > 0.1]


def _histogram(
    degrees: np.ndarray, scores: np.ndarray, cell: int
) -> Float[np.ndarray, "elevations azimuths"]:
    azimuth = (degrees[..., 0] + 180) % 360 - 180
    edges = np.arange(-90, 91, cell), np.arange(-180, 181, cell)
    weights = scores.reshape(-1).astype(float)
    return np.histogram2d(degrees[..., 1].reshape(-1), azimuth.reshape(-1), edges, weights=weights)[0]
