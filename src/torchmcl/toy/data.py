"""The toy problem: targets in four squares whose probabilities depend on the time t in [0, 1]."""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

__all__ = ["CORNERS", "Samples", "density", "draw", "grid", "pair_probability", "sample", "square_probs"]

CORNERS = ((-1.0, -1.0), (-1.0, 0.0), (0.0, -1.0), (0.0, 0.0))
"""The lower left corners of the squares S1 to S4, whose sides have length 1."""


class Samples(NamedTuple):
    """Times, one or two targets for each, and which of these are there."""

    t: Float[Tensor, "n 1"]
    targets: Float[Tensor, "n 2 2"]
    active: Bool[Tensor, "n 2"]


def square_probs(t: Float[Tensor, "*batch"]) -> Float[Tensor, "*batch 4"]:
    """`P(S1) = P(S4) = (1 - t) / 2` and `P(S2) = P(S3) = t / 2`.

    Args:
        t: Times, `(*batch,)`.

    Returns:
        Probabilities of the squares S1 to S4, `(*batch, 4)`.

    >>> square_probs(torch.tensor(0.2))
    tensor([0.4000, 0.1000, 0.1000, 0.4000])
    """
    diagonal, other = (1 - t) / 2, t / 2
    return torch.stack([diagonal, other, other, diagonal], dim=-1)


def pair_probability(t: Float[Tensor, "*batch"]) -> Float[Tensor, "*batch"]:
    """`q(t)`, the probability of two targets in place of one: 1 at the ends, 0 in the middle, affine between.

    Args:
        t: Times, `(*batch,)`.

    Returns:
        `(*batch,)`.

    >>> pair_probability(torch.tensor([0.0, 0.25, 0.5, 1.0]))
    tensor([1.0000, 0.5000, 0.0000, 1.0000])
    """
    return (2 * t - 1).abs()


def density(y: Float[Tensor, "*batch 2"], t: Float[Tensor, "*#batch"]) -> Float[Tensor, "*batch"]:
    """The exact `p(y | t)`: the probability of the square that holds `y`, 0 outside.

    Args:
        y: Places, `(*batch, 2)`.
        t: Times, broadcast against the places.

    Returns:
        The density at each place, `(*batch,)`.

    >>> density(torch.tensor([[-0.5, -0.5], [-0.5, 0.5], [3.0, 0.0]]), torch.tensor(0.2))
    tensor([0.4000, 0.1000, 0.0000])
    """
    diagonal = (y[..., 0] < 0) == (y[..., 1] < 0)
    inside = (y.abs() <= 1).all(-1)
    return torch.where(diagonal, (1 - t) / 2, t / 2) * inside


def sample(
    t: Float[Tensor, "*batch"], shape: tuple[int, ...] = (), generator: torch.Generator | None = None
) -> Float[Tensor, "*sample_batch 2"]:
    """Draws `(*shape, *batch, 2)` from `p(y | t)`: a square, then a uniform point of it.

    Args:
        t: Times, `(*batch,)`.
        shape: Leading axes of the draws.
        generator: Of the random numbers; the global one by default.

    Returns:
        `(*shape, *batch, 2)`.
    """
    uniforms = torch.rand((*shape, *t.shape, 4), generator=generator, device=t.device, dtype=t.dtype)
    place, choice, side = uniforms[..., :2], uniforms[..., 2], uniforms[..., 3] < 0.5
    left = side.to(t.dtype)
    bottom = (side == (choice >= t)).to(t.dtype)
    return place - torch.stack([left, bottom], dim=-1)


def draw(n: int, seed: int, *, outliers: float = 0.0, device: str | torch.device = "cpu") -> Samples:
    """`n` times, uniform in [0, 1], with two targets where a coin of probability `q(t)` says so, else with one.

    A share `outliers` of the targets is drawn from a bivariate Cauchy distribution instead.

    Args:
        n: How many times.
        seed: Of the random numbers.
        outliers: The share of targets that are outliers.
        device: Where the tensors are made.

    Returns:
        Times, targets and which of these exist.

    >>> t, targets, active = draw(1000, seed=0)
    >>> t.shape, targets.shape, active.any(-1).all()
    (torch.Size([1000, 1]), torch.Size([1000, 2, 2]), tensor(True))
    """
    if not 0 <= outliers <= 1:
        raise ValueError(f"outliers must be a probability, got {outliers}")
    random = torch.Generator(device=device).manual_seed(seed)
    t = torch.rand(n, generator=random, device=device)
    targets = sample(t[:, None].expand(n, 2), generator=random)
    pair = torch.rand(n, generator=random, device=device) < pair_probability(t)
    if outliers:
        is_outlier = torch.rand(n, 2, 1, generator=random, device=device) < outliers
        targets = torch.where(is_outlier, _cauchy((n, 2), random), targets)
    return Samples(t[:, None], targets, torch.stack([torch.ones_like(pair), pair], dim=-1))


def grid(
    t: Float[Tensor, "*batch"], size: int = 100
) -> tuple[Float[Tensor, "points 2"], Float[Tensor, "*batch points"]]:
    """The centers of `size x size` equal cells of [-1, 1]^2, and the mass of `p(y | t)` in each of them.

    Args:
        t: Times, `(*batch,)`.
        size: Cells a side; even.

    Returns:
        The centers `(points, 2)` and the masses `(*batch, points)`.

    >>> points, mass = grid(torch.tensor([0.0, 0.3]), size=10)
    >>> points.shape, mass.sum(-1)
    (torch.Size([100, 2]), tensor([1., 1.]))
    """
    if size % 2:
        raise ValueError(f"size must be even, so that no cell lies in two squares; got {size}")
    ticks = (torch.arange(size, device=t.device, dtype=t.dtype) + 0.5) * (2 / size) - 1
    points = torch.cartesian_prod(ticks, ticks)
    return points, density(points.expand(*t.shape, -1, -1), t[..., None]) * (2 / size) ** 2


def _cauchy(shape: tuple[int, ...], random: torch.Generator) -> Tensor:
    """Standard bivariate Cauchy draws: a normal vector over an independent normal number."""
    normal = torch.randn((*shape, 3), generator=random, device=random.device)
    return normal[..., :2] / normal[..., 2:].abs().clamp(min=torch.finfo(normal.dtype).tiny)
