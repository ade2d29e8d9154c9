"""Every plan is feasible, and its potentials prove that no other is cheaper."""

import pytest
import torch
from torch import Tensor

from torchmcl.transport._plans import optimal_plan


def certify(cost: Tensor, rows: Tensor, columns: Tensor) -> None:
    plan, row_potential, column_potential = optimal_plan(cost, rows, columns)
    assert (plan >= 0).all()
    torch.testing.assert_close(plan.sum(-1), rows, rtol=0, atol=1e-14)
    torch.testing.assert_close(plan.sum(-2), columns, rtol=0, atol=1e-14)
    slack = cost - row_potential[..., :, None] - column_potential[..., None, :]
    scale = cost.abs().amax()
    assert slack.nan_to_num(0).min() > -1e-13 * scale
    assert (plan * slack.nan_to_num(0)).sum((-2, -1)).max() < 1e-13 * scale


@pytest.mark.parametrize("rows", [1, 2, 3, 4])
@pytest.mark.parametrize("columns", [1, 2, 3, 5, 20, 150])
@pytest.mark.parametrize("kind", ["uniform", "ties", "equal", "wild"])
def test_plans_are_optimal(rows: int, columns: int, kind: str) -> None:
    cost = torch.rand(60, rows, columns, dtype=torch.float64)
    if kind == "ties":
        cost = (3 * cost).round()
    elif kind == "equal":
        cost = torch.full_like(cost, 0.7)
    elif kind == "wild":
        cost = torch.exp(20 * cost)
    masses = [torch.rand(60, size, dtype=torch.float64) for size in (rows, columns)]
    for mass in masses:
        mass[::3] = 1
        mass[::4] = torch.exp(-25 * mass[::4])
        mass[::5, 1:] *= torch.rand(mass[::5, 1:].shape) < 0.5
    certify(cost, *(mass / mass.sum(-1, keepdim=True) for mass in masses))
