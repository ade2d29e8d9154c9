"""Pictures of futures: one pedestrian with the density of the end point, and a plan of a whole frame."""

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from torchmcl.hypotheses import Hypotheses
from torchmcl.runs.figures import caption
from torchmcl.trajectories.forecast import Forecast
from torchmcl.trajectories.forecaster import Forecaster
from torchmcl.trajectories.measures import min_ade, nearest, single_answer
from torchmcl.trajectories.windows import PREDICTED, Windows

__all__ = ["gallery", "pedestrian", "plan"]

PAST, FUTURE, ANSWER, TRUTH = "#222222", "#2a6fbb", "#d1495b", "#2e933c"
COLORS = ("#2a6fbb", "#d98032", "#7b5ea7", "#3a9188", "#b5485d", "#7a7a2e", "#4f6d8f", "#a0522d")
DENSITY_CELLS = 120
DRAWN = 100
"""Pedestrians of a plan: more cover each other, and take minutes."""


def pedestrian(
    observed: Float[Tensor, "steps 2"],
    hypotheses: Hypotheses,
    end: Hypotheses | None = None,
    truth: Float[Tensor, "12 2"] | None = None,
    axes: Axes | None = None,
) -> Figure:
    """One pedestrian: the past, K futures with line widths by probability, the truth, and the density of the end.

    Args:
        observed: Past positions, NaN where unknown.
        hypotheses: Points `(K, 24)` with scores, in the same coordinates.
        end: Points `(K, 2)` with widths: the mixture of the last step, of which the density is drawn.
        truth: What happened.
        axes: Where to draw; a figure of its own by default.

    Returns:
        The figure.
    """
    axes = Figure(figsize=(6, 4.5), layout="constrained").subplots() if axes is None else axes
    past = observed[observed[:, 0].isfinite()].numpy()
    points = hypotheses.points.unflatten(-1, (PREDICTED, 2)).detach().numpy()
    answer = single_answer(hypotheses).detach().numpy()
    ends = [past, points.reshape(-1, 2), answer] + ([] if truth is None else [truth.numpy()])
    _frame(axes, np.concatenate(ends))
    if end is not None:
        _density(axes, end)
    _futures(axes, past[-1], points, hypotheses.probs.numpy(), FUTURE)
    axes.plot(*past.T, "o-", color=PAST, ms=4, lw=1.8, label="observed", zorder=5)
    axes.plot(*_from(past[-1], answer).T, "--", color=ANSWER, lw=2, label="single answer", zorder=4)
    if truth is not None:
        axes.plot(
            *_from(past[-1], truth.numpy()).T, "o-", color=TRUTH, ms=3, lw=1.8, label="true future", zorder=4
        )
    axes.plot([], [], color=FUTURE, lw=2, label=f"{len(points)} futures")
    axes.legend(loc="best", frameon=True, fontsize=8)
    figure = axes.get_figure(root=True)
    assert figure is not None
    return figure


def plan(made: Forecast, truths: Sequence[np.ndarray] = ()) -> Figure:
    """Everybody at one frame, each with a color of its own; of a crowd the first ones.

    Args:
        made: The forecast of an instant.
        truths: What happened to each, from the present on, where known.

    Returns:
        The figure.
    """
    figure = Figure(figsize=(8, 6), layout="constrained")
    axes = figure.subplots()
    points = made.hypotheses.points[:DRAWN].unflatten(-1, (PREDICTED, 2)).numpy()
    pasts = [past[past[:, 0].isfinite()].numpy() for past in made.instant.observed[:DRAWN]]
    _frame(axes, np.concatenate([*pasts, points.reshape(-1, 2)]))
    for index, (name, past) in enumerate(zip(made.instant.names[:DRAWN], pasts, strict=True)):
        color = COLORS[index % len(COLORS)]
        _futures(axes, past[-1], points[index], made.hypotheses.probs[index].numpy(), color)
        axes.plot(*past.T, "-", color=color, lw=2.2, zorder=5)
        axes.plot(*past[-1], "o", color=color, ms=6, mec="white", zorder=6)
        axes.annotate(
            caption(name), past[-1], xytext=(5, 5), textcoords="offset points", fontsize=8, zorder=7
        )
        axes.plot(*_from(past[-1], made.answers[index].numpy()).T, "--", color=color, lw=1.4, zorder=4)
    for truth in truths:
        if len(truth) > 1:
            axes.plot(*truth.T, color=PAST, lw=1.2, dashes=(1, 1.5), zorder=5)
    axes.plot([], [], color=PAST, lw=2.2, label="observed")
    axes.plot([], [], color=PAST, lw=1, alpha=0.4, label=f"{points.shape[1]} futures, wider: more probable")
    axes.plot([], [], "--", color=PAST, lw=1.4, label="single answer")
    if any(len(truth) > 1 for truth in truths):
        axes.plot([], [], color=PAST, lw=1.2, dashes=(1, 1.5), label="what happened")
    figure.legend(loc="outside lower center", ncols=4, frameon=False, fontsize=8)
    some = f", {DRAWN} of {len(made.answers)} pedestrians" if len(made.answers) > DRAWN else ""
    axes.set_title(f"Frame {made.instant.frame}: the next {PREDICTED * 0.4:.1f} s{some}", fontsize=10)
    return figure


def gallery(shown: Sequence[tuple[str, Forecaster, Windows]]) -> Figure:
    """A pedestrian of each test scene, and how well the scores of all of them are calibrated.

    Each is the one whose best future has the median error, among those who walk at least 3 m.

    Args:
        shown: Scenes, their forecasters and their windows.

    Returns:
        The figure.
    """
    columns = min(len(shown) + 1, 3)
    figure = Figure(figsize=(4.6 * columns, 4 * -(-(len(shown) + 1) // columns)), layout="constrained")
    panels = figure.subplots(-(-(len(shown) + 1) // columns), columns, squeeze=False).flatten()
    stated, right = [], []
    for (scene, forecaster, test), axes in zip(shown, panels, strict=False):
        answers = forecaster.forecast_windows(test)
        walking = torch.nonzero(test.future[:, -1].norm(dim=-1) >= 3)[:, 0]
        typical = walking[min_ade(answers[walking], test.future[walking]).argsort()[len(walking) // 2]]
        end = forecaster.at_steps(answers[typical][None], test.observed[typical][None])[0, -1]
        pedestrian(test.observed[typical], answers[typical], end, test.future[typical], axes)
        axes.set_title(scene)
        stated.append(answers.probs.flatten())
        hits = torch.zeros_like(answers.probs).scatter_(1, nearest(answers, test.future)[:, None], 1.0)
        right.append(hits.flatten())
    _reliability(panels[len(shown)], torch.cat(stated), torch.cat(right))
    for axes in panels[len(shown) + 1 :]:
        axes.set_axis_off()
    return figure


def _reliability(axes: Axes, stated: Tensor, right: Tensor) -> None:
    parts = stated.argsort().tensor_split(20)
    x, y = ([float(value[part].mean()) for part in parts] for value in (stated, right))
    top = 1.1 * max(*x, *y)
    axes.plot([0, top], [0, top], color="#999999", lw=1)
    axes.plot(x, y, "o-", color=FUTURE, ms=4)
    axes.set(
        xlabel="stated probability", ylabel="share that was the nearest", title="Scores of all pedestrians"
    )
    axes.grid(color="#e8e8e8", lw=0.6)


def _frame(axes: Axes, points: np.ndarray, ratio: float = 4 / 3) -> None:
    """Equal scales, room for everything, and `ratio` times as wide as high."""
    low, high = points.min(0), points.max(0)
    middle, half = (low + high) / 2, np.maximum((high - low) / 2 * 1.15, 1.0)
    height = max(half[1], half[0] / ratio)
    axes.set_xlim(middle[0] - ratio * height, middle[0] + ratio * height)
    axes.set_ylim(middle[1] - height, middle[1] + height)
    axes.set_aspect("equal", adjustable="box")
    axes.set_xlabel("x, meters")
    axes.set_ylabel("y, meters")
    axes.grid(color="#e8e8e8", lw=0.6)
    axes.set_axisbelow(True)


def _from(start: np.ndarray, future: np.ndarray) -> np.ndarray:
    return np.concatenate([start[None], future])


def _futures(axes: Axes, start: np.ndarray, points: np.ndarray, probs: np.ndarray, color: str) -> None:
    """The most probable future has a line of 4 points."""
    for future, share in zip(points, probs / probs.max(), strict=True):
        axes.plot(
            *_from(start, future).T, color=color, lw=0.4 + 3.6 * share, alpha=0.25 + 0.35 * share, zorder=3
        )


def _density(axes: Axes, end: Hypotheses) -> None:
    (left, right), (bottom, top) = axes.get_xlim(), axes.get_ylim()
    x, y = np.linspace(left, right, DENSITY_CELLS), np.linspace(bottom, top, DENSITY_CELLS)
    grid = torch.tensor(np.stack(np.meshgrid(x, y), -1), dtype=end.points.dtype)
    assert end.widths is not None
    variance = end.widths.square()
    kernel = (
        -(grid[..., None, :] - end.points).square().sum(-1) / (2 * variance) - (2 * torch.pi * variance).log()
    )
    density = (end.log_probs + kernel).logsumexp(-1).exp().numpy()
    levels = density.max() * np.array([0.02, 0.05, 0.1, 0.2, 0.4, 0.7, 1.0])
    axes.contourf(x, y, density, levels=levels, cmap="Blues", alpha=0.55, zorder=1)
