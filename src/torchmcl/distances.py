"""Distances between points, and the cost matrix that everything else is a function of."""

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from torchmcl.directions import to_vectors

__all__ = [
    "Distance",
    "chordal",
    "cost_matrix",
    "cross_entropy",
    "euclidean",
    "great_circle",
    "great_circle_swapped",
    "squared_euclidean",
]

Distance = Callable[[Tensor, Tensor], Tensor]
"""A function of two broadcasting tensors of points that reduces their last axis, the coordinates."""


def euclidean(x: Float[Tensor, "*#batch dim"], y: Float[Tensor, "*#batch dim"]) -> Float[Tensor, "*#batch"]:
    """`|x - y|`, with gradient 0 where the points coincide.

    >>> euclidean(torch.tensor([0.0, 0.0]), torch.tensor([3.0, 4.0]))
    tensor(5.)
    """
    return torch.linalg.vector_norm(x - y, dim=-1)


def squared_euclidean(
    x: Float[Tensor, "*#batch dim"], y: Float[Tensor, "*#batch dim"]
) -> Float[Tensor, "*#batch"]:
    """`|x - y|^2`: the distance whose winner-takes-all minimum is the conditional mean of each cell.

    >>> squared_euclidean(torch.tensor([0.0, 0.0]), torch.tensor([3.0, 4.0]))
    tensor(25.)
    """
    return (x - y).square().sum(-1)


def chordal(x: Float[Tensor, "*#batch 2"], y: Float[Tensor, "*#batch 2"]) -> Float[Tensor, "*#batch"]:
    """The straight distance, 0 to 2, between two directions given as (azimuth, elevation) in radians.

    The Euclidean distance of their unit vectors, `2 sin(angle / 2)`. As a distance of `energy_loss` it is strictly
    proper, which `great_circle` is not. The gradient is 0 where the directions coincide.

    Args:
        x: Directions `(*batch, 2)`.
        y: Directions `(*batch, 2)`.

    Returns:
        The distances `(*batch,)`.

    Example:
        >>> chordal(torch.tensor([0.0, 0.0]), torch.tensor([torch.pi, 0.0]))
        tensor(2.)
    """
    return euclidean(to_vectors(x), to_vectors(y))


def great_circle(x: Float[Tensor, "*#batch 2"], y: Float[Tensor, "*#batch 2"]) -> Float[Tensor, "*#batch"]:
    """The angle in radians between two directions given as (azimuth, elevation) in radians.

    `atan2(|u × v|, u · v)` of the unit vectors, accurate for tiny and for nearly opposite angles alike,
    where the usual arccosine loses half of the digits. The gradient is 0 where the directions coincide or oppose.

    >>> north, horizon = torch.tensor([0.3, torch.pi / 2]), torch.tensor([1.0, 0.0])
    >>> great_circle(north, horizon)
    tensor(1.5708)
    """
    return _angle(longitude=y[..., 0] - x[..., 0], latitudes=(x[..., 1], y[..., 1]))


def great_circle_swapped(
    x: Float[Tensor, "*#batch 2"], y: Float[Tensor, "*#batch 2"]
) -> Float[Tensor, "*#batch"]:
    """`great_circle` with azimuth and elevation exchanged: wrong, and only for comparison with published numbers.

    The formula printed in the paper takes the azimuth as the latitude, and so do its numbers.

    >>> x, y = torch.deg2rad(torch.tensor([[90.0, -60.0], [90.0, 50.0]]))
    >>> torch.rad2deg(great_circle(x, y)).round(), torch.rad2deg(great_circle_swapped(x, y)).round()
    (tensor(110.), tensor(0.))
    """
    return _angle(longitude=y[..., 1] - x[..., 1], latitudes=(x[..., 0], y[..., 0]))


def cross_entropy(
    x: Float[Tensor, "*#batch classes"], y: Float[Tensor, "*#batch classes"]
) -> Float[Tensor, "*#batch"]:
    """The cross-entropy in nats of class logits `y` against class probabilities `x`: classification as a distance.

    It is not symmetric. Losses call `distance(targets, points)`, so the targets are the probabilities, one-hot or
    soft, and the hypotheses are the logits; `class_targets` makes such targets of integer labels.

    Args:
        x: Class probabilities.
        y: Class logits.

    Returns:
        `-sum_c x_c log softmax(y)_c`; a class of probability 0 contributes nothing, whatever its logit.

    Example:
        >>> cross_entropy(torch.tensor([0.0, 1.0]), torch.tensor([0.0, 0.0]))
        tensor(0.6931)
    """
    return -(x * y.log_softmax(-1)).masked_fill(x == 0, 0.0).sum(-1)


def cost_matrix(
    points: Float[Tensor, "*batch hypotheses dim"],
    targets: Float[Tensor, "*batch targets dim"],
    active: Bool[Tensor, "*batch targets"] | None = None,
    *,
    distance: Distance = euclidean,
) -> tuple[Float[Tensor, "*batch targets hypotheses"], Bool[Tensor, "*batch targets"]]:
    """The distance of each target to each hypothesis, and the mask of active targets, never `None`.

    Inactive targets are read as the origin, so that whatever they hold, NaN included, reaches neither the
    costs nor the gradients.
    """
    targets, active = present(points, targets, active)
    return pairwise(points, targets, distance), active


def present(points: Tensor, targets: Tensor, active: Tensor | None) -> tuple[Tensor, Tensor]:
    """The targets with the origin in place of inactive ones, and which are active; an error if shapes do not fit."""
    check_shapes(points, targets, active)
    if active is None:
        return targets, targets.new_ones(targets.shape[:-1], dtype=torch.bool)
    return targets.masked_fill(~active[..., None], 0.0), active


def pairwise(points: Tensor, targets: Tensor, distance: Distance) -> Tensor:
    """The distance `(*batch, targets, hypotheses)` of each target to each hypothesis."""
    if distance is euclidean and targets.dtype == points.dtype in (torch.float32, torch.float64):
        # The same numbers without the (*batch, targets, hypotheses, dim) differences.
        return torch.cdist(targets, points, compute_mode="donot_use_mm_for_euclid_dist")
    return distance(targets[..., :, None, :], points[..., None, :, :])


def check_shapes(points: Tensor, targets: Tensor, active: Tensor | None) -> None:
    """Raise a `ValueError` or `TypeError` that names the argument which does not fit."""
    if points.ndim < 2:
        raise ValueError(f"points must be (*batch, hypotheses, dim), got {tuple(points.shape)}")
    if targets.ndim < 2:
        raise ValueError(f"targets must be (*batch, targets, dim), got {tuple(targets.shape)}")
    if targets.shape[-1] != points.shape[-1]:
        raise ValueError(f"targets has {targets.shape[-1]} coordinates, hypotheses have {points.shape[-1]}")
    if targets.shape[:-2] != points.shape[:-2]:
        raise ValueError(
            f"targets has batch axes {tuple(targets.shape[:-2])}, hypotheses have {tuple(points.shape[:-2])}"
        )
    if not targets.is_floating_point():
        raise TypeError(f"targets must be floating point, got {targets.dtype}")
    if active is not None:
        if active.dtype != torch.bool:
            raise TypeError(f"active must be a boolean mask, got {active.dtype}")
        if active.shape != targets.shape[:-1]:
            raise ValueError(f"active must be {tuple(targets.shape[:-1])}, got {tuple(active.shape)}")


def _angle(longitude: Tensor, latitudes: tuple[Tensor, Tensor]) -> Tensor:
    here, there = latitudes
    sine = torch.sin(here), torch.sin(there)
    cosine = torch.cos(here), torch.cos(there)
    # cos(here) sin(there) - sin(here) cos(there) cos(longitude), without the cancellation between close points
    across = cosine[1] * torch.sin(longitude)
    along = torch.sin(there - here) + 2 * sine[0] * cosine[1] * torch.sin(longitude / 2).square()
    dot = sine[0] * sine[1] + cosine[0] * cosine[1] * torch.cos(longitude)
    return torch.atan2(_root(across.square() + along.square()), dot)


def _root(square: Tensor) -> Tensor:
    """The square root with gradient 0 at 0."""
    zero = square == 0
    return square.masked_fill(zero, 1).sqrt().masked_fill(zero, 0)
