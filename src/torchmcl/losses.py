"""The losses of Multiple Choice Learning; means over what takes part, so none depends on the batch's size."""

from itertools import permutations

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.functional import softplus

from torchmcl.assignment import Assign, assigned, best_index, mask_of, winner_takes_all
from torchmcl.distances import Distance, check_shapes, cost_matrix, euclidean, pairwise, present
from torchmcl.energy import active_mean, average
from torchmcl.errors import (
    check_bools,
    check_callable,
    check_flag,
    check_floats,
    check_integer,
    check_nonnegative,
    check_number,
    check_shape,
    check_tensor,
)
from torchmcl.hypotheses import Hypotheses, check_hypotheses
from torchmcl.transport import mixture_cost

__all__ = ["cell_loss", "mcl_loss", "pit_loss", "rmcl_loss", "scoring_loss", "transport_loss"]

ENUMERATED_SOURCES = 4
"""Up to so many sources, `pit_loss` tries all permutations (24) at once; above, the Hungarian method is faster."""


def mcl_loss(
    hypotheses: Hypotheses,
    targets: Float[Tensor, "*batch targets dim"],
    active: Bool[Tensor, "*batch targets"] | None = None,
    *,
    distance: Distance = euclidean,
    assign: Assign = winner_takes_all,
    best_target_only: bool = False,
) -> Float[Tensor, ""]:
    """The distance of each active target to the hypotheses that `assign` gives it (eq. 2), averaged over targets.

    Args:
        hypotheses: K points; scores play no part.
        targets: `(*batch, targets, dim)`.
        active: Which targets exist, `(*batch, targets)`; all of them if `None`.
        distance: Between points.
        assign: The rule that gives targets to hypotheses.
        best_target_only: Whether each item learns from one target alone, the one that costs least: the rule of the
            baselines with a single hypothesis.

    Returns:
        The mean over active targets; 0 where there are none.

    Example:
        >>> h = Hypotheses(torch.tensor([[0.0], [10.0]]))
        >>> mcl_loss(h, torch.tensor([[1.0], [12.0]]))
        tensor(1.5000)
    """
    check_hypotheses(hypotheses)
    check_flag("best_target_only", best_target_only)
    each, _, active = _assigned(hypotheses.points, targets, active, distance, assign)
    if best_target_only:
        if not active.shape[-1]:
            return active_mean(each, active)
        best = best_index(each.masked_fill(~active, torch.inf))
        active = active & mask_of(best, active)
    return active_mean(each, active)


def scoring_loss(
    logits: Float[Tensor, "*batch hypotheses"],
    positive: Bool[Tensor, "*batch hypotheses"],
    *,
    negatives: int | None = None,
    reweight: bool = True,
) -> Float[Tensor, ""]:
    """Binary cross-entropy of each score against "is this hypothesis a winner" (eq. 6), averaged over the heads.

    Args:
        logits: `(*batch, hypotheses)`.
        positive: Which hypotheses are winners, `(*batch, hypotheses)`.
        negatives: How many of the non-winners take part, drawn uniformly for each item; all of them if `None`.
        reweight: Whether each drawn one stands for all that it was drawn from, so that the expected loss is that of
            all negatives. Without, as in the paper, scores come out too high.

    Returns:
        The mean over the heads that take part.

    Example:
        >>> scoring_loss(torch.tensor([20.0, -20.0]), torch.tensor([True, False])).round()
        tensor(0.)
    """
    check_floats("logits", logits, "*batch hypotheses")
    check_bools("positive", positive, logits.shape, "like logits")
    return _scoring(logits, positive.to(logits.dtype), negatives, reweight)


def cell_loss(
    logits: Float[Tensor, "*batch hypotheses"], mass: Float[Tensor, "*batch hypotheses"]
) -> Float[Tensor, ""]:
    """Cross-entropy of `softmax(logits)` against `mass`, the share of an item's targets in each cell.

    An item whose `mass` is 0 everywhere has no targets and does not count.

    Args:
        logits: `(*batch, hypotheses)`.
        mass: `(*batch, hypotheses)`, not negative.

    Returns:
        The mean over the items that have targets; 0 where there are none.

    Example:
        >>> cell_loss(torch.zeros(4), torch.tensor([0.5, 0.5, 0.0, 0.0]))
        tensor(1.3863)
    """
    check_floats("logits", logits, "*batch hypotheses")
    check_floats("mass", mass)
    check_shape("mass", mass, logits.shape, "like logits")
    check_nonnegative("mass", mass)
    return _cell_entropy(logits, mass)


def _cell_entropy(logits: Tensor, mass: Tensor) -> Tensor:
    # A pruned hypothesis without a target contributes nothing: not 0 times infinity.
    entropy = -(mass * logits.log_softmax(-1)).masked_fill(mass == 0, 0).sum(-1)
    return average(entropy, (mass.sum(-1) > 0).sum().clamp(min=1))


def rmcl_loss(
    hypotheses: Hypotheses,
    targets: Float[Tensor, "*batch targets dim"],
    active: Bool[Tensor, "*batch targets"] | None = None,
    *,
    distance: Distance = euclidean,
    assign: Assign = winner_takes_all,
    beta: float = 1.0,
    negatives: int | None = None,
    reweight: bool = True,
) -> Float[Tensor, ""]:
    """Resilient MCL: `mcl_loss` plus `beta` times the loss of the scores.

    The scores learn by `scoring_loss` when the link of the hypotheses is `"sigmoid"` and by `cell_loss` when it
    is `"softmax"`. An item without active targets contributes negatives to the former and nothing to the latter.

    Args:
        hypotheses: K points with scores.
        targets: `(*batch, targets, dim)`.
        active: Which targets exist, `(*batch, targets)`; all of them if `None`.
        distance: Between points.
        assign: The rule that gives targets to hypotheses.
        beta: The weight of the scores. `scoring_loss` is a mean over hypotheses: where there are many, a `beta` in
            proportion keeps the weight of each score.
        negatives: As in `scoring_loss`; `None` with the link `"softmax"`.
        reweight: As in `scoring_loss`.

    Returns:
        The loss of the points plus `beta` times the loss of the scores.

    Example:
        >>> h = Hypotheses(torch.tensor([[0.0], [10.0]]), torch.tensor([20.0, -20.0]))
        >>> rmcl_loss(h, torch.tensor([[1.0]])).round(decimals=4)
        tensor(1.)
    """
    check_hypotheses(hypotheses)
    if hypotheses.logits is None:
        raise ValueError("hypotheses have no scores: rmcl_loss needs logits, mcl_loss works without")
    check_number("beta", beta, 0, finite=True)
    most = torch.finfo(torch.promote_types(hypotheses.points.dtype, hypotheses.logits.dtype)).max
    if beta > most:
        raise ValueError(f"beta must be at most {most:g} in this dtype, got {beta}")
    each, won, active = _assigned(hypotheses.points, targets, active, distance, assign)
    if hypotheses.link == "sigmoid":
        positive = won.clamp(max=1).to(hypotheses.logits.dtype)
        scoring = _scoring(hypotheses.logits, positive, negatives, reweight)
    elif negatives is not None:
        raise ValueError(
            f"negatives must be None with link 'softmax', which has no negatives to draw; got {negatives}"
        )
    else:
        won = won.to(torch.promote_types(hypotheses.logits.dtype, torch.float32))
        mass = won / won.sum(-1, keepdim=True).clamp(min=1)
        scoring = _cell_entropy(hypotheses.logits, mass.to(hypotheses.logits.dtype))
    return torch.add(active_mean(each, active), scoring, alpha=float(beta))


def transport_loss(
    hypotheses: Hypotheses,
    targets: Float[Tensor, "*batch targets dim"],
    active: Bool[Tensor, "*batch targets"] | None = None,
    *,
    distance: Distance = euclidean,
) -> Float[Tensor, ""]:
    """The exact Earth Mover's Distance between prediction and targets, averaged over the items that have targets.

    Differentiable almost everywhere in the points (the gradient is the optimal plan) and in the scores (the dual
    potentials). It adds to `mcl_loss` and `scoring_loss` by plain addition.

    Right where the active targets of an input are its whole answer, as in localization. Wrong where an input
    carries one sample of a distribution: the expected transport cost to a single target is least when all
    hypotheses sit at the median, and so they collapse. Use `energy_loss` or `rmcl_loss` there.

    Args:
        hypotheses: K points with scores.
        targets: `(*batch, targets, dim)`.
        active: Which targets exist, `(*batch, targets)`; all of them if `None`.
        distance: Between points.

    Returns:
        The mean over the items that have an active target; 0 where there are none.

    Example:
        >>> h = Hypotheses(torch.tensor([[0.0], [10.0]]))
        >>> transport_loss(h, torch.tensor([[0.0], [10.0]]))
        tensor(0.)
    """
    cost, valid = mixture_cost(hypotheses, targets, active, distance=distance)
    return average(cost * valid, valid.sum().clamp(min=1))


def pit_loss(
    points: Float[Tensor, "*batch slots dim"],
    activity_logits: Float[Tensor, "*batch slots"],
    targets: Float[Tensor, "*batch slots dim"],
    active: Bool[Tensor, "*batch slots"],
    *,
    distance: Distance = euclidean,
) -> Float[Tensor, ""]:
    """Permutation invariant training (eq. 13): slots and targets are matched at the least total cost.

    A match costs the cross-entropy of the slot's activity plus, where the target is active, the distance: one
    permutation for both terms.

    Args:
        points: One for each slot, `(*batch, slots, dim)`.
        activity_logits: Whether each slot is active, before the sigmoid, `(*batch, slots)`.
        targets: `(*batch, slots, dim)`.
        active: Which targets exist, `(*batch, slots)`.
        distance: Between points.

    Returns:
        The mean cross-entropy over slots plus the mean distance over active targets, of the matched pairs; 0 for an
        empty batch.

    Example:
        >>> points, there = torch.tensor([[0.0], [10.0]]), torch.tensor([20.0, 20.0])
        >>> pit_loss(points, there, points.flip(0), torch.tensor([True, True])).round(decimals=4)
        tensor(0.)
    """
    check_tensor("active", active)
    check_shapes(points, targets, active, "points have")
    if targets.shape != points.shape:
        raise ValueError(
            f"targets must be {tuple(points.shape)}, one for each slot, got {tuple(targets.shape)}"
        )
    check_floats("activity_logits", activity_logits)
    check_shape("activity_logits", activity_logits, points.shape[:-1], "for these points")
    geometry, active = cost_matrix(points, targets, active, distance=distance)
    geometry = geometry * active[..., None]
    logits = activity_logits[..., None, :]
    activity = softplus(torch.where(active[..., None], -logits, logits))
    slots = _match((geometry + activity).detach())[..., None]
    matched_geometry = geometry.take_along_dim(slots, -1)
    matched_activity = activity.take_along_dim(slots, -1)
    mean_activity = average(matched_activity, max(matched_activity.numel(), 1))
    return mean_activity + average(matched_geometry, active.sum().clamp(min=1))


def _assigned(
    points: Tensor, targets: Tensor, active: Tensor | None, distance: Distance, assign: Assign
) -> tuple[Tensor, Tensor, Tensor]:
    """What each target costs under `assign`, how many active ones each hypothesis won, and which are active."""
    check_callable("assign", assign, "a rule such as winner_takes_all")
    targets, active = present(points, targets, active)
    if assign is not winner_takes_all:
        cost = pairwise(points, targets, distance)
        weights, winners = assigned(assign, cost)
        return (weights * cost).sum(-1), (winners & active[..., None]).sum(-2), active
    # Only winners have a gradient: measuring them once more is cheaper than a graph over all pairs.
    with torch.no_grad():
        best = best_index(pairwise(points, targets, distance))
        # Whole numbers: bfloat16 cannot count beyond 256.
        won = torch.zeros(points.shape[:-1], dtype=torch.long, device=points.device)
        won = won.scatter_add_(-1, best.squeeze(-1), active.long())
    return distance(targets, points.gather(-2, best.expand(targets.shape))), won, active


def _scoring(logits: Tensor, positive: Tensor, negatives: int | None, reweight: bool) -> Tensor:
    """`scoring_loss` with `positive` as numbers, 1 or 0."""
    check_flag("reweight", reweight)
    if negatives is not None:
        check_integer("negatives", negatives)
    sign = torch.rsub(positive, 1, alpha=2)  # 1 - 2 * positive in one operation
    entropy = softplus(logits * sign)
    if negatives is None:
        return average(entropy, max(entropy.numel(), 1))
    drawn, available = _draw(positive == 0, negatives)
    if reweight:
        drawn = drawn * (available / available.clamp(1, negatives)).to(logits.dtype)
    share = positive + drawn
    return average(
        share * entropy, share.sum(dtype=torch.promote_types(share.dtype, torch.float32)).clamp(min=1)
    )


def _draw(candidates: Tensor, n: int) -> tuple[Tensor, Tensor]:
    """A mask of `n` distinct candidates for each row, of all where there are fewer, and how many there were."""
    rank = candidates.cumsum(-1)
    available = rank[..., -1:]
    if n == 1:
        chosen = (torch.rand(available.shape, device=candidates.device) * available).floor() + 1
        return candidates & (rank == chosen), available
    keys = torch.rand(candidates.shape, device=candidates.device).masked_fill(~candidates, -1)
    best = keys.topk(min(n, keys.shape[-1]), dim=-1, sorted=False).indices
    return candidates & mask_of(best, candidates), available


def _match(cost: Tensor) -> Tensor:
    """The slot of each target in the cheapest permutation of `cost (*batch, targets, slots)`."""
    sources = cost.shape[-1]
    if sources <= ENUMERATED_SOURCES:
        orders = torch.tensor(list(permutations(range(sources))), dtype=torch.long, device=cost.device)
        each = cost[..., None, :, :].take_along_dim(orders[..., None].expand(*cost.shape[:-2], -1, -1, 1), -1)
        return orders[each.squeeze(-1).sum(-1).argmin(-1)]
    from scipy.optimize import linear_sum_assignment

    # A NaN has no cheapest permutation; any will do, for it makes the loss NaN.
    matrices = cost.nan_to_num().reshape(-1, sources, sources).double().cpu().numpy()
    slots = np.array([linear_sum_assignment(matrix)[1] for matrix in matrices], dtype=np.int64)
    return torch.from_numpy(slots.reshape(cost.shape[:-1])).to(cost.device)
