"""Split conformal prediction: regions that keep their coverage, whatever the model."""

import math
import warnings
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.distributions import Distribution

from torchmcl.distances import Distance, euclidean
from torchmcl.errors import (
    check_broadcast,
    check_callable,
    check_choice,
    check_coordinates,
    check_floats,
    check_integers,
    check_shape,
    check_sizes,
)
from torchmcl.hypotheses import Hypotheses
from torchmcl.mixtures import KernelMixture
from torchmcl.regions.intervals import Prediction, check_coverage, check_prediction, quantiles
from torchmcl.regions.sets import BallRegion, BoxRegion, HighestDensityRegion, Region, nearest, smooth

__all__ = ["Conformal", "Score"]

Score = Literal["quantile", "density", "distance"]


class Conformal:
    r"""Regions that hold a new outcome with at least the stated probability, calibrated on held-out data.

    Each held-out outcome gets a score: how strange it is to the prediction. The region of a new item is the set of all
    outcomes whose score is at most the :math:`\lceil (n + 1)\, \text{coverage} \rceil`-th smallest of n. If held-out
    and new items are exchangeable, it holds the outcome with a probability of at least `coverage` and, without ties,
    at most `coverage + 1 / (n + 1)`, for any model.

    - `"quantile"`: how far y is beyond the central interval (CQR). Regions are intervals, or boxes.
    - `"density"`: `-log p(y)` (HPD). Regions are where the density is high, which makes them the smallest.
    - `"distance"`: the distance of y to the nearest hypothesis (PCP). Regions are unions of balls.

    In several dimensions `"quantile"` measures each coordinate in lengths of its interval and takes the largest.

    Args:
        score: `"quantile"`, `"density"` or `"distance"`.
        coverage: The probability to hold, above 0 and below 1.
        distance: The distance of `"distance"`.

    Example:
        >>> _ = torch.manual_seed(0)
        >>> prediction = Hypotheses(torch.zeros(99, 1, 1), widths=torch.full((99, 1), 0.1))
        >>> conformal = Conformal("quantile", 0.9).calibrate(prediction, torch.randn(99, 1))
        >>> conformal.region(prediction[:1]).intervals.round()
        tensor([[[-2.,  2.]]])
    """

    def __init__(
        self, score: Score = "quantile", coverage: float = 0.9, *, distance: Distance = euclidean
    ) -> None:
        check_choice("score", score, ("quantile", "density", "distance"))
        check_coverage(coverage)
        self.score: Score = score
        self.coverage = coverage
        check_callable("distance", distance, "a function of two tensors of points")
        self.distance = distance
        self.scores: Float[Tensor, n] | None = None
        self.weights: Float[Tensor, n] | None = None
        self.groups: Int[Tensor, n] | None = None
        self.dim: int | None = None

    def strangeness(
        self, prediction: Prediction, y: Float[Tensor, "*sample_batch dim"]
    ) -> Float[Tensor, "*value"]:
        """The score of outcomes: the larger, the stranger.

        Args:
            prediction: Hypotheses or a distribution, `(*batch, dim)`.
            y: Outcomes `(*sample, *batch, dim)`.

        Returns:
            Scores `(*sample, *batch)` in float64.
        """
        check_prediction(prediction)
        check_coordinates("y", y, _dim(prediction), "the prediction has")
        check_broadcast("y", y, prediction.batch_shape, "the prediction has")
        if self.score == "density":
            return -smooth(prediction).log_prob(y).double()
        if self.score == "distance":
            return nearest(_points(prediction), y, self.distance).double()
        lower, upper, scale = self._box(prediction)
        return (torch.maximum(lower - y, y - upper) / scale).amax(-1)

    def calibrate(
        self,
        prediction: Prediction,
        y: Float[Tensor, "*batch dim"],
        *,
        groups: Int[Tensor, "*batch"] | None = None,
        weights: Float[Tensor, "*batch"] | None = None,
    ) -> "Conformal":
        """Keep the scores of held-out items, which the model must not have been trained on.

        Args:
            prediction: The model's answer for n items.
            y: Their outcomes, one for each item.
            groups: The group of each item: coverage then holds in each group by itself (Mondrian).
            weights: The likelihood ratio of new to held-out data for each item (covariate shift), up to a factor.

        Returns:
            This object.
        """
        check_prediction(prediction)
        batch = prediction.batch_shape
        check_coordinates("y", y, _dim(prediction), "the prediction has")
        check_shape("y", y, (*batch, y.shape[-1]))
        if not bool(y.isfinite().all()):
            raise ValueError("y must be finite to calibrate, it holds NaN or infinite values")
        for name, value in (("groups", groups), ("weights", weights)):
            if value is not None:
                _check_items(name, value, batch, "like the prediction")
        with torch.no_grad():
            self.scores = self.strangeness(prediction, y).flatten()
        if bool(self.scores.isnan().any()):
            raise ValueError("prediction gives scores that are NaN")
        self.weights = None if weights is None else weights.flatten().double()
        self.groups = None if groups is None else groups.flatten()
        self.dim = _dim(prediction)
        return self

    def region(
        self,
        prediction: Prediction,
        *,
        groups: Int[Tensor, "*batch"] | None = None,
        weights: Float[Tensor, "*batch"] | None = None,
    ) -> Region:
        """The calibrated region of each new item; infinite, with a warning, where there are too few held-out items.

        Args:
            prediction: The model's answer for new items, `(*batch, dim)`.
            groups: The group of each, if there were groups to calibrate.
            weights: The likelihood ratio of each, if there were weights to calibrate.

        Returns:
            A `BoxRegion`, `HighestDensityRegion` or `BallRegion`, for the three scores.
        """
        check_prediction(prediction)
        if self.dim is not None and _dim(prediction) != self.dim:
            raise ValueError(f"prediction has {_dim(prediction)} coordinates, calibrate had {self.dim}")
        least = self.threshold(prediction.batch_shape, groups=groups, weights=weights)
        if self.score == "density":
            distribution = smooth(prediction)
            return HighestDensityRegion(distribution, level=-least)
        if self.score == "distance":
            points = _points(prediction)
            return BallRegion(points, least.to(points.points.device, points.points.dtype), self.distance)
        lower, upper, scale = self._box(prediction)
        # An endless interval stays endless where its scale is 0.
        margin = torch.where(least[..., None].isinf(), least[..., None], least[..., None] * scale)
        dtype = _points(prediction).points.dtype
        return BoxRegion((lower - margin).to(dtype), (upper + margin).to(dtype))

    def threshold(
        self,
        batch_shape: torch.Size = torch.Size(),  # noqa: B008  (immutable)
        *,
        groups: Int[Tensor, "*batch"] | None = None,
        weights: Float[Tensor, "*batch"] | None = None,
    ) -> Float[Tensor, "*batch"]:
        """The largest score inside the region of each new item.

        Args:
            batch_shape: The shape of the new items.
            groups: The group of each, if there were groups to calibrate.
            weights: The likelihood ratio of each, if there were weights to calibrate.

        Returns:
            Thresholds `(*batch)` in float64; infinite where there are too few held-out items.
        """
        check_sizes("batch_shape", batch_shape)
        if self.scores is None:
            raise ValueError("calibrate must be called before a region is asked for")
        for name, given, kept in (("groups", groups, self.groups), ("weights", weights, self.weights)):
            if (given is None) != (kept is None):
                told = "were given" if kept is not None else "were not given"
                raise ValueError(f"{name} must be given here as in calibrate, where they {told}")
            if given is not None:
                _check_items(name, given, batch_shape, "for this batch_shape")
        own = torch.ones_like(self.scores) if self.weights is None else self.weights
        mine = torch.ones(batch_shape) if weights is None else weights
        mine = mine.to(self.scores.device, torch.float64).flatten()
        found = torch.full_like(mine, torch.inf)
        if self.groups is None or groups is None:
            found = _weighted_quantile(self.scores, own, mine, self.coverage)
        else:
            flat = groups.flatten().to(self.scores.device)
            for group in flat.unique():
                held, new = self.groups.to(flat.device) == group, flat == group
                found[new] = _weighted_quantile(self.scores[held], own[held], mine[new], self.coverage)
        self._warn(found)
        return found.reshape(batch_shape)

    def _warn(self, found: Tensor) -> None:
        endless = int(found.isinf().sum())
        if endless:
            need = math.ceil(self.coverage / (1 - self.coverage) - 1e-9)
            warnings.warn(
                f"{endless} of {found.numel()} regions are infinite: a coverage of {self.coverage} needs at least "
                f"{need} held-out items (in each group), or weights that are less uneven",
                stacklevel=4,
            )

    def _box(self, prediction: Prediction) -> tuple[Tensor, Tensor, Tensor]:
        """The ends of the central interval of each coordinate, and the unit in which an excess is measured."""
        levels = [(1 - self.coverage) / 2, (1 + self.coverage) / 2]
        dim = _dim(prediction)
        ends = torch.stack([quantiles(part, levels) for part in _coordinates(prediction)], -2).double()
        lower, upper = ends.detach().unbind(-1)
        if dim == 1:
            return lower, upper, torch.ones_like(lower)
        return lower, upper, (upper - lower).clamp(min=torch.finfo(torch.float32).tiny)


def _check_items(name: str, value: Tensor, batch: tuple[int, ...], why: str) -> None:
    (check_floats if name == "weights" else check_integers)(name, value)
    check_shape(name, value, batch, why)
    if name == "weights" and not bool((value.isfinite() & (value >= 0)).all()):
        raise ValueError("weights must be finite and not negative")


def _weighted_quantile(scores: Tensor, own: Tensor, mine: Tensor, coverage: float) -> Tensor:
    """For each new item of weight `mine`, the least score with a share of `coverage`, its own at infinity."""
    ordered, order = scores.sort()
    below = own[order].cumsum(0)
    total = below[-1] if len(below) else mine.new_zeros(())
    needed = coverage * (total + mine)
    index = torch.searchsorted(below, needed - 1e-9 * (total + mine))
    index = index.masked_fill(total + mine == 0, len(ordered))
    return torch.cat([ordered, ordered.new_full((1,), torch.inf)])[index]


def _points(prediction: Prediction) -> Hypotheses:
    points = getattr(prediction, "hypotheses", prediction)
    if not isinstance(points, Hypotheses):
        raise ValueError(f"prediction must have hypotheses for this score, got {type(prediction).__name__}")
    return points


def _dim(prediction: Prediction) -> int:
    return prediction.dim if isinstance(prediction, Hypotheses) else prediction.event_shape[-1]


def _coordinates(prediction: Prediction) -> list[Prediction]:
    """The marginal distribution of each coordinate; of Laplace kernels, one with the same widths."""
    if _dim(prediction) == 1:
        return [prediction]
    h = _points(prediction)
    parts = [Hypotheses(h.points[..., d : d + 1], h.logits, h.link, h.widths) for d in range(h.dim)]
    if isinstance(prediction, KernelMixture):
        return [part.mixture(prediction.kernel) for part in parts]
    if isinstance(prediction, Distribution):
        raise ValueError("score 'quantile' in several dimensions needs hypotheses or a KernelMixture")
    return list(parts)
