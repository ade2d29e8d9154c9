"""Many hypotheses as few, with the same mean and variance."""

import torch
from jaxtyping import Float
from torch import Tensor

from torchmcl.hypotheses import Hypotheses

__all__ = ["merge_hypotheses"]


def merge_hypotheses(hypotheses: Hypotheses, count: int) -> Hypotheses:
    """Merge pairs of hypotheses until `count` are left; mean and variance of the mixture stay as they are.

    Each time the pair is merged that costs least: by an upper bound on the Kullback-Leibler divergence from the mixture
    before to the one after (Runnalls 2007). In one dimension only neighbors are candidates; in more, it is the variance
    summed over the coordinates that stays.

    Args:
        hypotheses: With widths, `(rows, hypotheses)`.
        count: How many are left.

    Returns:
        Hypotheses `(rows, count)`, the most probable one first.

    Example:
        >>> h = Hypotheses(torch.tensor([[[0.0], [0.2], [5.0]]]), widths=torch.full((1, 3), 0.1))
        >>> merge_hypotheses(h, 2).points[0, :, 0]
        tensor([0.1000, 5.0000])
    """
    assert hypotheses.widths is not None
    p, m, v = hypotheses.probs, hypotheses.points, hypotheses.widths.square()
    if hypotheses.dim == 1:
        order = m[..., 0].argsort(-1)
        p, m, v = p.gather(1, order), m.gather(1, order[..., None]), v.gather(1, order)
    merge = _merge_neighbors if hypotheses.dim == 1 else _merge_closest
    while p.shape[1] > count:
        p, m, v = merge(p, m, v)
    order = p.argsort(dim=-1, descending=True, stable=True)
    points = m.gather(1, order[..., None].expand_as(m))
    tiny = torch.finfo(p.dtype).tiny
    return Hypotheses(points, p.gather(1, order).clamp(min=tiny).log(), "softmax", v.gather(1, order).sqrt())


def _merge_neighbors(
    p: Float[Tensor, "rows K"], m: Float[Tensor, "rows K 1"], v: Float[Tensor, "rows K"]
) -> tuple[Tensor, Tensor, Tensor]:
    """Merge the cheapest pair of neighbors of each row; points are in ascending order."""
    cost = _cost(p[:, :-1], p[:, 1:], v[:, :-1], v[:, 1:], (m[:, 1:] - m[:, :-1]).square().mean(-1))
    first = cost.argmin(-1, keepdim=True)
    return _merged(p, m, v, first, first + 1)


def _merge_closest(
    p: Float[Tensor, "rows K"], m: Float[Tensor, "rows K dim"], v: Float[Tensor, "rows K"]
) -> tuple[Tensor, Tensor, Tensor]:
    """Merge the cheapest of all pairs of each row."""
    count = p.shape[1]
    i, j = torch.triu_indices(count, count, 1)
    cost = _cost(p[:, i], p[:, j], v[:, i], v[:, j], (m[:, i] - m[:, j]).square().mean(-1))
    best = cost.argmin(-1)
    return _merged(p, m, v, i[best][:, None], j[best][:, None])


def _cost(p: Tensor, q: Tensor, v: Tensor, w: Tensor, apart: Tensor) -> Tensor:
    """Half of `(p + q) log(variance of both) - p log v - q log w`."""
    total = (p + q).clamp(min=torch.finfo(p.dtype).tiny)
    share = p / total
    both = share * v + (1 - share) * w + share * (1 - share) * apart
    return total * both.log() - p * v.log() - q * w.log()


def _merged(p: Tensor, m: Tensor, v: Tensor, i: Tensor, j: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Component j into component i, which is before it; the others keep their order."""
    dim = m.shape[-1]
    wide = (len(p), 1, dim)
    a, b = p.gather(1, i), p.gather(1, j)
    total = a + b
    share = torch.where(total > 0, a / total.clamp(min=torch.finfo(p.dtype).tiny), 0.5)
    x, y = m.gather(1, i[..., None].expand(wide)), m.gather(1, j[..., None].expand(wide))
    middle = share[..., None] * x + (1 - share[..., None]) * y
    between = share * (1 - share) * (x - y).square().mean(-1)
    spread = share * v.gather(1, i) + (1 - share) * v.gather(1, j) + between
    kept = torch.ones_like(p, dtype=torch.bool).scatter(1, j, False)
    rows = len(p)
    p = p.scatter(1, i, total)[kept].view(rows, -1)
    m = m.scatter(1, i[..., None].expand(wide), middle)[kept].view(rows, -1, dim)
    return p, m, v.scatter(1, i, spread)[kept].view(rows, -1)
