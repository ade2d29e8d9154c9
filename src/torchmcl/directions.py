"""Directions as angles (azimuth, elevation) in radians, and as unit vectors: tensors and NumPy arrays."""

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from torchmcl.errors import check_coordinates, check_number

__all__ = ["from_vectors", "tangents", "to_vectors", "unit_vectors", "vector_directions"]


def to_vectors(angles: Float[Tensor, "*batch 2"]) -> Float[Tensor, "*batch 3"]:
    """Angles to unit vectors.

    Args:
        angles: (azimuth, elevation) in radians, `(*batch, 2)`.

    Returns:
        (x, y, z) of length 1, `(*batch, 3)`.

    Example:
        >>> to_vectors(torch.tensor([0.0, torch.pi / 6]))
        tensor([0.8660, 0.0000, 0.5000])
    """
    check_coordinates("angles", angles, 2, "a direction has")
    azimuth, elevation = angles.unbind(-1)
    across = elevation.cos()
    return torch.stack([across * azimuth.cos(), across * azimuth.sin(), elevation.sin()], dim=-1)


def from_vectors(vectors: Float[Tensor, "*batch 3"], least: float = 0.0) -> Float[Tensor, "*batch 2"]:
    """Vectors of any positive length to angles.

    Args:
        vectors: (x, y, z), `(*batch, 3)`.
        least: The least distance to the vertical axis. A vector on the axis has no azimuth, and the gradient of its
            angles is infinite: where a network learns such vectors, a small positive number keeps it finite.

    Returns:
        (azimuth, elevation) in radians, `(*batch, 2)`.

    Example:
        >>> from_vectors(torch.tensor([0.0, 2.0, 2.0])).rad2deg()
        tensor([90., 45.])
    """
    check_coordinates("vectors", vectors, 3, "space has")
    check_number("least", least, 0, finite=True)
    x, y, z = vectors.unbind(-1)
    if least == 0:
        return torch.stack([torch.atan2(y, x), torch.atan2(z, torch.hypot(x, y))], dim=-1)
    level = (x.square() + y.square() + least**2).sqrt()
    return torch.stack([torch.atan2(y, x + (level < 2 * least) * least), torch.atan2(z, level)], -1)


def tangents(
    angles: Float[Tensor, "*batch 2"],
) -> tuple[Float[Tensor, "*batch 3"], Float[Tensor, "*batch 3"]]:
    """Unit vectors to the east and to the north of directions; at a pole, those of its azimuth.

    Args:
        angles: (azimuth, elevation) in radians, `(*batch, 2)`.

    Returns:
        East and north, `(*batch, 3)` each: with the direction itself, an orthonormal frame.

    Example:
        >>> east, north = tangents(torch.zeros(2))
        >>> east, north
        (tensor([-0., 1., 0.]), tensor([-0., -0., 1.]))
    """
    check_coordinates("angles", angles, 2, "a direction has")
    azimuth, elevation = angles.unbind(-1)
    east = torch.stack([-azimuth.sin(), azimuth.cos(), torch.zeros_like(azimuth)], dim=-1)
    up = elevation.sin()
    north = torch.stack([-up * azimuth.cos(), -up * azimuth.sin(), elevation.cos()], dim=-1)
    return east, north


def unit_vectors(directions: Float[np.ndarray, "*batch 2"]) -> Float[np.ndarray, "*batch 3"]:
    """`to_vectors` for NumPy arrays.

    Args:
        directions: (azimuth, elevation) in radians, `(*batch, 2)`.

    Returns:
        (x, y, z) of length 1, `(*batch, 3)`.

    Example:
        >>> unit_vectors(np.radians([90.0, 0.0])).round(3) + 0.0
        array([0., 1., 0.])
    """
    azimuth, elevation = _coordinates("directions", directions, 2)
    flat = np.cos(elevation)
    return np.stack([flat * np.cos(azimuth), flat * np.sin(azimuth), np.sin(elevation)], axis=-1)


def vector_directions(vectors: Float[np.ndarray, "*batch 3"]) -> Float[np.ndarray, "*batch 2"]:
    """`from_vectors` for NumPy arrays.

    Args:
        vectors: (x, y, z) of any positive length, `(*batch, 3)`.

    Returns:
        (azimuth, elevation) in radians, `(*batch, 2)`.

    Example:
        >>> np.degrees(vector_directions(np.array([0.0, 2.0, 2.0])))
        array([90., 45.])
    """
    x, y, z = _coordinates("vectors", vectors, 3)
    return np.stack([np.arctan2(y, x), np.arctan2(z, np.hypot(x, y))], axis=-1)


def _coordinates(name: str, value: np.ndarray, count: int) -> np.ndarray:
    """The coordinates as the first axis, or an error where there are others."""
    array = np.asarray(value)
    if not array.ndim or array.shape[-1] != count:
        raise ValueError(f"{name} must be (*batch, {count}), got {array.shape}")
    return np.moveaxis(array, -1, 0)
