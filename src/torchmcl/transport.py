"""How far hypotheses are from the targets: exact batched optimal transport, and the distance to the nearest."""

from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from torchmcl.distances import Distance, cost_matrix, euclidean
from torchmcl.hypotheses import Hypotheses
from torchmcl.plans import optimal_plan

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
    precise = torch.float32 if cost.device.type == "mps" else torch.float64
    problem = cost.to(precise), target_weights.to(precise), weights.to(precise)
    plan, row_potential, column_potential = _transport(*(value.detach() for value in problem))
    value = (plan * problem[0]).sum((-2, -1))
    for raw, potential in ((problem[1], row_potential), (problem[2], column_potential)):
        if raw.requires_grad:
            share = _normalise(raw)
            value = value + ((share - share.detach()) * potential).sum(-1)
    return value.to(cost.dtype)


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
    mass = mass.masked_fill(~valid[..., None], 1)
    cost = cost.masked_fill(~valid[..., None, None], 0)
    return transport_cost(cost, mass, hypotheses.probs), valid


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
    """The distance from an active target to the nearest hypothesis, averaged over the active targets of an item.

    `mean_m min_k distance(targets_m, points_k)`, whatever the scores. NaN for an item with no active target.

    >>> h = Hypotheses(torch.tensor([[0.0], [1.0]]))
    >>> oracle_error(h, torch.tensor([[0.0], [3.0]]))
    tensor(1.)
    """
    cost, active = cost_matrix(hypotheses.points, targets, active, distance=distance)
    return cost.amin(-1).masked_fill(~active, 0).sum(-1) / active.sum(-1)


def _normalise(weights: Tensor) -> Tensor:
    return weights / weights.sum(-1, keepdim=True)


@torch.library.custom_op("torchmcl::transport", mutates_args=())
def _transport(cost: Tensor, rows: Tensor, columns: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Plan, row potentials and column potentials; opaque to the compiler, as the steps depend on the data."""
    for name, weights in (("target_weights", rows), ("weights", columns)):
        if (weights < 0).any():
            raise ValueError(f"{name} must not be negative, got {weights.min().item()}")
    n = cost.shape[:-2].numel()
    flat = [cost.reshape(n, *cost.shape[-2:])]
    flat += [_normalise(weights).reshape(n, weights.shape[-1]) for weights in (rows, columns)]
    broken = ~torch.stack([value.flatten(1).sum(-1) for value in flat]).sum(0).isfinite()
    if broken.any():
        flat = [value.masked_fill(broken.view(n, *[1] * (value.ndim - 1)), 0) for value in flat]
    plan, row_potential, column_potential = optimal_plan(*flat)
    plan = plan.masked_fill(broken[:, None, None], torch.nan)
    return (
        plan.reshape(cost.shape),
        row_potential.reshape(rows.shape),
        column_potential.reshape(columns.shape),
    )


@_transport.register_fake
def _(cost: Tensor, rows: Tensor, columns: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return (
        torch.empty_like(cost, memory_format=torch.contiguous_format),
        torch.empty_like(rows, memory_format=torch.contiguous_format),
        torch.empty_like(columns, memory_format=torch.contiguous_format),
    )


@_transport.register_vmap
def _(
    info: Any, in_dims: tuple[int | None, ...], *values: Tensor
) -> tuple[tuple[Tensor, Tensor, Tensor], tuple[int, int, int]]:
    first = [
        value.expand(info.batch_size, *value.shape) if dim is None else value.movedim(dim, 0)
        for value, dim in zip(values, in_dims, strict=True)
    ]
    return _transport(*first), (0, 0, 0)
