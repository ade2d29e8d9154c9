"""Unions of intervals on a line, for a whole batch at once."""

import math

import torch
from torch import Tensor
from torch.nn.functional import pad

from torchmcl.hypotheses import Hypotheses
from torchmcl.mixtures import KernelMixture

__all__ = ["level_crossings", "merged"]

REACH, STEPS, HALVINGS = 1e4, 97, 60
"""Around each hypothesis the density is read at so many steps, out to so many widths; crossings are then halved."""

NUMBERS = 2**22
"""Items are taken in parts that need no more kernels at a time."""


def merged(ends: Tensor) -> Tensor:
    """Intervals `(*batch, pieces, 2)`, some of them NaN, with overlaps joined and in order; NaN where none is left."""
    lower, order = ends[..., 0].nan_to_num(nan=torch.inf, neginf=-torch.inf, posinf=torch.inf).sort(-1)
    upper = ends[..., 1].gather(-1, order).nan_to_num(nan=-torch.inf, neginf=-torch.inf, posinf=torch.inf)
    reach = upper.cummax(-1).values
    before = torch.cat([torch.full_like(reach[..., :1], -torch.inf), reach[..., :-1]], -1)
    first = (lower > before) | (torch.arange(lower.shape[-1], device=lower.device) == 0)
    first = first & (lower < torch.inf)
    after = torch.cat([first[..., 1:] | (lower[..., 1:] == torch.inf), torch.ones_like(first[..., :1])], -1)
    last = after & (lower < torch.inf)
    return _packed(lower, first, reach, last)


def level_crossings(mixture: KernelMixture, level: Tensor) -> Tensor:
    """The intervals `(*batch, pieces, 2)` on which the density of a mixture is at least `level (*batch)`."""
    batch, h = mixture.batch_shape, mixture.hypotheses
    n, k = batch.numel(), h.n_hypotheses
    points, log_probs, widths = (
        h.points.reshape(n, k, 1),
        h.log_probs.reshape(n, k),
        mixture.widths.reshape(n, k),
    )
    level = level.expand(batch).reshape(n)
    found = []
    for some in torch.arange(n, device=level.device).split(max(1, NUMBERS // (STEPS * k * k))):
        items = Hypotheses(points[some], log_probs[some], "softmax", widths[some]).detach().to(torch.float64)
        found.append(_crossings(KernelMixture(items, mixture.kernel), level[some].detach().double()))
    pieces = max((part.shape[1] for part in found), default=0)
    padded = [pad(part, (0, 0, 0, pieces - part.shape[1]), value=torch.nan) for part in found]
    return torch.cat(padded).reshape(*batch, pieces, 2).to(h.points.dtype)


def _crossings(mixture: KernelMixture, level: Tensor) -> Tensor:
    def inside(y: Tensor) -> Tensor:
        """Whether the density at `y (items, places)` reaches the level."""
        return (mixture.log_prob(y.T[..., None]) >= level).T | (level == -torch.inf)[:, None]

    h = mixture.hypotheses
    side = math.asinh(REACH)
    steps = torch.linspace(-side, side, STEPS, dtype=torch.float64, device=level.device).sinh()
    grid = (h.points + mixture.widths[..., None] * steps).flatten(1).sort(-1).values
    high = inside(grid)
    ends = pad(high, (1, 1))
    first, last = high & ~ends[:, :-2], high & ~ends[:, 2:]
    within = _packed(grid, first, grid, last)
    beyond = _packed(
        pad(grid[:, :-1], (1, 0), value=-torch.inf), first, pad(grid[:, 1:], (0, 1), value=torch.inf), last
    )
    endless = beyond.isinf()
    for _ in range(HALVINGS):
        middle = (within + beyond) / 2
        reached = inside(middle.flatten(1)).reshape(middle.shape)
        within, beyond = torch.where(reached, middle, within), torch.where(reached, beyond, middle)
    return torch.where(endless, beyond, within)


def _packed(lower: Tensor, first: Tensor, upper: Tensor, last: Tensor) -> Tensor:
    """The marked lower and upper ends of each row, moved to the left, as `(*batch, pieces, 2)`."""
    pieces = int(first.sum(-1).max()) if first.numel() else 0
    parts = []
    for values, marked in ((lower, first), (upper, last)):
        order = (~marked).to(torch.uint8).sort(dim=-1, stable=True).indices[..., :pieces]
        parts.append(values.gather(-1, order).masked_fill(~marked.gather(-1, order), torch.nan))
    return torch.stack(parts, -1)
