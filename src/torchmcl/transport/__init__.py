"""How far hypotheses are from targets: exact batched optimal transport, and the distance to the nearest."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from torchmcl.distances import Distance, cost_matrix, euclidean
from torchmcl.energy import average
from torchmcl.errors import check_floats, check_shape
from torchmcl.hypotheses import Hypotheses, check_hypotheses
from torchmcl.transport._autograd import transport_value

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

    Args:
        cost: The distance of each target to each hypothesis, `(*batch, targets, hypotheses)`.
        target_weights: The mass of each target, `(*batch, targets)`, not negative.
        weights: The mass of each hypothesis, `(*batch, hypotheses)`, not negative.

    Returns:
        The least costs `(*batch)`.

    Example:
        >>> cost = torch.tensor([[0.0, 2.0], [2.0, 0.0]])
        >>> transport_cost(cost, torch.tensor([0.5, 0.5]), torch.tensor([0.75, 0.25]))
        tensor(0.5000)
    """
    check_floats("cost", cost, "*batch targets hypotheses")
    for name, value, size in (
        ("target_weights", target_weights, cost.shape[-2]),
        ("weights", weights, cost.shape[-1]),
    ):
        check_floats(name, value)
        check_shape(name, value, (*cost.shape[:-2], size), "for this cost")
    return transport_value(cost, target_weights, weights)


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

    Args:
        hypotheses: K points with scores.
        targets: `(*batch, targets, dim)`.
        active: Which targets exist, `(*batch, targets)`; all of them if `None`.
        distance: Between points.
        target_weights: The mass of each target, `(*batch, targets)`; equal if `None`.

    Returns:
        The distances `(*batch)` and the mask `(*batch)`.
    """
    check_hypotheses(hypotheses)
    cost, active = cost_matrix(hypotheses.points, targets, active, distance=distance)
    if not cost.shape[-2]:
        # Nothing to reach: 0, in the graph of points and scores.
        return cost.sum((-2, -1)) + 0 * hypotheses.probs.sum(-1), active.any(-1)
    mass = active.to(cost.dtype)
    if target_weights is not None:
        check_floats("target_weights", target_weights)
        check_shape("target_weights", target_weights, active.shape)
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
    are given, which are normalized over the active targets. NaN for an item with no active target, so that a
    mean over items is a `nanmean`.

    Args:
        hypotheses: K points with scores.
        targets: `(*batch, targets, dim)`.
        active: Which targets exist, `(*batch, targets)`; all of them if `None`.
        distance: Between points.
        target_weights: The mass of each target, `(*batch, targets)`; equal if `None`.

    Returns:
        The distances `(*batch)`.

    Example:
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

    Args:
        hypotheses: K points.
        targets: `(*batch, targets, dim)`.
        active: Which targets exist, `(*batch, targets)`; all of them if `None`.
        distance: Between points.

    Returns:
        The errors `(*batch)`.

    Example:
        >>> h = Hypotheses(torch.tensor([[0.0], [1.0]]))
        >>> oracle_error(h, torch.tensor([[0.0], [3.0]]))
        tensor(1.)
    """
    check_hypotheses(hypotheses)
    cost, active = cost_matrix(hypotheses.points, targets, active, distance=distance)
    return average(cost.amin(-1).masked_fill(~active, 0), active.sum(-1), (-1,))
