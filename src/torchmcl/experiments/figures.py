"""Figures of studies: metrics over several seeds, winners, and what was predicted in single moments."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import ScalarFormatter

from torchmcl.audio.datamodule import AudioDataModule, Batch
from torchmcl.errors import UserError
from torchmcl.experiments.build import open_data
from torchmcl.experiments.evaluate import only_active
from torchmcl.experiments.published import Cells
from torchmcl.experiments.saved import RunMetrics, load_network, load_settings, read_metrics
from torchmcl.hypotheses import Hypotheses
from torchmcl.runs.figures import caption, save_figure

__all__ = ["Result", "by_data", "scenes", "sizes", "statistics", "winners"]

METRICS = ("EMD", "oracle error")
MARKERS = "osD^vP*X"
TARGETS, OURS, SLOTS = "#2f8f4e", "Blues", "#e07b00"
CLIPS, MOMENTS = 4, (2, 7, 12, 17, 22)


@dataclass(frozen=True)
class Result:
    """What the runs of a method found on the test recordings of one data set.

    Args:
        label: Of the method, in tables and figures.
        published: Its key in the published tables.
        data: The name of the data set.
        cells: Mean and deviation of each column of the tables, for each seed.
        run: The folder of the run with the first seed.
    """

    label: str
    published: str
    data: str
    cells: tuple[Cells, ...]
    run: Path

    @property
    def means(self) -> Float[np.ndarray, "seeds 2 groups"]:
        """The means over test recordings: EMD and oracle error, for each number of sources."""
        values = np.array([[mean for mean, _ in cells] for cells in self.cells])
        return values.reshape(len(self.cells), 2, -1)


def by_data(results: Sequence[Result]) -> dict[str, list[Result]]:
    """The results of each data set, in order.

    Args:
        results: Of several methods on one or several data sets.

    Returns:
        A panel of a figure or a table for each data set.
    """
    panels: dict[str, list[Result]] = {}
    for result in results:
        panels.setdefault(result.data, []).append(result)
    return panels


def statistics(path: Path, results: Sequence[Result]) -> Path:
    """EMD and oracle error against the number of sources; bars are deviations over the seeds.

    Args:
        path: Of the figure, without its ending.
        results: Of several methods.

    Returns:
        The PNG file; a PDF is beside it.
    """
    panels = by_data(results)
    figure = Figure(figsize=(9.5, 3.6 * len(panels)), layout="constrained")
    grid = figure.subplots(len(panels), 2, squeeze=False)
    for axes, (data, rows) in zip(grid, panels.items(), strict=True):
        for column, axis in enumerate(axes):
            for number, result in enumerate(rows):
                means = result.means[:, column]
                x = np.arange(1, means.shape[1] + 1) + 0.04 * (number - (len(rows) - 1) / 2)
                _bars(axis, x, means, result.label, number)
            axis.set(
                title=f"{METRICS[column]}, {caption(data)}",
                ylabel="degrees",
                ylim=(0, None),
                xticks=range(1, means.shape[1] + 1),
            )
            axis.set_xticklabels([f"D{n}" for n in range(1, means.shape[1] + 1)])
    _legend(figure, grid[0, 0])
    return _save(figure, path)


def sizes(path: Path, results: Sequence[Result]) -> Path:
    """EMD and oracle error against the number of hypotheses; bars are deviations over the seeds.

    Args:
        path: Of the figure, without its ending.
        results: Of one method with several numbers of hypotheses.

    Returns:
        The PNG file; a PDF is beside it.
    """
    panels = by_data(results)
    figure = Figure(figsize=(9.5, 3.8 * len(panels)), layout="constrained")
    grid = figure.subplots(len(panels), 2, squeeze=False)
    for axes, (data, rows) in zip(grid, panels.items(), strict=True):
        configs = [load_settings(result.run) for result in rows]
        counts = np.array([float(config.method.hypotheses or 0) for config in configs])
        means = np.stack([result.means for result in rows], axis=-1)
        for column, axis in enumerate(axes):
            for group in range(means.shape[2]):
                _bars(axis, counts, means[:, column, group], f"D{group + 1}", group)
            axis.set(
                title=f"{METRICS[column]}, {caption(data)}", xlabel="hypotheses", ylabel="degrees", ylim=(0, None),
                xscale="log",
            )  # fmt: skip
            axis.set_xticks(counts, minor=False)
            axis.set_xticks([], minor=True)
            axis.xaxis.set_major_formatter(ScalarFormatter())
    _legend(figure, grid[0, 0])
    return _save(figure, path)


def winners(path: Path, results: Sequence[Result]) -> Path:
    """How often each hypothesis is the nearest to a target of the test recordings.

    Args:
        path: Of the figure, without its ending.
        results: The first one is shown.

    Returns:
        The PNG file; a PDF is beside it.
    """
    result = results[0]
    counts = read_metrics(result.run).test.winners or []
    expected = load_settings(result.run).method.hypotheses
    if len(counts) != expected or not any(counts):
        raise UserError(
            f"{result.run / RunMetrics.file}: test.winners must be {expected} counts, of which one is positive"
        )
    shares = np.array(counts) / sum(counts)
    entropy = -(shares[shares > 0] * np.log(shares[shares > 0])).sum()
    figure = Figure(figsize=(6.5, 3.4), layout="constrained")
    axis = figure.subplots()
    axis.bar(np.arange(1, len(shares) + 1), shares, color="#1f5fbf")
    axis.axhline(1 / len(shares), color="#444444", linestyle="--", linewidth=1, label="all alike")
    axis.set(
        title=f"{result.label}: entropy {entropy:.2f} of at most {np.log(len(shares)):.2f}",
        xlabel="hypothesis",
        ylabel="share of the targets that it wins",
        xticks=np.arange(1, len(shares) + 1),
    )
    axis.legend(frameon=False)
    return _save(figure, path)


def scenes(path: Path, results: Sequence[Result]) -> Path:
    """Random test clips with three sources (rows) at several moments (columns): both predictions.

    Args:
        path: Of the figure, without its ending.
        results: Of a scored method and of PIT.

    Returns:
        The PNG file; a PDF is beside it.
    """
    ours, slots = results[:2]
    config, network = load_network(ours.run)
    _, baseline = load_network(slots.run)
    data = open_data(config)
    waveform, targets, active, _ = _clips(data)
    with torch.no_grad():
        found, (others, _) = network(waveform), only_active(baseline(waveform))
    highest = float(found.probs.max())
    figure = Figure(figsize=(2.6 * len(MOMENTS), 1.75 * len(waveform) + 0.9), layout="constrained")
    grid = figure.subplots(len(waveform), len(MOMENTS), sharex=True, sharey=True, squeeze=False)
    for (clip, column), axis in np.ndenumerate(grid):
        moment = MOMENTS[column]
        _moment(axis, found, others, targets[clip, moment][active[clip, moment]], (clip, moment), highest)
        if clip == 0:
            axis.set_title(f"{1000 * moment / 50:.0f} ms", fontsize=10)
    points = grid[0, 0].collections[0]
    figure.colorbar(points, ax=grid, label=f"score of {ours.label.split(',')[0]}", shrink=0.8)
    figure.supxlabel("azimuth in degrees (left is positive)", fontsize=10)
    figure.supylabel("elevation in degrees", fontsize=10)
    _legend(figure, grid[0, 0], names=[ours.label, slots.label, "target"])
    return _save(figure, path)


def _moment(
    axis: Axes,
    ours: Hypotheses,
    slots: Hypotheses,
    targets: torch.Tensor,
    at: tuple[int, int],
    highest: float,
) -> None:
    azimuth, elevation = _degrees(ours.points[at])
    axis.scatter(
        azimuth, elevation, c=ours.probs[at].numpy(), cmap=OURS, vmin=0, vmax=highest,
        s=70, edgecolors="#1f3f7f", linewidths=0.8, zorder=2,
    )  # fmt: skip
    azimuth, elevation = _degrees(slots.points[at][slots.probs[at] > 0])
    axis.scatter(
        azimuth, elevation, marker="s", s=45, facecolors="none", edgecolors=SLOTS, linewidths=1.6, zorder=3
    )
    azimuth, elevation = _degrees(targets)
    axis.scatter(azimuth, elevation, marker="*", s=90, c=TARGETS, linewidths=0, zorder=4)
    axis.set(xlim=(190, -190), ylim=(-95, 95), xticks=(-180, -90, 0, 90, 180), yticks=(-90, 0, 90))
    axis.grid(alpha=0.3)


def _degrees(directions: torch.Tensor) -> Float[np.ndarray, "2 points"]:
    return np.degrees(directions.numpy()).T


def _clips(data: AudioDataModule) -> Batch:
    """Test clips in which all sources sound at some moment that is shown, drawn by a fixed seed."""
    chunks = data.chunks["test"]
    sounding = chunks.active[:, list(MOMENTS)].sum(-1).amax(-1)
    full = (sounding == sounding.max()).nonzero()[:, 0]
    order = torch.randperm(len(full), generator=torch.Generator().manual_seed(0))
    return chunks.__getitems__(full[order[:CLIPS]].tolist())


def _bars(
    axis: Axes, x: Float[np.ndarray, "n"], means: Float[np.ndarray, "seeds n"], label: str, number: int
) -> None:
    axis.errorbar(
        x, means.mean(axis=0), means.std(axis=0), label=label, color=f"C{number}", marker=MARKERS[number],
        markersize=5, capsize=3, linewidth=1.2,
    )  # fmt: skip
    axis.grid(alpha=0.3)


def _legend(figure: Figure, axis: Axes, names: Sequence[str] | None = None) -> None:
    handles, labels = axis.get_legend_handles_labels()
    if names is not None:
        handles, labels = list(axis.collections), list(names)
    figure.legend(handles, labels, loc="outside upper center", ncols=4, frameon=False)


def _save(figure: Figure, path: Path) -> Path:
    """As PNG and PDF; returns the PNG."""
    return next(file for file in save_figure(figure, path, dpi=150) if file.suffix == ".png")
