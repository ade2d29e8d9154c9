"""The value of small transport problems without a plan: the highest vertex of the dual."""

from collections.abc import Callable

import torch
from torch import Tensor

from torchmcl.transport._plans import groups

__all__ = ["MOST_COLUMNS", "optimal_value"]

MOST_COLUMNS = 8
"""The vertices of three rows grow with the third power of the columns; beyond this the plan is found faster."""

Solver = Callable[[Tensor, Tensor, Tensor], Tensor]


def optimal_value(cost: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """The least cost `(n,)` of items with up to three rows that carry mass; NaN for others.

    Inside, the items are the last axis: all arithmetic is between long contiguous vectors.
    """
    value = cost.new_full(cost.shape[:1], torch.nan)
    for (_, items, problem), solver in zip(
        groups(cost, rows, columns), (_one_row, _two_rows, _three_rows), strict=True
    ):
        some_cost, some_rows, some_columns = (part.movedim(0, -1).contiguous() for part in problem)
        value.index_copy_(0, items, solver(some_cost, some_rows, some_columns))
    return value


def _one_row(cost: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    return (cost[0] * columns).sum(0)


def _two_rows(cost: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """`max_v rows_0 v + sum_k columns_k min(cost_0k - v, cost_1k)`, where `v` is one of `cost_0 - cost_1`."""
    v = cost[0] - cost[1]
    dual = rows[0] * v
    for gain, mass in zip(v, columns, strict=True):
        dual.addcmul_((gain - v).clamp_(max=0), mass)
    return dual.amax(0) + (cost[1] * columns).sum(0)


def _three_rows(cost: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """`max_vu rows_0 v + rows_1 u + sum_k columns_k min(cost_0k - v, cost_1k - u, cost_2k)`.

    At a vertex two columns tie, each between another pair of rows: `v = a_i` ties the first row with the third,
    `u = b_j` the second with the third, and `v - u = d_j` the first with the second.
    """
    a, b = cost[0] - cost[2], cost[1] - cost[2]
    d = a - b
    both = rows[0] + rows[1]
    # (i, j, item) for the vertices (a_i, b_j), (a_i, a_i - d_j) and (b_i + d_j, b_i)
    corners = (
        (rows[0] * a)[:, None] + rows[1] * b,
        (both * a)[:, None] - rows[1] * d,
        (both * b)[:, None] + rows[0] * d,
    )
    reach = torch.empty_like(corners[0])
    for k, mass in enumerate(columns):
        first, second = (a[k] - a).clamp_(max=0), (b[k] - b).clamp_(max=0)
        corners[0].addcmul_(torch.minimum(first[:, None], second, out=reach), mass)
        torch.sub(b[k] + d, a[:, None], out=reach)
        corners[1].addcmul_(torch.minimum(first[:, None], reach, out=reach), mass)
        torch.sub(a[k] - d, b[:, None], out=reach)
        corners[2].addcmul_(torch.minimum(second[:, None], reach, out=reach), mass)
    for others in corners[1:]:
        torch.maximum(corners[0], others, out=corners[0])
    return corners[0].flatten(0, 1).amax(0) + (cost[2] * columns).sum(0)
