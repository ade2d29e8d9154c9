"""Voronoi cells as convex polygons, on the plane and on the sphere, by the same clipping.

A vertex is a vector of three coordinates and a half-plane or hemisphere is `{v : normal · v >= 0}`: on the
sphere literally, on the plane with `v = (x, y, 1)`. A polygon's last vertex is repeated up to the length of
the longest polygon of the batch; the empty polygon is all zeros.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

__all__ = [
    "clip",
    "coincident",
    "fan",
    "normalize",
    "planar_areas",
    "planar_cells",
    "planar_draw",
    "spherical_areas",
    "spherical_cells",
    "spherical_draw",
]


def clip(
    polygons: Float[Tensor, "*batch vertices 3"], normal: Float[Tensor, "*batch 3"]
) -> Float[Tensor, "*batch clipped 3"]:
    """The part of each convex polygon where `normal · v >= 0` (Sutherland and Hodgman).

    Args:
        polygons: Vertices in order, `(*batch, vertices, 3)`.
        normal: The normal of the plane that cuts, `(*batch, 3)`.

    Returns:
        Vertices of what is left, `(*batch, clipped, 3)`.
    """
    following = polygons.roll(-1, dims=-2)
    height = (polygons * normal[..., None, :]).sum(-1)
    height_after = height.roll(-1, dims=-1)
    inside = height >= 0
    crossing = inside != inside.roll(-1, dims=-1)
    share = height / torch.where(crossing, height - height_after, 1)
    crossings = polygons + share[..., None] * (following - polygons)
    vertices = torch.stack([polygons, crossings], dim=-2).flatten(-3, -2)
    repeated = (polygons == polygons.roll(1, dims=-2)).all(-1)
    kept = torch.stack([inside & ~repeated, crossing], dim=-1).flatten(-2, -1)
    count = kept.sum(-1, keepdim=True)
    slots = torch.arange(max(3, int(count.max())) if count.numel() else 3, device=polygons.device)
    order = torch.argsort(~kept, dim=-1, stable=True)
    chosen = order.take_along_dim(torch.minimum(slots, (count - 1).clamp(min=0)), dim=-1)
    return vertices.take_along_dim(chosen[..., None], dim=-2) * (count > 0)[..., None]


def coincident(
    points: Float[Tensor, "*batch hypotheses coordinates"], tolerance: float = 0.0
) -> Bool[Tensor, "*batch hypotheses"]:
    """Whether a point lies on one of lower index, to which its cell belongs.

    Args:
        points: `(*batch, hypotheses, coordinates)`.
        tolerance: How far apart coordinates may be and still count as equal.

    Returns:
        Booleans `(*batch, hypotheses)`.
    """
    apart = (points[..., :, None, :] - points[..., None, :, :]).abs().amax(-1)
    return (apart <= tolerance).tril(-1).any(-1)


def planar_cells(
    points: Float[Tensor, "*batch hypotheses 2"],
    low: Float[Tensor, "*#corner 2"],
    high: Float[Tensor, "*#corner 2"],
) -> Float[Tensor, "*batch hypotheses vertices 3"]:
    """The cell of each point inside a rectangle, counter-clockwise, with its point as the origin.

    Args:
        points: `(*batch, hypotheses, 2)`.
        low: The lower left corner, `(2,)`, or one for each point.
        high: The upper right corner, `(2,)`, or one for each point.

    Returns:
        Vertices (x, y, 1), `(*batch, hypotheses, vertices, 3)`.
    """
    low, high = (edge - points for edge in (low, high))
    x = torch.stack([low[..., 0], high[..., 0], high[..., 0], low[..., 0]], dim=-1)
    y = torch.stack([low[..., 1], low[..., 1], high[..., 1], high[..., 1]], dim=-1)
    polygons = torch.stack([x, y, torch.ones_like(x)], dim=-1)
    for other in points.unbind(-2):
        gap = other[..., None, :] - points
        polygons = clip(polygons, torch.cat([-gap, gap.square().sum(-1, keepdim=True) / 2], dim=-1))
    return polygons * ~coincident(points)[..., None, None]


def spherical_cells(
    directions: Float[Tensor, "*batch hypotheses 3"],
) -> Float[Tensor, "*batch hypotheses 4 vertices 3"]:
    """The cell of each unit vector, in four pieces, one on each face of a tetrahedron, counter-clockwise.

    Args:
        directions: Unit vectors `(*batch, hypotheses, 3)`.

    Returns:
        Unit vectors `(*batch, hypotheses, 4, vertices, 3)`.
    """
    corners = directions.new_tensor([[1, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]]) / 3**0.5
    faces = corners[torch.tensor([[0, 1, 2], [0, 2, 3], [0, 3, 1], [1, 3, 2]], device=corners.device)]
    polygons = faces.expand(*directions.shape[:-1], 4, 3, 3)
    for other in directions.unbind(-2):
        normal = directions - other[..., None, :]
        normal = normal * (normal.abs().amax(-1, keepdim=True) > SAME_DIRECTION)
        polygons = clip(polygons, normal[..., None, :].expand(*polygons.shape[:-2], 3))
    return normalize(polygons) * ~coincident(directions, SAME_DIRECTION)[..., None, None, None]


SAME_DIRECTION = 1e-14
"""Unit vectors nearer than this are one direction: a pole has many azimuths, and their sines are rounded."""


def fan(polygons: Float[Tensor, "*batch vertices 3"]) -> Float[Tensor, "*batch triangles 3 3"]:
    """The triangles between the first vertex and each edge.

    Args:
        polygons: `(*batch, vertices, 3)`.

    Returns:
        Corners `(*batch, triangles, 3, 3)`.
    """
    first = polygons[..., :1, :].expand_as(polygons[..., 2:, :])
    return torch.stack([first, polygons[..., 1:-1, :], polygons[..., 2:, :]], dim=-2)


def planar_areas(triangles: Float[Tensor, "*batch 3 3"]) -> Float[Tensor, "*batch"]:
    """Areas of triangles on the plane: half the cross product of two sides.

    Args:
        triangles: Corners (x, y, 1), `(*batch, 3, 3)`.

    Returns:
        Areas `(*batch)`.
    """
    (ax, ay), (bx, by) = ((triangles[..., i, :] - triangles[..., 0, :])[..., :2].unbind(-1) for i in (1, 2))
    return ((ax * by - ay * bx) / 2).clamp(min=0)


def spherical_areas(triangles: Float[Tensor, "*batch 3 3"]) -> Float[Tensor, "*batch"]:
    """The solid angle of each triangle of unit vectors (Van Oosterom and Strackee).

    Args:
        triangles: Corners of length 1, `(*batch, 3, 3)`.

    Returns:
        Areas `(*batch)` in steradians.
    """
    a, b, c = triangles.unbind(-2)
    volume = (a * torch.linalg.cross(b - a, c - a)).sum(-1).clamp(min=0)
    return 2 * torch.atan2(volume, 1 + (a * b).sum(-1) + (b * c).sum(-1) + (c * a).sum(-1))


def planar_draw(
    triangles: Float[Tensor, "*batch 3 3"], uniforms: Float[Tensor, "*batch 2"]
) -> Float[Tensor, "*batch 3"]:
    """Two uniform numbers to a uniform point of a triangle.

    Args:
        triangles: Corners (x, y, 1), `(*batch, 3, 3)`.
        uniforms: Numbers between 0 and 1, `(*batch, 2)`.

    Returns:
        Points (x, y, 1), `(*batch, 3)`.
    """
    root, share = uniforms[..., :1].sqrt(), uniforms[..., 1:]
    a, b, c = triangles.unbind(-2)
    return (1 - root) * a + root * (1 - share) * b + root * share * c


def spherical_draw(
    triangles: Float[Tensor, "*batch 3 3"], uniforms: Float[Tensor, "*batch 2"]
) -> Float[Tensor, "*batch 3"]:
    """Two uniform numbers to a uniform point of a spherical triangle (Arvo 1995).

    Args:
        triangles: Corners of length 1, `(*batch, 3, 3)`.
        uniforms: Numbers between 0 and 1, `(*batch, 2)`.

    Returns:
        Unit vectors `(*batch, 3)`.
    """
    a, b, c = triangles.unbind(-2)
    at_b, at_c = _toward(a, b), _toward(a, c)
    corner = torch.atan2(
        torch.linalg.vector_norm(torch.linalg.cross(at_b, at_c), dim=-1), (at_b * at_c).sum(-1)
    )
    part = uniforms[..., 0] * spherical_areas(triangles) - corner
    u = part.cos() - corner.cos()
    v = part.sin() + corner.sin() * (a * b).sum(-1)
    bottom = (v * part.sin() + u * part.cos()) * corner.sin()
    top = (v * part.cos() - u * part.sin()) * corner.cos() - v
    cosine = torch.where(bottom == 0, 1, top / torch.where(bottom == 0, 1, bottom))
    # Rounding in a sliver never leaves the triangle: the arc from b ends between a and c.
    cosine = torch.minimum(torch.maximum(cosine, (a * c).sum(-1)), cosine.new_ones(()))[..., None]
    end = cosine * a + (1 - cosine.square()).clamp(min=0).sqrt() * at_c
    height = 1 - uniforms[..., 1:] * (1 - (end * b).sum(-1, keepdim=True))
    return height * b + (1 - height.square()).clamp(min=0).sqrt() * _toward(b, end)


def _toward(start: Tensor, end: Tensor) -> Tensor:
    """The unit tangent at `start` of the great circle to `end`."""
    return normalize(end - (end * start).sum(-1, keepdim=True) * start)


def normalize(vectors: Float[Tensor, "*batch dim"]) -> Float[Tensor, "*batch dim"]:
    """Vectors of length 1; zero stays zero.

    Args:
        vectors: `(*batch, dim)`.

    Returns:
        Vectors `(*batch, dim)`.
    """
    length = torch.linalg.vector_norm(vectors, dim=-1, keepdim=True)
    return vectors / torch.where(length == 0, 1, length)
