"""Sets of outcomes, one for each item: boxes, unions of balls, and where a density is high."""

import inspect
import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.distributions import Distribution

from torchmcl.distances import Distance, euclidean, measured
from torchmcl.errors import (
    check_broadcast,
    check_callable,
    check_coordinates,
    check_floats,
    check_generator,
    check_integer,
    check_shape,
)
from torchmcl.hypotheses import Hypotheses, check_hypotheses, undefined
from torchmcl.mixtures import KernelMixture
from torchmcl.regions._line import level_crossings, merged
from torchmcl.regions.intervals import check_coverage, check_prediction
from torchmcl.voronoi.estimates import Estimate

__all__ = ["BallRegion", "BoxRegion", "HighestDensityRegion", "Region"]


class Region(ABC):
    """A set of outcomes for each item of a batch. Subclasses are final."""

    @abstractmethod
    def contains(self, y: Float[Tensor, "*sample_batch dim"]) -> Bool[Tensor, "*value"]:
        """Whether each outcome is inside.

        Args:
            y: Outcomes `(*sample, *batch, dim)`.

        Returns:
            Booleans `(*sample, *batch)`.
        """

    @property
    @abstractmethod
    def intervals(self) -> Float[Tensor, "*batch pieces 2"]:
        """In one dimension, the disjoint intervals of each item in order, as lower and upper ends.

        Items with fewer pieces than others are filled with NaN. An infinite region is from -inf to inf.
        """

    @abstractmethod
    def volume(self, samples: int = 4096, generator: torch.Generator | None = None) -> Estimate:
        """The length, area or volume of each region, with its standard error.

        Args:
            samples: The number of draws for each item where there is no exact way.
            generator: The source of randomness; torch's default one if `None`.

        Returns:
            Volumes and standard errors `(*batch)`; the error is 0 where the volume is exact.
        """


@dataclass(frozen=True, eq=False)
class BoxRegion(Region):
    """An interval of each coordinate; empty where a lower end is above its upper end.

    Args:
        lower: Lower ends `(*batch, dim)`.
        upper: Upper ends `(*batch, dim)`.

    Example:
        >>> box = BoxRegion(torch.tensor([0.0, 0.0]), torch.tensor([1.0, 2.0]))
        >>> box.contains(torch.tensor([0.5, 3.0])), box.volume().value
        (tensor(False), tensor(2.))
    """

    lower: Float[Tensor, "*batch dim"]
    upper: Float[Tensor, "*batch dim"]

    def __post_init__(self) -> None:
        check_floats("lower", self.lower, "*batch dim")
        check_floats("upper", self.upper, "*batch dim")
        check_shape("upper", self.upper, self.lower.shape, "like lower")

    def contains(self, y: Float[Tensor, "*sample_batch dim"]) -> Bool[Tensor, "*value"]:
        """Whether each coordinate lies between its ends."""
        check_coordinates("y", y, self.lower.shape[-1], "the region has")
        check_broadcast("y", y, self.lower.shape[:-1], "the region has")
        return ((self.lower <= y) & (y <= self.upper)).all(-1)

    @property
    def intervals(self) -> Float[Tensor, "*batch 1 2"]:
        """The one interval, in one dimension; NaN where it is empty."""
        _check_line(self.lower.shape[-1])
        ends = torch.stack([self.lower, self.upper], -1)
        return ends.masked_fill((self.lower > self.upper)[..., None], torch.nan)

    def volume(self, samples: int = 4096, generator: torch.Generator | None = None) -> Estimate:
        """The product of the lengths, which is exact."""
        value = (self.upper - self.lower).clamp(min=0).prod(-1)
        return Estimate(value, torch.zeros_like(value))


@dataclass(frozen=True, eq=False)
class BallRegion(Region):
    """The union of balls of one radius around the hypotheses that have a probability.

    Args:
        hypotheses: K points `(*batch, hypotheses, dim)`; those of probability 0 have no ball.
        radius: `(*batch)`; negative where the region is empty.
        distance: What the radius is measured by.

    Example:
        >>> balls = BallRegion(Hypotheses(torch.tensor([[0.0], [1.0], [9.0]])), torch.tensor(1.0))
        >>> balls.intervals
        tensor([[-1.,  2.],
                [ 8., 10.]])
    """

    hypotheses: Hypotheses
    radius: Float[Tensor, "*batch"]
    distance: Distance = euclidean

    def __post_init__(self) -> None:
        check_hypotheses(self.hypotheses)
        check_floats("radius", self.radius)
        check_shape("radius", self.radius, self.hypotheses.batch_shape, "like the hypotheses")
        check_callable("distance", self.distance, "a function of two tensors of points")

    def contains(self, y: Float[Tensor, "*sample_batch dim"]) -> Bool[Tensor, "*value"]:
        """Whether the nearest hypothesis is within the radius."""
        check_coordinates("y", y, self.hypotheses.dim, "hypotheses have")
        check_broadcast("y", y, self.hypotheses.batch_shape, "hypotheses have")
        return nearest(self.hypotheses, y, self.distance) <= self.radius

    @property
    def intervals(self) -> Float[Tensor, "*batch pieces 2"]:
        """The balls with overlaps joined, in one dimension."""
        _check_line(self.hypotheses.dim)
        x, radius = self.hypotheses.points.squeeze(-1), self.radius[..., None]
        none = (self.hypotheses.probs == 0) | (radius < 0) | undefined(self.hypotheses)[..., None]
        ends = torch.stack([x - radius, x + radius], -1).masked_fill(none[..., None], torch.nan)
        return merged(ends)

    def volume(self, samples: int = 4096, generator: torch.Generator | None = None) -> Estimate:
        """The length in one dimension; in more, by draws from the balls that count overlaps once."""
        unknown = undefined(self.hypotheses) | self.radius.isnan()
        if self.hypotheses.dim == 1:
            return _length(self.intervals, unknown)
        if self.distance is not euclidean:
            raise NotImplementedError("the volume of balls is known for the distance euclidean only")
        check_integer("samples", samples, least=2)
        check_generator(generator)
        points, dim = self.hypotheses.points, self.hypotheses.dim
        alive = (self.hypotheses.probs > 0).to(points.dtype)
        equal = Hypotheses(points, alive.log(), "softmax")
        radius = self.radius.clamp(min=0).nan_to_num(posinf=1.0)[..., None]
        shape = (samples, *points.shape[:-2], dim)
        direction = torch.randn(shape, dtype=points.dtype, device=points.device, generator=generator)
        length = torch.rand(shape[:-1], dtype=points.dtype, device=points.device, generator=generator)
        direction = direction / direction.norm(dim=-1, keepdim=True) * length[..., None] ** (1 / dim)
        y = equal.sample((samples,), generator) + radius * direction
        shared = ((euclidean(y[..., None, :], points) <= radius) * alive).sum(-1).clamp(min=1)
        unit = math.exp(dim / 2 * math.log(math.pi) - math.lgamma(dim / 2 + 1))
        ball = unit * self.radius.clamp(min=0) ** dim
        whole = ball * alive.sum(-1)
        error = (1 / shared).std(0) / math.sqrt(samples)
        finite = whole.isfinite()
        value = (whole * (1 / shared).mean(0)).masked_fill(unknown, torch.nan)
        return Estimate(value, torch.where(finite, whole * error, torch.zeros_like(whole)))


class HighestDensityRegion(Region):
    """Where the density is at least a level: of all sets with its probability, the smallest.

    The level is the quantile of the density at `samples` draws. Its probability therefore has the standard error
    `error`, about `sqrt(coverage (1 - coverage) / samples)`.

    Args:
        prediction: Hypotheses with widths (their Gaussian mixture) or a distribution with outcomes `(*batch, dim)`.
        coverage: The probability inside, above 0 and below 1.
        samples: The number of draws for each item.
        generator: The source of randomness; torch's default one if `None`.
        level: The log density at the border, `(*batch)`, in place of a coverage.

    Example:
        >>> h = Hypotheses(torch.tensor([[0.0], [9.0]]), widths=torch.tensor([1.0, 1.0]))
        >>> region = HighestDensityRegion(h, 0.9, generator=torch.Generator().manual_seed(0))
        >>> region.contains(torch.tensor([[0.0], [4.5], [9.0]]))
        tensor([ True, False,  True])
        >>> region.intervals.shape
        torch.Size([2, 2])
    """

    def __init__(
        self,
        prediction: Hypotheses | Distribution,
        coverage: float = 0.9,
        *,
        samples: int = 4096,
        generator: torch.Generator | None = None,
        level: Float[Tensor, "*batch"] | None = None,
    ) -> None:
        self.distribution = smooth(prediction)
        self.error = 0.0
        check_generator(generator)
        if level is not None:
            check_floats("level", level)
            check_shape("level", level, self.distribution.batch_shape, "like the prediction")
        else:
            check_coverage(coverage)
            check_integer("samples", samples)
            level = _density_quantile(self.distribution, 1 - coverage, samples, generator)
            self.error = math.sqrt(coverage * (1 - coverage) / samples)
        if isinstance(self.distribution, KernelMixture):
            level = level.masked_fill(undefined(self.distribution.hypotheses), torch.nan)
        self.level = level

    def contains(self, y: Float[Tensor, "*sample_batch dim"]) -> Bool[Tensor, "*value"]:
        """Whether the density is at least the level."""
        check_coordinates("y", y, self.distribution.event_shape[-1], "the region has")
        check_broadcast("y", y, self.distribution.batch_shape, "the region has")
        return self.distribution.log_prob(y) >= self.level

    @property
    def intervals(self) -> Float[Tensor, "*batch pieces 2"]:
        """The intervals between the places where the density of a `KernelMixture` crosses the level."""
        _check_line(self.distribution.event_shape[-1])
        if not isinstance(self.distribution, KernelMixture):
            kind = type(self.distribution).__name__
            raise NotImplementedError(f"intervals are known for a KernelMixture, not for a {kind}")
        return level_crossings(self.distribution, self.level)

    def volume(self, samples: int = 4096, generator: torch.Generator | None = None) -> Estimate:
        """The length in one dimension; in more, by importance sampling from a mixture with twice the widths."""
        if isinstance(self.distribution, KernelMixture) and self.distribution.hypotheses.dim == 1:
            return _length(self.intervals, self.level.isnan())
        check_integer("samples", samples, least=2)
        check_generator(generator)
        proposal = _wider(self.distribution)
        y = _drawn(proposal, samples, generator)
        each = torch.where(self.contains(y), (-proposal.log_prob(y)).exp(), 0.0)
        endless = self.level == -torch.inf
        error = each.std(0) / math.sqrt(samples)
        value = each.mean(0).masked_fill(endless, torch.inf).masked_fill(self.level.isnan(), torch.nan)
        return Estimate(value, error.masked_fill(endless, 0))


def smooth(prediction: Hypotheses | Distribution) -> Distribution:
    """The prediction as a distribution with a density."""
    check_prediction(prediction)
    if isinstance(prediction, Distribution):
        return prediction
    if prediction.widths is None:
        raise ValueError(
            "prediction has no widths: a density needs them, or a distribution such as h.density(law)"
        )
    return prediction.mixture()


def nearest(
    hypotheses: Hypotheses, y: Float[Tensor, "*sample_batch dim"], distance: Distance
) -> Float[Tensor, "*value"]:
    """The distance of each outcome to the nearest hypothesis that has a probability; NaN where nobody knows."""
    each = measured(distance, y[..., None, :], hypotheses.points)
    near = each.masked_fill(hypotheses.probs == 0, torch.inf).amin(-1)
    return near.masked_fill(undefined(hypotheses), torch.nan)


def _density_quantile(
    distribution: Distribution, share: float, samples: int, generator: torch.Generator | None
) -> Tensor:
    """The log density that `share` of the draws stay below."""
    drawn = _drawn(distribution, samples, generator)
    log_density = distribution.log_prob(drawn).sort(0).values
    return log_density[min(samples - 1, math.floor(share * samples))]


def _drawn(distribution: Distribution, samples: int, generator: torch.Generator | None) -> Tensor:
    """Draws `(samples, *batch, dim)`; those of torch's own distributions have no generator."""
    if generator is None:
        return distribution.sample(torch.Size([samples]))
    if "generator" not in inspect.signature(distribution.sample).parameters:
        kind = type(distribution).__name__
        raise ValueError(f"generator must be None for a {kind}, which draws from torch's default one")
    return distribution.sample(torch.Size([samples]), generator)  # type: ignore[call-arg]


def _wider(distribution: Distribution) -> Distribution:
    if not isinstance(distribution, KernelMixture):
        return distribution
    h = distribution.hypotheses
    wide = Hypotheses(h.points, h.logits, h.link, 2 * distribution.widths)
    return KernelMixture(wide, distribution.kernel)


def _length(intervals: Tensor, unknown: Tensor) -> Estimate:
    value = (intervals[..., 1] - intervals[..., 0]).nansum(-1).masked_fill(unknown, torch.nan)
    return Estimate(value, torch.zeros_like(value))


def _check_line(dim: int) -> None:
    if dim != 1:
        raise ValueError(f"intervals exist in one dimension, the region has {dim}: use contains and volume")
