"""The frame in which a network sees a walk: the pedestrian at the origin, walking along x."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

__all__ = ["Pose", "completed", "pose_of"]

SHORTEST = 0.01
"""Meters below which a displacement has no direction."""

STRAIGHT = 1e-4
"""Meters below which a walk bends neither to the left nor to the right."""


@dataclass(frozen=True, eq=False)
class Pose:
    """A rotation, with a reflection where the walk bends to the right: `turned = points @ matrix`.

    Args:
        matrix: Orthogonal, one for each pedestrian.
        straight: Who moves straight ahead, so that nothing tells left from right.
    """

    matrix: Float[Tensor, "agents 2 2"]
    straight: Bool[Tensor, "agents"]

    def turn(self, points: Float[Tensor, "agents *steps pairs"]) -> Float[Tensor, "agents *steps pairs"]:
        """Vectors of the world as the network sees them.

        Args:
            points: Displacements; the last axis holds one or more pairs (x, y).

        Returns:
            The same, turned.
        """
        return _apply(points, self.matrix)

    def back(self, points: Float[Tensor, "agents *steps pairs"]) -> Float[Tensor, "agents *steps pairs"]:
        """What the network says, in the directions of the world.

        Args:
            points: Displacements; the last axis holds one or more pairs (x, y).

        Returns:
            The same, turned back.
        """
        return _apply(points, self.matrix.mT)


def _apply(points: Tensor, matrix: Tensor) -> Tensor:
    pairs = points.unflatten(-1, (-1, 2))
    return (pairs @ matrix.view(-1, *[1] * (pairs.ndim - 3), 2, 2)).flatten(-2)


def pose_of(
    observed: Float[Tensor, "agents steps 2"], neighbors: Float[Tensor, "agents neighbors 6"]
) -> Pose:
    """The pose that a walk itself defines, so that a turned or mirrored scene is seen alike.

    The x axis is the last step. Where that is shorter than 1 cm it is the displacement over all that was observed,
    where that is short as well the direction of the nearest neighbor, and else that of the world. The y axis points
    to the side to which the walk bends, or else to the nearest neighbor.

    Args:
        observed: Positions relative to the last one, all known.
        neighbors: As `torchmcl.trajectories.windows.neighbors` has them.

    Returns:
        One pose for each pedestrian.
    """
    world = observed.new_tensor([1.0, 0.0]).expand(observed.shape[0], 2)
    nearest = neighbors[:, 0, :2].nan_to_num() if neighbors.shape[1] else torch.zeros_like(world)
    ahead = _first_long(-observed[:, -2], -observed[:, 0], nearest, otherwise=world, least=SHORTEST)
    ahead = ahead / ahead.norm(dim=-1, keepdim=True)
    left = torch.stack([-ahead[:, 1], ahead[:, 0]], -1)
    bend = (observed @ left[..., None]).sum((1, 2))
    beside = (nearest * left).sum(-1)
    side = torch.where(bend.abs() > STRAIGHT, bend, beside)
    sign = torch.where(side < -STRAIGHT, -1.0, 1.0).to(observed.dtype)
    moving = torch.maximum(observed[:, -2].norm(dim=-1), observed[:, 0].norm(dim=-1)) > SHORTEST
    return Pose(torch.stack([ahead, left * sign[:, None]], -1), (side.abs() <= STRAIGHT) & moving)


def _first_long(*vectors: Tensor, otherwise: Tensor, least: float) -> Tensor:
    for vector in reversed(vectors):
        otherwise = torch.where(vector.norm(dim=-1, keepdim=True) > least, vector, otherwise)
    return otherwise


def completed(observed: Float[Tensor, "agents steps 2"]) -> Float[Tensor, "agents steps 2"]:
    """Histories without unknown positions: those before the first are extrapolated at the mean velocity.

    Args:
        observed: NaN where unknown; at least the last two positions of each pedestrian are known.

    Returns:
        The same shape, all finite.
    """
    known = observed[..., 0].isfinite()
    count = known.sum(-1)
    # `gather`: with `take_along_dim` an exported graph would have a fixed number of pedestrians.
    first = observed.gather(1, (observed.shape[1] - count)[:, None, None].expand(-1, 1, 2))
    velocity = (observed[:, -1:] - first) / (count - 1)[:, None, None]
    place = torch.arange(observed.shape[1], device=observed.device) - (observed.shape[1] - count)[:, None]
    return torch.where(known[..., None], observed, first + velocity * place[..., None])
