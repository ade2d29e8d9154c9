"""What is inside the Voronoi cells: a law for each cell."""

import math
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from torchmcl.distances import Distance, euclidean
from torchmcl.hypotheses import Hypotheses  # noqa: F401
from torchmcl.voronoi._cells import Atoms, Cells
from torchmcl.voronoi.supports import Sphere, Support, euclidean_cells

__all__ = ["Dirac", "Gaussian", "Law", "Uniform"]


@runtime_checkable
class Law(Protocol):
    """What is inside the cells: a kernel about the hypothesis, cut to the cell and normalised there."""

    @property
    def distance(self) -> Distance:
        """The distance that shapes the cells."""

    def contains(self, y: Tensor) -> Tensor:
        """Which points `(*batch, dim)` can occur at all."""

    def log_kernel(self, y: Tensor, centre: Tensor) -> Tensor:
        """The logarithm of the density at `y` in the cell of `centre`, but for its normalisation."""

    def cells(self, points: Tensor) -> Cells:
        """The cells: the mass of the kernel in each of them, the mean of a mixture, and draws."""


@dataclass(frozen=True)
class Dirac:
    """All the mass of a cell in its hypothesis: `π_k = δ(f_k)`, the law of the paper's metrics (eq. 12).

    >>> mixture = Hypotheses(torch.tensor([[0.0], [3.0]])).density(Dirac())
    >>> mixture.mean, mixture.prob(lambda y: y[..., 0] < 1).value
    (tensor([1.5000]), tensor(0.5000))
    """

    @property
    def distance(self) -> Distance:
        """Euclidean; no distance matters to points."""
        return euclidean

    def contains(self, y: Float[Tensor, "*batch dim"]) -> Bool[Tensor, "*batch"]:
        """Every finite point."""
        return y.isfinite().all(-1)

    def log_kernel(self, y: Tensor, centre: Tensor) -> Tensor:
        """Raises: points have no density."""
        raise ValueError(
            "Dirac has no density; use Uniform(support) or Gaussian(scale), or ask for prob(region)"
        )

    def cells(self, points: Float[Tensor, "*batch hypotheses dim"]) -> Cells:
        """The hypotheses themselves."""
        return Atoms(points)


@dataclass(frozen=True)
class Uniform:
    """The least informative law: `π_k(y) = 1(y in cell k) / volume(cell k)` (eq. 11).

    On the sphere the density is one by area: it integrates to 1 against `cos(elevation) dazimuth delevation`.

    >>> from torchmcl import Box
    >>> mixture = Hypotheses(torch.tensor([[1.0], [3.0]])).density(Uniform(Box(0, 10)))
    >>> mixture.log_prob(torch.tensor([[0.5], [9.0]])).exp()
    tensor([0.2500, 0.0625])
    """

    support: Support

    @property
    def distance(self) -> Distance:
        """That of the support."""
        return self.support.distance

    def contains(self, y: Float[Tensor, "*batch dim"]) -> Bool[Tensor, "*batch"]:
        """The points of the support."""
        return self.support.contains(y)

    def log_kernel(
        self, y: Float[Tensor, "*batch dim"], centre: Float[Tensor, "*batch dim"]
    ) -> Float[Tensor, "*batch"]:
        """0: the density is the same everywhere in a cell."""
        return torch.zeros_like(y[..., 0])

    def cells(self, points: Float[Tensor, "*batch hypotheses dim"]) -> Cells:
        """The cells in the support, and their volumes."""
        return self.support.cells(points)


@dataclass(frozen=True)
class Gaussian:
    """A round peak on the hypothesis: `π_k(y) ∝ 1(y in cell k) exp(-|y - f_k|^2 / (2 scale^2))`.

    Without a support the cells reach to infinity. On `Sphere()` the kernel is the von Mises-Fisher law,
    `exp((cos r - 1) / scale^2)` for the angle r, and the density one by area. The normalisation is exact in
    one dimension, by quadrature on the plane and on the sphere, and above a Monte Carlo estimate with a
    standard error (`VoronoiMixture.log_prob_error`).

    >>> mixture = Hypotheses(torch.tensor([[-5.0], [5.0]])).density(Gaussian(1.0))
    >>> mixture.log_prob(torch.tensor([[5.0], [6.0]])).exp()
    tensor([0.1995, 0.1210])
    """

    scale: float | int
    support: Support | None = None

    def __post_init__(self) -> None:
        if not (math.isfinite(self.scale) and self.scale > 0):
            raise ValueError(f"scale must be a positive number, got {self.scale}")

    @property
    def distance(self) -> Distance:
        """That of the support, Euclidean without one."""
        return euclidean if self.support is None else self.support.distance

    def contains(self, y: Float[Tensor, "*batch dim"]) -> Bool[Tensor, "*batch"]:
        """The points of the support; every finite one without."""
        return y.isfinite().all(-1) if self.support is None else self.support.contains(y)

    def log_kernel(
        self, y: Float[Tensor, "*batch dim"], centre: Float[Tensor, "*batch dim"]
    ) -> Float[Tensor, "*batch"]:
        """`-r^2 / (2 scale^2)`, or `(cos r - 1) / scale^2` on the sphere."""
        radius = self.distance(y, centre)
        chord = 2 * torch.sin(radius / 2) if isinstance(self.support, Sphere) else radius
        return -(chord / self.scale).square() / 2

    def cells(self, points: Float[Tensor, "*batch hypotheses dim"]) -> Cells:
        """The cells, and the mass of the kernel in them."""
        if self.support is not None:
            return self.support.cells(points, float(self.scale))
        dim = points.shape[-1]
        return euclidean_cells(points, [-math.inf] * dim, [math.inf] * dim, float(self.scale))
