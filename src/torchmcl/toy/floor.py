"""The best that any 20 weighted points can do: the least possible EMD to p(y | t).

With the best weights, the EMD of given points is the mean distance to the nearest of them, so the floor is the
error of the optimal quantizer. It is found by Lloyd's iteration with geometric medians from many starts. That
takes minutes, so the points are kept in `floor.json`, made by `python -m torchmcl.toy.floor`.
"""

import json
from functools import cache
from importlib import resources
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor

from torchmcl.runs.files import write_text
from torchmcl.toy.data import grid

__all__ = ["TIMES", "floor", "lloyd", "quantization_error", "search", "stored"]

TIMES = torch.linspace(0, 1, 50, dtype=torch.float64)
"""The values of t at which everything is evaluated."""


def quantization_error(
    points: Float[Tensor, "*batch hypotheses 2"], t: Float[Tensor, ""], size: int = 100
) -> Float[Tensor, "*batch"]:
    """The mean distance of `p(y | t)`, on a grid, to the nearest point: the EMD under the best weights.

    Args:
        points: `(*batch, hypotheses, 2)`.
        t: The time.
        size: Cells a side of the grid.

    Returns:
        `(*batch,)`.

    >>> quantization_error(torch.zeros(1, 2), torch.tensor(0.5)).round(decimals=3)
    tensor(0.7650)
    """
    places, mass = grid(t.to(points.dtype), size)
    return (torch.cdist(places, points).amin(-1) * mass).sum(-1)


def lloyd(
    points: Float[Tensor, "*batch hypotheses 2"],
    t: Float[Tensor, ""],
    *,
    size: int = 100,
    iterations: int = 100,
) -> Float[Tensor, "*batch hypotheses 2"]:
    """Move each point towards the geometric median of its cell, by steps that never raise the error.

    Each iteration is a step of Weiszfeld's: the mean of the cell under weights that are one over the distance.

    Args:
        points: Where to start, `(*batch, hypotheses, 2)`.
        t: The time.
        size: Cells a side of the grid.
        iterations: How many.

    Returns:
        The moved points.
    """
    places, mass = grid(t.to(points.dtype), size)
    places, mass = places[mass > 0], mass[mass > 0]
    for _ in range(iterations):
        nearest = torch.cdist(places, points).min(-1)
        pull = mass / nearest.values.clamp(min=1e-6)
        moments = torch.stack([pull, *(pull * axis for axis in places.unbind(-1))], dim=-1)
        index = nearest.indices[..., None].expand_as(moments)
        sums = moments.new_zeros(*points.shape[:-1], 3).scatter_add(-2, index, moments)
        taken = sums[..., :1] > 0
        points = torch.where(taken, sums[..., 1:] / sums[..., :1].where(taken, 1), points)
    return points


def search(
    t: Float[Tensor, ""],
    *,
    hypotheses: int = 20,
    starts: int = 400,
    finalists: int = 12,
    also: Float[Tensor, "others hypotheses 2"] | None = None,
    size: int = 100,
    seed: int = 0,
) -> Float[Tensor, "hypotheses 2"]:
    """The best points that many starts, and those in `also`, lead to: a race on a coarse grid, a final on the full.

    Starts are drawn from `p^(2/3)`, the density of the points of large optimal quantizers of the plane.
    """
    random = torch.Generator().manual_seed(seed)
    coarse = min(size, 40)
    places, mass = grid(t.float(), coarse)
    drawn = torch.multinomial(
        (mass ** (2 / 3)).expand(starts, -1), hypotheses, replacement=False, generator=random
    )
    points = places[drawn] + (torch.rand(starts, hypotheses, 2, generator=random) - 0.5) * (2 / coarse)
    for iterations, kept in ((15, 4 * finalists), (100, finalists)):
        points = lloyd(points, t, size=coarse, iterations=iterations)
        points = points[quantization_error(points, t, coarse).argsort()[:kept]]
    if also is not None:
        points = torch.cat([points, also.float()])
    points = lloyd(points, t, size=size, iterations=100)
    best = points[quantization_error(points, t, size).argmin()].double()
    return lloyd(best, t, size=size, iterations=200)


@cache
def stored() -> dict[float, list[list[float]]]:
    """The best known points at each of `TIMES` up to the middle; the others are their mirror images."""
    text = resources.files("torchmcl.toy").joinpath("floor.json").read_text(encoding="utf-8")
    found = json.loads(text)
    return dict(zip(found["t"], found["points"], strict=True))


def floor(size: int = 100) -> Float[Tensor, "times"]:
    """The least EMD that 20 weighted points can have at each of `TIMES`, symmetric in t.

    Args:
        size: Cells a side of the grid.

    Returns:
        The least EMD at each of `TIMES`.
    """
    half = [
        quantization_error(torch.tensor(points, dtype=torch.float64), torch.tensor(t), size)
        for t, points in stored().items()
    ]
    first = torch.stack(half)
    return torch.cat([first, first.flip(0)])


def _make(path: Path, sweeps: int = 2) -> None:
    times = TIMES[: len(TIMES) // 2]
    best = [search(t, seed=i) for i, t in enumerate(times)]
    for _ in range(sweeps):
        for i, t in enumerate(times):
            around = torch.stack(best[max(i - 2, 0) : i + 3])
            points = torch.cat([lloyd(around, t, iterations=300), best[i][None]])
            best[i] = points[quantization_error(points, t).argmin()]
    rounded = [[[round(x, 5) for x in point] for point in points.tolist()] for points in best]
    write_text(path, json.dumps({"t": times.tolist(), "points": rounded}, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    _make(Path(__file__).with_name("floor.json"))
