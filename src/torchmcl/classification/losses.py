"""The confident oracle loss: winners learn their labels, losers learn that they do not know."""

import math

import torch
from jaxtyping import Bool, Float, Shaped
from torch import Tensor

from torchmcl.assignment import Assign, assigned, winner_takes_all
from torchmcl.classification.labels import class_targets
from torchmcl.distances import cross_entropy, pairwise
from torchmcl.energy import active_mean
from torchmcl.errors import check_number
from torchmcl.hypotheses import Hypotheses

__all__ = ["cmcl_loss"]

LARGEST_BETA = 1e30


def cmcl_loss(
    hypotheses: Hypotheses,
    labels: Shaped[Tensor, "..."],
    active: Bool[Tensor, "..."] | None = None,
    *,
    beta: float,
    assign: Assign = winner_takes_all,
    stochastic: bool = False,
) -> Float[Tensor, ""]:
    r"""Confident MCL (Lee et al. 2017): the cross-entropy of the winner, and the divergence of the others from uniform.

    .. math:: \min_k \left[ -\log P_k(y) + \beta \sum_{j \ne k} \mathrm{KL}(U \,\|\, P_j) \right],
              \qquad P_k = \mathrm{softmax}(f_k)

    The winner is the hypothesis that makes the whole expression least. Without the second term (`beta=0`) it is
    `mcl_loss` with the distance `cross_entropy`, whose losers are overconfident about classes that they never learned.

    Args:
        hypotheses: Class logits: points `(*batch, hypotheses, classes)`. Scores are left aside.
        labels: Integers `(*batch,)` or `(*batch, targets)`, or probabilities, as in `class_targets`.
        active: Which labels exist; all of them if `None`.
        beta: The weight of the divergence; 0.75 in the paper's experiments, and 0.25 to 1 are level here.
        assign: Which hypotheses learn from a label; it sees the costs less the divergence that each would be spared.
        stochastic: Estimate the divergence by one label for each loser, drawn uniformly (stochastic labeling). Its
            expectation is the exact loss; winners are found by the exact loss.

    Returns:
        The average over active labels; 0 where there are none.

    Example:
        >>> h = Hypotheses(torch.tensor([[2.0, 0.0], [0.0, 0.0]]))
        >>> cmcl_loss(h, torch.tensor(0), beta=1.0)
        tensor(0.1269)
    """
    check_number("beta", beta, 0, LARGEST_BETA)
    if not isinstance(stochastic, bool):
        raise TypeError(f"stochastic must be True or False, got {type(stochastic).__name__}")
    if not callable(assign):
        raise TypeError(f"assign must be a function of the cost, got {type(assign).__name__}")
    beta = float(beta)
    targets, active = class_targets(hypotheses, labels, active)
    cost = pairwise(hypotheses.points, targets, cross_entropy)
    # KL(U || P) = -mean_c log P(c) - log C; the same for every label of an item
    surprise = -hypotheses.points.log_softmax(-1)[..., None, :, :]
    uniform = math.log(hypotheses.dim)
    divergence = surprise.mean(-1) - uniform
    weights = assigned(assign, (cost - beta * divergence).detach()).weights
    if stochastic:
        drawn = torch.randint(hypotheses.dim, (*cost.shape, 1), device=cost.device)
        divergence = surprise.expand(*cost.shape, -1).gather(-1, drawn).squeeze(-1) - uniform
    each = (weights * cost + beta * (1 - weights) * divergence).sum(-1)
    return active_mean(each, active)
