"""The exact mass and mean of p(y | t) in the Voronoi cells of given points."""

from typing import NamedTuple

from jaxtyping import Float
from torch import Tensor

from torchmcl.toy.data import CORNERS, square_probs
from torchmcl.voronoi import polygons

__all__ = ["CellTruth", "cell_truth"]


class CellTruth(NamedTuple):
    """The probability of each cell, and the conditional mean in it, NaN where the probability is 0."""

    mass: Float[Tensor, "*batch hypotheses"]
    mean: Float[Tensor, "*batch hypotheses 2"]


def cell_truth(points: Float[Tensor, "*batch hypotheses 2"], t: Float[Tensor, "*batch"]) -> CellTruth:
    """Exact, by cutting the cells along the four squares, in each of which the density is constant.

    Args:
        points: `(*batch, hypotheses, 2)`.
        t: Times, `(*batch,)`.

    Returns:
        Masses and means of the cells.

    >>> import torch
    >>> truth = cell_truth(torch.tensor([[-0.5, 0.0], [0.5, 0.0]]), torch.tensor(0.0))
    >>> truth.mass, truth.mean[0]
    (tensor([0.5000, 0.5000]), tensor([-0.5000, -0.5000]))
    """
    precise = points.double()
    corners = precise.new_tensor(CORNERS)
    low = corners.view(4, *[1] * (points.ndim - 1), 2)
    squares = precise.expand(4, *points.shape)
    triangles = polygons.fan(polygons.planar_cells(squares, low, low + 1))
    areas = polygons.planar_areas(triangles)
    centers = triangles[..., :2].mean(-2)
    probs = square_probs(t.double()).movedim(-1, 0)[..., None]
    mass = (probs * areas.sum(-1)).sum(0)
    moment = (probs[..., None] * (areas[..., None] * centers).sum(-2)).sum(0)
    mean = precise + moment / mass[..., None]
    return CellTruth(mass.to(points.dtype), mean.to(points.dtype))
