"""Figures of data sets, recordings and predictions."""

import math
from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import scipy.signal
from jaxtyping import Float, Int16
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from torchmcl.audio.datasets import Event, Recording, open_sound
from torchmcl.audio.foa import Convention, intensity_directions, unit_vectors
from torchmcl.audio.predictions import OUTPUT, Localization, Source, stretches
from torchmcl.audio.targets import HOP
from torchmcl.runs.figures import caption

__all__ = ["HEAT_CELL", "directions_figure", "heat_map", "recording_figure", "timeline"]

CELL = 10
"""Degrees; the grid of the data sets."""

HEAT_CELL = 5
"""Degrees; the grid of the heat map of scores."""

BLUR = math.radians(6)

LONGEST = 60.0
"""Seconds of a recording that fit into a picture."""

SHOWN = 4000
"""Points of a line at most: several for each pixel of a timeline."""

_PALETTE = 20


def directions_figure(events: Sequence[Event], title: str) -> Figure:
    """A map of how long events sound from each direction.

    Args:
        events: Of one or several recordings.
        title: Of the figure.

    Returns:
        The figure; left is left.
    """
    azimuth, elevation = np.degrees([(e.azimuth, e.elevation) for e in events]).reshape(-1, 2).T
    azimuth = (azimuth + 180 + CELL / 2) % 360 - 180 - CELL / 2
    edges = [np.arange(-low - CELL / 2, low + CELL, CELL) for low in (180, 90)]
    edges[0] = edges[0][:-1]
    seconds, *_ = np.histogram2d(azimuth, elevation, edges, weights=[e.end - e.start for e in events])
    figure = Figure(figsize=(9, 4.6), layout="constrained", dpi=120)
    axes = figure.subplots()
    mesh = axes.pcolormesh(*edges, np.ma.masked_equal(seconds, 0).T, cmap="viridis", vmin=0)
    figure.colorbar(mesh, label="seconds of sound in a cell of 10 x 10 degrees")
    axes.set(
        title=caption(title),
        xlabel="azimuth in degrees (left is positive)",
        ylabel="elevation in degrees",
        xlim=(185, -185),
        ylim=(-95, 95),
        xticks=range(-180, 181, 45),
        yticks=range(-90, 91, 30),
        aspect="equal",
    )
    axes.grid(alpha=0.3)
    return figure


def recording_figure(recording: Recording, convention: Convention, title: str) -> Figure:
    """Spectrogram of W; azimuth and elevation of the events and of the intensity vector over time.

    Args:
        recording: The first minute of it is shown.
        convention: Of its channels.
        title: Of the figure.

    Returns:
        The figure.
    """
    rate, end = recording.sample_rate, min(recording.duration, LONGEST)
    sound = open_sound(recording.audio)[: round(end * rate)].T
    figure = Figure(figsize=(11, 8), layout="constrained", dpi=120)
    top, middle, bottom = figure.subplots(3, 1, sharex=True, height_ratios=[3, 4, 3])
    figure.suptitle(caption(title))
    _spectrogram(top, sound[0], rate)
    colors = _colors(recording.events)
    for axes, name, limit, column in ((middle, "azimuth", 180, 0), (bottom, "elevation", 90, 1)):
        for event in recording.events:
            angle = np.degrees(getattr(event, name))
            axes.hlines(angle, event.start, event.end, colors[event.label], linewidth=5, alpha=0.8)
        _intensity(axes, sound, rate, convention, column)
        axes.set(ylabel=f"{name} (degrees)", ylim=(-limit * 1.05, limit * 1.05))
        axes.set_yticks(range(-limit, limit + 1, limit // 4 if limit == 180 else limit // 2))
        axes.grid(alpha=0.3)
    bottom.set(xlabel="time (seconds)", xlim=(0, end))
    _legend(figure, colors)
    return figure


def heat_map(heat: Float[np.ndarray, "elevations azimuths"], title: str, found: Localization) -> Figure:
    """A heat map of scores over all directions, blurred by 6 degrees and relative to its maximum, with the tracks.

    Args:
        heat: Sums of scores in cells of 5 x 5 degrees, from elevation -90 and azimuth -180 on.
        title: Of the figure.
        found: The tracks that are drawn, each with its number where it is heard longest.

    Returns:
        The figure; left is left.
    """
    azimuths = np.radians(np.arange(-180 + HEAT_CELL / 2, 180, HEAT_CELL))
    elevations = np.radians(np.arange(-90 + HEAT_CELL / 2, 90, HEAT_CELL))
    grid = unit_vectors(np.stack(np.meshgrid(azimuths, elevations), -1).reshape(-1, 2)).astype(np.float32)
    near = grid @ grid.T
    near -= 1
    near /= BLUR**2
    blurred = np.exp(near, out=near) @ heat.reshape(-1).astype(np.float32)
    figure = Figure(figsize=(9, 4.6), layout="constrained", dpi=120)
    axes = figure.subplots()
    edges = np.arange(-180, 181, HEAT_CELL), np.arange(-90, 91, HEAT_CELL)
    shares = (blurred / max(blurred.max(), 1e-12)).reshape(heat.shape)
    mesh = axes.pcolormesh(*edges, shares, cmap="gray_r", vmin=0, vmax=1)
    figure.colorbar(mesh, label="score, relative to its maximum")
    for track, path in _longest_stretches(found).items():
        azimuth, elevation = np.degrees([(s.azimuth, s.elevation) for s in path]).T
        axes.plot(*_unwrapped(azimuth, elevation), color=_track_color(track), lw=2)
        middle = len(path) // 2
        axes.plot(azimuth[middle], elevation[middle], "o", color=_track_color(track), ms=13, mec="white")
        axes.text(
            azimuth[middle], elevation[middle], str(track), color="white", ha="center", va="center", size=8
        )
    axes.set(
        title=caption(title), xlabel="azimuth in degrees (left is positive)", ylabel="elevation in degrees",
        xlim=(180, -180), ylim=(-90, 90), xticks=range(-180, 181, 45), yticks=range(-90, 91, 30), aspect="equal",
    )  # fmt: skip
    return figure


def timeline(points: Float[np.ndarray, "drawn 4"], found: Localization, title: str) -> Figure:
    """Tracks over time in their own colors with their regions, hypotheses behind them, and the number of sources.

    Args:
        points: Hypotheses as rows of time (seconds), azimuth and elevation (degrees) and score.
        found: The tracks and the counts.
        title: Of the figure.

    Returns:
        The figure.
    """
    figure = Figure(figsize=(11, 8), layout="constrained", dpi=120)
    top, middle, bottom = figure.subplots(3, 1, sharex=True, height_ratios=[4, 3, 2])
    region = "" if np.isnan(found.coverage) else f", shaded: {found.coverage:.0%} region"
    figure.suptitle(f"{caption(title)} (lines: tracks, gray: hypotheses{region})")
    for axes, column, name, limit in ((top, 1, "azimuth", 180), (middle, 2, "elevation", 90)):
        # A scatter of 20,000 points is one image in place of as many markers.
        axes.scatter(
            points[:, 0],
            points[:, column],
            c=points[:, 3],
            s=4,
            cmap="Greys",
            vmin=-0.3,
            vmax=1,
            rasterized=True,
        )
        _draw_tracks(axes, found, column)
        axes.set(
            ylabel=f"{name} (degrees)", ylim=(-limit - 5, limit + 5), yticks=range(-limit, limit + 1, 45)
        )
        axes.grid(alpha=0.3)
    _draw_counts(bottom, found.counts)
    bottom.set(xlabel="time (seconds)", xlim=(0, max(len(found.sources) * OUTPUT * HOP, OUTPUT * HOP)))
    tracks = sorted({source.track for sources in found.sources for source in sources})[:_PALETTE]
    handles = [Line2D([], [], color=_track_color(track), lw=3, label=f"source {track}") for track in tracks]
    if handles:
        figure.legend(handles=handles, loc="outside right upper", frameon=False)
    return figure


def _draw_tracks(axes: Axes, found: Localization, column: int) -> None:
    """One line and one area for all stretches of a color: a long recording has thousands of stretches."""
    drawn: dict[str, list[np.ndarray]] = defaultdict(list)
    for first, _, path in stretches(found):
        drawn[_track_color(path[0].track)].append(_stretch(first, path, column))
    gap = np.full((1, 3), np.nan)
    for color, parts in drawn.items():
        axes.plot(*np.concatenate([gap, *(p for p in parts if len(p) == 1)])[:, :2].T, ".", color=color, ms=5)
        lines = [piece for part in parts if len(part) > 1 for piece in (part, gap)]
        times, angle, half = np.concatenate([gap, *lines]).T
        for turn in (-360, 0, 360) if column == 1 else (0,):
            axes.plot(times, angle + turn, color=color, lw=2)
            if not np.isnan(found.coverage):
                low, high = angle + turn - half, angle + turn + half
                axes.fill_between(times, low, high, color=color, alpha=0.15, lw=0)


def _stretch(first: int, path: Sequence[Source], column: int) -> Float[np.ndarray, "shown 3"]:
    """Rows of time, angle and half the width of the region, as many as a picture shows."""
    shown = _shown(len(path))
    times = ((first + np.arange(len(path)) + 0.5) * OUTPUT * HOP)[shown]
    azimuth, elevation, radius = np.degrees([(s.azimuth, s.elevation, s.radius) for s in path[shown]]).T
    if column == 2:
        return np.stack([times, elevation, radius], 1)
    # A circle on the sphere is wider in azimuth the higher it lies.
    half = np.minimum(radius / np.maximum(np.cos(np.radians(elevation)), 0.1), 180)
    return np.stack([times, np.unwrap(azimuth, period=360), half], 1)


def _draw_counts(axes: Axes, counts: Float[np.ndarray, "outputs 4"]) -> None:
    """Probabilities as shades of cells, and the most probable number as a line."""
    times = np.arange(len(counts) + 1) * OUTPUT * HOP
    # An image: cells of their own would take much memory in a long recording.
    extent = (0, times[-1], -0.5, counts.shape[1] - 0.5)
    axes.imshow(counts.T, cmap="Blues", vmin=0, vmax=1, aspect="auto", origin="lower", extent=extent)
    best = counts.argmax(1)
    shown = _shown(len(times))
    axes.step(times[shown], np.append(best, best[-1:])[shown], where="post", color="black", lw=1)
    names = [*map(str, range(counts.shape[1] - 1)), f"{counts.shape[1] - 1}+"]
    axes.set(
        ylabel="number of sources\n(shade: probability)", yticks=range(counts.shape[1]), yticklabels=names
    )


def _shown(count: int) -> slice:
    """So many of `count` values as a picture can show: lines of a long recording are slow and large."""
    return slice(None, None, max(1, math.ceil(count / SHOWN)))


def _longest_stretches(found: Localization) -> dict[int, list[Source]]:
    longest: dict[int, list[Source]] = {}
    for _, _, path in stretches(found):
        track = path[0].track
        if len(path) > len(longest.get(track, [])):
            longest[track] = path
    return longest


def _unwrapped(azimuth: np.ndarray, elevation: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """With a gap where a line would cross the whole map."""
    breaks = np.flatnonzero(np.abs(np.diff(azimuth)) > 180) + 1
    return np.insert(azimuth, breaks, np.nan), np.insert(elevation, breaks, np.nan)


def _track_color(track: int) -> str:
    return to_hex(colormaps["tab10"](track % 10))


def _spectrogram(axes: Axes, pressure: Int16[np.ndarray, "samples"], rate: int) -> None:
    window = min(round(2 * HOP * rate), len(pressure))
    frequencies, times, power = scipy.signal.spectrogram(
        pressure / 32768, rate, "hann", nperseg=window, noverlap=window // 2, scaling="spectrum"
    )
    level = 10 * np.log10(power + 1e-12)
    image = axes.imshow(
        level,
        origin="lower",
        aspect="auto",
        extent=(times[0] - HOP / 2, times[-1] + HOP / 2, 0, frequencies[-1] / 1000),
        vmin=level.max() - 80,
        cmap="magma",
    )
    axes.set_ylabel("frequency (kHz)")
    axes.figure.colorbar(image, ax=axes, label="W (dB)", pad=0.01)


def _intensity(
    axes: Axes, sound: Int16[np.ndarray, "4 samples"], rate: int, convention: Convention, column: int
) -> None:
    directions, active = intensity_directions(sound, round(HOP * rate), convention)
    times = (np.arange(len(directions)) + 0.5) * HOP
    axes.plot(times[active], np.degrees(directions[active, column]), ".", color="black", markersize=2.5)


def _colors(events: Sequence[Event]) -> dict[str, str]:
    labels = sorted({event.label for event in events})
    return {label: to_hex(colormaps["tab20"](i % _PALETTE)) for i, label in enumerate(labels)}


def _legend(figure: Figure, colors: dict[str, str]) -> None:
    dots = Line2D([], [], color="black", marker=".", linestyle="none", label="intensity vector")
    lines = [
        Line2D([], [], color=color, linewidth=5, label=caption(label)) for label, color in colors.items()
    ]
    figure.legend(handles=[dots, *lines[:_PALETTE]], loc="outside right center", frameon=False)
