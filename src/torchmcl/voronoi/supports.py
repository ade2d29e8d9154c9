"""Where targets can be: a box, the sphere, or the whole space."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from torchmcl.distances import Distance, euclidean, great_circle
from torchmcl.errors import (
    check_broadcast,
    check_coordinates,
    check_floats,
    check_generator,
    check_integer,
    check_number,
    check_sizes,
)
from torchmcl.voronoi._cells import Cells, Intervals, MonteCarloCells
from torchmcl.voronoi._polygonal import PlanarCells, SphericalCells
from torchmcl.voronoi.estimates import Estimate

__all__ = ["Box", "Space", "Sphere", "Support"]


Numbers = int | float | Sequence[int | float] | Tensor
"""One number, or one for each coordinate."""


@runtime_checkable
class Support(Protocol):
    """A set that can be cut into Voronoi cells, with a round kernel of its own."""

    @property
    def dim(self) -> int:
        """The number of coordinates of a point."""

    @property
    def volume(self) -> float:
        """The volume of the whole."""

    @property
    def distance(self) -> Distance:
        """The distance that shapes the cells."""

    def contains(self, y: Tensor) -> Tensor:
        """Which points lie in the support.

        Args:
            y: Points `(*batch, dim)`.

        Returns:
            Booleans `(*batch)`.
        """

    def sample(self, shape: tuple[int, ...] = (), generator: torch.Generator | None = None) -> Tensor:
        """Uniform draws.

        Args:
            shape: How many draws.
            generator: The source of randomness; torch's default one if `None`.

        Returns:
            Points `(*shape, dim)`.
        """

    def log_kernel(self, y: Tensor, center: Tensor, scale: float) -> Tensor:
        """The logarithm of the kernel about a center; 0 at the center.

        Args:
            y: Points `(*batch, dim)`.
            center: `(*batch, dim)`.
            scale: The width of the kernel.

        Returns:
            Logarithms `(*batch)`.
        """

    def cells(self, points: Tensor, scale: float = math.inf) -> Cells:
        """The Voronoi cells, with the kernel of that scale in them.

        Args:
            points: `(*batch, hypotheses, dim)`.
            scale: The width of the kernel; infinite for the uniform density.

        Returns:
            The cells: masses, means and draws.
        """


@dataclass(frozen=True, init=False)
class Box:
    """`[low_1, high_1] x ... x [low_d, high_d]`, with Euclidean cells; two numbers make an interval.

    Volumes of cells are exact in one and two dimensions. Above, they are Monte Carlo estimates with a standard
    error.

    Args:
        low: The least value of each coordinate.
        high: The greatest value of each coordinate.
        samples: The number of pairs of rays of a Monte Carlo estimate, in three dimensions and more.
        seed: The seed of the rays: the same seed gives the same estimate.

    Example:
        >>> box = Box([-1, -1], [1, 1])
        >>> box.dim, box.volume
        (2, 4.0)
        >>> box.cell_volumes(torch.tensor([[-0.5, 0.0], [0.0, 0.0], [5.0, 0.0]])).value
        tensor([1.5000, 2.5000, 0.0000])
    """

    low: tuple[float, ...]
    high: tuple[float, ...]
    samples: int
    seed: int

    def __init__(
        self,
        low: Numbers,
        high: Numbers,
        *,
        samples: int = 4096,
        seed: int = 0,
    ) -> None:
        corners = {"low": _numbers("low", low), "high": _numbers("high", high)}
        if len(corners["low"]) != len(corners["high"]):
            raise ValueError(f"low has {len(corners['low'])} coordinates, high has {len(corners['high'])}")
        if not all(a < b for a, b in zip(corners["low"], corners["high"], strict=True)):
            raise ValueError(f"low must be below high in every coordinate, got low={low} and high={high}")
        check_integer("samples", samples, least=2)
        check_integer("seed", seed, least=0, most=2**64 - 1)
        for name, value in (*corners.items(), ("samples", samples), ("seed", seed)):
            object.__setattr__(self, name, value)

    @property
    def dim(self) -> int:
        """The number of coordinates of a point."""
        return len(self.low)

    @property
    def volume(self) -> float:
        """The product of the sides."""
        return math.prod(b - a for a, b in zip(self.low, self.high, strict=True))

    @property
    def distance(self) -> Distance:
        """The distance that shapes the cells: Euclidean."""
        return euclidean

    def contains(self, y: Float[Tensor, "*batch dim"]) -> Bool[Tensor, "*batch"]:
        """Which points lie in the box, its faces included.

        Args:
            y: Points `(*batch, dim)`.

        Returns:
            Booleans `(*batch)`.
        """
        check_coordinates("y", y, self.dim, "the support has")
        return ((y >= y.new_tensor(self.low)) & (y <= y.new_tensor(self.high))).all(-1)

    def sample(
        self, shape: tuple[int, ...] = (), generator: torch.Generator | None = None
    ) -> Float[Tensor, "*shape dim"]:
        """Uniform draws, on the device of the generator.

        Args:
            shape: How many draws.
            generator: The source of randomness; torch's default one if `None`.

        Returns:
            Points `(*shape, dim)`.
        """
        uniforms = _uniforms(shape, self.dim, generator)
        low, high = uniforms.new_tensor(self.low), uniforms.new_tensor(self.high)
        return torch.minimum(low + (high - low) * uniforms, high)

    def log_kernel(
        self, y: Float[Tensor, "*batch dim"], center: Float[Tensor, "*batch dim"], scale: float
    ) -> Float[Tensor, "*batch"]:
        """The Gaussian, `-|y - center|^2 / (2 scale^2)`."""
        _check_kernel(y, center, scale, self.dim)
        return _gaussian(euclidean(y, center), scale)

    def cells(self, points: Float[Tensor, "*batch hypotheses dim"], scale: float = math.inf) -> Cells:
        """The Voronoi cells of the points, with the Gaussian of that scale in them, uniform by default.

        Args:
            points: `(*batch, hypotheses, dim)`.
            scale: The standard deviation of the kernel.

        Returns:
            The cells: masses, means and draws.
        """
        check_coordinates("points", points, self.dim, "the support has")
        check_floats("points", points, "*batch hypotheses dim")
        check_number("scale", scale, 0, open_low=True)
        return _euclidean_cells(points, self.low, self.high, scale, self.samples, self.seed)

    def cell_volumes(self, points: Float[Tensor, "*batch hypotheses dim"]) -> Estimate:
        """The volume of each point's cell.

        A point that coincides with one of lower index has an empty cell. A point that is not finite makes NaN
        of its whole batch item.

        Args:
            points: `(*batch, hypotheses, dim)`.

        Returns:
            Volumes and their standard errors, `(*batch, hypotheses)` each.
        """
        return self.cells(points).masses.to(points.dtype)


@dataclass(frozen=True)
class Sphere:
    """The directions, as (azimuth, elevation) in radians, with great-circle cells and areas in steradians.

    Any azimuth is a direction, for it is periodic; elevations lie between -pi/2 and pi/2.

    Example:
        >>> poles = torch.tensor([[0.0, -torch.pi / 2], [0.0, torch.pi / 2]])
        >>> Sphere().cell_volumes(poles).value / torch.pi
        tensor([2., 2.])
    """

    @property
    def dim(self) -> int:
        """The number of coordinates of a point: 2."""
        return 2

    @property
    def volume(self) -> float:
        """The area of the unit sphere."""
        return 4 * math.pi

    @property
    def distance(self) -> Distance:
        """The distance that shapes the cells: the angle between directions."""
        return great_circle

    def contains(self, y: Float[Tensor, "*batch 2"]) -> Bool[Tensor, "*batch"]:
        """Which points are directions: a finite azimuth, and an elevation no further than a pole.

        Args:
            y: Points `(*batch, 2)`.

        Returns:
            Booleans `(*batch)`.
        """
        check_coordinates("y", y, self.dim, "the support has")
        pole = math.pi / 2 + torch.finfo(y.dtype).eps
        return y[..., 0].isfinite() & (y[..., 1].abs() <= pole)

    def sample(
        self, shape: tuple[int, ...] = (), generator: torch.Generator | None = None
    ) -> Float[Tensor, "*shape 2"]:
        """Uniform draws with azimuth in [-pi, pi), on the device of the generator.

        Args:
            shape: How many draws.
            generator: The source of randomness; torch's default one if `None`.

        Returns:
            Directions `(*shape, 2)`.
        """
        signed = 2 * _uniforms(shape, 2, generator) - 1
        return torch.stack([math.pi * signed[..., 0], torch.asin(signed[..., 1])], dim=-1)

    def log_kernel(
        self, y: Float[Tensor, "*batch 2"], center: Float[Tensor, "*batch 2"], scale: float
    ) -> Float[Tensor, "*batch"]:
        """The von Mises-Fisher kernel, `(cos r - 1) / scale^2` for the angle r."""
        _check_kernel(y, center, scale, self.dim)
        return _gaussian(2 * torch.sin(great_circle(y, center) / 2), scale)

    def cells(self, points: Float[Tensor, "*batch hypotheses 2"], scale: float = math.inf) -> Cells:
        """The Voronoi cells of the directions, with the kernel of that scale in them, uniform by default.

        Args:
            points: `(*batch, hypotheses, 2)`.
            scale: The width of the kernel in radians.

        Returns:
            The cells: masses, means and draws.
        """
        check_coordinates("points", points, self.dim, "the support has")
        check_floats("points", points, "*batch hypotheses dim")
        check_number("scale", scale, 0, open_low=True)
        return SphericalCells(points, scale)

    def cell_volumes(self, points: Float[Tensor, "*batch hypotheses 2"]) -> Estimate:
        """The area of each direction's cell.

        A direction that coincides with one of lower index has an empty cell. One that is not finite makes NaN
        of its whole batch item.

        Args:
            points: `(*batch, hypotheses, 2)`.

        Returns:
            Areas and their standard errors, which are 0, `(*batch, hypotheses)` each.
        """
        return self.cells(points).masses.to(points.dtype)


@dataclass(frozen=True)
class Space:
    """All points with `dim` finite coordinates: where a Gaussian without a support lives.

    It has no uniform distribution, so that its cells need a finite scale.

    Args:
        dim: The number of coordinates of a point.

    Example:
        >>> Space(2).cells(torch.zeros(1, 2), scale=1.0).masses.value / torch.pi
        tensor([2.0000], dtype=torch.float64)
    """

    dim: int

    def __post_init__(self) -> None:
        check_integer("dim", self.dim)

    @property
    def volume(self) -> float:
        """Infinite."""
        return math.inf

    @property
    def distance(self) -> Distance:
        """The distance that shapes the cells: Euclidean."""
        return euclidean

    def contains(self, y: Float[Tensor, "*batch dim"]) -> Bool[Tensor, "*batch"]:
        """Which points `(*batch, dim)` are finite, as booleans `(*batch)`."""
        check_coordinates("y", y, self.dim, "the support has")
        return y.isfinite().all(-1)

    def sample(self, shape: tuple[int, ...] = (), generator: torch.Generator | None = None) -> Tensor:
        """Raises: there is no uniform distribution on an infinite space."""
        raise ValueError("Space has no uniform distribution: use a Box")

    def log_kernel(
        self, y: Float[Tensor, "*batch dim"], center: Float[Tensor, "*batch dim"], scale: float
    ) -> Float[Tensor, "*batch"]:
        """The Gaussian, `-|y - center|^2 / (2 scale^2)`."""
        _check_kernel(y, center, scale, self.dim)
        return _gaussian(euclidean(y, center), scale)

    def cells(self, points: Float[Tensor, "*batch hypotheses dim"], scale: float = math.inf) -> Cells:
        """The Voronoi cells of points `(*batch, hypotheses, dim)`, with the Gaussian of that scale in them."""
        check_coordinates("points", points, self.dim, "the support has")
        if not math.isfinite(scale):
            raise ValueError("scale must be finite, for Space has no uniform distribution: use a Box")
        return _euclidean_cells(points, [-math.inf] * self.dim, [math.inf] * self.dim, scale)


def _euclidean_cells(
    points: Float[Tensor, "*batch hypotheses dim"],
    low: Sequence[float],
    high: Sequence[float],
    scale: float,
    samples: int = 4096,
    seed: int = 0,
) -> Cells:
    """The Euclidean cells in a box, which may be infinite where the scale is finite."""
    corners = (points.new_tensor(corner, dtype=torch.float64) for corner in (low, high))
    if len(low) == 1:
        return Intervals(points, *corners, scale=scale)
    if len(low) == 2:
        return PlanarCells(points, *corners, scale=scale)
    return MonteCarloCells(points, *corners, scale=scale, samples=samples, seed=seed)


def _gaussian(radius: Tensor, scale: float) -> Tensor:
    return -(radius / float(scale)).square() / 2


def _check_kernel(y: Tensor, center: Tensor, scale: float, dim: int) -> None:
    check_pair(y, center, dim)
    check_number("scale", scale, 0, open_low=True)


def check_pair(y: Tensor, center: Tensor, dim: int) -> None:
    """Raise unless points and centers have that many coordinates and batch axes that fit.

    Args:
        y: Points `(*batch, dim)`.
        center: `(*batch, dim)`.
        dim: The number of coordinates of the support.
    """
    check_coordinates("y", y, dim, "the support has")
    check_coordinates("center", center, dim, "the support has")
    check_broadcast("center", center, y.shape[:-1], "y has")


def _numbers(name: str, value: Numbers) -> tuple[float, ...]:
    try:
        numbers = torch.as_tensor(value)
    except (TypeError, ValueError, RuntimeError):
        raise TypeError(f"{name} must be a number or a sequence of them, got {value!r}") from None
    if numbers.is_complex() or numbers.dtype == torch.bool:
        raise TypeError(f"{name} must be a number or a sequence of them, got {numbers.dtype}")
    # Python's numbers are doubles: not rounded by torch's default dtype.
    numbers = numbers.double() if isinstance(value, Tensor) else torch.as_tensor(value, dtype=torch.float64)
    if numbers.ndim > 1 or numbers.numel() == 0 or not numbers.isfinite().all():
        raise ValueError(f"{name} must be a finite number or a sequence of them, got {value}")
    return tuple(numbers.reshape(-1).tolist())


def _uniforms(shape: tuple[int, ...], dim: int, generator: torch.Generator | None) -> Tensor:
    check_sizes("shape", shape)
    check_generator(generator)
    device = None if generator is None else generator.device
    return torch.rand((*shape, dim), generator=generator, device=device)
