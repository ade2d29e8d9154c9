"""The energy score: a proper score of scored points, which every hypothesis learns from with every target."""

import math
from collections.abc import Callable, Iterator
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


def average(values: Tensor, count: Tensor | int, axes: tuple[int, ...] | None = None) -> Tensor:
    """The sum of values over axes, divided by a count; in single precision at least, so that it does not overflow.

    Args:
        values: Of any shape.
        count: Of what takes part.
        axes: All of them if `None`.

    Returns:
        The average, in the dtype of the values.

    Example:
        >>> average(torch.full((9000,), 10.0, dtype=torch.half), 9000)
        tensor(10., dtype=torch.float16)
    """
    precise = torch.promote_types(values.dtype, torch.float32)
    total = values.sum(dtype=precise) if axes is None else values.sum(axes, dtype=precise)
    return (total / count).to(values.dtype)


def active_mean(
    each: Float[Tensor, "*batch targets"], active: Bool[Tensor, "*batch targets"] | None
) -> Float[Tensor, ""]:
    """The average over active targets; 0 where there are none.

    Args:
        each: A value of each target.
        active: Which targets exist; all of them if `None`.
    """
    if active is None:
        return each.mean() if each.numel() else each.sum()
    # A product, not a selection: a NaN hypothesis must not disappear behind an inactive target.
    return average(each * active, active.sum().clamp(min=1))


def item_mean(
    each: Float[Tensor, "*batch targets"], active: Bool[Tensor, "*batch targets"] | None
) -> Float[Tensor, "*batch"]:
    """The average over the active targets of each item; NaN where there are none.

    Args:
        each: A value of each target.
        active: Which targets exist; all of them if `None`.
    """
    if active is None:
        return each.mean(-1)
    return average(each * active, active.sum(-1), (-1,))


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
    if distance is euclidean and not torch.compiler.is_compiling():
        return _PointEnergy.apply(points, probs, targets)[0]
    reach = (probs[..., None, :] * pairwise(points, targets, distance)).sum(-1)
    apart = distance(points[..., :, None, :], points[..., None, :, :])
    return reach - (probs[..., :, None] * probs[..., None, :] * apart).sum((-2, -1))[..., None] / 2


def _line_spread(x: Tensor, probs: Tensor) -> Tensor:
    """`E|X - X'| / 2` as the integral of `F (1 - F)` between sorted points: K log K, and no cancellation."""
    ordered, order = x.sort(-1)
    below = probs.gather(-1, order).cumsum(-1)[..., :-1]
    return (ordered.diff(dim=-1) * below * (1 - below)).sum(-1, keepdim=True)


class ScoreFunction(torch.autograd.Function):
    """A score of each target whose derivatives are computed with its value: outputs are the score, then those.

    Inputs have shapes `(*batch, hypotheses, ...)`, the points first; the last are the targets `(*batch, targets, ...)`.
    The derivatives come in the same order, each `(*batch, targets, ...)` with the axes of its input. That in the
    targets is left out: the score does not change when points and targets move together.
    """

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: tuple[Tensor, ...]) -> None:
        ctx.mark_non_differentiable(*output[1:])
        ctx.save_for_backward(*output[1:])

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        each, targets = gradients[0], gradients[0].ndim - 1
        *wanted, by_targets = ctx.needs_input_grad
        found = [
            _over(_weighted(part, each), targets) if needed else None
            for part, needed in zip(ctx.saved_tensors, wanted, strict=True)
        ]
        in_targets = -_weighted(ctx.saved_tensors[0], each).sum(each.ndim) if by_targets else None
        return (*found, in_targets)


def _weighted(part: Tensor, each: Tensor) -> Tensor:
    """Derivatives `(*batch, targets, ...)` times the gradient of each score `(*batch, targets)`."""
    return part * each.reshape(*each.shape, *(1 for _ in part.shape[each.ndim :]))


def _over(part: Tensor, axis: int) -> Tensor:
    """The sum over an axis, which for a single target, the usual case, costs nothing."""
    return part.squeeze(axis) if part.shape[axis] == 1 else part.sum(axis)


class _PointEnergy(ScoreFunction):
    """The energy score of points with the Euclidean distance, in one pass over the pairs."""

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *inputs: Tensor) -> tuple[Any, tuple[int, ...]]:
        return _PointEnergy.apply(*batch_first(info, in_dims, inputs)), (0,) * 3

    @staticmethod
    def forward(points: Tensor, probs: Tensor, targets: Tensor) -> tuple[Tensor, ...]:
        score, force, excess = batch_last(_point_energy, (points.mT, probs, targets), probs.shape[:-1])
        return score, force.mT, excess


def _point_energy(points: Tensor, probs: Tensor, targets: Tensor) -> tuple[Tensor, ...]:
    """The scores of points `(dim, hypotheses, n)`, and their derivatives in points and probabilities."""
    p, least = probs, _least(probs)
    reach, force = _among_points(points, p, least)
    unit = points - targets[:, :, None]
    square = unit.square().sum(1).add_(least)
    rate = square.rsqrt()
    length, unit = square.mul_(rate), unit.mul_(rate[:, None])
    excess = length - reach
    score = excess.add(reach, alpha=0.5).mul_(p).sum(1)
    return score, unit.sub_(force).mul_(p), excess


def _among_points(points: Tensor, p: Tensor, least: Tensor) -> tuple[Tensor, Tensor]:
    """The expected distance `(hypotheses, n)` of each point to the others, and its gradient `(dim, hypotheses, n)`."""
    dim, k, n = points.shape
    size = block_size(n, k * k)
    # One buffer serves all blocks: differences, then squared distances, then inverse distances.
    buffer, found = points.new_empty(dim + 2, k, k, size), points.new_empty(dim + 1, k, n)
    for start in range(0, n, size):
        part = slice(start, start + size)
        place, weight = points[..., part], p[..., part]
        *apart, square, rate = work = buffer[..., : weight.shape[-1]]
        torch.sub(place[:, :, None], place[:, None], out=work[:dim])
        torch.addcmul(least, apart[0], apart[0], out=square)
        for each in apart[1:]:
            square.addcmul_(each, each)
        torch.rsqrt(square, out=rate).mul_(weight)
        torch.sum(work[:-1].mul_(rate), 2, out=found[..., part])
    return found[-1], found[:-1]


def _least(values: Tensor) -> Tensor:
    """Added to squared distances: where points coincide all differences are 0, whatever they are divided by."""
    return values.new_tensor(torch.finfo(values.dtype).tiny)


def in_blocks(
    score: Callable[..., tuple[Tensor, ...]], inputs: tuple[Tensor, ...], batch: torch.Size, pairs: int
) -> tuple[Tensor, ...]:
    """The outputs of `score` as by `batch_last`, in blocks of at most `BLOCK` pairs."""

    def whole(*last: Tensor) -> tuple[Tensor, ...]:
        parts = [score(*part) for part in blocks(last, pairs, axis=-1)]
        return (
            parts[0] if len(parts) == 1 else tuple(torch.cat(each, -1) for each in zip(*parts, strict=True))
        )

    return batch_last(whole, inputs, batch)


def batch_last(
    score: Callable[..., tuple[Tensor, ...]], inputs: tuple[Tensor, ...], batch: torch.Size
) -> tuple[Tensor, ...]:
    """The outputs of `score` for any batch axes, in float32 at least.

    `score` is a function of tensors `(..., n)`: the batch comes last, its axis is long, the others are short.
    """
    n, dtype = batch.numel(), inputs[0].dtype
    enough = torch.promote_types(dtype, torch.float32)
    last = (
        each.reshape(n, *each.shape[len(batch) :]).to(enough).movedim(0, -1).contiguous() for each in inputs
    )
    return tuple(each.movedim(-1, 0).reshape(*batch, *each.shape[:-1]).to(dtype) for each in score(*last))


def batch_first(info: Any, in_dims: tuple[int | None, ...], inputs: tuple[Tensor, ...]) -> list[Tensor]:
    """The inputs of a function with any leading axes, with the axis that `torch.vmap` maps over as the first."""
    return [
        value.expand(info.batch_size, *value.shape) if dim is None else value.movedim(dim, 0)
        for value, dim in zip(inputs, in_dims, strict=True)
    ]


def blocks(
    tensors: tuple[Tensor, ...], pairs: int, limit: int | None = None, axis: int = 0
) -> Iterator[tuple[Tensor, ...]]:
    """The tensors cut along `axis`, so that items of `pairs` numbers stay within `limit`, or `BLOCK`."""
    size = block_size(tensors[0].shape[axis], pairs, limit)
    return zip(*(tensor.split(size, axis) for tensor in tensors), strict=True)


def block_size(items: int, pairs: int, limit: int | None = None) -> int:
    """How many items of `pairs` numbers go into a block within `limit`, or `BLOCK`, if all blocks are equally long."""
    most = max(1, (limit or BLOCK) // pairs)
    pieces = max(1, math.ceil(items / most))
    return max(1, math.ceil(items / pieces))
