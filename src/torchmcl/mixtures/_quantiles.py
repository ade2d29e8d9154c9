"""Quantiles of mixtures on the line."""

import torch
from jaxtyping import Float
from torch import Tensor

from torchmcl.mixtures._roots import increasing_root
from torchmcl.mixtures.kernels import LineKernel

__all__ = ["line_quantiles"]


def line_quantiles(
    kernel: LineKernel,
    points: Float[Tensor, "n hypotheses"],
    widths: Float[Tensor, "n hypotheses"],
    probs: Float[Tensor, "n hypotheses"],
    value: Float[Tensor, "n"],
) -> Float[Tensor, "n"]:
    """The quantile of each mixture at each probability; infinite at 0 and 1.

    A quantile of the mixture lies between the least and the greatest quantile of its kernels. Above one half the
    equation is solved for the upper tail, in which no digits are lost.
    """
    ends = (value == 0) | (value == 1)
    inner = value.masked_fill(ends, 0.5)
    gone = probs == 0
    each = points + widths * kernel.icdf(inner)[:, None]
    most = torch.finfo(value.dtype).max / 4
    low = each.masked_fill(gone, torch.inf).amin(-1).clamp(min=-most)
    high = each.masked_fill(gone, -torch.inf).amax(-1).clamp(max=most)
    side = torch.where(inner < 0.5, 1.0, -1.0).to(value.dtype)
    tail = torch.minimum(inner, 1 - inner)

    def excess(x: Tensor, rows: Tensor) -> Tensor:
        sign = side[rows]
        z = sign[:, None] * (x[:, None] - points[rows]) / widths[rows]
        return sign * ((probs[rows] * kernel.cdf(z)).sum(-1) - tail[rows])

    eps = torch.finfo(value.dtype).eps
    narrow = widths.masked_fill(gone, torch.inf).amin(-1)
    found = increasing_root(excess, low, high, eps * narrow, 4 * eps * tail)
    found = torch.where(ends, torch.copysign(torch.full_like(found, torch.inf), value - 0.5), found)
    return found.masked_fill((points.isnan() | probs.isnan()).any(-1), torch.nan)
