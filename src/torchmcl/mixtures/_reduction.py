"""A few weighted points in place of many, nearest in energy distance."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

__all__ = ["nearest_points"]

ROUNDS = 16
FINE = 1e-5


def nearest_points(
    points: Float[Tensor, "batch many dim"],
    probs: Float[Tensor, "batch many"],
    count: int,
    sphere: bool = False,
) -> tuple[Float[Tensor, "batch count dim"], Float[Tensor, "batch count"]]:
    r"""Points z and probabilities q that minimize `2 E|X - Z| - E|Z - Z'|`.

    It adds `-E|X - X'|`, a constant, to the energy distance. Points and probabilities take turns. The former by
    majorization (Mak and Joseph 2018): `|x - z|` lies below a parabola and `-|z - z'|` below its tangent, whose sum has
    its minimum in closed form. The latter by a quadratic program. On the sphere, points stay unit vectors.
    """
    spread = _spread(points, probs)
    herded = _herded(points, probs, count)
    starts = _kept(points, probs, count), herded, probs.topk(count, -1).indices
    subsets = [points.take_along_dim(_exchanged(points, probs, rows)[..., None], 1) for rows in starts]
    even = torch.full_like(points[:, :count, 0], 1 / count)
    subset = _best(points, probs, [_weighted(points, probs, z, even) for z in subsets])
    free = points.take_along_dim(herded[..., None], 1), even
    moved = [
        _moved(points, probs, *subset, spread, 0.01, sphere),
        _moved(points, probs, *free, spread, 0.3, sphere),
    ]
    return _best(points, probs, [subset, *moved])


def _best(x: Tensor, p: Tensor, candidates: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    """The candidate of least energy for each item."""
    values = torch.stack([_energy(x, p, *candidate) for candidate in candidates])
    best = values.nan_to_num(torch.inf).argmin(0)[None, :, None]
    z, q = (torch.stack(parts) for parts in zip(*candidates, strict=True))
    return z.take_along_dim(best[..., None], 0)[0], q.take_along_dim(best, 0)[0]


def _moved(
    x: Tensor, p: Tensor, z: Tensor, q: Tensor, spread: Tensor, coarse: float, sphere: bool
) -> tuple[Tensor, Tensor]:
    """Points and probabilities improved in turn, with distances smoothed less and less, in shares of the spread."""
    for step in range(ROUNDS):
        smooth = spread * coarse * (FINE / coarse) ** (step / (ROUNDS - 1))
        for _ in range(3):
            pull = p[:, None] / _apart(z, x, smooth)
            between = z[:, :, None] - z[:, None]
            push = q[:, None] / _apart(z, z, smooth)
            target = pull @ x + (push[..., None] * between).sum(2)
            z = target / (torch.linalg.vector_norm(target, dim=-1) if sphere else pull.sum(-1))[..., None]
        z, q = _weighted(x, p, z, q)
    return z, q


def _weighted(x: Tensor, p: Tensor, z: Tensor, q: Tensor) -> tuple[Tensor, Tensor]:
    """The best probabilities of these points, or the present ones where none are better."""
    found = _shares((_apart(z, x) * p[:, None]).sum(-1), _apart(z, z))
    better = _energy(x, p, z, found) < _energy(x, p, z, q)
    return z, torch.where(better[:, None], found, q)


def _shares(reach: Tensor, between: Tensor) -> Tensor:
    """The least `2 a·q - q D q` with `sum q = 1` solves a linear system; where a share would be negative it is 0."""
    used = torch.ones_like(reach, dtype=torch.bool)
    found = torch.zeros_like(reach)
    for _ in range(4):
        found = _stationary(reach, between, used)
        if not bool((found < 0).any()):
            break
        used = used & (found >= 0)
    return found.clamp(min=0) / found.clamp(min=0).sum(-1, keepdim=True)


def _stationary(reach: Tensor, between: Tensor, used: Tensor) -> Tensor:
    """Probabilities at which the energy of the used points is stationary, 0 for the others."""
    rows = used.to(reach.dtype)
    idle = torch.diag_embed(1 - rows)
    system = torch.nn.functional.pad(between * rows[:, None] * rows[..., None] + idle, (0, 1, 0, 1))
    system[:, -1, :-1] = system[:, :-1, -1] = rows
    right = torch.nn.functional.pad(reach * rows, (0, 1), value=1.0)
    return torch.linalg.solve_ex(system, right)[0][:, :-1] * rows


def _kept(x: Tensor, p: Tensor, count: int) -> Int[Tensor, "batch count"]:
    """The points that are left when those go first whose mass costs least to spread over the others.

    The energy distance of probabilities q on the same points is `-(q - p) D (q - p)`. Without point i it is least at
    `q - q_i C_i / C_ii` and grows by `q_i^2 / C_ii`, where C is the inverse of `-D` on differences of probabilities.
    """
    inverse = _inverse(_apart(x, x))[:, :-1, :-1]
    q, gone = p, torch.zeros_like(p, dtype=torch.bool)
    for _ in range(x.shape[1] - count):
        own = inverse.diagonal(dim1=-2, dim2=-1)
        out = _price(q, own).masked_fill(gone, torch.inf).argmin(-1, keepdim=True)
        column = inverse.take_along_dim(out[:, None], 2).squeeze(-1)
        pivot = own.gather(1, out)
        gone = gone.scatter(1, out, True)
        q = (q - q.gather(1, out) * column / pivot).masked_fill(gone, 0)
        inverse = inverse - column[..., None] * column[:, None] / pivot[..., None]
    return torch.argsort(gone.int(), dim=-1, stable=True)[:, :count]


def _exchanged(x: Tensor, p: Tensor, rows: Int[Tensor, "batch count"]) -> Int[Tensor, "batch count"]:
    """One point for another, the best of all such exchanges, as long as the energy falls.

    Another point i lowers the energy by `gain_i`; then doing without point j costs `price_ij`. Both are known from the
    inverse for the present points.
    """
    between = _apart(x, x)
    reach = (between * p[:, None]).sum(-1)
    value = _subset_energy(between, reach, rows)
    count, many = rows.shape[1], x.shape[1]
    for _ in range(2 * count):
        columns = between.take_along_dim(rows[..., None], 1)
        inverse = _inverse(columns.take_along_dim(rows[:, None], 2))
        border = torch.cat([-columns, torch.ones_like(reach)[:, None]], 1)
        held = torch.nn.functional.pad(-reach.gather(1, rows), (0, 1), value=1.0)
        solution = (inverse @ held[..., None])[..., 0]
        slope = (solution[:, None] @ border)[:, 0] + reach
        change = inverse @ border
        room = -(border * change).sum(1)
        gain = slope.square() / room
        q = solution[:, :count, None] + (slope / room)[:, None] * change[:, :count]
        own = inverse.diagonal(dim1=-2, dim2=-1)[:, :count, None] + change[:, :count].square() / room[:, None]
        net = (q.square() / own - gain[:, None]).masked_fill(room[:, None] <= 0, torch.inf)
        net = net.scatter(2, rows[:, None].expand(-1, count, -1), torch.inf).nan_to_num(torch.inf)
        best = net.flatten(1).argmin(-1, keepdim=True)
        trial = rows.scatter(1, best // many, best % many)
        energy = _subset_energy(between, reach, trial)
        better = energy < value - 1e-12 * value.abs()
        if not bool(better.any()):
            break
        rows, value = torch.where(better[:, None], trial, rows), torch.where(better, energy, value)
    return rows


def _subset_energy(between: Tensor, reach: Tensor, rows: Tensor) -> Tensor:
    """The energy of these points with their best probabilities."""
    own = between.take_along_dim(rows[..., None], 1).take_along_dim(rows[:, None], 2)
    q = _shares(reach.gather(1, rows), own)
    return 2 * (reach.gather(1, rows) * q).sum(-1) - ((own @ q[..., None])[..., 0] * q).sum(-1)


def _price(q: Tensor, own: Tensor) -> Tensor:
    """What it costs to do without a point; those of negative probability go first."""
    return torch.where(q > 0, q.square() / own.clamp(min=torch.finfo(q.dtype).tiny), q)


def _inverse(between: Tensor) -> Tensor:
    """The inverse of `-D` with the border that keeps the sum of probabilities."""
    ridge = 1e-10 * between.amax((-2, -1), keepdim=True).clamp(min=1e-30)
    system = ridge * torch.eye(between.shape[-1], dtype=between.dtype, device=between.device) - between
    system = torch.nn.functional.pad(system, (0, 1, 0, 1))
    system[:, -1, :-1] = system[:, :-1, -1] = 1
    return torch.linalg.inv_ex(system)[0]


def _herded(x: Tensor, p: Tensor, count: int) -> Int[Tensor, "batch count"]:
    """Greedy: each further point is near to the distribution and far from the points before (kernel herding)."""
    between = _apart(x, x)
    near = (between * p[:, None]).sum(-1).masked_fill(p == 0, torch.inf)
    repelled = torch.zeros_like(near)
    chosen: list[Tensor] = []
    for step in range(count):
        index = (near - repelled / (step + 1)).argmin(-1, keepdim=True)
        chosen.append(index)
        repelled = repelled + between.take_along_dim(index[..., None], 2).squeeze(-1)
        near = near.scatter(1, index, torch.finfo(near.dtype).max)
    return torch.cat(chosen, -1)


def _energy(x: Tensor, p: Tensor, z: Tensor, q: Tensor) -> Tensor:
    cross = ((_apart(z, x) * p[:, None]).sum(-1) * q).sum(-1)
    return 2 * cross - ((_apart(z, z) * q[:, None]).sum(-1) * q).sum(-1)


def _apart(x: Tensor, y: Tensor, smooth: Tensor | None = None) -> Tensor:
    apart = torch.cdist(x, y, compute_mode="donot_use_mm_for_euclid_dist")
    return apart if smooth is None else torch.hypot(apart, smooth[..., None, None])


def _spread(x: Tensor, p: Tensor) -> Float[Tensor, "batch"]:
    """The standard deviation over all coordinates; 1 where there is only one point."""
    mean = (p[..., None] * x).sum(1, keepdim=True)
    spread = (p * (x - mean).square().sum(-1)).sum(-1).sqrt()
    return torch.where(spread > 0, spread, 1)
