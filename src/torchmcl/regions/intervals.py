"""Quantiles and intervals of a predicted distribution on a line."""

from collections.abc import Sequence
from numbers import Real

import torch
from jaxtyping import Float
from torch import Tensor
from torch.distributions import Distribution

from torchmcl.errors import check_integer
from torchmcl.hypotheses import Hypotheses, undefined
from torchmcl.mixtures import KernelMixture

__all__ = [
    "Prediction",
    "central_interval",
    "check_coverage",
    "check_prediction",
    "quantiles",
    "shortest_interval",
]

Prediction = Hypotheses | Distribution
"""A predicted distribution: scored points, or a distribution of torch such as `Hypotheses.mixture` gives."""

STEPS = 129
"""How many intervals of a mixture `shortest_interval` compares, twice."""


def quantiles(
    prediction: Prediction, levels: Float[Tensor, "levels"] | Sequence[float], *, samples: int = 4096
) -> Float[Tensor, "*batch levels"]:
    """The quantiles of each predicted distribution on a line.

    Exact for a `KernelMixture`, for hypotheses with widths (their Gaussian mixture) and for those without (the least
    point with at least the level at or below it). Other distributions are sampled.

    Args:
        prediction: Hypotheses or a distribution with outcomes `(*batch, 1)`.
        levels: Probabilities above 0 and below 1.
        samples: The number of draws where there is no exact way.

    Returns:
        Quantiles `(*batch, levels)`, increasing with the levels.

    Example:
        >>> h = Hypotheses(torch.tensor([[0.0], [1.0], [5.0]]))
        >>> quantiles(h, [0.1, 0.5, 0.9])
        tensor([0., 1., 5.])
    """
    distribution = readable(prediction, samples)
    wanted = _levels(levels)
    if wanted.ndim > 1:
        raise ValueError(f"levels must be (levels,), one axis, got {tuple(wanted.shape)}")
    if not bool(((wanted > 0) & (wanted < 1)).all()):
        raise ValueError(f"levels must be above 0 and below 1, got {wanted.tolist()}")
    if isinstance(distribution, KernelMixture):
        points = distribution.hypotheses.points
        value = wanted.to(points.device).reshape(-1, *(1 for _ in distribution.batch_shape))
        return distribution.icdf(value).squeeze(-1).movedim(0, -1).to(points.dtype)
    ordered, below = _ordered(distribution)
    value = wanted.to(ordered.device).expand(*below.shape[:-1], -1).contiguous()
    index = torch.searchsorted(below, value - _rounding(distribution)).clamp(max=below.shape[-1] - 1)
    return ordered.gather(-1, index)


def central_interval(
    prediction: Prediction, coverage: float = 0.9, *, samples: int = 4096
) -> Float[Tensor, "*batch 2"]:
    """The interval that leaves equal probabilities on both sides.

    Args:
        prediction: Hypotheses or a distribution with outcomes `(*batch, 1)`.
        coverage: The probability inside, above 0 and below 1.
        samples: As in `quantiles`.

    Returns:
        Lower and upper ends, `(*batch, 2)`.

    Example:
        >>> h = Hypotheses(torch.tensor([[0.0]]), widths=torch.tensor([1.0]))
        >>> central_interval(h, 0.9)
        tensor([-1.6449,  1.6449])
    """
    check_coverage(coverage)
    return quantiles(prediction, [(1 - coverage) / 2, (1 + coverage) / 2], samples=samples)


def shortest_interval(
    prediction: Prediction, coverage: float = 0.9, *, samples: int = 4096
) -> Float[Tensor, "*batch 2"]:
    """The shortest interval with that probability; where there are several modes, `HighestDensityRegion` is smaller.

    Exact for points. For a mixture it is the best of the intervals between two quantiles on a grid of levels, which
    is refined once.

    Args:
        prediction: Hypotheses or a distribution with outcomes `(*batch, 1)`.
        coverage: The probability inside, above 0 and below 1.
        samples: As in `quantiles`.

    Returns:
        Lower and upper ends, `(*batch, 2)`.

    Example:
        >>> h = Hypotheses(torch.tensor([[0.0], [9.0]]), torch.tensor([3.0, 0.0]), "softmax", torch.ones(2))
        >>> shortest_interval(h, 0.9).round()
        tensor([-2.,  2.])
    """
    check_coverage(coverage)
    distribution = readable(prediction, samples)
    if not isinstance(distribution, KernelMixture):
        return _shortest_of_points(distribution, coverage)
    device = distribution.hypotheses.points.device
    room, batch = 1 - coverage, tuple(1 for _ in distribution.batch_shape)
    grid = torch.linspace(0, 1, STEPS, dtype=torch.float64, device=device).reshape(-1, *batch)
    start = (room * grid).expand(-1, *distribution.batch_shape)
    for _ in range(2):
        ends = torch.stack([distribution.icdf(start), distribution.icdf(start + coverage)], -1).squeeze(-2)
        best = (ends[..., 1] - ends[..., 0]).argmin(0, keepdim=True)
        middle = start.gather(0, best)
        start = (middle + 2 * room / (STEPS - 1) * (grid - 0.5)).clamp(0, room)
    return ends.gather(0, best[..., None].expand(*best.shape, 2)).squeeze(0).to(distribution.mean.dtype)


def _levels(levels: object) -> Tensor:
    try:
        return torch.as_tensor(levels, dtype=torch.float64)
    except (TypeError, ValueError, RuntimeError):
        kind = type(levels).__name__
        raise TypeError(f"levels must be a tensor or a sequence of probabilities, got {kind}") from None


def check_coverage(coverage: float) -> None:
    """Raise a `ValueError` unless it lies strictly between 0 and 1."""
    if not isinstance(coverage, Real):
        raise TypeError(f"coverage must be a number, got {type(coverage).__name__}")
    if not 0 < coverage < 1:
        raise ValueError(f"coverage must be above 0 and below 1, got {coverage}")


def check_prediction(value: object) -> None:
    """Raise unless the argument `prediction` is hypotheses or a distribution of vectors.

    Args:
        value: What the caller passed.

    Raises:
        TypeError: If it is something else.
        ValueError: If it is a distribution whose outcomes are not vectors.
    """
    if isinstance(value, Hypotheses):
        return
    if not isinstance(value, Distribution):
        raise TypeError(f"prediction must be Hypotheses or a Distribution, got {type(value).__name__}")
    if len(value.event_shape) != 1:
        raise ValueError(
            f"prediction must have outcomes (*batch, dim), its event_shape is {tuple(value.event_shape)}"
        )


def readable(prediction: Prediction, samples: int) -> Hypotheses | KernelMixture:
    """The prediction as a mixture of kernels or of points; others as so many draws."""
    check_prediction(prediction)
    distribution = prediction
    if isinstance(prediction, Hypotheses):
        dim = prediction.dim
        if prediction.widths is not None:
            distribution = prediction.mixture()
    else:
        dim = prediction.event_shape[-1]
    if dim != 1:
        raise ValueError(f"prediction has {dim} coordinates, quantiles and intervals are for 1")
    if isinstance(distribution, (Hypotheses, KernelMixture)):
        return distribution
    check_integer("samples", samples)
    return Hypotheses(distribution.sample(torch.Size([samples])).movedim(0, -2))


def _ordered(points: Hypotheses) -> tuple[Tensor, Tensor]:
    """The points in order, and the probability at or below each."""
    ordered, order = points.points.squeeze(-1).sort(-1)
    ordered = ordered.masked_fill(undefined(points)[..., None], torch.nan)
    return ordered, points.probs.double().gather(-1, order).cumsum(-1)


def _rounding(points: Hypotheses) -> float:
    """The error of a sum of probabilities: a level that one of them meets must not miss it."""
    return 16 * torch.finfo(points.points.dtype).eps


def _shortest_of_points(points: Hypotheses, coverage: float) -> Tensor:
    ordered, below = _ordered(points)
    start = torch.cat([torch.zeros_like(below[..., :1]), below[..., :-1]], -1)
    end = torch.searchsorted(below, start + coverage - _rounding(points))
    enough = end < below.shape[-1]
    last = ordered.gather(-1, end.clamp(max=below.shape[-1] - 1))
    best = (last - ordered).masked_fill(~enough, torch.inf).argmin(-1, keepdim=True)
    return torch.cat([ordered.gather(-1, best), last.gather(-1, best)], -1)
