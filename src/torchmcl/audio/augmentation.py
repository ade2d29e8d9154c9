"""Data augmentation: random rotations about the vertical axis and reflections of first-order Ambisonics."""

import math

import torch
from jaxtyping import Float, Int16
from torch import Tensor

__all__ = ["augment"]


def augment(
    waveform: Int16[Tensor, "batch 4 samples"] | Float[Tensor, "batch 4 samples"],
    targets: Float[Tensor, "batch frames slots 2"],
    generator: torch.Generator | None = None,
) -> tuple[Float[Tensor, "batch 4 samples"], Float[Tensor, "batch frames slots 2"]]:
    """Rotate each chunk about the vertical axis by a random angle, and reflect it left-right and up-down at random.

    Args:
        waveform: Chunks in ACN order, in any normalization.
        targets: Their directions (azimuth, elevation) in radians.
        generator: Of the random numbers.

    Returns:
        New chunks as floating-point numbers, and their directions.

    Example:
        >>> sound, moved = augment(torch.ones(2, 4, 8, dtype=torch.int16), torch.zeros(2, 1, 1, 2))
        >>> sound.shape, moved.shape
        (torch.Size([2, 4, 8]), torch.Size([2, 1, 1, 2]))
    """
    n, device = len(waveform), targets.device
    where = generator.device if generator else device
    draw = torch.rand(3, n, generator=generator, device=where, dtype=targets.dtype).to(device)
    angle, side, up = draw[0] * 2 * math.pi, (draw[1] < 0.5) * 2.0 - 1, (draw[2] < 0.5) * 2.0 - 1
    sound = waveform if waveform.is_floating_point() else waveform.to(targets.dtype) / 32768
    w, y, z, x = sound.unbind(1)
    y = y * side[:, None]
    cosine, sine = angle.cos()[:, None], angle.sin()[:, None]
    rotated = torch.stack([w, cosine * y + sine * x, z * up[:, None], cosine * x - sine * y], 1)
    azimuth, elevation = targets.unbind(-1)
    azimuth = azimuth * side[:, None, None] + angle[:, None, None]
    azimuth = torch.remainder(azimuth + math.pi, 2 * math.pi) - math.pi
    return rotated, torch.stack([azimuth, elevation * up[:, None, None]], -1)
