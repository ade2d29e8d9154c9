"""Pictures of predictions and of their calibration: each function draws into an `Axes` and returns it."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from torchmcl.errors import check_coordinates, check_integer, check_number, check_tensor
from torchmcl.hypotheses import Hypotheses, check_hypotheses
from torchmcl.mixtures import KernelMixture
from torchmcl.regions.intervals import quantiles
from torchmcl.regions.sets import smooth
from torchmcl.voronoi.polygons import planar_cells

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_cells", "plot_coverage", "plot_density", "plot_directions", "plot_pit"]

BLUE, RED, GRAY = "tab:blue", "tab:red", "0.6"
MOST_BARS, MOST_STEPS = 1000, 100_000


def plot_coverage(axes: "Axes", pit: Float[Tensor, "n"], *, label: str | None = None) -> "Axes":
    """Reliability of central intervals: how often they hold the outcome, over how often they should.

    The band is where 95 % of right predictions would be with as many outcomes.

    Args:
        axes: Where to draw.
        pit: The predicted distribution function at each outcome, of `probability_integral_transform`.
        label: The name of the curve, for a legend.

    Returns:
        The axes.
    """
    value = _finite(pit)
    levels = np.linspace(0, 1, 101)
    observed = (np.abs(2 * value - 1)[:, None] <= levels + 1e-12).mean(0)
    band = 1.96 * np.sqrt(levels * (1 - levels) / len(value))
    axes.fill_between(levels, levels - band, levels + band, color="0.9", linewidth=0)
    axes.plot([0, 1], [0, 1], color=GRAY, linewidth=1)
    axes.plot(levels, observed, color=BLUE, label=label)
    axes.set(xlabel="stated coverage", ylabel="observed coverage", xlim=(0, 1), ylim=(0, 1), aspect="equal")
    return axes


def plot_pit(axes: "Axes", pit: Float[Tensor, "n"], *, bins: int = 20) -> "Axes":
    """The histogram of the probability integral transform: flat if the predicted distributions are right.

    The band is where 95 % of the bars of right predictions would end with as many outcomes.

    Args:
        axes: Where to draw.
        pit: The predicted distribution function at each outcome, of `probability_integral_transform`.
        bins: The number of bars.

    Returns:
        The axes.
    """
    check_integer("bins", bins, most=MOST_BARS)
    value = _finite(pit)
    height, edges = np.histogram(value, bins, (0, 1))
    share = height * bins / len(value)
    band = 1.96 * np.sqrt((bins - 1) / len(value))
    axes.bar(edges[:-1], share, 1 / bins, align="edge", color=BLUE, alpha=0.6, edgecolor="white")
    axes.axhspan(max(0, 1 - band), 1 + band, color="0.5", alpha=0.25, linewidth=0)
    axes.axhline(1, color=GRAY, linewidth=1)
    axes.set(xlabel="predicted probability of a smaller outcome", ylabel="density", xlim=(0, 1))
    return axes


def plot_density(
    axes: "Axes",
    x: Float[Tensor, "n"],
    prediction: Hypotheses | KernelMixture,
    *,
    coverages: Sequence[float] = (0.5, 0.9),
    y_range: tuple[float, float] | None = None,
    steps: int = 400,
) -> "Axes":
    """A fan chart that shows several branches: regions of highest density over one input.

    Args:
        axes: Where to draw.
        x: The inputs, increasing.
        prediction: Hypotheses with widths or a mixture, `(n, 1)`, one for each input.
        coverages: The probabilities of the regions, the darkest first.
        y_range: The outcomes to show; from the 0.1 % to the 99.9 % quantile of all inputs by default.
        steps: The number of outcomes at which the density is read.

    Returns:
        The axes.
    """
    distribution = smooth(prediction)
    check_tensor("x", x)
    if x.shape != distribution.batch_shape or x.ndim != 1 or len(x) < 2:
        told = f"the prediction has {tuple(distribution.batch_shape)}, x {tuple(x.shape)}"
        raise ValueError(f"x must be (n,), one input of each item and at least two; {told}")
    step = x.detach().diff()
    if not (bool((step >= 0).all()) or bool((step <= 0).all())):
        raise ValueError("x must be increasing: the inputs and their predictions in order, without NaN")
    check_integer("steps", steps, least=2, most=MOST_STEPS)
    shares = _shares(coverages)
    if y_range is not None:
        y_range = _range(y_range)
    else:
        ends = quantiles(prediction, [0.001, 0.999])
        y_range = ends[..., 0].min().item(), ends[..., 1].max().item()
    y = torch.linspace(*y_range, steps, dtype=torch.float64)
    with torch.no_grad():
        height = distribution.log_prob(y[:, None, None].expand(-1, len(x), 1)).exp().double().cpu()
    denser, order = height.sort(0, descending=True)
    share = denser.cumsum(0) / denser.sum(0).clamp(min=1e-300)
    above = torch.empty_like(share).scatter(0, order, share).numpy()
    levels = [0.0, *shares]
    colors = [_shade(0.75 - 0.5 * i / max(1, len(shares) - 1)) for i in range(len(shares))]
    axes.contourf(x.cpu().numpy(), y.numpy(), above, levels=levels, colors=colors)
    axes.set(xlabel="x", ylabel="y", ylim=y_range)
    names = [f"{100 * each:g} % region" for each in shares]
    for color, name in zip(colors, names, strict=True):
        axes.fill_between([], [], color=color, label=name, linewidth=0)
    return axes


def plot_cells(
    axes: "Axes",
    hypotheses: Hypotheses,
    *,
    targets: Float[Tensor, "targets 2"] | None = None,
    low: tuple[float, float] | None = None,
    high: tuple[float, float] | None = None,
) -> "Axes":
    """Hypotheses in the plane: their Voronoi cells, the darker the more probable, and points sized by probability.

    Args:
        axes: Where to draw.
        hypotheses: K points of one item, `(hypotheses, 2)`.
        targets: Outcomes to show beside them.
        low: The lower left corner; by default a fifth beyond all points.
        high: The upper right corner.

    Returns:
        The axes.
    """
    _check_one(hypotheses)
    _check_targets(targets)
    for name, given in (("low", low), ("high", high)):
        _check_corner(name, given)
    points, probs = hypotheses.points.detach().double().cpu(), hypotheses.probs.detach().double().cpu()
    shown = points if targets is None else torch.cat([points, targets.detach().double().cpu()])
    room = 0.2 * (shown.amax(0) - shown.amin(0)).clamp(min=1e-6)
    corner = shown.amin(0) - room if low is None else torch.tensor(low, dtype=torch.float64)
    opposite = shown.amax(0) + room if high is None else torch.tensor(high, dtype=torch.float64)
    shapes = planar_cells(points, corner, opposite)[..., :2] + points[:, None]
    strength = probs / probs.amax()
    for shape, share in zip(shapes, strength.tolist(), strict=True):
        axes.fill(shape[:, 0].numpy(), shape[:, 1].numpy(), facecolor=_shade(0.6 * share), edgecolor="0.75")
    _dots(axes, points, probs)
    if targets is not None:
        axes.plot(*targets.detach().cpu().T.numpy(), ".", color=RED, markersize=4, label="targets")
    axes.set(
        xlim=(corner[0].item(), opposite[0].item()),
        ylim=(corner[1].item(), opposite[1].item()),
        aspect="equal",
    )
    return axes


def plot_directions(
    axes: "Axes",
    hypotheses: Hypotheses,
    *,
    targets: Float[Tensor, "targets 2"] | None = None,
    density: bool = True,
) -> "Axes":
    """Hypotheses on a map of the sphere, seen from inside: azimuth 0 in the middle and growing to the left.

    Args:
        axes: Where to draw, with `projection="mollweide"`.
        hypotheses: K directions (azimuth, elevation) in radians of one item, `(hypotheses, 2)`.
        targets: Directions to show beside them.
        density: Whether hypotheses with widths are shown with their von Mises-Fisher density.

    Returns:
        The axes.
    """
    _check_one(hypotheses)
    _check_targets(targets)
    if axes.name != "mollweide":
        raise ValueError(f'axes must have projection="mollweide", got {axes.name!r}')
    if density and hypotheses.widths is not None:
        azimuth, elevation = np.linspace(-np.pi, np.pi, 241), np.linspace(-np.pi / 2, np.pi / 2, 121)
        grid = torch.from_numpy(np.stack(np.meshgrid(azimuth, elevation), -1))
        with torch.no_grad():
            mixture = hypotheses.detach().cpu().to(torch.float64).mixture("vmf")
            height = mixture.log_prob(grid).exp().numpy()
        axes.pcolormesh(-azimuth, elevation, height, cmap="Blues", shading="gouraud", rasterized=True)
    _dots(axes, _seen(hypotheses.points), hypotheses.probs.detach().cpu())
    if targets is not None:
        axes.plot(*_seen(targets).T.numpy(), ".", color=RED, markersize=4, label="targets")
    ticks = np.arange(-120, 121, 60)
    axes.set_xticks(np.deg2rad(ticks), [f"{-tick}°" for tick in ticks], color="0.4", fontsize=8)
    axes.set_yticks(np.deg2rad([-60, -30, 0, 30, 60]), ["-60°", "-30°", "0°", "30°", "60°"], fontsize=8)
    axes.grid(alpha=0.3)
    return axes


def _seen(directions: Tensor) -> Tensor:
    """Directions as places on the map."""
    azimuth, elevation = directions.detach().double().cpu().unbind(-1)
    around = torch.remainder(azimuth + torch.pi, 2 * torch.pi) - torch.pi
    return torch.stack([-around, elevation], -1)


def _dots(axes: "Axes", points: Tensor, probs: Tensor) -> None:
    """Points with areas in proportion to their probabilities."""
    x, y = points.numpy().T
    axes.scatter(
        x, y, s=200 * probs.numpy(), c=BLUE, edgecolors="white", linewidths=0.6, zorder=3, label="hypotheses"
    )


def _shares(coverages: Sequence[float]) -> list[float]:
    """The coverages from the least to the greatest, each once."""
    if not isinstance(coverages, Sequence) or isinstance(coverages, str) or not coverages:
        raise ValueError(f"coverages must be a sequence of probabilities, got {coverages!r}")
    for each in coverages:
        check_number("each of coverages", each, 0, 1, open_low=True)
    return sorted(set(coverages))


def _range(ends: tuple[float, float]) -> tuple[float, float]:
    if not isinstance(ends, Sequence) or isinstance(ends, str) or len(ends) != 2:
        raise ValueError(f"y_range must be two numbers, got {ends!r}")
    for each in ends:
        check_number("each of y_range", each, finite=True)
    if ends[0] >= ends[1]:
        raise ValueError(f"y_range must be increasing, got {ends!r}")
    return ends[0], ends[1]


def _check_one(hypotheses: Hypotheses) -> None:
    check_hypotheses(hypotheses)
    if hypotheses.batch_shape:
        raise ValueError(
            f"hypotheses must be of one item, they have batch axes {tuple(hypotheses.batch_shape)}: h[0] is the first"
        )
    check_coordinates("hypotheses.points", hypotheses.points, 2, "this picture needs")
    if not bool(hypotheses.points.isfinite().all() & hypotheses.probs.isfinite().all()):
        raise ValueError("hypotheses must have finite points and probabilities to be shown, some are not")


def _check_targets(targets: Tensor | None) -> None:
    if targets is None:
        return
    check_coordinates("targets", targets, 2, "this picture needs")
    if targets.ndim != 2 or not bool(targets.isfinite().all()):
        raise ValueError(f"targets must be (targets, 2) and finite, got {tuple(targets.shape)}")


def _check_corner(name: str, corner: Sequence[float] | None) -> None:
    if corner is None:
        return
    if not isinstance(corner, Sequence) or isinstance(corner, str) or len(corner) != 2:
        raise ValueError(f"{name} must be two numbers, got {corner!r}")
    for each in corner:
        check_number(f"each of {name}", each, finite=True)


def _shade(strength: float) -> tuple[float, float, float]:
    """The standard blue, mixed with white."""
    blue = np.array([0.122, 0.467, 0.706])
    red, green, other = 1 - strength * (1 - blue)
    return float(red), float(green), float(other)


def _finite(pit: Tensor) -> np.ndarray:
    check_tensor("pit", pit)
    value = pit.detach().flatten().double().cpu().numpy()
    value = value[~np.isnan(value)]
    if not len(value):
        raise ValueError("pit holds no value that is not NaN")
    if value.min() < 0 or value.max() > 1:
        raise ValueError(f"pit must hold probabilities, it holds values from {value.min()} to {value.max()}")
    return value
