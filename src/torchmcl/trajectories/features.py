"""What a network is told about walks: features in the pose of each walk, in units of its own speed."""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from torchmcl.trajectories.windows import OBSERVED, PREDICTED

__all__ = ["NEIGHBOR_FEATURES", "ROUGHNESS_FEATURES", "WALK_FEATURES", "Seen", "features", "speed_unit"]

WALK_FEATURES = 4 * OBSERVED
ROUGHNESS_FEATURES = 3
NEIGHBOR_FEATURES = 20


class Seen(NamedTuple):
    """The inputs of a network.

    Args:
        walk: Positions, velocities, the logarithm of the unit, the share of missing steps, and the roughness.
        unit: The unit of length, meters.
        velocity: The last step, in that unit.
        around: Features of each neighbor; without meaning where there is none.
        present: Which neighbors there are.
    """

    walk: Float[Tensor, "batch features"]
    unit: Float[Tensor, "batch"]
    velocity: Float[Tensor, "batch 2"]
    around: Float[Tensor, "batch neighbors 20"]
    present: Bool[Tensor, "batch neighbors"]


def features(
    observed: Float[Tensor, "batch 8 2"],
    missing: Float[Tensor, "batch"],
    neighbors: Float[Tensor, "batch neighbors 6"],
) -> Seen:
    """The features of walks in their pose.

    Args:
        observed: Positions relative to the last one, meters, all known.
        missing: How many of the first ones were extrapolated.
        neighbors: NaN where there is none.

    Returns:
        What a network is told.
    """
    unit = speed_unit(observed)
    scaled = observed / unit[:, None, None]
    velocity = scaled.diff(dim=1)
    parts = [scaled.flatten(1), velocity.flatten(1), unit.log()[:, None], missing[:, None] / 6]
    walk = torch.cat([*parts, _roughness(observed, missing, unit)], 1)
    present = neighbors[..., 0].isfinite()
    own = (observed[:, -1] - observed[:, -4]) / 3
    around = _neighbor_features(neighbors.nan_to_num(), own, unit)
    return Seen(walk, unit, velocity[:, -1], around, present)


def speed_unit(observed: Float[Tensor, "batch steps 2"]) -> Float[Tensor, "batch"]:
    """The unit of length of a walk: the root of the mean squared step plus (0.1 m)^2.

    Args:
        observed: Positions, meters.

    Returns:
        Meters, at least 0.1.
    """
    return (observed.diff(dim=1).square().sum(-1).mean(1) + 0.01).sqrt()


def _roughness(observed: Tensor, missing: Tensor, unit: Tensor) -> Tensor:
    """How jittery the track is: RMS second and third differences of the positions that are known."""
    second = _mean_square(observed.diff(n=2, dim=1), missing).sqrt()
    third = _mean_square(observed.diff(n=3, dim=1), missing).sqrt()
    return torch.stack([third.log() + 3, 2 * (third / second).log(), third / unit], -1)


def _mean_square(differences: Tensor, missing: Tensor) -> Tensor:
    known = torch.arange(differences.shape[1], device=missing.device) >= missing[:, None]
    total = (differences.square().sum(-1) * known).sum(1)
    return total / known.sum(1).clamp_min(1) + 1e-5


def _neighbor_features(neighbors: Tensor, own: Tensor, unit: Tensor) -> Tensor:
    """Where the others are and will be at constant velocity, and how near they come."""
    place, last, mean = neighbors.split(2, -1)
    relative = mean - own[:, None]
    approach = -(place * relative).sum(-1, keepdim=True) / (relative.square().sum(-1, keepdim=True) + 0.01)
    approach = approach.clamp(0, PREDICTED)
    closest, sixth, twelfth = (place + relative * steps for steps in (approach, 6, 12))
    distance, least = place.norm(dim=-1, keepdim=True), closest.norm(dim=-1, keepdim=True)
    scale = unit[:, None, None]
    return torch.cat(
        [
            _squashed(place), mean / scale, relative / scale, (-distance).exp(), (-distance / 4).exp(),
            _squashed(closest), (-least).exp(), approach / PREDICTED, _squashed(sixth), _squashed(twelfth),
            (last - mean) / scale, distance / (4 + distance), mean.norm(dim=-1, keepdim=True),
        ],
        -1,
    )  # fmt: skip


def _squashed(vector: Tensor) -> Tensor:
    return vector / (1 + vector.norm(dim=-1, keepdim=True))
