"""Measures of forecasts, one value for each pedestrian.

Futures are `(*batch, 12, 2)` in meters, hypotheses have points `(*batch, K, 24)`: x and y of each step in turn.
"""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from torchmcl.energy import energy_score
from torchmcl.hypotheses import Hypotheses

__all__ = [
    "binned_error",
    "brier_min_fde",
    "calibration_error",
    "calibration_floor",
    "collisions",
    "energy_displacement",
    "kernel_nll",
    "mean_displacement",
    "min_ade",
    "min_fde",
    "misses",
    "nearest",
    "single_answer",
]


def mean_displacement(
    x: Float[Tensor, "*#batch dim"], y: Float[Tensor, "*#batch dim"]
) -> Float[Tensor, "*#batch"]:
    """The distance of two futures averaged over their steps: the ADE as a distance of the losses and scores.

    Args:
        x: x and y of each step in turn.
        y: The same.

    Returns:
        Meters. A mean of Euclidean distances, so that `energy_score` with it is strictly proper for each step.

    Example:
        >>> mean_displacement(torch.tensor([0.0, 0.0, 0.0, 0.0]), torch.tensor([3.0, 4.0, 0.0, 1.0]))
        tensor(3.)
    """
    return (x - y).unflatten(-1, (-1, 2)).norm(dim=-1).mean(-1)


def _errors(hypotheses: Hypotheses, future: Tensor) -> Tensor:
    """`(*batch, K, steps)`, the distance of each hypothesis at each step."""
    if hypotheses.points.shape[-1] != 2 * future.shape[-2]:
        raise ValueError(
            f"future has {future.shape[-2]} steps, hypotheses have {hypotheses.points.shape[-1] / 2:g}"
        )
    return (hypotheses.points.unflatten(-1, (-1, 2)) - future[..., None, :, :]).norm(dim=-1)


def _best(error: Float[Tensor, "*batch hypotheses"], hypotheses: Hypotheses, k: int | None) -> Tensor:
    """The least error among the k most probable hypotheses; all if `None`."""
    if k is None or k >= hypotheses.n_hypotheses:
        return error.amin(-1)
    chosen = hypotheses.log_probs.topk(k, dim=-1).indices
    return error.take_along_dim(chosen, -1).amin(-1)


def min_ade(
    hypotheses: Hypotheses, future: Float[Tensor, "*batch steps 2"], k: int | None = None
) -> Float[Tensor, "*batch"]:
    """minADE_k: the mean distance over the steps of the best of the k most probable hypotheses.

    Args:
        hypotheses: K futures.
        future: What happened.
        k: How many of the most probable ones count; all by default.

    Returns:
        Meters.
    """
    return _best(_errors(hypotheses, future).mean(-1), hypotheses, k)


def min_fde(
    hypotheses: Hypotheses, future: Float[Tensor, "*batch steps 2"], k: int | None = None
) -> Float[Tensor, "*batch"]:
    """minFDE_k: the distance at the last step of the hypothesis that is best there, which may be another one.

    Args:
        hypotheses: K futures.
        future: What happened.
        k: How many of the most probable ones count; all by default.

    Returns:
        Meters.
    """
    return _best(_errors(hypotheses, future)[..., -1], hypotheses, k)


def misses(
    hypotheses: Hypotheses,
    future: Float[Tensor, "*batch steps 2"],
    k: int | None = None,
    threshold: float = 2.0,
) -> Bool[Tensor, "*batch"]:
    """Whether no hypothesis ends within 2 m of the truth; the mean is the miss rate.

    Args:
        hypotheses: K futures.
        future: What happened.
        k: How many of the most probable ones count; all by default.
        threshold: Meters.

    Returns:
        True where minFDE_k exceeds the threshold.
    """
    return min_fde(hypotheses, future, k) > threshold


def brier_min_fde(hypotheses: Hypotheses, future: Float[Tensor, "*batch steps 2"]) -> Float[Tensor, "*batch"]:
    """minFDE plus (1 - p)^2, where p is the probability of the hypothesis with that error (Argoverse).

    Args:
        hypotheses: K futures with scores.
        future: What happened.

    Returns:
        Meters plus a number between 0 and 1.
    """
    error, best = _errors(hypotheses, future)[..., -1].min(-1)
    return error + (1 - hypotheses.probs.take_along_dim(best[..., None], -1)[..., 0]).square()


def energy_displacement(
    hypotheses: Hypotheses, future: Float[Tensor, "*batch steps 2"]
) -> Float[Tensor, "*batch"]:
    """The energy score with `mean_displacement` as the distance: E d(X, y) - 1/2 E d(X, X').

    Args:
        hypotheses: K futures with scores.
        future: What happened.

    Returns:
        Meters; for a single hypothesis its ADE.
    """
    return energy_score(hypotheses, future.flatten(-2)[..., None, :], distance=mean_displacement)


def kernel_nll(
    hypotheses: Hypotheses,
    future: Float[Tensor, "*batch steps 2"],
    widths: Float[Tensor, "*batch steps"],
) -> Float[Tensor, "*batch"]:
    r"""Negative log-likelihood of the position at a step, averaged over the steps.

    The density at step t is :math:`\sum_k p_k\, \mathcal{N}(y_t; f_{k,t}, \sigma_t^2 I)`.

    Args:
        hypotheses: K futures with scores.
        future: What happened.
        widths: The standard deviation of the kernel at each step, meters.

    Returns:
        Nats, for densities per square meter.
    """
    variance = widths.square()[..., None, :]
    kernel = -_errors(hypotheses, future).square() / (2 * variance) - (2 * torch.pi * variance).log()
    return -(hypotheses.log_probs[..., None] + kernel).logsumexp(-2).mean(-1)


def nearest(hypotheses: Hypotheses, future: Float[Tensor, "*batch steps 2"]) -> Int[Tensor, "*batch"]:
    """Which hypothesis has the least mean distance: the one that its score should announce.

    Args:
        hypotheses: K futures.
        future: What happened.

    Returns:
        Indices; ties go to the lowest.
    """
    return _errors(hypotheses, future).mean(-1).argmin(-1)


def calibration_error(
    hypotheses: Hypotheses, future: Float[Tensor, "*batch steps 2"], bins: int = 20
) -> Float[Tensor, ""]:
    """Expected calibration error of the statement "this hypothesis is the nearest of the K".

    All pairs of a pedestrian and a hypothesis are sorted by probability into bins of equal size; the error is the
    mean over bins of the difference between the mean probability and the share of pairs that were the nearest.

    Args:
        hypotheses: K futures with scores.
        future: What happened.
        bins: Of equal size, because most of the K probabilities are small.

    Returns:
        Between 0 and 1.
    """
    stated = hypotheses.probs.reshape(-1, hypotheses.n_hypotheses)
    right = torch.zeros_like(stated).scatter_(1, nearest(hypotheses, future).reshape(-1, 1), 1.0)
    return binned_error(stated.flatten(), right.flatten(), bins)


def calibration_floor(hypotheses: Hypotheses, bins: int = 20, draws: int = 50) -> Float[Tensor, ""]:
    """The calibration error that exact probabilities would have by chance, for as many pedestrians.

    The nearest hypothesis of each pedestrian is drawn by the stated probabilities; the mean error of such draws is
    what a perfect forecaster has. Pedestrians are taken as independent.

    Args:
        hypotheses: K futures with scores.
        bins: As for `calibration_error`.
        draws: Over which the mean is taken, with random numbers of their own.

    Returns:
        Between 0 and 1.
    """
    stated = hypotheses.probs.reshape(-1, hypotheses.n_hypotheses).cpu()
    random = torch.Generator().manual_seed(0)
    winners = torch.multinomial(stated, draws, replacement=True, generator=random)
    errors = [
        binned_error(
            stated.flatten(), torch.zeros_like(stated).scatter_(1, each[:, None], 1.0).flatten(), bins
        )
        for each in winners.T
    ]
    return torch.stack(errors).mean()


def binned_error(
    stated: Float[Tensor, "statements"], right: Float[Tensor, "statements"], bins: int
) -> Float[Tensor, ""]:
    """The mean difference between stated probabilities and what came true, over bins of equal size.

    Args:
        stated: Probabilities.
        right: 1 where the statement was true, else 0.
        bins: Their number.

    Returns:
        Between 0 and 1; NaN without statements.
    """
    order = stated.argsort()
    gaps = [
        (stated[part].mean() - right[part].mean()).abs() * len(part)
        for part in order.tensor_split(bins)
        if len(part)
    ]
    return torch.stack(gaps).sum() / len(order) if gaps else stated.new_tensor(torch.nan)


def single_answer(hypotheses: Hypotheses, iterations: int = 32) -> Float[Tensor, "*batch steps 2"]:
    """One future from the whole distribution: the geometric median at each step, weighted by probability.

    It minimizes the expected distance at each step, which is what ADE and FDE measure. The most probable of K narrow
    cells is a worse single answer. Computed by Weiszfeld's iteration from the mean.

    Args:
        hypotheses: K futures with scores, `(*batch, K, 24)`.
        iterations: Of Weiszfeld; after 32 the expected distance is within 1 % of the least.

    Returns:
        Meters.
    """
    points = hypotheses.points.unflatten(-1, (-1, 2))
    probs = hypotheses.probs[..., None]
    center = (probs[..., None] * points).sum(-3)
    for _ in range(iterations):
        weight = probs / (points - center[..., None, :, :]).norm(dim=-1).clamp_min(1e-4)
        center = (weight[..., None] * points).sum(-3) / weight.sum(-2)[..., None]
    return center


def collisions(
    futures: Float[Tensor, "agents steps 2"], instants: Int[Tensor, "agents"], distance: float = 0.2
) -> Bool[Tensor, "agents"]:
    """Whether a future comes closer than 0.2 m to that of another pedestrian of the same instant.

    Pedestrians move on straight lines between steps; what counts is the least distance on the way.

    Args:
        futures: One future for each pedestrian, in common coordinates, meters.
        instants: Equal numbers for those who are seen together.
        distance: Meters.

    Returns:
        True for every pedestrian that collides; the mean is the collision rate.
    """
    hit = torch.zeros(len(futures), dtype=torch.bool)
    order = instants.argsort(stable=True)
    for group in order.split(torch.unique(instants, return_counts=True)[1].tolist()):
        gap = futures[group] - futures[group, None]
        start, change = gap[..., :-1, :], gap.diff(dim=-2)
        when = -(start * change).sum(-1) / change.square().sum(-1).clamp_min(1e-12)
        closest = (start + change * when.clamp(0, 1)[..., None]).norm(dim=-1).amin(-1)
        closest.fill_diagonal_(torch.inf)
        hit[group] = (closest < distance).any(-1)
    return hit
