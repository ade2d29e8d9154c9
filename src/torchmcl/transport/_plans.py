"""Optimal plans and potentials of a batch of transport problems, by a solver for each number of rows."""

from collections.abc import Iterator
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor

__all__ = ["Solution", "groups", "optimal_plan", "row_sum"]


class Solution(NamedTuple):
    """An optimal plan `(n, rows, columns)` and the potentials `(n, rows)`, `(n, columns)` that prove it.

    A potential may be NaN where there is no mass: there it is bounded by the others alone.
    """

    plan: Tensor
    rows: Tensor
    columns: Tensor


def optimal_plan(cost: Tensor, rows: Tensor, columns: Tensor) -> Solution:
    """Group the items by their number of rows with mass, and give each group the solver for that number."""
    if columns.shape[-1] < rows.shape[-1] and columns.shape[-1] <= 3:
        plan, column_potential, row_potential = optimal_plan(cost.mT, columns, rows)
        return Solution(plan.mT, row_potential, column_potential)
    plan, column_potential = cost.new_zeros(cost.shape), columns.new_zeros(columns.shape)
    solution = Solution(plan, rows.new_full(rows.shape, torch.nan), column_potential)
    for (at, items, problem), solver in zip(
        groups(cost, rows, columns), (_one_row, _two_rows, _three_rows), strict=True
    ):
        _put(solution, at, items, solver(*problem))
    mass = _mass(rows)
    for item in (mass.sum(-1) > 3).nonzero()[:, 0].tolist():
        at = mass[item].nonzero()[:, 0] + item * rows.shape[-1]
        items, problem = _group(cost, rows, columns, at, len(at))
        _put(solution, at, items, _many_rows(*problem))
    return solution


Group = tuple[Tensor, Tensor, tuple[Tensor, Tensor, Tensor]]


def groups(cost: Tensor, rows: Tensor, columns: Tensor) -> Iterator[Group]:
    """The items with one, two and three rows that carry mass: each time the places of these rows among all
    rows, the items, and their problems without the other rows."""
    mass = _mass(rows)
    count = mass.sum(-1, keepdim=True)
    for size in (1, 2, 3):
        at = (mass & (count == size)).flatten().nonzero()[:, 0]
        yield at, *_group(cost, rows, columns, at, size)


def _mass(rows: Tensor) -> Tensor:
    return rows > torch.finfo(rows.dtype).eps


def _group(
    cost: Tensor, rows: Tensor, columns: Tensor, at: Tensor, size: int
) -> tuple[Tensor, tuple[Tensor, Tensor, Tensor]]:
    items = at[::size] // rows.shape[-1]
    return items, (
        cost.flatten(0, 1).index_select(0, at).unflatten(0, (-1, size)),
        rows.flatten().index_select(0, at).unflatten(0, (-1, size)),
        columns.index_select(0, items),
    )


def _put(solution: Solution, at: Tensor, items: Tensor, part: Solution) -> None:
    solution.plan.flatten(0, 1).index_copy_(0, at, part.plan.flatten(0, 1))
    solution.rows.flatten().index_copy_(0, at, part.rows.flatten())
    solution.columns.index_copy_(0, items, part.columns)


def _one_row(cost: Tensor, rows: Tensor, columns: Tensor) -> Solution:
    return Solution(columns[:, None], torch.zeros_like(rows), cost[:, 0])


def _two_rows(cost: Tensor, rows: Tensor, columns: Tensor) -> Solution:
    """Columns go to the first row in the order of their cost difference until it is full."""
    key = cost[:, 0] - cost[:, 1]
    first = _fill(key, rows[:, :1], columns)
    potential = torch.cat([_last(key, first), torch.zeros_like(rows[:, 1:])], -1)
    return Solution(torch.stack([first, columns - first], 1), potential, _conjugate(cost, potential))


def _three_rows(cost: Tensor, rows: Tensor, columns: Tensor) -> Solution:
    """Maximise the dual over the potential `v` of the first row, the second row's being at its best for `v`.

    `g(v) = max_u rows_0 v + rows_1 u + sum_k columns_k min(cost_0k - v, cost_1k - u, cost_2k)` is concave and
    piecewise linear. Each `v` gives a plan that is right but for a mass `slope` which the third row has and
    the first lacks; its tangent is `value + slope v`, where `value` is the cost of the plan. Two tangents of
    opposite slopes meet at the next `v`. If `g` reaches them there, the mixture of their plans in which the
    slopes cancel is optimal; otherwise the new tangent replaces one of them.
    """
    first, second, third = (row.contiguous() for row in cost.unbind(1))
    problem = Problem(first, second, third, rows[:, 0:1], rows[:, 1:2], columns)
    solution = Solution(*(torch.empty_like(value) for value in (cost, rows, columns)))
    items = torch.arange(len(cost), device=cost.device)
    v = row_sum(columns * (first - third))
    new = _tangent(problem, v)
    up = new.slope >= 0
    outer = _outer_tangent(problem, up)
    rising, falling = _where(up, new, outer), _where(up, outer, new)
    done = torch.zeros_like(up)
    while len(items):
        v = torch.where(done, v, (falling.value - rising.value) / (rising.slope - falling.slope))
        new = _tangent(problem, v)
        done = done | _is_optimal(new, rising, falling)
        up = new.slope >= 0
        rising, falling = _where(up, new, rising), _where(up, falling, new)
        if 2 * done.sum() >= len(items):
            ended, going = done[:, 0].nonzero()[:, 0], (~done[:, 0]).nonzero()[:, 0]
            sides = (_select(side, ended) for side in (new, rising, falling))
            for whole, part in zip(solution, _mix(_select(problem, ended), *sides), strict=True):
                whole.index_copy_(0, items[ended], part)
            problem = _select(problem, going)
            rising, falling = _select(rising, going), _select(falling, going)
            items, v, done = items[going], v[going], done[going]
    return solution


class Problem(NamedTuple):
    """The costs of the three rows `(n, columns)`, the masses of the first two `(n, 1)` and of the columns."""

    first: Tensor
    second: Tensor
    third: Tensor
    first_mass: Tensor
    second_mass: Tensor
    columns: Tensor


class Tangent(NamedTuple):
    """A line above the dual that touches it at `v`, and what the second row gets in the plan behind it."""

    value: Tensor
    slope: Tensor
    v: Tensor
    second: Tensor


Part = TypeVar("Part", Problem, Tangent)


def _tangent(problem: Problem, v: Tensor) -> Tangent:
    shifted = problem.first - v
    to_first = shifted <= problem.third
    tangent = _tangent_to(problem, torch.minimum(shifted, problem.third), to_first)
    return tangent._replace(value=tangent.value + (problem.first_mass - tangent.slope) * v, v=v)


def _outer_tangent(problem: Problem, up: Tensor) -> Tangent:
    """The tangent at infinity (`up`), where the third row gets nothing, or at minus infinity."""
    tangent = _tangent_to(problem, torch.where(up, problem.first, problem.third), up)
    return tangent._replace(v=torch.where(up, torch.inf, -torch.inf).to(tangent.v))


def _tangent_to(problem: Problem, rest: Tensor, to_first: Tensor) -> Tangent:
    """Fill the second row where it gains most over the `rest`, which is the first row or the third."""
    second = _fill(problem.second - rest, problem.second_mass, problem.columns)
    others = problem.columns - second
    value = row_sum((others * rest).addcmul_(second, problem.second))
    slope = problem.first_mass - row_sum(others * to_first)
    return Tangent(value, slope, torch.zeros_like(slope), second)


def _is_optimal(new: Tangent, rising: Tangent, falling: Tangent) -> Tensor:
    """Whether the dual at `new.v` is where the other two tangents meet, or as close as rounding allows."""
    eps = torch.finfo(new.v.dtype).eps
    climb = rising.slope * new.v
    gap = rising.value + climb - (new.value + new.slope * new.v)
    above = gap > 8 * eps * (rising.value.abs() + climb.abs())
    return ~(above & (new.slope < rising.slope) & (new.slope > falling.slope) & (new.slope.abs() > eps))


def _mix(problem: Problem, new: Tangent, rising: Tangent, falling: Tangent) -> Solution:
    """The plan between two tangents in which their slopes cancel, with the potentials at the newest."""
    share = rising.slope / (rising.slope - falling.slope)
    second = rising.second.lerp(falling.second, share)
    first, last = (
        (problem.columns - side.second) * (problem.first - side.v <= problem.third)
        for side in (rising, falling)
    )
    first = first.lerp(last, share)
    rest = torch.minimum(problem.first - new.v, problem.third)
    u = _last(problem.second - rest, new.second)
    return Solution(
        torch.stack([first, second, (problem.columns - first - second).clamp(min=0)], 1),
        torch.cat([new.v, u, torch.zeros_like(u)], -1),
        torch.minimum(rest, problem.second - u),
    )


def _where(condition: Tensor, yes: Tangent, no: Tangent) -> Tangent:
    return Tangent(*(torch.where(condition, a, b) for a, b in zip(yes, no, strict=True)))


def _select(values: Part, index: Tensor) -> Part:
    return type(values)(*(value.index_select(0, index) for value in values))


def _fill(key: Tensor, capacity: Tensor, mass: Tensor) -> Tensor:
    """How much is taken of each mass when they are taken in ascending order of `key` up to `capacity`."""
    order = key.argsort(-1)
    mass = mass.gather(-1, order)
    taken = torch.minimum((capacity - mass.cumsum(-1)).add_(mass).clamp_(min=0), mass)
    return torch.empty_like(taken).scatter_(-1, order, taken)


def _last(key: Tensor, taken: Tensor) -> Tensor:
    return key.masked_fill(taken <= 0, -torch.inf).amax(-1, keepdim=True)


def _many_rows(cost: Tensor, rows: Tensor, columns: Tensor) -> Solution:
    """Network simplex, for a single item."""
    import ot  # takes seconds to import

    if not (cost.isfinite().all() and columns.isfinite().all()):
        return Solution(cost * torch.nan, rows * torch.nan, columns * torch.nan)
    used = (columns[0] > 0).nonzero().flatten()
    some = cost[0][:, used]
    scale = some.abs().amax().clamp(min=torch.finfo(cost.dtype).tiny)
    # POT compares with absolute tolerances
    problem = (rows[0], columns[0, used], some / scale)
    moved, log = ot.emd(*(value.cpu().numpy() for value in problem), log=True)
    plan = torch.zeros_like(cost[0]).index_copy(1, used, torch.as_tensor(moved).to(cost))
    potential = torch.as_tensor(log["u"]).to(rows)[None] * scale
    return Solution(plan[None], potential, _conjugate(cost, potential))


def row_sum(values: Tensor) -> Tensor:
    """`values.sum(-1, keepdim=True)`, as a product: twice as fast where the axis is short."""
    return values @ values.new_ones(values.shape[-1], 1)


def _conjugate(cost: Tensor, potential: Tensor) -> Tensor:
    return (cost - potential[..., None]).amin(-2)
