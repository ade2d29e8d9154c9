"""Roots of many increasing functions at once."""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

__all__ = ["increasing_root"]

MOST_STEPS = 400


def increasing_root(
    function: Callable[[Tensor], Tensor],
    low: Float[Tensor, "*batch"],
    high: Float[Tensor, "*batch"],
    resolution: Float[Tensor, "*#batch"],
) -> Float[Tensor, "*batch"]:
    """Where each increasing function crosses 0 between `low` and `high` (Chandrupatla 1997).

    Inverse quadratic interpolation where the last three points allow it, else bisection: as fast as the former on
    smooth functions, never slower than twice the latter. Ends where the bracket is as short as rounding allows or
    as `resolution`.
    """
    last, other = low, high
    f_last, f_other = function(low), function(high)
    share = torch.full_like(low, 0.5)
    best = torch.where(f_last.abs() < f_other.abs(), last, other)
    for _ in range(MOST_STEPS):
        tolerance = 2 * torch.finfo(low.dtype).eps * best.abs() + resolution
        least = tolerance / (other - last).abs().clamp(min=torch.finfo(low.dtype).tiny)
        done = (least >= 0.5) | (f_last == 0) | (f_other == 0)
        if done.all():
            break
        share = share.clamp(least.clamp(max=0.5), 1 - least.clamp(max=0.5))
        trial = torch.where(done, best, last + share * (other - last))
        value = torch.where(done, torch.where(best == last, f_last, f_other), function(trial))
        same = (value > 0) == (f_last > 0)
        past, f_past = torch.where(same, last, other), torch.where(same, f_last, f_other)
        other, f_other = torch.where(same, other, last), torch.where(same, f_other, f_last)
        last, f_last = trial, value
        best = torch.where(f_last.abs() < f_other.abs(), last, other)
        share = _share(last, other, past, f_last, f_other, f_past)
    return best


def _share(
    last: Tensor, other: Tensor, past: Tensor, f_last: Tensor, f_other: Tensor, f_past: Tensor
) -> Tensor:
    """How far from the last point to the other end of the bracket the next trial lies."""
    place = (last - other) / (past - other)
    rise = (f_last - f_other) / (f_past - f_other)
    smooth = (rise.square() < place) & ((1 - rise).square() < 1 - place)
    share = f_last / (f_other - f_last) * f_past / (f_other - f_past) + (past - last) / (
        other - last
    ) * f_last / (f_past - f_last) * f_other / (f_past - f_other)
    return torch.where(smooth & share.isfinite(), share, 0.5)
