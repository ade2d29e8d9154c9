"""Directions as angles (azimuth, elevation) in radians, and as unit vectors."""

import torch
from jaxtyping import Float
from torch import Tensor

__all__ = ["from_vectors", "to_vectors"]


def to_vectors(angles: Float[Tensor, "*batch 2"]) -> Float[Tensor, "*batch 3"]:
    """(azimuth, elevation) in radians to unit vectors."""
    azimuth, elevation = angles.unbind(-1)
    across = elevation.cos()
    return torch.stack([across * azimuth.cos(), across * azimuth.sin(), elevation.sin()], dim=-1)


def from_vectors(vectors: Float[Tensor, "*batch 3"]) -> Float[Tensor, "*batch 2"]:
    """Vectors of any positive length to (azimuth, elevation) in radians."""
    x, y, z = vectors.unbind(-1)
    return torch.stack([torch.atan2(y, x), torch.atan2(z, torch.hypot(x, y))], dim=-1)
