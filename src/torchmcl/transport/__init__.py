"""How far hypotheses are from targets: exact batched optimal transport, and the distance to the nearest."""

from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from torchmcl.distances import Distance, cost_matrix, euclidean
from torchmcl.hypotheses import Hypotheses
from torchmcl.transport._dual import MOST_COLUMNS, optimal_value
from torchmcl.transport._plans import optimal_plan, row_sum

__all__ = ["emd", "mixture_cost", "oracle_error", "transport_cost"]


def transport_cost(
    cost: Float[Tensor, "*batch targets hypotheses"],
    target_weights: Float[Tensor, "*batch targets"],
    weights: Float[Tensor, "*batch hypotheses"],
) -> Float[Tensor, "*batch"]:
    """The least cost of moving the mass of the hypotheses onto the targets.

    `min_P sum_mk P_mk cost_mk` over plans `P >= 0` whose sums are both weights, each divided by its total.
    Items with up to three targets (or hypotheses) that carry mass are solved together in torch, others one by
    one with POT. The gradient in `cost` is the optimal plan, those in the weights are the dual potentials;
    higher derivatives take both as constants. NaN for an item without mass or with a cost that is not finite.

    >>> cost = torch.tensor([[0.0, 2.0], [2.0, 0.0]])
    >>> transport_cost(cost, torch.tensor([0.5, 0.5]), torch.tensor([0.75, 0.25]))
    tensor(0.5000)
    """
    batch, (targets, hypotheses) = cost.shape[:-2], cost.shape[-2:]
    for name, value, size in (("target_weights", target_weights, targets), ("weights", weights, hypotheses)):
        if value.shape != (*batch, size):
            raise ValueError(f"{name} must be {(*batch, size)} for this cost, got {tuple(value.shape)}")
    parts = cost, target_weights, weights
    learns = torch.is_grad_enabled() and any(part.requires_grad for part in parts)
    if not learns and targets <= 3 and hypotheses <= MOST_COLUMNS:
        enough = torch.promote_types(cost.dtype, torch.float32)
        return _Value.apply(*(part.to(enough) for part in parts)).to(cost.dtype)
    precise = torch.float32 if cost.device.type == "mps" else torch.float64
    return _Transport.apply(*(part.to(precise) for part in parts))[0].to(cost.dtype)


def mixture_cost(
    hypotheses: Hypotheses,
    targets: Float[Tensor, "*batch targets dim"],
    active: Bool[Tensor, "*batch targets"] | None = None,
    *,
    distance: Distance = euclidean,
    target_weights: Float[Tensor, "*batch targets"] | None = None,
) -> tuple[Float[Tensor, "*batch"], Bool[Tensor, "*batch"]]:
    """`emd` with value and gradient 0 where there is nothing to reach, and the mask of the items that count.

    An item counts if it has an active target (with a positive weight, where `target_weights` are given).
    """
    cost, active = cost_matrix(hypotheses.points, targets, active, distance=distance)
    mass = active.to(cost.dtype)
    if target_weights is not None:
        if target_weights.shape != active.shape:
            raise ValueError(
                f"target_weights must be {tuple(active.shape)}, got {tuple(target_weights.shape)}"
            )
        mass = target_weights.masked_fill(~active, 0)
    valid = (mass != 0).any(-1)
    first = torch.arange(mass.shape[-1], device=mass.device) == 0
    mass = mass.masked_fill(first & ~valid[..., None], 1)
    return transport_cost(cost, mass, hypotheses.probs).masked_fill(~valid, 0), valid


def emd(
    hypotheses: Hypotheses,
    targets: Float[Tensor, "*batch targets dim"],
    active: Bool[Tensor, "*batch targets"] | None = None,
    *,
    distance: Distance = euclidean,
    target_weights: Float[Tensor, "*batch targets"] | None = None,
) -> Float[Tensor, "*batch"]:
    """The exact Earth Mover's Distance between the mixture of each item and its active targets.

    `W_1(sum_k probs_k δ(points_k), sum_m w_m δ(targets_m))`, with equal weights `w` unless `target_weights`
    are given, which are normalised over the active targets. NaN for an item with no active target, so that a
    mean over items is a `nanmean`.

    >>> h = Hypotheses(torch.tensor([[0.0], [1.0]]))
    >>> emd(h, torch.tensor([[0.0], [3.0]]))
    tensor(1.)
    """
    value, valid = mixture_cost(hypotheses, targets, active, distance=distance, target_weights=target_weights)
    return value.masked_fill(~valid, torch.nan)


def oracle_error(
    hypotheses: Hypotheses,
    targets: Float[Tensor, "*batch targets dim"],
    active: Bool[Tensor, "*batch targets"] | None = None,
    *,
    distance: Distance = euclidean,
) -> Float[Tensor, "*batch"]:
    """The distance to the nearest hypothesis, averaged over the active targets of each item.

    `mean_m min_k distance(targets_m, points_k)`, whatever the scores. NaN for an item with no active target.

    >>> h = Hypotheses(torch.tensor([[0.0], [1.0]]))
    >>> oracle_error(h, torch.tensor([[0.0], [3.0]]))
    tensor(1.)
    """
    cost, active = cost_matrix(hypotheses.points, targets, active, distance=distance)
    return cost.amin(-1).masked_fill(~active, 0).sum(-1) / active.sum(-1)


@torch.library.custom_op("torchmcl::transport", mutates_args=())
def _transport(cost: Tensor, rows: Tensor, columns: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Value, plan and potentials; opaque to the compiler, as the steps depend on the data."""
    problem, flaw = _normalised(cost, rows, columns)
    plan, row_potential, column_potential = optimal_plan(*problem)
    plan = plan.reshape(cost.shape).contiguous()
    value = row_sum((plan * cost).flatten(-2)).squeeze(-1) + flaw
    return value, plan, row_potential.reshape(rows.shape), column_potential.reshape(columns.shape)


@torch.library.custom_op("torchmcl::transport_value", mutates_args=())
def _value(cost: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """The value alone, of small problems."""
    problem, flaw = _normalised(cost, rows, columns)
    finite = row_sum(0 * cost.flatten(-2)).squeeze(-1)
    return optimal_value(*problem).reshape(flaw.shape) + flaw + finite


def _normalised(cost: Tensor, rows: Tensor, columns: Tensor) -> tuple[tuple[Tensor, Tensor, Tensor], Tensor]:
    """The problem with weights that sum to one and a single batch axis, and NaN where they have no sum."""
    for name, weights in (("target_weights", rows), ("weights", columns)):
        if weights.numel() and weights.min() < 0:
            raise ValueError(f"{name} must not be negative, got {weights.min().item()}")
    n = cost.shape[:-2].numel()
    totals = row_sum(rows), row_sum(columns)
    parts = (cost, rows / totals[0], columns / totals[1])
    first, second, third = (part.reshape(n, *part.shape[cost.ndim - 2 :]) for part in parts)
    return (first, second, third), (0 / totals[0] + 0 / totals[1]).squeeze(-1)


@_transport.register_fake
def _(cost: Tensor, rows: Tensor, columns: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    return (
        cost.new_empty(cost.shape[:-2]),
        cost.new_empty(cost.shape),
        cost.new_empty(rows.shape),
        cost.new_empty(columns.shape),
    )


@_value.register_fake
def _(cost: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    return cost.new_empty(cost.shape[:-2])


@_transport.register_vmap
def _(
    info: Any, in_dims: tuple[int | None, ...], *values: Tensor
) -> tuple[tuple[Tensor, Tensor, Tensor, Tensor], tuple[int, int, int, int]]:
    return _transport(*_batch_first(info, in_dims, values)), (0, 0, 0, 0)


@_value.register_vmap
def _(info: Any, in_dims: tuple[int | None, ...], *values: Tensor) -> tuple[Tensor, int]:
    return _value(*_batch_first(info, in_dims, values)), 0


def _batch_first(info: Any, in_dims: tuple[int | None, ...], values: tuple[Tensor, ...]) -> list[Tensor]:
    return [
        value.expand(info.batch_size, *value.shape) if dim is None else value.movedim(dim, 0)
        for value, dim in zip(values, in_dims, strict=True)
    ]


class _Transport(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(cost: Tensor, rows: Tensor, columns: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        return _transport(cost, rows, columns)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: tuple[Tensor, ...]) -> None:
        ctx.mark_non_differentiable(*output[1:])
        ctx.save_for_backward(*inputs, *output[1:])

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return _gradients(gradients[0], *ctx.saved_tensors)


class _Value(torch.autograd.Function):
    """Finds the plan only if a gradient is asked for after all, as a transform of `torch.func` may do."""

    generate_vmap_rule = True

    @staticmethod
    def forward(cost: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
        return _value(cost, rows, columns)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        _, *optimum = _Transport.apply(*ctx.saved_tensors)
        return _gradients(gradients[0], *ctx.saved_tensors, *optimum)


def _gradients(
    gradient: Tensor,
    cost: Tensor,
    rows: Tensor,
    columns: Tensor,
    plan: Tensor,
    row_potential: Tensor,
    column_potential: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    row_reach = (cost - column_potential[..., None, :]).amin(-1)
    column_reach = (cost - row_potential[..., :, None]).amin(-2)
    each = gradient[..., None]
    return (
        each[..., None] * plan,
        each * _slope(torch.where(row_potential.isnan(), row_reach, row_potential), rows),
        each * _slope(torch.where(column_potential.isnan(), column_reach, column_potential), columns),
    )


def _slope(potential: Tensor, weights: Tensor) -> Tensor:
    """The derivative in weights that are divided by their total: blind to a constant in the potential."""
    total = weights.sum(-1, keepdim=True)
    return (potential - (potential * weights).sum(-1, keepdim=True) / total) / total
