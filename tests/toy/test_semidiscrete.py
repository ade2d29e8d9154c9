"""The dual against the network simplex of POT."""

import ot
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from torchmcl.toy.data import grid
from torchmcl.toy.semidiscrete import dual_emd


def problem(seed: int, t: float, size: int = 20, spread: float = 1.0, hypotheses: int = 7):
    random = torch.Generator().manual_seed(seed)
    places, mass = grid(torch.tensor(t, dtype=torch.float64), size)
    points = spread * (torch.rand(hypotheses, 2, generator=random, dtype=torch.float64) * 2 - 1)
    weights = torch.rand(hypotheses, generator=random, dtype=torch.float64) + 0.01
    return torch.cdist(places, points), mass, weights / weights.sum()


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**31), t=st.floats(0, 1), spread=st.sampled_from([0.02, 1.0, 30.0]))
def test_it_is_the_transport_cost_and_never_above(seed, t, spread):
    cost, mass, weights = problem(seed, t, spread=spread)
    exact = ot.emd2(mass.numpy(), weights.numpy(), cost.numpy())
    found = dual_emd(cost, mass, weights).item()
    assert exact - 3e-4 * max(1, spread / 10) < found <= exact + 1e-9


def test_it_is_nearly_exact_on_a_fine_grid():
    cost, mass, weights = problem(3, 0.2, size=60)
    exact = ot.emd2(mass.numpy(), weights.numpy(), cost.numpy(), numItermax=1_000_000)
    assert dual_emd(cost, mass, weights).item() == pytest.approx(exact, abs=2e-6)


def test_points_without_weight_take_no_part():
    cost, mass, weights = problem(4, 0.7)
    weights[2] = 0
    others = torch.arange(7) != 2
    torch.testing.assert_close(
        dual_emd(cost, mass, weights), dual_emd(cost[:, others], mass, weights[others])
    )
