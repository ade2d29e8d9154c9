"""What was localised, as tables and pictures: CSV, JSON, a heat map and a timeline."""

import csv
import math
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure

from torchmcl.audio.foa import unit_vectors
from torchmcl.audio.localizer import Block, sources
from torchmcl.audio.targets import HOP
from torchmcl.runs.files import atomic, write_json, write_text

__all__ = ["write_answers"]

OUTPUT = 5
"""Frames of 20 ms in one of the output, which has 100 ms as DCASE's has."""

CELL = 5
"""Degrees; the grid of the heat map."""

BLUR = math.radians(6)
DRAWN = 20_000
"""Frames in the timeline at the most: a long recording is thinned out, evenly."""


class Found(NamedTuple):
    """A source in a frame of 100 ms; directions in degrees."""

    frame: int
    track: int
    azimuth: float
    elevation: float
    score: float


def write_answers(
    blocks: Iterable[Block], out: Path, stem: str, duration: float, about: dict[str, object]
) -> list[Path]:
    """Write all files for one recording and return their paths; blocks are read once and not kept.

    `STEM.csv` has a line for each source and 100 ms: frame, class (always 0), track, azimuth, elevation, as DCASE
    has since 2020, without a header. `STEM-hypotheses.csv` has all hypotheses of each 20 ms with their scores.
    """
    heat = np.zeros((180 // CELL, 360 // CELL))
    every = max(1, math.ceil(duration / HOP / DRAWN))
    rows: list[Found] = []
    drawn: list[np.ndarray] = []
    counts: list[np.ndarray] = []
    with atomic(out / f"{stem}-hypotheses.csv") as temporary, temporary.open("w", newline="") as stream:
        long = csv.writer(stream)
        long.writerow(["time", "hypothesis", "azimuth", "elevation", "score"])
        for block in blocks:
            first = round(block.start / HOP)
            times = (first + np.arange(len(block.scores))) * HOP
            degrees = np.degrees(block.directions)
            long.writerows(_long(times, degrees, block.scores))
            rows += _output_rows(block, first)
            heat += _histogram(degrees, block.scores)
            drawn.append(_points(times[::every], degrees[::every], block.scores[::every]))
            counts.append(np.stack([times, block.scores.sum(-1)], -1)[::every])
    lines = [f"{row.frame},0,{row.track},{row.azimuth:.0f},{row.elevation:.0f}\n" for row in rows]
    write_text(out / f"{stem}.csv", "".join(lines))
    found = [
        {
            "time": round(row.frame * HOP * OUTPUT, 3),
            "track": row.track,
            "azimuth": round(row.azimuth, 1),
            "elevation": round(row.elevation, 1),
            "score": round(row.score, 3),
        }
        for row in rows
    ]
    write_json(out / f"{stem}.json", {**about, "frame": HOP * OUTPUT, "sources": found})
    _save(heat_map(heat, stem), out / f"{stem}-map.png")
    _save(timeline(np.concatenate(drawn), np.concatenate(counts), stem), out / f"{stem}-timeline.png")
    endings = (".csv", "-hypotheses.csv", ".json", "-map.png", "-timeline.png")
    return [out / f"{stem}{ending}" for ending in endings]


def heat_map(heat: Float[np.ndarray, "elevations azimuths"], title: str) -> Figure:
    """How much score came from where, blurred by 6 degrees, relative to the loudest direction."""
    azimuths = np.radians(np.arange(-180 + CELL / 2, 180, CELL))
    elevations = np.radians(np.arange(-90 + CELL / 2, 90, CELL))
    grid = unit_vectors(np.stack(np.meshgrid(azimuths, elevations), -1).reshape(-1, 2))
    blurred = np.exp((grid @ grid.T - 1) / BLUR**2) @ heat.reshape(-1)
    figure = Figure(figsize=(9, 4.6), layout="constrained", dpi=120)
    axes = figure.subplots()
    edges = np.arange(-180, 181, CELL), np.arange(-90, 91, CELL)
    shares = (blurred / max(blurred.max(), 1e-12)).reshape(heat.shape)
    mesh = axes.pcolormesh(*edges, shares, cmap="magma", vmin=0, vmax=1)
    figure.colorbar(mesh, label="score, relative to its maximum")
    axes.set(
        title=title, xlabel="azimuth in degrees (left is positive)", ylabel="elevation in degrees",
        xlim=(180, -180), ylim=(-90, 90), xticks=range(-180, 181, 45), yticks=range(-90, 91, 30), aspect="equal",
    )  # fmt: skip
    return figure


def timeline(
    points: Float[np.ndarray, "drawn 4"], counts: Float[np.ndarray, "frames 2"], title: str
) -> Figure:
    """Azimuth and elevation over time, coloured by score, and the estimated number of sources."""
    figure = Figure(figsize=(11, 8), layout="constrained", dpi=120)
    top, middle, bottom = figure.subplots(3, 1, sharex=True, height_ratios=[4, 3, 2])
    figure.suptitle(title)
    order = points[points[:, 3].argsort()]
    for axes, column, name, limit, step in ((top, 1, "azimuth", 180, 45), (middle, 2, "elevation", 90, 45)):
        dots = axes.scatter(
            order[:, 0], order[:, column], c=order[:, 3], s=4, cmap="viridis_r", vmin=0, vmax=1
        )
        axes.set(
            ylabel=f"{name} (degrees)", ylim=(-limit - 5, limit + 5), yticks=range(-limit, limit + 1, step)
        )
        axes.grid(alpha=0.3)
    figure.colorbar(dots, ax=(top, middle), label="score")
    bottom.plot(*counts.T, lw=0.8)
    bottom.set(ylabel="number of sources", xlabel="time (seconds)", ylim=(0, None))
    bottom.grid(alpha=0.3)
    return figure


def _long(times: np.ndarray, degrees: np.ndarray, scores: np.ndarray) -> Iterable[list[object]]:
    for time, places, values in zip(times, degrees, scores, strict=True):
        for index, ((azimuth, elevation), score) in enumerate(zip(places, values, strict=True)):
            yield [f"{time:.2f}", index, f"{azimuth:.1f}", f"{elevation:.1f}", f"{score:.3f}"]


def _output_rows(block: Block, first: int) -> list[Found]:
    """From the frame in the middle of each 100 ms."""
    middle = slice(OUTPUT // 2, None, OUTPUT)
    found = sources(block.directions[middle], block.scores[middle])
    return [
        Found(first // OUTPUT + index, track, math.degrees(row[0]), math.degrees(row[1]), float(row[2]))
        for index, rows in enumerate(found)
        for track, row in enumerate(rows)
    ]


def _points(times: np.ndarray, degrees: np.ndarray, scores: np.ndarray) -> Float[np.ndarray, "points 4"]:
    at = np.broadcast_to(times[:, None], scores.shape)
    points = np.concatenate([at[..., None], degrees, scores[..., None]], -1).reshape(-1, 4)
    return points[points[:, 3] > 0.1]


def _histogram(degrees: np.ndarray, scores: np.ndarray) -> Float[np.ndarray, "elevations azimuths"]:
    azimuth = (degrees[..., 0] + 180) % 360 - 180
    edges = np.arange(-90, 91, CELL), np.arange(-180, 181, CELL)
    weights = scores.reshape(-1).astype(float)
    return np.histogram2d(degrees[..., 1].reshape(-1), azimuth.reshape(-1), edges, weights=weights)[0]


def _save(figure: Figure, path: Path) -> None:
    with atomic(path) as temporary:
        figure.savefig(temporary)
