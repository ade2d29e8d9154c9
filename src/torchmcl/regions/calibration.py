"""Whether predicted probabilities are right: of regions, of cells, and of the whole distribution."""

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from torchmcl.distances import Distance, cost_matrix, euclidean
from torchmcl.energy import item_mean, known_targets
from torchmcl.errors import check_callable
from torchmcl.hypotheses import Hypotheses, check_hypotheses, undefined
from torchmcl.mixtures import Kernel
from torchmcl.regions import BoxRegion, Region, central_interval

__all__ = [
    "brier_score",
    "cell_outcomes",
    "central_region",
    "covered",
    "probability_integral_transform",
    "region_of",
]


def covered(
    hypotheses: Hypotheses,
    targets: Float[Tensor, "*batch targets dim"],
    active: Bool[Tensor, "*batch targets"] | None = None,
    *,
    coverage: float = 0.9,
    region: Callable[[Hypotheses], Region] | None = None,
) -> Float[Tensor, "*batch"]:
    """The share of the active targets of each item that its region holds.

    Args:
        hypotheses: K points with scores, `(*batch, hypotheses, dim)`.
        targets: What happened, `(*batch, targets, dim)`.
        active: Which targets exist, `(*batch, targets)`; all of them if `None`.
        coverage: The probability of the central interval, in one dimension, which is the region unless one is given.
        region: A function of hypotheses that gives their regions, such as `Conformal(...).region`.

    Returns:
        Shares `(*batch)`; NaN for an item with no active target.

    Example:
        >>> h = Hypotheses(torch.zeros(2, 1, 1), widths=torch.ones(2, 1))
        >>> covered(h, torch.tensor([[[1.0]], [[2.0]]]), coverage=0.9)
        tensor([1., 0.])
    """
    check_hypotheses(hypotheses)
    known = known_targets(hypotheses.points, targets, active)
    sets = region_of(hypotheses, coverage, region)
    inside = sets.contains(known.movedim(-2, 0)).movedim(0, -1)
    # Targets that are NaN are in no region, but they are no miss either.
    missing = known.isnan().any(-1)
    return item_mean(inside.to(known.dtype).masked_fill(missing, torch.nan), active)


def region_of(
    hypotheses: Hypotheses, coverage: float, region: Callable[[Hypotheses], Region] | None
) -> Region:
    """What `region` makes of the hypotheses; the central interval if it is `None`.

    Args:
        hypotheses: K points with scores.
        coverage: Of the central interval.
        region: A function of hypotheses, or `None`.

    Returns:
        The regions.
    """
    if region is None:
        return central_region(hypotheses, coverage)
    check_callable("region", region, "a function of hypotheses")
    made = region(hypotheses)
    if not isinstance(made, Region):
        raise TypeError(f"region must return a Region, it returned {type(made).__name__}")
    return made


def central_region(hypotheses: Hypotheses, coverage: float) -> BoxRegion:
    """The central interval of each item as a region."""
    lower, upper = central_interval(hypotheses, coverage).split(1, -1)
    return BoxRegion(lower, upper)


def brier_score(
    hypotheses: Hypotheses,
    targets: Float[Tensor, "*batch targets dim"],
    active: Bool[Tensor, "*batch targets"] | None = None,
    *,
    distance: Distance = euclidean,
) -> Float[Tensor, "*batch"]:
    """The squared error of the scores as probabilities of Voronoi cells, summed over hypotheses. Lower is better.

    With link `"sigmoid"` a score predicts whether any active target falls into its cell; with link `"softmax"`, or
    without scores, it predicts the share of the active targets.

    Args:
        hypotheses: K points with scores, `(*batch, hypotheses, dim)`.
        targets: What happened, `(*batch, targets, dim)`.
        active: Which targets exist, `(*batch, targets)`; all of them if `None`.
        distance: The distance that makes the cells.

    Returns:
        One value for each item; NaN for an item with no active target, except with link `"sigmoid"`.

    Example:
        >>> h = Hypotheses(torch.tensor([[0.0], [1.0]]), torch.tensor([0.8, 0.2]).log(), "softmax")
        >>> brier_score(h, torch.tensor([[0.1]]))
        tensor(0.0800)
    """
    predicted, happened, counts = cell_outcomes(hypotheses, targets, active, distance=distance)
    return (predicted - happened).square().sum(-1).masked_fill(~counts, torch.nan)


def cell_outcomes(
    hypotheses: Hypotheses,
    targets: Float[Tensor, "*batch targets dim"],
    active: Bool[Tensor, "*batch targets"] | None = None,
    *,
    distance: Distance = euclidean,
) -> tuple[Float[Tensor, "*batch hypotheses"], Float[Tensor, "*batch hypotheses"], Bool[Tensor, "*batch"]]:
    """What the scores predict of each cell, what happened in it, and which items can tell.

    Args:
        hypotheses: K points with scores, `(*batch, hypotheses, dim)`.
        targets: What happened, `(*batch, targets, dim)`.
        active: Which targets exist, `(*batch, targets)`; all of them if `None`.
        distance: The distance that makes the cells.

    Returns:
        Probabilities and outcomes `(*batch, hypotheses)`, both between 0 and 1, and a mask `(*batch)`.
    """
    check_hypotheses(hypotheses)
    cost, active = cost_matrix(hypotheses.points.detach(), targets, active, distance=distance)
    won = torch.zeros_like(cost).scatter(-1, cost.argmin(-1, keepdim=True), 1.0) * active[..., None]
    # Nobody knows in which cell a target is whose distance to a hypothesis is NaN.
    won = won.masked_fill((cost.isnan().any(-1) & active)[..., None], torch.nan)
    if hypotheses.logits is not None and hypotheses.link == "sigmoid":
        happened = won.amax(-2) if won.shape[-2] else torch.zeros_like(hypotheses.scores)
        return hypotheses.scores.detach(), happened, torch.ones_like(active.any(-1))
    share = won.sum(-2) / active.sum(-1, keepdim=True).clamp(min=1)
    return hypotheses.probs.detach(), share, active.any(-1)


def probability_integral_transform(
    hypotheses: Hypotheses,
    targets: Float[Tensor, "*batch targets 1"],
    active: Bool[Tensor, "*batch targets"] | None = None,
    *,
    kernel: str | Kernel = "gaussian",
) -> Float[Tensor, "*batch targets"]:
    """The predicted probability of an outcome at or below each target, uniform on [0, 1] if predictions are right.

    Of hypotheses without widths it is the middle of the step, `P(X < y) + P(X = y) / 2`.

    Args:
        hypotheses: K points on a line with scores, `(*batch, hypotheses, 1)`.
        targets: What happened, `(*batch, targets, 1)`.
        active: Which targets exist, `(*batch, targets)`; all of them if `None`.
        kernel: The kernel of hypotheses with widths, as for `Hypotheses.mixture`.

    Returns:
        Probabilities `(*batch, targets)`; NaN for inactive targets.

    Example:
        >>> h = Hypotheses(torch.zeros(1, 1), widths=torch.ones(1))
        >>> probability_integral_transform(h, torch.tensor([[0.0], [1.6449]]))
        tensor([0.5000, 0.9500])
    """
    check_hypotheses(hypotheses)
    if hypotheses.dim != 1:
        raise ValueError(f"hypotheses have {hypotheses.dim} coordinates, a distribution function is for 1")
    check_hypotheses(hypotheses)
    known = known_targets(hypotheses.points, targets, active)
    if hypotheses.widths is not None:
        value = hypotheses.mixture(kernel).cdf(known.movedim(-2, 0)).movedim(0, -1)
    else:
        x = hypotheses.points.transpose(-1, -2)
        step = ((x < known).to(known.dtype) + (x <= known).to(known.dtype)) / 2
        value = (hypotheses.probs[..., None, :] * step).sum(-1)
        value = value.masked_fill(known.isnan().any(-1) | undefined(hypotheses)[..., None], torch.nan)
    return value if active is None else value.masked_fill(~active, torch.nan)
