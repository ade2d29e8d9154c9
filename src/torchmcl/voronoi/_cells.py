"""Voronoi cells of points in a support: the masses, the means, and draws from the laws inside them.

The laws are the Gaussian of some scale about the point, cut to its cell, and the limit of an infinite scale,
the uniform law. The mass of a cell is the integral of `exp(-r^2 / (2 scale^2))` over it: the volume in the
limit. Everything is computed in double precision, whatever the points came in.
"""

import math
from abc import ABC, abstractmethod
from functools import cached_property

import torch
from jaxtyping import Float, Int
from torch import Tensor

from torchmcl.voronoi import _monte_carlo as rays
from torchmcl.voronoi.estimates import Estimate

__all__ = ["Cells", "Intervals", "MonteCarloCells", "PointMasses"]


class Cells(ABC):
    """The cells of points `(*batch, hypotheses, dim)` and the law of a scale in them.

    Subclasses work on one batch axis.
    """

    def __init__(self, points: Float[Tensor, "*batch hypotheses dim"], scale: float = math.inf) -> None:
        self.shape = points.shape
        self.points = points.detach().double().reshape(-1, *points.shape[-2:])
        self.scale = scale

    @cached_property
    def masses(self) -> Estimate:
        """The mass of each cell; a point that coincides with one of lower index has none.

        A point that is not finite makes NaN of its whole batch item.
        """
        broken = self.points.isfinite().flatten(1).all(-1).logical_not()[:, None]
        value, error = (
            part.masked_fill(broken, torch.nan).reshape(self.shape[:-1]) for part in self._masses()
        )
        return Estimate(value, error)

    def mean(self, probs: Float[Tensor, "*batch hypotheses"]) -> Float[Tensor, "*batch dim"]:
        """The mean of the mixture of the cells with these probabilities."""
        probs = probs.double().reshape(self.points.shape[:2])[..., None]
        means = torch.where(probs == 0, 0, self._means())
        return self._point((probs * means).sum(-2)).reshape(*self.shape[:-2], self.shape[-1])

    def sample(
        self, cell: Int[Tensor, "*sample"], generator: torch.Generator | None = None
    ) -> Float[Tensor, "*sample dim"]:
        """One draw from each cell of `cell (*sample, *batch)`; NaN from an empty one."""
        item = torch.arange(len(self.points), device=cell.device).reshape(self.shape[:-2]).expand(cell.shape)
        where = item.reshape(-1), cell.reshape(-1)
        full = self.masses.value.reshape(self.points.shape[:2])[where] > 0
        drawn = self.points.new_full((cell.numel(), self.shape[-1]), torch.nan)
        drawn[full] = self._sample(where[0][full], where[1][full], generator)
        return drawn.reshape(*cell.shape, self.shape[-1])

    @abstractmethod
    def _masses(self) -> tuple[Tensor, Tensor]:
        """Values and errors `(batch, hypotheses)`."""

    @abstractmethod
    def _means(self) -> Tensor:
        """The mean in each cell `(batch, hypotheses, coordinates)`, of no meaning where the cell is empty."""

    def _point(self, mean: Tensor) -> Tensor:
        """A mean as a point."""
        return mean

    @abstractmethod
    def _sample(self, item: Tensor, cell: Tensor, generator: torch.Generator | None) -> Tensor:
        """Draws `(draws, dim)` from the cells `cell` of the batch items `item`, both `(draws,)`."""


class PointMasses(Cells):
    """All the mass of a cell in its point: the limit of a scale of 0."""

    def _masses(self) -> tuple[Tensor, Tensor]:
        return torch.ones_like(self.points[..., 0]), torch.zeros_like(self.points[..., 0])

    def _means(self) -> Tensor:
        return self.points

    def _sample(self, item: Tensor, cell: Tensor, generator: torch.Generator | None) -> Tensor:
        return self.points[item, cell]


class Intervals(Cells):
    """Cells on a line, exact: they end half way between neighbours."""

    def __init__(
        self,
        points: Float[Tensor, "*batch hypotheses 1"],
        low: Tensor,
        high: Tensor,
        *,
        scale: float = math.inf,
    ) -> None:
        super().__init__(points, scale)
        ordered, order = self.points[..., 0].sort(dim=-1, stable=True)
        first = torch.searchsorted(ordered, ordered)
        after = torch.searchsorted(ordered, ordered, right=True)
        fence = torch.nn.functional.pad(ordered, (1, 0), value=-torch.inf)
        fence = torch.nn.functional.pad(fence, (0, 1), value=torch.inf)
        left = ((fence.take_along_dim(first, -1) + ordered) / 2).clamp(low, high)
        right = ((fence.take_along_dim(after + 1, -1) + ordered) / 2).clamp(low, high)
        leads = first == torch.arange(first.shape[-1], device=first.device)
        edges = torch.stack([left, torch.where(leads, right, left)], dim=-1)
        self.edges = torch.zeros_like(edges).scatter(-2, order[..., None].expand_as(edges), edges)

    def _masses(self) -> tuple[Tensor, Tensor]:
        left, right = (self.edges - self.points).unbind(-1)
        value = right - left
        if math.isfinite(self.scale):
            # Both ends on the side of small probabilities, which floating point resolves.
            left, right = torch.where(left > 0, -right, left), torch.where(left > 0, -left, right)
            share = torch.special.ndtr(right / self.scale) - torch.special.ndtr(left / self.scale)
            value = self.scale * math.sqrt(2 * math.pi) * share.clamp(min=0)
        return value, torch.zeros_like(value)

    def _means(self) -> Tensor:
        if math.isinf(self.scale):
            return self.edges.mean(-1, keepdim=True)
        left, right = torch.exp(-((self.edges - self.points) / self.scale).square() / 2).unbind(-1)
        shift = self.scale**2 * (left - right) / self._masses()[0]
        mean = (self.points[..., 0] + shift).clamp(self.edges[..., 0], self.edges[..., 1])
        return mean[..., None]

    def _sample(self, item: Tensor, cell: Tensor, generator: torch.Generator | None) -> Tensor:
        left, right = self.edges[item, cell].unbind(-1)
        uniforms = torch.empty_like(left).uniform_(generator=generator)
        if math.isinf(self.scale):
            return torch.lerp(left, right, uniforms)[:, None]
        return rays.truncated_normal(uniforms, self.points[item, cell, 0], self.scale, left, right)[:, None]


class MonteCarloCells(Cells):
    """Cells in a box of any dimension, which may be infinite: masses and means by `samples` pairs of rays."""

    rounds = 64

    def __init__(
        self,
        points: Float[Tensor, "*batch hypotheses dim"],
        low: Tensor,
        high: Tensor,
        *,
        scale: float = math.inf,
        samples: int = 4096,
        seed: int = 0,
    ) -> None:
        super().__init__(points, scale)
        self.corners, self.samples, self.seed = (low, high), samples, seed

    @cached_property
    def measure(self) -> rays.Measure:
        """What the rays tell of the cells."""
        return rays.measure(self.points, self.scale, self.corners, self.samples, self.seed)

    def _masses(self) -> tuple[Tensor, Tensor]:
        return self.measure.mass, self.measure.error

    def _means(self) -> Tensor:
        return self.measure.mean

    def _sample(self, item: Tensor, cell: Tensor, generator: torch.Generator | None) -> Tensor:
        """By rejection; a draw that `rounds` rounds have missed comes from a random walk inside its cell."""
        low, high = self.corners
        drawn = self.points[item, cell].clone()
        missing = torch.arange(len(item), device=item.device)
        for _ in range(self.rounds):
            own = self.points[item[missing], cell[missing]]
            if math.isinf(self.scale):
                proposal = low + (high - low) * torch.empty_like(own).uniform_(generator=generator)
            else:
                proposal = own + self.scale * torch.empty_like(own).normal_(generator=generator)
            distances = (proposal[:, None] - self.points[item[missing]]).square().sum(-1)
            inside = (distances.argmin(-1) == cell[missing]) & ((proposal >= low) & (proposal <= high)).all(
                -1
            )
            drawn[missing[inside]] = proposal[inside]
            missing = missing[~inside]
            if not len(missing):
                return drawn
        where = item[missing], cell[missing]
        start = self.measure.inner[where]
        drawn[missing] = rays.hit_and_run(
            self.points[where], self.points[item[missing]], start, self.scale, self.corners, generator
        )
        return drawn
