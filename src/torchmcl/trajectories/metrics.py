"""Measures of forecasts: each a function with one value for each pedestrian, and a torchmetrics class of its mean.

Futures are `(*batch, 12, 2)` in meters, hypotheses have points `(*batch, K, 24)`: x and y of each step in turn.
"""

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torchmetrics import Metric

from torchmcl.energy import energy_score
from torchmcl.hypotheses import Hypotheses

__all__ = [
    "BrierMinFDE",
    "Calibration",
    "CollisionRate",
    "EnergyDisplacement",
    "MinADE",
    "MinFDE",
    "MissRate",
    "brier_min_fde",
    "calibration_error",
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
    return _binned_error(stated.flatten(), right.flatten(), bins)


def _binned_error(stated: Tensor, right: Tensor, bins: int) -> Tensor:
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


class _Mean(Metric):
    """The mean over pedestrians of a function of hypotheses and futures."""

    higher_is_better = False
    is_differentiable = False
    full_state_update = False
    total: Tensor
    count: Tensor

    def __init__(self, function: Callable[..., Tensor], settings: dict[str, Any], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.function = function
        self.settings = settings
        self.add_state("total", torch.tensor(0.0, dtype=torch.float64), dist_reduce_fx="sum")
        self.add_state("count", torch.tensor(0), dist_reduce_fx="sum")

    def update(self, hypotheses: Hypotheses, future: Float[Tensor, "*batch steps 2"]) -> None:
        """Add the pedestrians of a batch."""
        values = self.function(hypotheses, future, **self.settings)
        self.total = self.total + values.double().sum()
        self.count = self.count + values.numel()

    def compute(self) -> Float[Tensor, ""]:
        """The mean; NaN before the first pedestrian."""
        return self.total / self.count


class MinADE(_Mean):
    """The mean of `min_ade`.

    Args:
        k: How many of the most probable hypotheses count; all by default.
        kwargs: Of `torchmetrics.Metric`.

    Example:
        >>> metric = MinADE()
        >>> metric.update(Hypotheses(torch.zeros(1, 3, 4)), torch.tensor([[[1.0, 0.0], [3.0, 0.0]]]))
        >>> metric.compute()
        tensor(2., dtype=torch.float64)
    """

    def __init__(self, k: int | None = None, **kwargs: Any) -> None:
        super().__init__(min_ade, {"k": k}, **kwargs)


class MinFDE(_Mean):
    """The mean of `min_fde`.

    Args:
        k: How many of the most probable hypotheses count; all by default.
        kwargs: Of `torchmetrics.Metric`.
    """

    def __init__(self, k: int | None = None, **kwargs: Any) -> None:
        super().__init__(min_fde, {"k": k}, **kwargs)


class MissRate(_Mean):
    """The share of `misses`.

    Args:
        k: How many of the most probable hypotheses count; all by default.
        threshold: Meters.
        kwargs: Of `torchmetrics.Metric`.
    """

    def __init__(self, k: int | None = None, threshold: float = 2.0, **kwargs: Any) -> None:
        super().__init__(misses, {"k": k, "threshold": threshold}, **kwargs)


class BrierMinFDE(_Mean):
    """The mean of `brier_min_fde`.

    Args:
        kwargs: Of `torchmetrics.Metric`.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(brier_min_fde, {}, **kwargs)


class EnergyDisplacement(_Mean):
    """The mean of `energy_displacement`.

    Args:
        kwargs: Of `torchmetrics.Metric`.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(energy_displacement, {}, **kwargs)


class CollisionRate(Metric):
    """The share of single answers that are in `collisions`; each update holds whole instants.

    Args:
        distance: Meters.
        kwargs: Of `torchmetrics.Metric`.
    """

    higher_is_better = False
    is_differentiable = False
    full_state_update = False
    hits: Tensor
    count: Tensor

    def __init__(self, distance: float = 0.2, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.distance = distance
        self.add_state("hits", torch.tensor(0), dist_reduce_fx="sum")
        self.add_state("count", torch.tensor(0), dist_reduce_fx="sum")

    def update(self, futures: Float[Tensor, "agents steps 2"], instants: Int[Tensor, "agents"]) -> None:
        """Add the pedestrians of some instants."""
        self.hits = self.hits + collisions(futures, instants, self.distance).sum()
        self.count = self.count + len(futures)

    def compute(self) -> Float[Tensor, ""]:
        """The share of pedestrians."""
        return self.hits.double() / self.count


class Calibration(Metric):
    """`calibration_error` over all pedestrians.

    Args:
        bins: Of equal size.
        kwargs: Of `torchmetrics.Metric`.
    """

    higher_is_better = False
    is_differentiable = False
    full_state_update = False
    stated: list[Tensor]
    right: list[Tensor]

    def __init__(self, bins: int = 20, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.bins = bins
        self.add_state("stated", [], dist_reduce_fx="cat")
        self.add_state("right", [], dist_reduce_fx="cat")

    def update(self, hypotheses: Hypotheses, future: Float[Tensor, "*batch steps 2"]) -> None:
        """Add the pedestrians of a batch."""
        probs = hypotheses.probs.reshape(-1, hypotheses.n_hypotheses)
        right = torch.zeros_like(probs).scatter_(1, nearest(hypotheses, future).reshape(-1, 1), 1.0)
        self.stated.append(probs.flatten())
        self.right.append(right.flatten())

    def compute(self) -> Float[Tensor, ""]:
        """The error of all of them together."""
        return _binned_error(_joined(self.stated), _joined(self.right), self.bins)


def _joined(state: list[Tensor] | Tensor) -> Tensor:
    """torchmetrics gives the parts on one process and their concatenation on several."""
    return state if isinstance(state, Tensor) else torch.cat(state)
