"""What is inside the Voronoi cells: a law for each cell."""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from torchmcl.distances import Distance, euclidean
from torchmcl.errors import check_floats, check_number
from torchmcl.hypotheses import Hypotheses  # noqa: F401
from torchmcl.voronoi._cells import Cells, PointMasses
from torchmcl.voronoi.supports import Space, Support, check_pair

__all__ = ["Dirac", "Gaussian", "Law", "Uniform"]


@runtime_checkable
class Law(Protocol):
    """What is inside the cells: a kernel about the hypothesis, cut to the cell and normalized there."""

    @property
    def distance(self) -> Distance:
        """The distance that shapes the cells."""

    def contains(self, y: Tensor) -> Tensor:
        """Which points can occur at all.

        Args:
            y: Points `(*batch, dim)`.

        Returns:
            Booleans `(*batch)`.
        """

    def log_kernel(self, y: Tensor, center: Tensor) -> Tensor:
        """The logarithm of the density in the cell of a center, but for its normalization.

        Args:
            y: Points `(*batch, dim)`.
            center: The hypotheses in whose cells they lie, `(*batch, dim)`.

        Returns:
            Logarithms `(*batch)`.
        """

    def cells(self, points: Tensor) -> Cells:
        """The cells: the mass of the kernel in each of them, the mean of a mixture, and draws.

        Args:
            points: `(*batch, hypotheses, dim)`.

        Returns:
            The cells of the points.
        """


@dataclass(frozen=True)
class Dirac:
    """All the mass of a cell in its hypothesis: `π_k = δ(f_k)`, the law of the paper's metrics (eq. 12).

    Example:
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
        check_floats("y", y, "*batch dim")
        return y.isfinite().all(-1)

    def log_kernel(self, y: Tensor, center: Tensor) -> Tensor:
        """Raises: points have no density."""
        raise ValueError(
            "Dirac has no density; use Uniform(support) or Gaussian(scale), or ask for prob(region)"
        )

    def cells(self, points: Float[Tensor, "*batch hypotheses dim"]) -> Cells:
        """The hypotheses themselves."""
        check_floats("points", points, "*batch hypotheses dim")
        return PointMasses(points)


@dataclass(frozen=True)
class Uniform:
    """The uniform density in each cell: `π_k(y) = 1(y in cell k) / volume(cell k)` (eq. 11).

    On the sphere the density is one by area: it integrates to 1 against `cos(elevation) dazimuth delevation`.

    Args:
        support: A `Box` or the `Sphere`.

    Example:
        >>> from torchmcl import Box
        >>> mixture = Hypotheses(torch.tensor([[1.0], [3.0]])).density(Uniform(Box(0, 10)))
        >>> mixture.log_prob(torch.tensor([[0.5], [9.0]])).exp()
        tensor([0.2500, 0.0625])
    """

    support: Support

    def __post_init__(self) -> None:
        _check_support(self.support)

    @property
    def distance(self) -> Distance:
        """That of the support."""
        return self.support.distance

    def contains(self, y: Float[Tensor, "*batch dim"]) -> Bool[Tensor, "*batch"]:
        """The points of the support."""
        return self.support.contains(y)

    def log_kernel(
        self, y: Float[Tensor, "*batch dim"], center: Float[Tensor, "*batch dim"]
    ) -> Float[Tensor, "*batch"]:
        """0: the density is the same everywhere in a cell."""
        check_pair(y, center, self.support.dim)
        return torch.zeros_like(y[..., 0])

    def cells(self, points: Float[Tensor, "*batch hypotheses dim"]) -> Cells:
        """The cells in the support, and their volumes."""
        return self.support.cells(points)


@dataclass(frozen=True)
class Gaussian:
    """A round peak on the hypothesis: `π_k(y) ∝ 1(y in cell k) exp(-|y - f_k|^2 / (2 scale^2))`.

    Without a support the cells reach to infinity. On `Sphere()` the kernel is the von Mises-Fisher law,
    `exp((cos r - 1) / scale^2)` for the angle r, and the density one by area. The normalization is exact in
    one dimension, by quadrature on the plane and on the sphere, and above a Monte Carlo estimate with a
    standard error (`VoronoiMixture.log_prob_error`).

    Args:
        scale: The standard deviation of the kernel, in the units of the targets.
        support: A `Box`, the `Sphere`, or `None` for the whole space.

    Example:
        >>> mixture = Hypotheses(torch.tensor([[-5.0], [5.0]])).density(Gaussian(1.0))
        >>> mixture.log_prob(torch.tensor([[5.0], [6.0]])).exp()
        tensor([0.1995, 0.1210])
    """

    scale: float | int
    support: Support | None = None

    def __post_init__(self) -> None:
        check_number("scale", self.scale, 1 / MOST_VOLUME, MOST_VOLUME)
        if self.support is not None:
            _check_support(self.support)

    @property
    def distance(self) -> Distance:
        """That of the support, Euclidean without one."""
        return euclidean if self.support is None else self.support.distance

    def contains(self, y: Float[Tensor, "*batch dim"]) -> Bool[Tensor, "*batch"]:
        """The points of the support; every finite one without."""
        check_floats("y", y, "*batch dim")
        return self._support(y).contains(y)

    def log_kernel(
        self, y: Float[Tensor, "*batch dim"], center: Float[Tensor, "*batch dim"]
    ) -> Float[Tensor, "*batch"]:
        """The kernel of the support: `-r^2 / (2 scale^2)`, or `(cos r - 1) / scale^2` on the sphere."""
        check_floats("y", y, "*batch dim")
        return self._support(y).log_kernel(y, center, float(self.scale))

    def cells(self, points: Float[Tensor, "*batch hypotheses dim"]) -> Cells:
        """The cells, and the mass of the kernel in them."""
        check_floats("points", points, "*batch hypotheses dim")
        dim = points.shape[-1]
        limit = MOST_VOLUME ** (1 / (dim + 1))
        check_number(f"scale of a Gaussian in {dim} dimensions", self.scale, 1 / limit, limit)
        return self._support(points).cells(points, float(self.scale))

    def _support(self, like: Tensor) -> Support:
        return Space(like.shape[-1]) if self.support is None else self.support


MOST_VOLUME = 1e140
"""A scale to the power of the dimension, and its square, must be floating-point numbers."""


def _check_support(support: object) -> None:
    if not isinstance(support, Support):
        raise TypeError(f"support must be a Box or a Sphere, got {type(support).__name__}")
