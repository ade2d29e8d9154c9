"""Distances between points, and the cost matrix that everything else is a function of."""

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from torchmcl.directions import to_vectors
from torchmcl.errors import check_bools, check_broadcast, check_callable, check_coordinates, check_floats

__all__ = [
    "Distance",
    "chordal",
    "cost_matrix",
    "cross_entropy",
    "euclidean",
    "great_circle",
    "great_circle_swapped",
    "measured",
    "squared_euclidean",
]

Distance = Callable[[Tensor, Tensor], Tensor]
"""A function of two broadcasting tensors of points that reduces their last axis, the coordinates."""


def euclidean(x: Float[Tensor, "*#batch dim"], y: Float[Tensor, "*#batch dim"]) -> Float[Tensor, "*#batch"]:
    """`|x - y|`, with gradient 0 where the points coincide.

    Args:
        x: Points `(*batch, dim)`.
        y: Points `(*batch, dim)`.

    Returns:
        The distances `(*batch)`.

    Example:
        >>> euclidean(torch.tensor([0.0, 0.0]), torch.tensor([3.0, 4.0]))
        tensor(5.)
    """
    _check_pair(x, y)
    return torch.linalg.vector_norm(x - y, dim=-1)


def squared_euclidean(
    x: Float[Tensor, "*#batch dim"], y: Float[Tensor, "*#batch dim"]
) -> Float[Tensor, "*#batch"]:
    """`|x - y|^2`: the distance whose winner-takes-all minimum is the conditional mean of each cell.

    Args:
        x: Points `(*batch, dim)`.
        y: Points `(*batch, dim)`.

    Returns:
        The squared distances `(*batch)`.

    Example:
        >>> squared_euclidean(torch.tensor([0.0, 0.0]), torch.tensor([3.0, 4.0]))
        tensor(25.)
    """
    _check_pair(x, y)
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
    _check_directions(x, y)
    return torch.linalg.vector_norm(to_vectors(x) - to_vectors(y), dim=-1)


def great_circle(x: Float[Tensor, "*#batch 2"], y: Float[Tensor, "*#batch 2"]) -> Float[Tensor, "*#batch"]:
    """The angle in radians between two directions given as (azimuth, elevation) in radians.

    `atan2(|u × v|, u · v)` of the unit vectors, accurate for tiny and for nearly opposite angles alike,
    where the usual arccosine loses half of the digits. The gradient is 0 where the directions coincide or oppose.

    Args:
        x: Directions `(*batch, 2)`.
        y: Directions `(*batch, 2)`.

    Returns:
        The angles `(*batch)`, from 0 to π.

    Example:
        >>> north, horizon = torch.tensor([0.3, torch.pi / 2]), torch.tensor([1.0, 0.0])
        >>> great_circle(north, horizon)
        tensor(1.5708)
    """
    _check_directions(x, y)
    return _angle(longitude=y[..., 0] - x[..., 0], latitudes=(x[..., 1], y[..., 1]))


def great_circle_swapped(
    x: Float[Tensor, "*#batch 2"], y: Float[Tensor, "*#batch 2"]
) -> Float[Tensor, "*#batch"]:
    """`great_circle` with azimuth and elevation exchanged: wrong, and only for comparison with published numbers.

    The formula printed in the paper takes the azimuth as the latitude, and so do its numbers.

    Args:
        x: Directions `(*batch, 2)`.
        y: Directions `(*batch, 2)`.

    Returns:
        The angles `(*batch)`, from 0 to π.

    Example:
        >>> x, y = torch.deg2rad(torch.tensor([[90.0, -60.0], [90.0, 50.0]]))
        >>> torch.rad2deg(great_circle(x, y)).round(), torch.rad2deg(great_circle_swapped(x, y)).round()
        (tensor(110.), tensor(0.))
    """
    _check_directions(x, y)
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
    _check_pair(x, y)
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

    Args:
        points: `(*batch, hypotheses, dim)`.
        targets: `(*batch, targets, dim)`.
        active: Which targets exist, `(*batch, targets)`; all of them if `None`.
        distance: Called as `distance(targets, points)`.

    Returns:
        The costs `(*batch, targets, hypotheses)` and the mask `(*batch, targets)`.
    """
    targets, active = present(points, targets, active)
    return pairwise(points, targets, distance), active


def present(points: Tensor, targets: Tensor, active: Tensor | None) -> tuple[Tensor, Tensor]:
    """The targets with the origin in place of inactive ones, and which are active; an error if shapes do not fit.

    Args:
        points: `(*batch, hypotheses, dim)`, for the check.
        targets: `(*batch, targets, dim)`.
        active: Which targets exist, `(*batch, targets)`; all of them if `None`.

    Returns:
        Targets `(*batch, targets, dim)` and the mask `(*batch, targets)`.
    """
    check_shapes(points, targets, active)
    if active is None:
        return targets, targets.new_ones(targets.shape[:-1], dtype=torch.bool)
    return targets.masked_fill(~active[..., None], 0.0), active


def pairwise(points: Tensor, targets: Tensor, distance: Distance) -> Tensor:
    """The distance of each target to each hypothesis.

    Args:
        points: `(*batch, hypotheses, dim)`.
        targets: `(*batch, targets, dim)`.
        distance: Called as `distance(targets, points)`.

    Returns:
        The costs `(*batch, targets, hypotheses)`.
    """
    if distance is euclidean and targets.dtype == points.dtype in (torch.float32, torch.float64):
        # The same numbers without the (*batch, targets, hypotheses, dim) differences.
        return torch.cdist(targets, points, compute_mode="donot_use_mm_for_euclid_dist")
    return measured(distance, targets[..., :, None, :], points[..., None, :, :])


def measured(distance: Distance, x: Tensor, y: Tensor) -> Tensor:
    """The distances of broadcasting points; an error that names `distance` if it returned something else.

    Args:
        distance: The distance, which may be a user's.
        x: Points `(*batch, dim)`.
        y: Points `(*batch, dim)`.

    Returns:
        The distances `(*batch)`.
    """
    check_callable("distance", distance, "a function of two tensors of points")
    found = distance(x, y)
    if not isinstance(found, Tensor) or not found.is_floating_point():
        kind = found.dtype if isinstance(found, Tensor) else type(found).__name__
        raise TypeError(f"distance must return a floating-point tensor, it returned {kind}")
    expected = tuple(torch.broadcast_shapes(x.shape, y.shape)[:-1])
    if found.shape != expected:
        raise ValueError(
            f"distance must reduce the last axis to {expected}, it returned {tuple(found.shape)}"
        )
    return found


def check_shapes(
    points: Tensor, targets: Tensor, active: Tensor | None, whose: str = "hypotheses have"
) -> None:
    """Raise a `ValueError` or `TypeError` that names the argument which does not fit.

    Args:
        points: What should be `(*batch, hypotheses, dim)`.
        targets: What should be `(*batch, targets, dim)`.
        active: What should be a mask `(*batch, targets)`, or `None`.
        whose: Who the points belong to, with its verb.
    """
    check_floats("points", points, "*batch hypotheses dim")
    check_floats("targets", targets, "*batch targets dim")
    if targets.shape[-1] != points.shape[-1]:
        raise ValueError(f"targets has {targets.shape[-1]} coordinates, {whose} {points.shape[-1]}")
    if targets.shape[:-2] != points.shape[:-2]:
        raise ValueError(
            f"targets has batch axes {tuple(targets.shape[:-2])}, {whose} {tuple(points.shape[:-2])}"
        )
    if active is not None:
        check_bools("active", active, targets.shape[:-1])


def _check_pair(x: Tensor, y: Tensor) -> None:
    check_floats("x", x, "*batch dim")
    check_coordinates("y", y, x.shape[-1], "x has")
    check_broadcast("y", y, x.shape[:-1], "x has")


def _check_directions(x: Tensor, y: Tensor) -> None:
    check_coordinates("x", x, 2, "a direction has")
    check_coordinates("y", y, 2, "a direction has")
    check_broadcast("y", y, x.shape[:-1], "x has")


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
