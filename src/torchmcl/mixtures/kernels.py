"""Densities around one point: functions of the distance to it, with a width as their scale."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from torchmcl.directions import from_vectors, tangents, to_vectors
from torchmcl.errors import check_number

__all__ = [
    "GaussianKernel",
    "Kernel",
    "LaplaceKernel",
    "LineKernel",
    "StudentKernel",
    "VonMisesFisherKernel",
    "kernel_named",
]


class Kernel(ABC):
    """A density around a point, with a width. Subclasses are final."""

    @abstractmethod
    def log_density(
        self,
        y: Float[Tensor, "*#batch dim"],
        points: Float[Tensor, "*#batch dim"],
        widths: Float[Tensor, "*#batch"],
    ) -> Float[Tensor, "*batch"]:
        """The logarithm of the density at `y` of the kernel around each point.

        Args:
            y: Where to read the density, `(*batch, dim)`.
            points: The center, `(*batch, dim)`.
            widths: The scale, `(*batch)`.

        Returns:
            Log densities `(*batch)`.
        """

    @abstractmethod
    def rsample(
        self,
        points: Float[Tensor, "*batch dim"],
        widths: Float[Tensor, "*batch"],
        generator: torch.Generator | None = None,
    ) -> Float[Tensor, "*batch dim"]:
        """One draw from the kernel around each point, differentiable in points and widths.

        Args:
            points: The center, `(*batch, dim)`.
            widths: The scale, `(*batch)`.
            generator: The source of randomness; torch's default one if `None`.

        Returns:
            Draws `(*batch, dim)`.
        """

    @abstractmethod
    def mean(
        self,
        points: Float[Tensor, "*batch hypotheses dim"],
        widths: Float[Tensor, "*batch hypotheses"],
        probs: Float[Tensor, "*batch hypotheses"],
    ) -> Float[Tensor, "*batch dim"]:
        """The mean of the mixture with these probabilities.

        Args:
            points: The centers, `(*batch, hypotheses, dim)`.
            widths: The scales, `(*batch, hypotheses)`.
            probs: `(*batch, hypotheses)`.

        Returns:
            Means `(*batch, dim)`.
        """

    @abstractmethod
    def variance(self, dim: int) -> float:
        """The variance of one coordinate, in squared widths.

        Args:
            dim: The number of coordinates.

        Returns:
            The variance for a width of 1.
        """

    @abstractmethod
    def check_dim(self, dim: int) -> None:
        """Raise a `ValueError` if the kernel does not exist for so many coordinates.

        Args:
            dim: The number of coordinates.
        """


class LineKernel(Kernel):
    """A kernel of the Euclidean distance; in one dimension it is symmetric and has a distribution function."""

    def check_dim(self, dim: int) -> None:
        """Any number of coordinates will do."""

    def mean(self, points: Tensor, widths: Tensor, probs: Tensor) -> Tensor:
        """`sum_k probs_k points_k`, as the kernels are symmetric."""
        return (probs[..., None] * points).sum(-2)

    def log_density(self, y: Tensor, points: Tensor, widths: Tensor) -> Tensor:
        """The profile of the distance in widths, over the volume that the widths span."""
        dim = points.shape[-1]
        each = widths[..., None]
        # Beyond this many widths the square of the distance or its gradient would overflow.
        most = torch.finfo(points.dtype).max ** 0.25 * each.detach()
        return self.log_profile((y - points).clamp(-most, most) / each) - dim * widths.log()

    def rsample(self, points: Tensor, widths: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """The center plus a draw of the standard kernel times the width."""
        return points + widths[..., None] * self.noise(points.detach(), generator)

    @abstractmethod
    def log_profile(self, z: Float[Tensor, "*batch dim"]) -> Float[Tensor, "*batch"]:
        """The log density around the origin with width 1.

        Args:
            z: `(*batch, dim)`.

        Returns:
            Log densities `(*batch)`.
        """

    @abstractmethod
    def noise(self, like: Float[Tensor, "*batch dim"], generator: torch.Generator | None) -> Tensor:
        """Draws around the origin with width 1.

        Args:
            like: A tensor `(*batch, dim)`, for its shape, dtype and device.
            generator: The source of randomness; torch's default one if `None`.

        Returns:
            Draws `(*batch, dim)`.
        """

    @abstractmethod
    def cdf(self, z: Float[Tensor, "*batch"]) -> Float[Tensor, "*batch"]:
        """P(Z <= z) in one dimension, with a small relative error for negative z.

        Args:
            z: `(*batch)`.

        Returns:
            Probabilities `(*batch)`.
        """

    @abstractmethod
    def icdf(self, probability: Float[Tensor, "*batch"]) -> Float[Tensor, "*batch"]:
        """The inverse of `cdf`.

        Args:
            probability: `(*batch)`, between 0 and 1.

        Returns:
            Quantiles `(*batch)`.
        """


@dataclass(frozen=True)
class GaussianKernel(LineKernel):
    r"""The isotropic normal density; the width is the standard deviation of each coordinate.

    .. math:: (2 \pi s^2)^{-D/2} \exp(-|y - x|^2 / 2 s^2)
    """

    def variance(self, dim: int) -> float:
        return 1.0

    def log_profile(self, z: Tensor) -> Tensor:
        return -z.square().sum(-1) / 2 - z.shape[-1] / 2 * math.log(2 * math.pi)

    def noise(self, like: Tensor, generator: torch.Generator | None) -> Tensor:
        return torch.empty_like(like).normal_(generator=generator)

    def cdf(self, z: Tensor) -> Tensor:
        return torch.special.ndtr(z)

    def icdf(self, probability: Tensor) -> Tensor:
        return torch.special.ndtri(probability)


@dataclass(frozen=True)
class LaplaceKernel(LineKernel):
    r"""Exponential in the distance; the width is the scale, as in `torch.distributions.Laplace`.

    .. math:: \frac{\Gamma(D/2)}{2 \pi^{D/2} \Gamma(D)} s^{-D} \exp(-|y - x| / s)
    """

    def variance(self, dim: int) -> float:
        return dim + 1.0

    def log_profile(self, z: Tensor) -> Tensor:
        dim = z.shape[-1]
        volume = math.lgamma(dim / 2) - math.log(2) - dim / 2 * math.log(math.pi) - math.lgamma(dim)
        return volume - torch.linalg.vector_norm(z, dim=-1)

    def noise(self, like: Tensor, generator: torch.Generator | None) -> Tensor:
        # The radius has a gamma distribution of shape D: the sum of D exponential variables.
        radius = torch.empty_like(like).exponential_(generator=generator).sum(-1, keepdim=True)
        direction = torch.empty_like(like).normal_(generator=generator)
        return radius * direction / torch.linalg.vector_norm(direction, dim=-1, keepdim=True)

    def cdf(self, z: Tensor) -> Tensor:
        tail = torch.exp(-z.abs()) / 2
        return torch.where(z < 0, tail, 1 - tail)

    def icdf(self, probability: Tensor) -> Tensor:
        tail = torch.minimum(probability, 1 - probability)
        return torch.sign(probability - 0.5) * -torch.log(2 * tail)


@dataclass(frozen=True)
class StudentKernel(LineKernel):
    r"""The multivariate t density, with heavy tails; the width is its scale.

    .. math:: \frac{\Gamma((\nu + D)/2)}{\Gamma(\nu/2) (\nu \pi)^{D/2}} s^{-D}
              \left(1 + \frac{|y - x|^2}{\nu s^2}\right)^{-(\nu + D)/2}

    Args:
        df: Degrees of freedom ν, positive. The mean exists above 1, the variance above 2.
    """

    df: float = 4.0

    def __post_init__(self) -> None:
        check_number("df", self.df, 0, 1e6, open_low=True)

    def variance(self, dim: int) -> float:
        if self.df > 2:
            return self.df / (self.df - 2)
        return math.inf if self.df > 1 else math.nan

    def mean(self, points: Tensor, widths: Tensor, probs: Tensor) -> Tensor:
        mean = super().mean(points, widths, probs)
        return mean if self.df > 1 else torch.full_like(mean, torch.nan)

    def log_profile(self, z: Tensor) -> Tensor:
        dim, df = z.shape[-1], self.df
        volume = math.lgamma((df + dim) / 2) - math.lgamma(df / 2) - dim / 2 * math.log(df * math.pi)
        return volume - (df + dim) / 2 * torch.log1p(z.square().sum(-1) / df)

    def noise(self, like: Tensor, generator: torch.Generator | None) -> Tensor:
        from scipy.special import gammaincinv

        uniform = torch.empty_like(like[..., :1]).uniform_(generator=generator)
        gamma = _on_cpu(lambda u: gammaincinv(self.df / 2, u), 1 - uniform)
        normal = torch.empty_like(like).normal_(generator=generator)
        return normal * (self.df / 2 / gamma).sqrt()

    def cdf(self, z: Tensor) -> Tensor:
        from scipy.special import stdtr

        value = _on_cpu(lambda t: stdtr(self.df, t), z)
        # torch has no incomplete beta function; its derivative is the density.
        return value + (z - z.detach()) * self.log_profile(z.detach()[..., None]).exp()

    def icdf(self, probability: Tensor) -> Tensor:
        from scipy.special import stdtrit

        return _on_cpu(lambda p: stdtrit(self.df, p), probability)


@dataclass(frozen=True)
class VonMisesFisherKernel(Kernel):
    r"""The von Mises-Fisher density by area on the sphere, for points (azimuth, elevation) in radians.

    .. math:: \frac{\kappa}{4 \pi \sinh \kappa} \exp(\kappa \cos\theta), \qquad \kappa = 1 / s^2

    θ is the angle to the center. For small widths s, it is the standard deviation of both coordinates in the tangent
    plane, in radians; for large ones the density is uniform.
    """

    def check_dim(self, dim: int) -> None:
        if dim != 2:
            raise ValueError(
                f"kernel 'vmf' needs points with 2 coordinates, azimuth and elevation; these have {dim}"
            )

    def variance(self, dim: int) -> float:
        raise NotImplementedError("kernel 'vmf' has no variance of angles: use its samples")

    def mean(self, points: Tensor, widths: Tensor, probs: Tensor) -> Tensor:
        """The direction of the mean unit vector."""
        kappa = _concentration(widths)
        small = kappa.clamp(max=0.1)
        # coth(kappa) - 1 / kappa, without its cancellation near 0
        series = small / 3 - small**3 / 45 + 2 * small**5 / 945
        length = torch.where(kappa < 0.1, series, 1 / torch.tanh(kappa.clamp(min=0.1)) - 1 / kappa)
        return from_vectors(((probs * length)[..., None] * to_vectors(points)).sum(-2))

    def log_density(self, y: Tensor, points: Tensor, widths: Tensor) -> Tensor:
        kappa = _concentration(widths)
        half = ((y - points) / 2).sin().square()
        fall = 2 * (half[..., 1] + y[..., 1].cos() * points[..., 1].cos() * half[..., 0])  # 1 - cos(angle)
        return kappa.log() - math.log(2 * math.pi) - torch.log(-torch.expm1(-2 * kappa)) - kappa * fall

    def rsample(self, points: Tensor, widths: Tensor, generator: torch.Generator | None = None) -> Tensor:
        kappa = _concentration(widths)
        uniform, turn = (torch.empty_like(kappa.detach()).uniform_(generator=generator) for _ in range(2))
        # 1 - cos(angle) by the inverse of its distribution function, which has a closed form on the sphere
        fall = (-torch.log1p((1 - uniform) * torch.expm1(-2 * kappa)) / kappa).clamp(max=2)
        east, north = tangents(points)
        around = (2 * math.pi * turn)[..., None]
        sideways = (fall * (2 - fall)).clamp(min=torch.finfo(fall.dtype).tiny).sqrt()[..., None]
        center = to_vectors(points)
        return from_vectors(
            (1 - fall)[..., None] * center + sideways * (around.cos() * east + around.sin() * north)
        )


_KERNELS: dict[str, Callable[[], Kernel]] = {
    "gaussian": GaussianKernel,
    "laplace": LaplaceKernel,
    "student": StudentKernel,
    "vmf": VonMisesFisherKernel,
}


def kernel_named(kernel: Any) -> Kernel:
    """The kernel of a name, or the kernel itself.

    Args:
        kernel: `"gaussian"`, `"laplace"`, `"student"`, `"vmf"` or a `Kernel`, such as `StudentKernel(df=3)`.

    Returns:
        A `Kernel`.

    Example:
        >>> kernel_named("student")
        StudentKernel(df=4.0)
    """
    if isinstance(kernel, Kernel):
        return kernel
    if not isinstance(kernel, str) or kernel not in _KERNELS:
        names = ", ".join(repr(name) for name in _KERNELS)
        raise ValueError(f"kernel must be one of {names} or a Kernel, got {kernel!r}")
    return _KERNELS[kernel]()


def _concentration(widths: Tensor) -> Tensor:
    least = torch.finfo(widths.dtype).tiny ** 0.25
    return widths.clamp(min=least, max=1 / least) ** -2


def _on_cpu(function: Callable[[Any], Any], value: Tensor) -> Tensor:
    """A function of NumPy arrays, in double precision."""
    array = function(value.detach().double().cpu().numpy())
    return torch.as_tensor(array, dtype=value.dtype).to(value.device)
