"""More data for nothing: a scene that is turned about the vertical axis or mirrored is a scene as well."""

import math

import torch
from jaxtyping import Float, Int16
from torch import Tensor

__all__ = ["turn"]


def turn(
    waveform: Int16[Tensor, "batch 4 samples"] | Float[Tensor, "batch 4 samples"],
    targets: Float[Tensor, "batch frames slots 2"],
    generator: torch.Generator | None = None,
) -> tuple[Float[Tensor, "batch 4 samples"], Float[Tensor, "batch frames slots 2"]]:
    """Turn each chunk (ACN order, any normalisation) by an angle of its own, and mirror every other one
    left to right and every other one upside down; its directions move with it.

    >>> sound, there = turn(torch.ones(2, 4, 8, dtype=torch.int16), torch.zeros(2, 1, 1, 2))
    >>> sound.shape, there.shape
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
    turned = torch.stack([w, cosine * y + sine * x, z * up[:, None], cosine * x - sine * y], 1)
    azimuth, elevation = targets.unbind(-1)
    azimuth = azimuth * side[:, None, None] + angle[:, None, None]
    azimuth = torch.remainder(azimuth + math.pi, 2 * math.pi) - math.pi
    return turned, torch.stack([azimuth, elevation * up[:, None, None]], -1)
