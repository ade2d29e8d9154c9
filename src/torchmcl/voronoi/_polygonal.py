"""Voronoi cells that are polygons: on the plane and on the sphere.

On the sphere the Gaussian is replaced by the von Mises-Fisher law
`exp((cos r - 1) / scale^2)`, which is `exp(-r^2 / (2 scale^2))` for small angles. Its mass in a polygon, as
that of the Gaussian on the plane, is a sum over edges: in polar coordinates about the point the radial
integral is known, and the one along the edge is done by Gauss-Legendre quadrature.
"""

import math
from abc import abstractmethod
from collections.abc import Callable
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from torchmcl.directions import from_vectors, to_vectors
from torchmcl.voronoi import polygons
from torchmcl.voronoi._cells import Cells

__all__ = ["PlanarCells", "SphericalCells"]

NODES, WEIGHTS = np.polynomial.legendre.leggauss(64)
REACH = 40.0
"""Scales beyond which a Gaussian is 0 in double precision."""


class PolygonalCells(Cells):
    """Cells as polygons; draws and polygons are in coordinates of their own, `_restore` leads back."""

    rounds = 100_000

    @cached_property
    @abstractmethod
    def polygons(self) -> Float[Tensor, "batch hypotheses vertices 3"]:
        """The cells."""

    @abstractmethod
    def _areas(self, triangles: Tensor) -> Tensor:
        """The areas of triangles."""

    @abstractmethod
    def _place(self, triangles: Tensor, uniforms: Tensor) -> Tensor:
        """Uniform points in triangles."""

    @abstractmethod
    def _edge_masses(self, items: slice) -> Tensor:
        """The mass of the Gaussian between its center and each edge, for some of the batch."""

    @abstractmethod
    def _kernel(self, item: Tensor, cell: Tensor, generator: torch.Generator | None) -> tuple[Tensor, Tensor]:
        """Draws from the whole Gaussian, and whether they fell into the cell."""

    @abstractmethod
    def _excess(self, draws: Tensor, item: Tensor, cell: Tensor) -> Tensor:
        """By how much the Gaussian's exponent at the draws is below its maximum in the cell."""

    @abstractmethod
    def _restore(self, draws: Tensor, item: Tensor, cell: Tensor) -> Tensor:
        """Draws as points of the support."""

    @cached_property
    def triangles(
        self,
    ) -> tuple[Float[Tensor, "batch hypotheses triangles 3 3"], Float[Tensor, "batch hypotheses triangles"]]:
        """The cells cut into triangles, and the areas of those."""
        parts = polygons.fan(self.polygons)
        triangles = parts.reshape(*self.points.shape[:2], parts.shape[2:-2].numel(), 3, 3)
        return triangles, self._areas(triangles)

    def _masses(self) -> tuple[Tensor, Tensor]:
        if math.isinf(self.scale):
            value = self.triangles[1].sum(-1)
        else:
            step = max(1, 2**20 // max(1, self.polygons[:1, ..., 0].numel() * len(NODES)))
            starts = range(0, max(1, len(self.points)), step)
            value = torch.cat([self._edge_masses(slice(start, start + step)) for start in starts]).clamp(
                min=0
            )
        return value, torch.zeros_like(value)

    def _uniform(self, item: Tensor, cell: Tensor, generator: torch.Generator | None) -> Tensor:
        """Uniform draws: a triangle by its area, then a point of it."""
        triangles, areas = self.triangles
        reached = areas[item, cell].cumsum(-1)
        uniforms = torch.empty(len(item), 3, dtype=areas.dtype, device=areas.device).uniform_(
            generator=generator
        )
        chosen = (reached <= uniforms[:, :1] * reached[:, -1:]).sum(-1).clamp(max=areas.shape[-1] - 1)
        return self._place(triangles[item, cell, chosen], uniforms[:, 1:])

    def _sample(self, item: Tensor, cell: Tensor, generator: torch.Generator | None) -> Tensor:
        """Gaussian draws by rejection, in turn from the whole Gaussian, which suits large cells, and from the
        uniform law in the cell, which suits small ones."""
        drawn = self._uniform(item, cell, generator)
        if math.isinf(self.scale):
            return self._restore(drawn, item, cell)
        missing = torch.arange(len(item), device=item.device)
        for turn in range(self.rounds):
            if not len(missing):
                return self._restore(drawn, item, cell)
            where = item[missing], cell[missing]
            if turn % 2 == 0:
                proposal, accepted = self._kernel(*where, generator)
            else:
                proposal = self._uniform(*where, generator)
                height = torch.exp(-self._excess(proposal, *where))
                accepted = torch.empty_like(height).uniform_(generator=generator) < height
            drawn[missing[accepted]] = proposal[accepted]
            missing = missing[~accepted]
        raise RuntimeError(
            f"{len(missing)} draws from a Gaussian of scale {self.scale} never fell into their cells"
        )


class PlanarCells(PolygonalCells):
    """Cells in a rectangle, which may be infinite; coordinates are relative to the point, the third is 1."""

    def __init__(
        self,
        points: Float[Tensor, "*batch hypotheses 2"],
        low: Tensor,
        high: Tensor,
        *,
        scale: float = math.inf,
    ) -> None:
        super().__init__(points, scale)
        self.low, self.high = low, high

    @cached_property
    def polygons(self) -> Float[Tensor, "batch hypotheses vertices 3"]:
        """The cells, cut where the Gaussian vanishes."""
        low, high = self.low, self.high
        if math.isfinite(self.scale):
            low = torch.maximum(low, self.points - REACH * self.scale)
            high = torch.minimum(high, self.points + REACH * self.scale)
        cells = polygons.planar_cells(self.points, low, high)
        return cells * (low < high).all(-1).expand(self.points.shape[:2])[..., None, None]

    @cached_property
    def edges(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Of each edge: direction, signed distance of the point on its left, start and end along it."""
        start = self.polygons[..., :2]
        side = start.roll(-1, -2) - start
        along = polygons.normalize(side)
        offset = start[..., 0] * along[..., 1] - start[..., 1] * along[..., 0]
        begin = (start * along).sum(-1)
        return along, offset, begin, begin + torch.linalg.vector_norm(side, dim=-1)

    def _areas(self, triangles: Tensor) -> Tensor:
        return polygons.planar_areas(triangles)

    def _place(self, triangles: Tensor, uniforms: Tensor) -> Tensor:
        return polygons.planar_draw(triangles, uniforms)

    @cached_property
    def nearest(self) -> Float[Tensor, "batch hypotheses"]:
        """The distance of each point to its cell: 0 unless it lies outside of the rectangle."""
        _, offset, begin, end = self.edges
        away = torch.hypot(offset, torch.maximum(begin, -end).clamp(min=0)).amin(-1)
        inside = ((self.points >= self.low) & (self.points <= self.high)).all(-1)
        return torch.where(inside, 0, away)

    def _edge_masses(self, items: slice) -> Tensor:
        _, offset, begin, end = (part[items] for part in self.edges)
        # Seen from afar the full turns cancel, and only the exponential keeps its digits.
        afar = (self.nearest[items] > self.scale)[..., None, None]

        def integrand(position: Tensor) -> Tensor:
            exponent = ((offset[..., None] / self.scale).square() + (position / self.scale).square()) / 2
            safe = exponent.clamp(min=torch.finfo(exponent.dtype).tiny)
            return offset[..., None] / 2 * torch.where(afar, -torch.exp(-safe), -torch.expm1(-safe)) / safe

        return _along(integrand, begin, end, self.scale).sum(-1)

    def _means(self) -> Tensor:
        triangles, areas = self.triangles
        centroid = (areas[..., None] * triangles.mean(-2)[..., :2]).sum(-2) / areas.sum(-1, keepdim=True)
        if math.isinf(self.scale):
            return self.points + centroid
        along, offset, begin, end = self.edges
        outward = torch.stack([along[..., 1], -along[..., 0]], dim=-1)
        length = torch.special.ndtr(end / self.scale) - torch.special.ndtr(begin / self.scale)
        flux = torch.exp(-(offset / self.scale).square() / 2) * length * math.sqrt(2 * math.pi) * self.scale
        shift = -(self.scale**2) * (flux[..., None] * outward).sum(-2) / self._masses()[0][..., None]
        # In a cell this small the Gaussian is flat, and its differences between the edges are rounding.
        small = areas.sum(-1, keepdim=True) < 1e-8 * self.scale**2
        return self.points + torch.where(small, centroid, shift)

    def _kernel(self, item: Tensor, cell: Tensor, generator: torch.Generator | None) -> tuple[Tensor, Tensor]:
        shift = self.scale * torch.empty_like(self.points[item, cell]).normal_(generator=generator)
        y = self.points[item, cell] + shift
        inside = _in_cell(y, self.points[item], cell) & ((y >= self.low) & (y <= self.high)).all(-1)
        return torch.cat([shift, torch.ones_like(shift[:, :1])], -1), inside

    def _excess(self, draws: Tensor, item: Tensor, cell: Tensor) -> Tensor:
        return (draws[:, :2].square().sum(-1) - self.nearest[item, cell].square()) / (2 * self.scale**2)

    def _restore(self, draws: Tensor, item: Tensor, cell: Tensor) -> Tensor:
        y = self.points[item, cell] + draws[:, :2]
        return torch.minimum(torch.maximum(y, self.low), self.high)


class SphericalCells(PolygonalCells):
    """Cells on the sphere; coordinates are unit vectors."""

    mean_samples = 4096

    @cached_property
    def centers(self) -> Float[Tensor, "batch hypotheses 3"]:
        """The points as unit vectors."""
        return to_vectors(self.points)

    @cached_property
    def polygons(self) -> Float[Tensor, "batch hypotheses 4 vertices 3"]:
        """The cells, each in four pieces."""
        return polygons.spherical_cells(self.centers)

    def _areas(self, triangles: Tensor) -> Tensor:
        return polygons.spherical_areas(triangles)

    def _place(self, triangles: Tensor, uniforms: Tensor) -> Tensor:
        return polygons.spherical_draw(triangles, uniforms)

    def _edge_masses(self, items: slice) -> Tensor:
        center = self.centers[items][:, :, None, None]
        start = self.polygons[items]
        follow = start.roll(-1, -2)
        normal = polygons.normalize(torch.linalg.cross(start, follow - start))
        sine = (normal * center).sum(-1)
        foot = polygons.normalize(center - sine[..., None] * normal)
        begin = torch.atan2((start * torch.linalg.cross(normal, foot)).sum(-1), (start * foot).sum(-1))
        length = 2 * torch.asin((torch.linalg.vector_norm(follow - start, dim=-1) / 2).clamp(max=1))
        sine, cosine = sine[..., None], (1 - sine.square()).clamp(min=0).sqrt()[..., None]

        def integrand(position: Tensor) -> Tensor:
            drop = sine.square() / (1 + cosine) + 2 * cosine * (position / 2).sin().square()
            exponent = (drop / self.scale**2).clamp(min=torch.finfo(drop.dtype).tiny)
            return sine * -torch.expm1(-exponent) / exponent / (2 - drop).clamp(min=1e-12)

        found = _along(integrand, begin, begin + length, self.scale).sum((-1, -2))
        whole = 2 * math.pi * self.scale**2 * -math.expm1(-2 / self.scale**2)
        first = polygons.coincident(self.centers[items], polygons.SAME_DIRECTION).logical_not()
        alone = first & (first.sum(-1, keepdim=True) == 1)
        return torch.where(alone, whole, found) * first

    def _means(self) -> Tensor:
        """Mean vectors, shorter than 1: exact for the uniform law, else of seeded draws."""
        if math.isfinite(self.scale):
            return self._drawn_means()
        start = self.polygons
        follow = start.roll(-1, -2)
        normal = torch.linalg.cross(start, follow - start)
        length = torch.linalg.vector_norm(normal, dim=-1, keepdim=True)
        angle = torch.atan2(length, (start * follow).sum(-1, keepdim=True))
        edges = normal * angle / torch.where(length == 0, 1, length)
        return edges.sum((-2, -3)) / 2 / self.triangles[1].sum(-1, keepdim=True)

    def _drawn_means(self) -> Tensor:
        generator = torch.Generator(self.points.device).manual_seed(0)
        item, cell = (self._masses()[0] > 0).nonzero().unbind(-1)
        draws = to_vectors(
            self._sample(item.repeat(self.mean_samples), cell.repeat(self.mean_samples), generator)
        )
        means = torch.full_like(self.centers, torch.nan)
        return means.index_put((item, cell), draws.reshape(self.mean_samples, -1, 3).mean(0))

    def _point(self, mean: Tensor) -> Tensor:
        return from_vectors(mean)

    def _kernel(self, item: Tensor, cell: Tensor, generator: torch.Generator | None) -> tuple[Tensor, Tensor]:
        center = self.centers[item, cell]
        uniforms = torch.empty_like(center[:, :1]).uniform_(generator=generator)
        drop = -(self.scale**2) * torch.log1p(uniforms * math.expm1(-2 / self.scale**2))
        aside = torch.empty_like(center).normal_(generator=generator)
        tangent = polygons.normalize(aside - (aside * center).sum(-1, keepdim=True) * center)
        y = (1 - drop) * center + (drop * (2 - drop)).clamp(min=0).sqrt() * tangent
        return y, _in_cell(y, self.centers[item], cell)

    def _excess(self, draws: Tensor, item: Tensor, cell: Tensor) -> Tensor:
        return (draws - self.centers[item, cell]).square().sum(-1) / (2 * self.scale**2)

    def _restore(self, draws: Tensor, item: Tensor, cell: Tensor) -> Tensor:
        return from_vectors(draws)


def _in_cell(y: Tensor, points: Tensor, cell: Tensor) -> Tensor:
    return (y[:, None] - points).square().sum(-1).argmin(-1) == cell


def _along(integrand: Callable[[Tensor], Tensor], begin: Tensor, end: Tensor, scale: float) -> Tensor:
    """Integrals along edges, with nodes dense within a scale of 0 and geometrically sparser beyond."""
    begin, end = torch.asinh(begin / scale)[..., None], torch.asinh(end / scale)[..., None]
    nodes = (begin + end) / 2 + (end - begin) / 2 * begin.new_tensor(NODES)
    values = integrand(scale * nodes.sinh()) * scale * nodes.cosh()
    return (values * begin.new_tensor(WEIGHTS)).sum(-1) * (end - begin)[..., 0] / 2
