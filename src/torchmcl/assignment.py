"""Which hypotheses learn from which target: rules that are functions of the cost alone."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from torchmcl.errors import check_bools, check_floats, check_integer, check_number, check_shape

__all__ = ["Assign", "Assignment", "annealed", "assigned", "relaxed", "top_n", "winner_takes_all"]


class Assignment(NamedTuple):
    """How much each hypothesis learns from each target, and which of them count as its winners for the scores.

    `weights` sum to 1 over hypotheses.

    >>> weights, winners = winner_takes_all(torch.tensor([[3.0, 1.0]]))
    >>> weights, winners
    (tensor([[0., 1.]]), tensor([[False,  True]]))
    """

    weights: Float[Tensor, "*batch targets hypotheses"]
    winners: Bool[Tensor, "*batch targets hypotheses"]


Assign = Callable[[Tensor], Assignment]
"""A rule: cost `(*batch, targets, hypotheses)` to `Assignment`. Bind its options with `functools.partial`."""


def winner_takes_all(cost: Float[Tensor, "*batch targets hypotheses"]) -> Assignment:
    """Only the best hypothesis learns from a target (eq. 2); of equals, the one with the lowest index.

    Args:
        cost: The cost of each hypothesis for each target, `(*batch, targets, hypotheses)`.

    Returns:
        Weights and winners.

    Example:
        >>> winner_takes_all(torch.tensor([[3.0, 1.0, 1.0]])).weights
        tensor([[0., 1., 0.]])
    """
    _check_cost(cost)
    winners = mask_of(best_index(cost), cost)
    return Assignment(winners.to(cost.dtype), winners)


def top_n(cost: Float[Tensor, "*batch targets hypotheses"], n: int) -> Assignment:
    """The `n` best hypotheses learn from a target in equal shares, and all of them count as winners.

    Args:
        cost: The cost of each hypothesis for each target, `(*batch, targets, hypotheses)`.
        n: From 1 to the number of hypotheses.

    Returns:
        Weights and winners.

    Example:
        >>> top_n(torch.tensor([[3.0, 1.0, 2.0]]), n=2).weights
        tensor([[0.0000, 0.5000, 0.5000]])
    """
    _check_cost(cost)
    check_integer("n", n)
    if not 1 <= n <= cost.shape[-1]:
        raise ValueError(f"n must be between 1 and the number of hypotheses {cost.shape[-1]}, got {n}")
    best = cost.detach().sort(dim=-1, stable=True).indices[..., :n]
    winners = mask_of(best, cost)
    return Assignment(winners.to(cost.dtype) / n, winners)


def relaxed(cost: Float[Tensor, "*batch targets hypotheses"], epsilon: float) -> Assignment:
    """The best hypothesis learns with weight `1 - epsilon`, the others share `epsilon`; only the best is a winner.

    Args:
        cost: The cost of each hypothesis for each target, `(*batch, targets, hypotheses)`.
        epsilon: From 0 to 1.

    Returns:
        Weights and winners.

    Example:
        >>> relaxed(torch.tensor([[3.0, 1.0, 2.0]]), epsilon=0.5).weights
        tensor([[0.2500, 0.5000, 0.2500]])
    """
    _check_cost(cost)
    check_number("epsilon", epsilon, 0, 1)
    winners = mask_of(best_index(cost), cost)
    others = cost.shape[-1] - 1
    if others == 0:
        return Assignment(winners.to(cost.dtype), winners)
    share = torch.full_like(cost, epsilon / others, requires_grad=False)
    return Assignment(share.masked_fill(winners, 1 - epsilon), winners)


def annealed(cost: Float[Tensor, "*batch targets hypotheses"], temperature: float) -> Assignment:
    r"""Each hypothesis learns with a share that falls with its cost (annealed MCL); only the best is a winner.

    .. math:: w_k = \frac{\exp(-c_k / T)}{\sum_j \exp(-c_j / T)}

    The shares are constants for the gradient. A high temperature shares a target equally, which keeps hypotheses
    from collapsing; at 0 it is `winner_takes_all`. Lower it during training with a schedule.

    Args:
        cost: The cost of each hypothesis for each target, `(*batch, targets, hypotheses)`.
        temperature: T, at least 0, in the units of the cost.

    Returns:
        Weights and winners.

    Example:
        >>> annealed(torch.tensor([[2.0, 1.0, 1.0]]), temperature=1.0).weights
        tensor([[0.1554, 0.4223, 0.4223]])
    """
    _check_cost(cost)
    check_number("temperature", temperature, low=0)
    winners = mask_of(best_index(cost), cost)
    if temperature == 0:
        return Assignment(winners.to(cost.dtype), winners)
    excess = cost.detach() - cost.detach().amin(-1, keepdim=True)
    least = torch.finfo(cost.dtype).tiny  # below, the temperature would be 0 in this dtype
    return Assignment((-excess / max(float(temperature), least)).softmax(-1), winners)


def assigned(assign: Assign, cost: Float[Tensor, "*batch targets hypotheses"]) -> Assignment:
    """What a rule makes of the cost; an error that names `assign` if that is no assignment for this cost.

    Args:
        assign: The rule, which may be a user's.
        cost: `(*batch, targets, hypotheses)`.

    Returns:
        Weights and winners.
    """
    made = assign(cost)
    if not isinstance(made, tuple) or len(made) != 2:
        raise TypeError(f"assign must return Assignment(weights, winners), it returned {type(made).__name__}")
    check_floats("weights of assign", made[0])
    check_shape("weights of assign", made[0], cost.shape, "like the cost")
    check_bools("winners of assign", made[1], cost.shape, "like the cost")
    return Assignment(*made)


def _check_cost(cost: Tensor) -> None:
    check_floats("cost", cost, "*batch hypotheses")
    if cost.shape[-1] == 0:
        raise ValueError("cost holds no hypothesis: its last axis has length 0")


def best_index(cost: Float[Tensor, "*batch hypotheses"]) -> Int[Tensor, "*batch 1"]:
    """The index of the smallest cost; the lowest one of equals, and that of a NaN before any number.

    Args:
        cost: `(*batch, hypotheses)`.

    Returns:
        Indices `(*batch, 1)`.
    """
    return cost.detach().argmin(dim=-1, keepdim=True)


def mask_of(
    index: Int[Tensor, "*batch chosen"], like: Shaped[Tensor, "*batch hypotheses"]
) -> Bool[Tensor, "*batch hypotheses"]:
    """A mask that is true at the given positions of the last axis.

    Args:
        index: Positions `(*batch, chosen)`.
        like: A tensor `(*batch, hypotheses)`, for its shape.

    Returns:
        Booleans `(*batch, hypotheses)`.
    """
    return torch.zeros_like(like, dtype=torch.bool).scatter(-1, index, True)
