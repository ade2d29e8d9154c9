"""Roots of many increasing functions at once."""

from collections.abc import Callable

import torch
from jaxtyping import Float, Int
from torch import Tensor

__all__ = ["increasing_root"]

MOST_STEPS = 400


def increasing_root(
    function: Callable[[Float[Tensor, "some"], Int[Tensor, "some"]], Float[Tensor, "some"]],
    low: Float[Tensor, "n"],
    high: Float[Tensor, "n"],
    resolution: Float[Tensor, "n"],
    accuracy: Float[Tensor, "n"],
) -> Float[Tensor, "n"]:
    """Where each of n increasing functions crosses 0 between `low` and `high` (Chandrupatla 1997).

    Inverse quadratic interpolation where the last three points allow it, else bisection. A root is found where the
    function is within `accuracy` of 0, or the bracket as short as rounding allows or as `resolution`.
    `function` takes points and the indices of the functions to evaluate there: those not yet found.
    """
    found = low.clone()
    rows = torch.arange(len(low), device=low.device)
    last, other = low, high
    f_last, f_other = function(low, rows), function(high, rows)
    share = torch.full_like(low, 0.5)
    eps, tiny = torch.finfo(low.dtype).eps, torch.finfo(low.dtype).tiny
    for _ in range(MOST_STEPS):
        nearer = f_last.abs() < f_other.abs()
        best, residual = torch.where(nearer, last, other), torch.where(nearer, f_last, f_other).abs()
        found[rows] = best
        least = (2 * eps * best.abs() + resolution[rows]) / (other - last).abs().clamp(min=tiny)
        going = (least < 0.5) & (residual > accuracy[rows])
        if not going.any():
            break
        rows, last, other, f_last, f_other, share, least = (
            part[going] for part in (rows, last, other, f_last, f_other, share, least)
        )
        trial = last + torch.minimum(torch.maximum(share, least), 1 - least) * (other - last)
        value = function(trial, rows)
        same = (value > 0) == (f_last > 0)
        past, f_past = torch.where(same, last, other), torch.where(same, f_last, f_other)
        other, f_other = torch.where(same, other, last), torch.where(same, f_other, f_last)
        last, f_last = trial, value
        share = _share(last, other, past, f_last, f_other, f_past)
    return found


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
