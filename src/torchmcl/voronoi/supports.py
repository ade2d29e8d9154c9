"""Where targets can be: a box or the sphere."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from torchmcl.distances import Distance, euclidean, great_circle
from torchmcl.voronoi._cells import Cells, Intervals, Solid
from torchmcl.voronoi._polygonal import Curved, Flat
from torchmcl.voronoi.estimates import Estimate

__all__ = ["Box", "Sphere", "Support", "euclidean_cells"]


Numbers = int | float | Sequence[int | float] | Tensor
"""One number, or one for each coordinate."""


@runtime_checkable
class Support(Protocol):
    """A set that can be cut into Voronoi cells."""

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
        """Which points lie in the support."""

    def sample(self, shape: tuple[int, ...] = (), generator: torch.Generator | None = None) -> Tensor:
        """Uniform draws `(*shape, dim)`."""

    def cells(self, points: Tensor, scale: float = math.inf) -> Cells:
        """The Voronoi cells of points `(*batch, hypotheses, dim)`, with the law of that scale in them."""


@dataclass(frozen=True, init=False)
class Box:
    """`[low_1, high_1] x ... x [low_d, high_d]`, with Euclidean cells; two numbers make an interval.

    Volumes of cells are exact in one and two dimensions. Above, they are Monte Carlo estimates by `samples`
    pairs of rays, the same for the same `seed`, with a standard error.

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
        if samples < 2:
            raise ValueError(f"samples must be at least 2, got {samples}")
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
        """Which points lie in the box, its faces included."""
        _check_dim("y", y, self.dim)
        return ((y >= y.new_tensor(self.low)) & (y <= y.new_tensor(self.high))).all(-1)

    def sample(
        self, shape: tuple[int, ...] = (), generator: torch.Generator | None = None
    ) -> Float[Tensor, "*shape dim"]:
        """Uniform draws `(*shape, dim)`, on the device of the generator."""
        uniforms = _uniforms((*shape, self.dim), generator)
        low, high = uniforms.new_tensor(self.low), uniforms.new_tensor(self.high)
        return torch.minimum(low + (high - low) * uniforms, high)

    def cells(self, points: Float[Tensor, "*batch hypotheses dim"], scale: float = math.inf) -> Cells:
        """The Voronoi cells of the points, with the law of that scale in them, uniform by default."""
        _check_dim("points", points, self.dim)
        return euclidean_cells(points, self.low, self.high, scale, self.samples, self.seed)

    def cell_volumes(self, points: Float[Tensor, "*batch hypotheses dim"]) -> Estimate:
        """The volume of each point's cell.

        A point that coincides with one of lower index has an empty cell. A point that is not finite makes NaN
        of its whole batch item.
        """
        return self.cells(points).masses.to(points.dtype)


@dataclass(frozen=True)
class Sphere:
    """The directions, as (azimuth, elevation) in radians, with great-circle cells and areas in steradians.

    Any azimuth is a direction, for it is periodic; elevations lie between -pi/2 and pi/2.

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
        """Which points are directions: a finite azimuth, and an elevation no further than a pole."""
        _check_dim("y", y, self.dim)
        pole = math.pi / 2 + torch.finfo(y.dtype).eps
        return y[..., 0].isfinite() & (y[..., 1].abs() <= pole)

    def sample(
        self, shape: tuple[int, ...] = (), generator: torch.Generator | None = None
    ) -> Float[Tensor, "*shape 2"]:
        """Uniform draws `(*shape, 2)` with azimuth in [-pi, pi), on the device of the generator."""
        signed = 2 * _uniforms((*shape, 2), generator) - 1
        return torch.stack([math.pi * signed[..., 0], torch.asin(signed[..., 1])], dim=-1)

    def cells(self, points: Float[Tensor, "*batch hypotheses 2"], scale: float = math.inf) -> Cells:
        """The Voronoi cells of the directions, with the law of that scale in them, uniform by default."""
        _check_dim("points", points, self.dim)
        return Curved(points, scale)

    def cell_volumes(self, points: Float[Tensor, "*batch hypotheses 2"]) -> Estimate:
        """The area of each direction's cell.

        A direction that coincides with one of lower index has an empty cell. One that is not finite makes NaN
        of its whole batch item.
        """
        return self.cells(points).masses.to(points.dtype)


def euclidean_cells(
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
        return Flat(points, *corners, scale=scale)
    return Solid(points, *corners, scale=scale, samples=samples, seed=seed)


def _numbers(name: str, value: Numbers) -> tuple[float, ...]:
    numbers = torch.as_tensor(value, dtype=torch.float64)
    if numbers.ndim > 1 or numbers.numel() == 0 or not numbers.isfinite().all():
        raise ValueError(f"{name} must be a finite number or a sequence of them, got {value}")
    return tuple(numbers.reshape(-1).tolist())


def _check_dim(name: str, value: Tensor, dim: int) -> None:
    if value.ndim == 0 or value.shape[-1] != dim:
        coordinates = value.shape[-1] if value.ndim else 0
        raise ValueError(f"{name} has {coordinates} coordinates, the support has {dim}")


def _uniforms(shape: tuple[int, ...], generator: torch.Generator | None) -> Tensor:
    device = None if generator is None else generator.device
    return torch.rand(shape, generator=generator, device=device)
