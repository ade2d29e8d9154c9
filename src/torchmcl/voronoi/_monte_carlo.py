"""Straight lines through Voronoi cells: what a cell of any dimension lets one compute without its vertices.

A cell is convex, so that a line meets it in one chord. Chords measure cells (`measure`) and are the moves
of a random walk inside them (`hit_and_run`). Corners are `(low, high)` of a box, which may be infinite.
"""

import math
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from torchmcl.voronoi.polygons import coincident, normalize

__all__ = ["Measure", "chord", "hit_and_run", "measure", "truncated_normal"]

Corners = tuple[Tensor, Tensor]


def chord(
    own: Float[Tensor, "*#line dim"],
    others: Float[Tensor, "*#line hypotheses dim"],
    origin: Float[Tensor, "*#line dim"],
    direction: Float[Tensor, "*#line dim"],
    corners: Corners,
) -> tuple[Float[Tensor, "*line"], Float[Tensor, "*line"]]:
    """Where the line `origin + r direction` enters and leaves the cell of `own`: nowhere if `near >= far`.

    The bisector with another point is met where `r gap · direction = gap · (gap / 2 + own - origin)`.
    """
    low, high = corners
    gap = others - own[..., None, :]
    slope = (gap @ direction[..., None]).squeeze(-1)
    room = (gap * (gap / 2 + (own - origin)[..., None, :])).sum(-1)
    shape = torch.broadcast_shapes(slope.shape[:-1], origin.shape[:-1])
    walls = torch.cat([direction, -direction], -1), torch.cat([high - origin, origin - low], -1)
    slope, room = (
        torch.cat([part.expand(*shape, -1) for part in parts], -1)
        for parts in zip((slope, room), walls, strict=True)
    )
    limit = room / torch.where(slope == 0, 1, slope)
    near = torch.where(slope < 0, limit, -torch.inf).amax(-1)
    far = torch.where(slope > 0, limit, torch.inf).amin(-1)
    beside = ((slope == 0) & (room < 0)).any(-1)
    return near, torch.where(beside, -torch.inf, far)


class Measure(NamedTuple):
    """What rays tell of each cell: mass, its standard error, the mean of the law, a point of the cell."""

    mass: Float[Tensor, "*cells"]
    error: Float[Tensor, "*cells"]
    mean: Float[Tensor, "*cells dim"]
    inner: Float[Tensor, "*cells dim"]


def measure(
    points: Float[Tensor, "batch hypotheses dim"], scale: float, corners: Corners, samples: int, seed: int
) -> Measure:
    """The integral of `exp(-r^2 / (2 scale^2))` over each cell, r being the distance to its point.

    Each sample is a pair of rays from the point, one in a uniform direction and, in a finite box, one through
    a uniform point of it, weighted by the density of both: a tiny cell is measured as well as a large one,
    and so is that of a point outside of the box.
    """
    low, high = corners
    generator = torch.Generator(points.device).manual_seed(seed)
    uniform, aims = torch.empty(2, samples, points.shape[-1], dtype=points.dtype, device=points.device)
    uniform = normalize(uniform.normal_(generator=generator))
    aims = low + (high - low) * aims.uniform_(generator=generator) if _finite(corners) else None
    cells = torch.arange(points[..., 0].numel(), device=points.device)
    own = points.flatten(0, 1)
    parts = [
        _measure(own[some], points[some // points.shape[-2]], scale, corners, uniform, aims)
        for some in cells.split(max(1, 2**21 // (samples * points.shape[-2])))
    ]
    mass, error, mean, inner = (
        torch.cat(part).reshape(*points.shape[:-1], *part[0].shape[1:]) for part in zip(*parts, strict=True)
    )
    twin = coincident(points)
    return Measure(mass.masked_fill(twin, 0), error.masked_fill(twin, 0), mean, inner)


def _measure(
    own: Tensor, others: Tensor, scale: float, corners: Corners, uniform: Tensor, aims: Tensor | None
) -> Measure:
    """`measure` for some of the cells."""
    low, high = corners
    dim, samples = own.shape[-1], len(uniform)
    directions = uniform.expand(len(own), -1, -1)
    if aims is not None:
        directions = torch.cat([directions, normalize(aims - own[:, None])], dim=1)
    density = torch.full_like(directions[..., 0], math.gamma(dim / 2) / (2 * math.pi ** (dim / 2)))
    near, far = chord(own[:, None], others[:, None, :0], own[:, None], directions, corners)
    near, far = near.clamp(min=0), far.clamp(min=0)
    if aims is not None:
        density = (density + (far**dim - near**dim).clamp(min=0) / dim / (high - low).prod()) / 2
    gap = others - own[:, None]
    square = gap.square().sum(-1, keepdim=True)
    # A bisector is met at |gap|^2 / (2 gap · direction): the nearest has the greatest inverse.
    closeness = (directions @ (2 * gap / torch.where(square == 0, 1, square)).mT).amax(-1)
    far = torch.where(closeness > 0, torch.minimum(far, 1 / closeness), far)
    weight, pull = (
        torch.where(far > near, _radial(far, power, scale) - _radial(near, power, scale), 0) / density
        for power in (dim, dim + 1)
    )
    pairs = weight.unflatten(1, (-1, samples)).mean(1)
    moment = (pull[:, None] @ directions)[:, 0] / weight.sum(-1, keepdim=True)
    best = weight.argmax(-1, keepdim=True)
    middle = ((near + torch.where(far.isfinite(), far, near)) / 2).take_along_dim(best, 1)
    inner = own + middle * directions.take_along_dim(best[..., None], 1)[:, 0]
    inside = ((own >= low) & (own <= high)).all(-1, keepdim=True)
    return Measure(pairs.mean(1), pairs.std(1) / samples**0.5, own + moment, torch.where(inside, own, inner))


def _radial(radius: Tensor, power: int, scale: float) -> Tensor:
    """The integral of `exp(-r^2 / (2 scale^2)) r^(power - 1)` from 0 to the radius."""
    if math.isinf(scale):
        return radius**power / power
    half = torch.full_like(radius, power / 2)
    share = torch.special.gammainc(half, (radius / scale).square() / 2)
    return 2 ** (power / 2 - 1) * scale**power * math.gamma(power / 2) * share


def _finite(corners: Corners) -> bool:
    return all(bool(corner.isfinite().all()) for corner in corners)


def hit_and_run(
    own: Float[Tensor, "draws dim"],
    others: Float[Tensor, "draws hypotheses dim"],
    start: Float[Tensor, "draws dim"],
    scale: float,
    corners: Corners,
    generator: torch.Generator | None,
    steps: int = 128,
) -> Float[Tensor, "draws dim"]:
    """A random walk: `steps` moves from a point inside, each drawn from the law on a random chord.

    The law is the Gaussian about `own`, or uniform when `scale` is infinite. The walk never leaves the cell
    and forgets its start geometrically fast.
    """
    here = start
    for _ in range(steps):
        direction = normalize(torch.empty_like(here).normal_(generator=generator))
        near, far = chord(own, others, here, direction, corners)
        uniforms = torch.empty_like(near).uniform_(generator=generator)
        if math.isinf(scale):
            move = near + uniforms * (far - near)
        else:
            middle = ((own - here) * direction).sum(-1)
            move = truncated_normal(uniforms, middle, scale, near, far)
        here = here + torch.where(near < far, move, 0)[..., None] * direction
    return here


def truncated_normal(
    uniforms: Float[Tensor, "*batch"],
    mean: Float[Tensor, "*batch"],
    scale: float,
    low: Float[Tensor, "*batch"],
    high: Float[Tensor, "*batch"],
) -> Float[Tensor, "*batch"]:
    """Uniform numbers to a normal law between `low` and `high`, by its quantile function."""
    low, high = (low - mean) / scale, (high - mean) / scale
    # The lower tail has small probabilities, which floating point resolves; the upper one has those near 1.
    flip = low > 0
    low, high = torch.where(flip, -high, low), torch.where(flip, -low, high)
    below, above = torch.special.ndtr(low), torch.special.ndtr(high)
    quantile = torch.special.ndtri(below + uniforms * (above - below))
    tail = high - torch.log(uniforms) / torch.where(high < 0, high, -1)
    value = torch.where(above > below, quantile, tail)
    value = torch.minimum(torch.maximum(value, low), high)
    return mean + scale * torch.where(flip, -value, value)
