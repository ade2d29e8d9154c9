"""The energy score: a proper score of scored points, which every hypothesis learns from with every target."""

from collections.abc import Iterator
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from torchmcl.directions import to_vectors
from torchmcl.distances import Distance, check_shapes, chordal, euclidean, pairwise
from torchmcl.hypotheses import Hypotheses, check_hypotheses

__all__ = ["energy_loss", "energy_score"]

BLOCK = 2**17
"""Batches are cut so that no buffer of pairs holds more numbers: it stays in the cache, and memory is bounded."""


def energy_loss(
    hypotheses: Hypotheses,
    targets: Float[Tensor, "*batch targets dim"],
    active: Bool[Tensor, "*batch targets"] | None = None,
    *,
    distance: Distance = euclidean,
) -> Float[Tensor, ""]:
    r"""Mean energy score of the scored points, a proper score of the predicted distribution.

    .. math:: \mathbb{E}\, d(X, y) - \tfrac12\, \mathbb{E}\, d(X, X'), \qquad X, X' \sim \sum_k p_k\, \delta_{f_k}

    In one dimension it is the continuous ranked probability score (CRPS). Use it where the targets of an input are
    samples of what may happen; use `transport_loss` where they are the whole answer.

    The Euclidean distance makes the score strictly proper: its expectation is least at the true distribution and
    nowhere else. `great_circle` is proper but not strictly: it cannot tell one antipodal pair of equally probable
    directions from another. On the sphere use `chordal`, which is strictly proper.

    Args:
        hypotheses: K points with scores, `(*batch, hypotheses, dim)`.
        targets: Samples of the outcome, `(*batch, targets, dim)`.
        active: Which targets exist, `(*batch, targets)`; all of them if `None`.
        distance: A distance of negative type, such as `euclidean` or, on the sphere, `chordal`.

    Returns:
        The average over active targets; 0 where there are none.

    Example:
        >>> h = Hypotheses(torch.tensor([[0.0], [1.0]]))
        >>> energy_loss(h, torch.tensor([[1.0]]))
        tensor(0.2500)
    """
    return active_mean(_each(hypotheses, targets, active, distance), active)


def energy_score(
    hypotheses: Hypotheses,
    targets: Float[Tensor, "*batch targets dim"],
    active: Bool[Tensor, "*batch targets"] | None = None,
    *,
    distance: Distance = euclidean,
) -> Float[Tensor, "*batch"]:
    """The energy score of each item, averaged over its active targets; in one dimension the CRPS.

    Args:
        hypotheses: K points with scores, `(*batch, hypotheses, dim)`.
        targets: Samples of the outcome, `(*batch, targets, dim)`.
        active: Which targets exist, `(*batch, targets)`; all of them if `None`.
        distance: A distance of negative type, as for `energy_loss`.

    Returns:
        One value for each item; NaN for an item with no active target.

    Example:
        >>> h = Hypotheses(torch.tensor([[[0.0], [1.0]], [[0.0], [4.0]]]))
        >>> energy_score(h, torch.tensor([[[1.0]], [[0.0]]]))
        tensor([0.2500, 1.0000])
    """
    return item_mean(_each(hypotheses, targets, active, distance), active)


def active_mean(
    each: Float[Tensor, "*batch targets"], active: Bool[Tensor, "*batch targets"] | None
) -> Float[Tensor, ""]:
    """The average over active targets; 0 where there are none."""
    if active is None:
        return each.sum() / max(each.numel(), 1)
    # A product, not a selection: a NaN hypothesis must not disappear behind an inactive target.
    return (each * active).sum() / active.sum().clamp(min=1)


def item_mean(
    each: Float[Tensor, "*batch targets"], active: Bool[Tensor, "*batch targets"] | None
) -> Float[Tensor, "*batch"]:
    """The average over the active targets of each item; NaN where there are none."""
    if active is None:
        return each.mean(-1)
    return (each * active).sum(-1) / active.sum(-1)


def known_targets(points: Tensor, targets: Tensor, active: Tensor | None) -> Tensor:
    """The targets with the origin in place of inactive ones; an error if shapes do not fit."""
    check_shapes(points, targets, active)
    return targets if active is None else targets.masked_fill(~active[..., None], 0.0)


def _each(hypotheses: Hypotheses, targets: Tensor, active: Tensor | None, distance: Distance) -> Tensor:
    """The energy score of each target, `(*batch, targets)`."""
    check_hypotheses(hypotheses)
    points, probs = hypotheses.points, hypotheses.probs
    targets = known_targets(points, targets, active)
    if distance is chordal:
        points, targets, distance = to_vectors(points), to_vectors(targets), euclidean
    if distance is euclidean and points.shape[-1] == 1:
        x, y = points.squeeze(-1), targets.squeeze(-1)
        return (probs[..., None, :] * (x[..., None, :] - y[..., None]).abs()).sum(-1) - _line_spread(x, probs)
    reach = (probs[..., None, :] * pairwise(points, targets, distance)).sum(-1)
    if distance is euclidean and not torch.compiler.is_compiling():
        return reach - _HalfSpread.apply(points, probs)[0][..., None]
    apart = distance(points[..., :, None, :], points[..., None, :, :])
    return reach - (probs[..., :, None] * probs[..., None, :] * apart).sum((-2, -1))[..., None] / 2


def _line_spread(x: Tensor, probs: Tensor) -> Tensor:
    """`E|X - X'| / 2` as the integral of `F (1 - F)` between sorted points: K log K, and no cancellation."""
    ordered, order = x.sort(-1)
    below = probs.gather(-1, order).cumsum(-1)[..., :-1]
    return (ordered.diff(dim=-1) * below * (1 - below)).sum(-1, keepdim=True)


class _HalfSpread(torch.autograd.Function):
    """`E|X - X'| / 2` with its gradients, which take one pass over the pairs where autograd takes several."""

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *inputs: Tensor) -> tuple[Any, tuple[int, int, int]]:
        return _HalfSpread.apply(*batch_first(info, in_dims, inputs)), (0, 0, 0)

    @staticmethod
    def forward(points: Tensor, probs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        n, (hypotheses, dim) = probs[..., 0].numel(), points.shape[-2:]
        enough = torch.promote_types(points.dtype, torch.float32)
        flat = points.reshape(n, hypotheses, dim).to(enough), probs.reshape(n, hypotheses).to(enough)
        parts = [_forces(*part) for part in blocks(flat, hypotheses * hypotheses * dim)]
        reach = torch.cat([part[0] for part in parts]).reshape(probs.shape).to(probs.dtype)
        force = torch.cat([part[1] for part in parts]).reshape(points.shape).to(points.dtype)
        return (probs * reach).sum(-1) / 2, reach, force

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: tuple[Tensor, ...]) -> None:
        ctx.mark_non_differentiable(*output[1:])
        ctx.save_for_backward(*output[1:])

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor]:
        reach, force = ctx.saved_tensors
        return gradients[0][..., None, None] * force, gradients[0][..., None] * reach


def _forces(points: Tensor, probs: Tensor) -> tuple[Tensor, Tensor]:
    """`sum_l p_l |f_k - f_l|`, and its gradient in `f_k` times `p_k`, of a block `(n, hypotheses, dim)`."""
    # The batch comes last: its axis is long, those of hypotheses and coordinates are short.
    f, p = points.permute(2, 1, 0).contiguous(), probs.T.contiguous()
    apart = f[:, :, None] - f[:, None]
    square = apart.square().sum(0)
    # Where points coincide all differences are 0, whatever they are divided by.
    pull = square.clamp(min=torch.finfo(square.dtype).tiny).rsqrt_().mul_(p)
    reach = square.mul_(pull).sum(1)
    return reach.T, apart.mul_(pull).sum(2).mul_(p).permute(2, 1, 0)


def batch_first(info: Any, in_dims: tuple[int | None, ...], inputs: tuple[Tensor, ...]) -> list[Tensor]:
    """The inputs of a function with any leading axes, with the axis that `torch.vmap` maps over as the first."""
    return [
        value.expand(info.batch_size, *value.shape) if dim is None else value.movedim(dim, 0)
        for value, dim in zip(inputs, in_dims, strict=True)
    ]


def blocks(tensors: tuple[Tensor, ...], pairs: int, limit: int | None = None) -> Iterator[tuple[Tensor, ...]]:
    """The tensors cut along their first axis, so that items of `pairs` numbers stay within `limit`, or `BLOCK`."""
    size = max(1, (limit or BLOCK) // pairs)
    return zip(*(tensor.split(size) for tensor in tensors), strict=True)
