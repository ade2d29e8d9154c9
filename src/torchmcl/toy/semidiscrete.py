"""The EMD between a few weighted points and a density on a fine grid, by its dual.

`max_v  sum_k w_k v_k + sum_j m_j min_k (c_jk - v_k)` has one variable for each point, where the plan has one for
each pair. The minimum is smoothed, `-eps log sum_k exp((v_k - c_jk) / eps)`, and maximized by Newton's method
while `eps` falls. The value is that of the dual itself at the end: never above the EMD, and below it by
less than what is worth writing down. It also takes hypotheses that all but coincide, where the network simplex
takes seconds for each problem.
"""

import torch
from jaxtyping import Float
from torch import Tensor

__all__ = ["dual_emd"]

SMOOTHINGS = (0.1, 0.02, 0.004, 8e-4, 1.6e-4)
NEWTON_STEPS = 30
BALANCED = 1e-5
"""The mass that a cell may be off at the end; on the way there, a hundredth of a cell's share will do."""


def dual_emd(
    cost: Float[Tensor, "places hypotheses"],
    mass: Float[Tensor, "places"],
    weights: Float[Tensor, "hypotheses"],
) -> Float[Tensor, ""]:
    """The transport cost between `mass` and `weights`, each divided by its total; points without weight take no part.

    Args:
        cost: Distances, `(places, hypotheses)`.
        mass: Of the places.
        weights: Of the hypotheses.

    Returns:
        The transport cost.

    >>> cost = torch.tensor([[0.0, 2.0], [2.0, 0.0]], dtype=torch.float64)
    >>> dual_emd(cost, torch.tensor([0.5, 0.5]).double(), torch.tensor([0.75, 0.25]).double())
    tensor(0.5000, dtype=torch.float64)
    """
    there, reached = mass > 0, weights > 0
    cost, mass, weights = cost[there][:, reached], mass[there], weights[reached]
    mass, weights = mass / mass.sum(), weights / weights.sum()
    potential = cost.amin(0)
    for smoothing in SMOOTHINGS:
        tolerance = BALANCED if smoothing == SMOOTHINGS[-1] else 0.01 / len(weights)
        for _ in range(NEWTON_STEPS):
            value, gradient, curvature = _smoothed(potential, cost, mass, weights, smoothing)
            if gradient.abs().max() < tolerance:
                break
            # The dual does not change when all potentials do: the ridge makes the system regular.
            ridge = 1e-3 * gradient.norm() / smoothing + 1e-9
            curvature = curvature + ridge * torch.eye(len(weights), dtype=cost.dtype)
            step = torch.linalg.solve(curvature, gradient)
            length = _line_search(potential, step, value, gradient, (cost, mass, weights), smoothing)
            if length == 0:
                break
            potential = potential + length * step
    return weights @ potential + mass @ (cost - potential).amin(-1)


def _smoothed(
    potential: Tensor, cost: Tensor, mass: Tensor, weights: Tensor, smoothing: float
) -> tuple[Tensor, Tensor, Tensor]:
    """The smoothed dual, its gradient, and the negative of its second derivatives."""
    scaled = (potential - cost) / smoothing
    highest = scaled.logsumexp(-1, keepdim=True)
    share = (scaled - highest).exp()
    plan = mass[:, None] * share
    cells = plan.sum(0)
    value = weights @ potential - smoothing * (mass @ highest[:, 0])
    return value, weights - cells, (cells.diag() - share.T @ plan) / smoothing


def _line_search(
    potential: Tensor,
    step: Tensor,
    value: Tensor,
    gradient: Tensor,
    problem: tuple[Tensor, Tensor, Tensor],
    smoothing: float,
) -> float:
    """The first of 1, 1/4, 1/16, ... along which the smoothed dual rises enough; 0 when none does."""
    cost, mass, weights = problem
    slope = gradient @ step
    for halvings in range(8):
        length = 0.25**halvings
        there = potential + length * step
        reached = weights @ there - smoothing * (mass @ ((there - cost) / smoothing).logsumexp(-1))
        if reached >= value + 1e-4 * length * slope:
            return length
    return 0.0
