"""Transport as an operator: what the compiler, `torch.vmap` and autograd know about the solvers."""

from typing import Any

import torch
from torch import Tensor

from torchmcl.transport._dual import MOST_COLUMNS, optimal_value
from torchmcl.transport._plans import optimal_plan, row_sum

__all__ = ["transport_value"]


def transport_value(cost: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """The least cost `(*batch)` of problems `(*batch, rows, columns)`, differentiable in all three."""
    parts = cost, rows, columns
    learns = torch.is_grad_enabled() and any(part.requires_grad for part in parts)
    if not learns and cost.shape[-2] <= 3 and cost.shape[-1] <= MOST_COLUMNS:
        enough = torch.promote_types(cost.dtype, torch.float32)
        return _Value.apply(*(part.to(enough) for part in parts)).to(cost.dtype)
    precise = torch.float32 if cost.device.type == "mps" else torch.float64
    return _Transport.apply(*(part.to(precise) for part in parts))[0].to(cost.dtype)


@torch.library.custom_op("torchmcl::transport", mutates_args=())
def _transport(cost: Tensor, rows: Tensor, columns: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Value, plan and potentials; opaque to the compiler, as the steps depend on the data."""
    problem, flaw = _normalized(cost, rows, columns)
    plan, row_potential, column_potential = optimal_plan(*problem)
    plan = plan.reshape(cost.shape).contiguous()
    value = row_sum((plan * cost).flatten(-2)).squeeze(-1) + flaw
    return value, plan, row_potential.reshape(rows.shape), column_potential.reshape(columns.shape)


@torch.library.custom_op("torchmcl::transport_value", mutates_args=())
def _value(cost: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """The value alone, of small problems."""
    problem, flaw = _normalized(cost, rows, columns)
    finite = row_sum(0 * cost.flatten(-2)).squeeze(-1)
    return optimal_value(*problem).reshape(flaw.shape) + flaw + finite


def _normalized(cost: Tensor, rows: Tensor, columns: Tensor) -> tuple[tuple[Tensor, Tensor, Tensor], Tensor]:
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
