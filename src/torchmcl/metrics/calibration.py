"""Calibration over a whole data set: coverage of regions, reliability of scores, and the PIT histogram."""

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torchmetrics import Metric

from torchmcl.distances import Distance, euclidean
from torchmcl.errors import check_callable, check_integer
from torchmcl.hypotheses import Hypotheses, check_hypotheses
from torchmcl.metrics.means import added, merge
from torchmcl.mixtures import Kernel, kernel_named
from torchmcl.regions import Region
from torchmcl.regions.calibration import (
    cell_outcomes,
    covered,
    probability_integral_transform,
    region_of,
)
from torchmcl.regions.intervals import check_coverage

__all__ = ["Coverage", "ProbabilityIntegralTransform", "ScoreCalibration"]


class Coverage(Metric):
    """The share of targets inside their regions, and the mean size of the regions.

    Args:
        coverage: The probability of the central interval, in one dimension, which is the region unless one is given.
        region: A function of hypotheses that gives their regions, such as `Conformal(...).region`.
        kwargs: For `torchmetrics.Metric`.

    Example:
        >>> metric = Coverage(0.9)
        >>> h = Hypotheses(torch.zeros(2, 1, 1), widths=torch.ones(2, 1))
        >>> metric.update(h, torch.tensor([[[1.0]], [[2.0]]]))
        >>> metric.compute(), metric.width
        (tensor(0.5000, dtype=torch.float64), tensor(3.2897, dtype=torch.float64))
    """

    full_state_update = False
    is_differentiable = False
    shares: Tensor
    widths: Tensor

    def __init__(
        self, coverage: float = 0.9, region: Callable[[Hypotheses], Region] | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        check_coverage(coverage)
        if region is not None:
            check_callable("region", region, "a function of hypotheses")
        self.coverage = coverage
        self.region = region
        for name in ("shares", "widths"):
            self.add_state(name, torch.zeros(3, dtype=torch.float64), dist_reduce_fx=merge)

    def update(
        self,
        hypotheses: Hypotheses,
        targets: Float[Tensor, "*batch targets dim"],
        active: Bool[Tensor, "*batch targets"] | None = None,
    ) -> None:
        """Add the items of a batch; those without an active target are left out."""
        with torch.no_grad():
            check_hypotheses(hypotheses)
            sets = region_of(hypotheses, self.coverage, self.region)
            inside = covered(hypotheses, targets, active, region=lambda _: sets)
            self.shares = added(self.shares, inside, targets, active)
            self.widths = added(self.widths, sets.volume().value, targets, active)

    def compute(self) -> Float[Tensor, ""]:
        """The mean share over items."""
        return self.shares[1] / self.shares[0]

    @property
    def width(self) -> Float[Tensor, ""]:
        """The mean length (area, volume) of the regions, on all processes together."""
        with self.sync_context(
            self.dist_sync_fn, should_sync=self._to_sync, should_unsync=self._should_unsync
        ):
            return self.widths[1] / self.widths[0]


class ScoreCalibration(Metric):
    """Whether scores are probabilities: the expected calibration error over bins of the predicted probability.

    Each hypothesis of each item is one prediction: its score, against what happened in its Voronoi cell, as in
    `brier_score`. The error is the mean over predictions of `|frequency - confidence|` of their bin.

    Args:
        bins: The number of bins of equal width between 0 and 1.
        distance: The distance that makes the cells.
        kwargs: For `torchmetrics.Metric`.

    Example:
        >>> metric = ScoreCalibration(bins=2)
        >>> h = Hypotheses(torch.tensor([[[0.0], [1.0]]]), torch.tensor([[0.75, 0.25]]).log(), "softmax")
        >>> metric.update(h, torch.tensor([[[0.0]]]))
        >>> metric.compute()
        tensor(0.2500, dtype=torch.float64)
    """

    full_state_update = False
    higher_is_better = False
    is_differentiable = False
    sums: Tensor

    def __init__(self, bins: int = 10, distance: Distance = euclidean, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        check_integer("bins", bins)
        self.bins = bins
        check_callable("distance", distance, "a function of two tensors of points")
        self.distance = distance
        self.add_state("sums", torch.zeros(bins, 3, dtype=torch.float64), dist_reduce_fx="sum")

    def update(
        self,
        hypotheses: Hypotheses,
        targets: Float[Tensor, "*batch targets dim"],
        active: Bool[Tensor, "*batch targets"] | None = None,
    ) -> None:
        """Add the hypotheses of a batch; items that cannot tell are left out."""
        predicted, happened, counts = cell_outcomes(hypotheses, targets, active, distance=self.distance)
        predicted, happened = predicted[counts].flatten().double(), happened[counts].flatten().double()
        if predicted.isnan().any():
            raise ValueError("hypotheses have scores that are NaN")
        if happened.isnan().any():
            raise ValueError("hypotheses or active targets are NaN: nobody knows in which cell a target is")
        index = (predicted * self.bins).long().clamp(0, self.bins - 1)
        each = torch.stack([torch.ones_like(predicted), predicted, happened], -1)
        self.sums = self.sums.index_add(0, index, each)

    def compute(self) -> Float[Tensor, ""]:
        """The expected calibration error; NaN before the first item."""
        return (self.sums[:, 2] - self.sums[:, 1]).abs().sum() / self.sums[:, 0].sum()

    @property
    def reliability(self) -> Float[Tensor, "bins 3"]:
        """For each bin the mean predicted probability, the frequency of what was predicted, and the count.

        Both means are NaN for an empty bin.
        """
        with self.sync_context(
            self.dist_sync_fn, should_sync=self._to_sync, should_unsync=self._should_unsync
        ):
            count = self.sums[:, :1]
            return torch.cat([self.sums[:, 1:] / count, count], -1)


class ProbabilityIntegralTransform(Metric):
    """The histogram of `probability_integral_transform` over targets: flat if the distributions are right.

    A histogram with high ends shows intervals that are too narrow, one with a hump intervals that are too wide.

    Args:
        bins: The number of bins of equal width between 0 and 1.
        kernel: The kernel of hypotheses with widths, as for `Hypotheses.mixture`.
        kwargs: For `torchmetrics.Metric`.

    Example:
        >>> metric = ProbabilityIntegralTransform(bins=2)
        >>> h = Hypotheses(torch.zeros(3, 1, 1), widths=torch.ones(3, 1))
        >>> metric.update(h, torch.tensor([[[1.0]], [[-2.0]], [[0.5]]]))
        >>> metric.compute()
        tensor([1, 2])
    """

    full_state_update = False
    is_differentiable = False
    counts: Tensor

    def __init__(self, bins: int = 20, kernel: str | Kernel = "gaussian", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        check_integer("bins", bins)
        self.bins = bins
        kernel_named(kernel)
        self.kernel = kernel
        self.add_state("counts", torch.zeros(bins, dtype=torch.long), dist_reduce_fx="sum")

    def update(
        self,
        hypotheses: Hypotheses,
        targets: Float[Tensor, "*batch targets 1"],
        active: Bool[Tensor, "*batch targets"] | None = None,
    ) -> None:
        """Add the active targets of a batch."""
        with torch.no_grad():
            value = probability_integral_transform(hypotheses, targets, active, kernel=self.kernel)
        value = value.flatten() if active is None else value[active]
        if value.isnan().any():
            raise ValueError("hypotheses or active targets are NaN: they have no place in the histogram")
        index = (value * self.bins).long().clamp(0, self.bins - 1)
        self.counts = self.counts + torch.bincount(index, minlength=self.bins)

    def compute(self) -> Int[Tensor, "bins"]:
        """How many targets fall into each bin."""
        return self.counts

    @property
    def deviation(self) -> Float[Tensor, ""]:
        """The mean absolute difference of the bins' shares from equal ones, relative to these; NaN without targets."""
        counts = self.compute().double()
        return (counts / counts.sum() * self.bins - 1).abs().mean()
