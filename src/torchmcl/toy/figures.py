"""Figure 1 of the paper, and the training dynamics as an animation."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib import rc_context
from matplotlib.animation import FuncAnimation, PillowWriter
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from torchmcl.hypotheses import Hypotheses
from torchmcl.runs.files import atomic
from torchmcl.toy import drawing
from torchmcl.toy.evaluate import predict
from torchmcl.toy.floor import TIMES, floor
from torchmcl.toy.models import ENSEMBLES, NAMES, Method
from torchmcl.toy.outcomes import Run
from torchmcl.toy.train import PATH_TIMES

__all__ = ["LOOK", "SHOWN_TIMES", "animation", "figure1", "legend_of"]

SHOWN_TIMES = (0.1, 0.6, 0.9)
LOOK: Any = {
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.linewidth": 0.8,
    "legend.fontsize": 8.5,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "pdf.fonttype": 42,
}


def figure1(run: Run) -> Figure:
    """EMD against t on the left; predictions and tessellations at three times on the right.

    Args:
        run: All models of a seed.

    Returns:
        The figure.
    """
    with rc_context(LOOK):
        figure = Figure(figsize=(12.2, 5.6))
        halves = figure.add_gridspec(
            1, 2, width_ratios=[1.0, 1.72], left=0.052, right=0.925, bottom=0.145, top=0.93, wspace=0.16
        )
        _emd_panel(figure, halves[0], run)
        _inference_panels(figure, halves[1], run)
        figure.legend(
            handles=legend_of(run.outcomes),
            loc="lower center",
            ncols=8,
            frameon=False,
            handletextpad=0.3,
            columnspacing=1.5,
        )
    return figure


def animation(run: Run, path: Path, method: Method = "rmcl") -> None:
    """Write a GIF of the hypotheses settling, from the first step to the last.

    Args:
        run: All models of a seed.
        path: The GIF to write.
        method: Whose hypotheses are shown.
    """
    trained = run.outcomes[method].trained
    with rc_context(LOOK):
        figure = Figure(figsize=(9.0, 3.3), dpi=80)
        axes = figure.subplots(1, 3)
        figure.subplots_adjust(left=0.05, right=0.98, bottom=0.1, top=0.84, wspace=0.2)

        def draw(index: int) -> list[Any]:
            for axis, t, points in zip(axes, PATH_TIMES, trained.path[index], strict=True):
                axis.clear()
                drawing.frame(axis, title=f"t = {t}")
                drawing.samples(axis, t, 600)
                drawing.cells(axis, Hypotheses(points), drawing.scale(2.0))
                drawing.marks(axis, Hypotheses(points), method)
            figure.suptitle(f"{NAMES[method]} after {int(trained.path_steps[index])} steps", fontsize=10)
            return []

        last = len(trained.path) - 1
        frames = [*range(last + 1), *[last] * 12]
        with atomic(path) as temporary:
            FuncAnimation(figure, draw, frames=frames).save(temporary, writer=PillowWriter(fps=8))


def _emd_panel(figure: Figure, where: Any, run: Run) -> None:
    """A broken axis where there are ensembles, which are far above the others."""
    if any(method in ENSEMBLES for method in run.outcomes):
        parts = where.subgridspec(2, 1, height_ratios=[1, 2.6], hspace=0.07)
        top, bottom = figure.add_subplot(parts[0]), figure.add_subplot(parts[1])
        _break(top, bottom)
    else:
        top = bottom = figure.add_subplot(where)
    for method, outcome in run.outcomes.items():
        style = drawing.STYLES[method]
        t, value = np.array(outcome.evaluation.emd).T
        axis = top if method in ENSEMBLES else bottom
        hollow: dict[str, Any] = {} if style.marker == "x" else {"markerfacecolor": "none"}
        axis.plot(t, value, color=style.color, marker=style.marker, markersize=4, linewidth=1, **hollow)
    bottom.plot(TIMES, floor(), color="#444444", linewidth=1.2, linestyle="--")
    bottom.set(xlim=(-0.02, 1.02), xlabel="t", ylabel="EMD")
    top.set_title("Earth Mover's Distance to p(y | t)")
    for axis in {top, bottom}:
        axis.grid(color="#dddddd", linewidth=0.6)


def _break(top: Axes, bottom: Axes) -> None:
    top.set(xlim=(-0.02, 1.02), ylim=(0.35, 0.85), xticks=[])
    top.spines["bottom"].set_visible(False)
    bottom.spines["top"].set_visible(False)
    slash: dict[str, Any] = {
        "marker": [(-1, -0.5), (1, 0.5)],
        "markersize": 8,
        "linestyle": "none",
        "color": "k",
    }
    top.plot([0, 1], [0, 0], transform=top.transAxes, clip_on=False, **slash)
    bottom.plot([0, 1], [1, 1], transform=bottom.transAxes, clip_on=False, **slash)


def _inference_panels(figure: Figure, where: Any, run: Run) -> None:
    axes = where.subgridspec(2, 3, hspace=0.2, wspace=0.16).subplots()
    times = torch.tensor(SHOWN_TIMES)
    predictions = {
        method: predict(outcome.trained.network, times) for method, outcome in run.outcomes.items()
    }
    colors = drawing.scale(float(predictions["rmcl"].probs.max()))
    for index, t in enumerate(SHOWN_TIMES):
        at = {method: hypotheses[index] for method, hypotheses in predictions.items()}
        _predictions(axes[0, index], t, at, colors)
        _tessellation(axes[1, index], t, at["rmcl"], colors)
    for axis in axes[:, 1:].flat:
        axis.set_yticklabels([])
    for axis in axes[0]:
        axis.set_xticklabels([])
    axes[0, 0].set_ylabel("predictions")
    axes[1, 0].set_ylabel("cells of rMCL")
    place = axes[0, 2].get_position()
    lowest = axes[1, 2].get_position().y0
    bar = figure.colorbar(colors, cax=figure.add_axes((0.94, lowest, 0.012, place.y1 - lowest)))
    bar.set_label("normalized score of rMCL")


def _predictions(axis: Axes, t: float, at: dict[Method, Hypotheses], colors: ScalarMappable) -> None:
    drawing.frame(axis, title=f"t = {t}")
    drawing.samples(axis, t, 1000)
    for method in [each for each in reversed(at) if each != "ie_mean"]:
        drawing.marks(axis, at[method], method, colors if method == "rmcl" else None)


def _tessellation(axis: Axes, t: float, hypotheses: Hypotheses, colors: ScalarMappable) -> None:
    drawing.frame(axis)
    drawing.cells(axis, hypotheses, colors)
    drawing.samples(axis, t, 1000, alpha=0.6)
    drawing.marks(axis, hypotheses, "rmcl", colors)
    drawing.cell_means(axis, hypotheses.points, t)


def legend_of(methods: Iterable[Method]) -> list[Line2D]:
    """Entries for the methods, the floor, samples and cell means.

    Args:
        methods: Those that are shown.

    Returns:
        Handles for a legend.
    """

    def entry(label: str, color: str, marker: str, size: float = 6.0, line: Any = "none") -> Line2D:
        return Line2D([], [], color=color, marker=marker, markersize=size, linestyle=line, label=label)

    return [
        *(entry(NAMES[method], *drawing.STYLES[method]) for method in methods),
        entry("best 20 points", "#444444", "none", line="--"),
        entry("samples of p(y | t)", drawing.SAMPLES, ".", 5.0),
        entry("mean in the cell", drawing.MEANS, ".", 7.0),
    ]
