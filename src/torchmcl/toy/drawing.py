"""Hypotheses, cells and samples on a matplotlib axis, alike in all toy figures."""

from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import PolyCollection
from matplotlib.colors import LinearSegmentedColormap, Normalize
from numpy.typing import NDArray
from torch import Tensor

from torchmcl.hypotheses import Hypotheses
from torchmcl.toy.data import sample
from torchmcl.toy.models import Method
from torchmcl.voronoi import polygons

__all__ = ["STYLES", "Style", "cell_means", "cells", "frame", "marks", "samples", "scale"]


class Style(NamedTuple):
    """The look of a method."""

    color: str
    marker: str


STYLES: dict[Method, Style] = {
    "rmcl": Style("#1f5fbf", "o"),
    "rmcl_star": Style("#7d3fb0", "x"),
    "smcl": Style("#e0559b", "D"),
    "ie": Style("#d9a400", "^"),
    "ie_mean": Style("#8a6d1d", "v"),
}

SAMPLES = "#3c9a5f"
MEANS = "#d62728"
BLUES = LinearSegmentedColormap.from_list("scores", ["#f4f8fd", "#a4c6ef", "#2567c4"])


def scale(highest: float) -> ScalarMappable:
    """The colors of scores between 0 and `highest`.

    Args:
        highest: The score with the darkest color.

    Returns:
        The color map.
    """
    return ScalarMappable(Normalize(0, highest), BLUES)


def frame(axis: Axes, low: float = -1.0, high: float = 1.0, title: str = "") -> None:
    """A square axis with three ticks a side.

    Args:
        axis: Where to draw.
        low: The lowest coordinate shown.
        high: The highest.
        title: Above the axis.
    """
    axis.set(xlim=(low, high), ylim=(low, high), aspect="equal", title=title)
    ticks = np.linspace(low, high, 3)
    axis.set_xticks(ticks)
    axis.set_yticks(ticks)


def samples(axis: Axes, t: float, count: int, seed: int = 0, size: float = 2.0, alpha: float = 0.45) -> None:
    """Draws from p(y | t) as green dots.

    Args:
        axis: Where to draw.
        t: The time.
        count: How many.
        seed: Of the draws.
        size: Of a dot.
        alpha: Its opacity.
    """
    y = sample(torch.tensor(t), (count,), torch.Generator().manual_seed(seed)).numpy()
    axis.scatter(y[:, 0], y[:, 1], s=size, c=SAMPLES, alpha=alpha, linewidths=0, zorder=1.5)


def marks(
    axis: Axes,
    hypotheses: Hypotheses,
    method: Method,
    colors: ScalarMappable | None = None,
    size: float = 26.0,
) -> None:
    """The hypotheses as markers, colored by their probability if `colors` are given.

    Args:
        axis: Where to draw.
        hypotheses: At one time.
        method: Decides color and marker.
        colors: Of the probabilities.
        size: Of a marker.
    """
    style = STYLES[method]
    points = hypotheses.points.numpy()
    if colors is not None:
        fill, edge = colors.to_rgba(hypotheses.probs.numpy()), "#0b2a5c"
        axis.scatter(
            points[:, 0],
            points[:, 1],
            s=size,
            c=fill,
            marker=style.marker,
            edgecolors=edge,
            linewidths=0.7,
            zorder=4,
        )
        return
    edges: dict[str, Any] = {} if style.marker == "x" else {"edgecolors": "white"}
    axis.scatter(
        points[:, 0], points[:, 1], s=size, c=style.color, marker=style.marker, zorder=3,
        linewidths=1.1 if style.marker == "x" else 0.5, **edges,
    )  # fmt: skip


def cells(
    axis: Axes, hypotheses: Hypotheses, colors: ScalarMappable, low: float = -1.0, high: float = 1.0
) -> None:
    """The Voronoi cells inside a square, colored by the probability of their hypotheses.

    Args:
        axis: Where to draw.
        hypotheses: At one time.
        colors: Of the probabilities.
        low: The lowest coordinate of the square.
        high: The highest.
    """
    points = hypotheses.points.double()
    corner = points.new_ones(2)
    shapes = polygons.planar_cells(points, low * corner, high * corner)[..., :2] + points[:, None]
    fill = colors.to_rgba(hypotheses.probs.numpy(), alpha=0.75)
    axis.add_collection(
        PolyCollection(list(shapes.numpy()), facecolors=fill, edgecolors="#31456a", linewidths=0.7, zorder=1)
    )


def cell_means(
    axis: Axes, points: Float[Tensor, "hypotheses 2"], t: float, count: int = 35_000, seed: int = 0
) -> None:
    """The mean of the samples in each cell as red points.

    Args:
        axis: Where to draw.
        points: `(hypotheses, 2)`.
        t: The time.
        count: Of samples.
        seed: Of the draws.
    """
    means = sample_means(points, t, count, seed)
    axis.scatter(means[:, 0], means[:, 1], s=7, c=MEANS, linewidths=0, zorder=5)


def sample_means(
    points: Float[Tensor, "hypotheses 2"], t: float, count: int, seed: int = 0
) -> NDArray[np.float64]:
    """The means of `count` draws from p(y | t) in the cells that hold any.

    Args:
        points: `(hypotheses, 2)`.
        t: The time.
        count: Of samples.
        seed: Of the draws.

    Returns:
        `(cells with samples, 2)`.
    """
    random = torch.Generator().manual_seed(seed)
    y = sample(torch.tensor(t, dtype=torch.float64), (count,), random)
    cell = Hypotheses(points.double()).cells(y)
    hits = torch.bincount(cell, minlength=len(points))[:, None]
    sums = torch.zeros(len(points), 2, dtype=torch.float64).index_add(0, cell, y)
    return (sums / hits)[hits[:, 0] > 0].numpy()
