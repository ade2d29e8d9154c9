"""Few hypotheses in place of many."""

import torch
from torch import Tensor

from torchmcl.directions import from_vectors, to_vectors
from torchmcl.distances import Distance, chordal, euclidean
from torchmcl.errors import check_integer
from torchmcl.hypotheses import Hypotheses
from torchmcl.mixtures._reduction import nearest_points

__all__ = ["reduced"]


def reduced(hypotheses: Hypotheses, count: int, distance: Distance = euclidean) -> Hypotheses:
    """The `count` scored points nearest in energy distance: see `Hypotheses.reduce`.

    Args:
        hypotheses: Points `(*batch, hypotheses, dim)`, scored or not, with or without widths.
        count: The number of hypotheses to keep.
        distance: `euclidean`, or `chordal` for (azimuth, elevation).

    Returns:
        Hypotheses `(*batch, count, dim)`.
    """
    check_integer("count", count)
    if not any(distance is known for known in (euclidean, chordal)):
        raise ValueError(f"distance must be euclidean or chordal, got {distance!r}")
    if count >= hypotheses.n_hypotheses:
        return hypotheses
    if not bool(hypotheses.points.isfinite().all() & hypotheses.probs.isfinite().all()):
        raise ValueError("hypotheses must have finite points and probabilities to be reduced, some are not")
    with torch.no_grad():
        return _reduced(hypotheses, count, distance is chordal)


def _reduced(hypotheses: Hypotheses, count: int, sphere: bool) -> Hypotheses:
    kind = hypotheses.points.dtype
    precise = torch.float32 if hypotheses.points.device.type == "mps" else torch.float64
    h = hypotheses.to(precise)
    many = h.n_hypotheses
    points = (to_vectors(h.points) if sphere else h.points).reshape(-1, many, 3 if sphere else h.dim)
    probs = h.probs.reshape(-1, many)
    widths = None if h.widths is None else h.widths.reshape(-1, many)
    parts: list[tuple[Tensor, Tensor, Tensor]] = []
    for some in torch.arange(len(points), device=points.device).split(max(1, 2**22 // many**2)):
        z, q = nearest_points(points[some], probs[some], count, sphere)
        parts.append(
            (z, q, _widths(points[some], probs[some], widths[some], z, h.dim) if widths is not None else q)
        )
    z, q, s = (
        torch.cat(part).reshape(*h.batch_shape, count, *part[0].shape[2:])
        for part in zip(*parts, strict=True)
    )
    z = from_vectors(z) if sphere else z
    return Hypotheses(z.to(kind), q.log().to(kind), "softmax", None if widths is None else s.to(kind))


def _widths(x: Tensor, p: Tensor, widths: Tensor, z: Tensor, dim: int) -> Tensor:
    """The root mean square of the widths and distances of the old points that are nearest to each new one."""
    away, cell = torch.cdist(x, z).min(-1)
    square = widths.square() + away.square() / dim
    mass, total = (torch.zeros_like(z[..., 0]).scatter_add(1, cell, part) for part in (p, p * square))
    # A new point without an old one has no probability of its own to spread: it takes the mean width.
    mean = (p * widths.square()).sum(-1, keepdim=True).expand_as(mass)
    return torch.where(mass > 0, total / mass.where(mass > 0, 1.0), mean).sqrt()
