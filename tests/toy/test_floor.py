"""The stored floor: what its points reach, and that a search finds nothing better."""

import pytest
import torch

from torchmcl.hypotheses import Hypotheses
from torchmcl.toy.data import grid
from torchmcl.toy.floor import TIMES, floor, lloyd, quantization_error, search, stored
from torchmcl.transport import emd


def test_the_error_is_the_emd_under_the_best_weights():
    points = torch.rand(5, 2, dtype=torch.float64) * 2 - 1
    t = torch.tensor(0.3, dtype=torch.float64)
    places, mass = grid(t, 20)
    best = torch.zeros(5, dtype=torch.float64).index_add(0, torch.cdist(places, points).argmin(-1), mass)
    ours = quantization_error(points, t, 20)
    torch.testing.assert_close(
        ours, emd(Hypotheses(points, best.log(), "softmax"), places, target_weights=mass)
    )
    other = emd(
        Hypotheses(points, torch.zeros(5, dtype=torch.float64), "softmax"), places, target_weights=mass
    )
    assert ours < other


def test_lloyd_never_raises_the_error():
    t = torch.tensor(0.2)
    points = torch.rand(4, 6, 2) * 2 - 1
    errors = [quantization_error(points, t, 20)]
    for _ in range(10):
        points = lloyd(points, t, size=20, iterations=1)
        errors.append(quantization_error(points, t, 20))
    assert (torch.stack(errors).diff(dim=0) <= 1e-6).all()
    assert (errors[-1] < errors[0] - 0.01).all()


def test_the_floor_has_the_known_values_and_is_symmetric():
    values = floor()
    assert len(values) == len(TIMES) == 50
    torch.testing.assert_close(values, values.flip(0))
    assert values[0].item() == pytest.approx(0.1220, abs=2e-4)
    assert values.mean().item() == pytest.approx(0.1568, abs=2e-4)


def test_stored_points_cannot_be_improved_by_moving_them_on():
    t, points = next(iter(stored().items()))
    now = torch.tensor(points, dtype=torch.float64)
    time = torch.tensor(t, dtype=torch.float64)
    moved = lloyd(now, time, iterations=20)
    assert quantization_error(now, time) - quantization_error(moved, time) < 2e-5


def test_a_search_comes_close_to_the_floor_and_never_below():
    index = 5
    found = quantization_error(search(TIMES[index], starts=12, finalists=2), TIMES[index])
    assert -2e-5 < found - floor()[index] < 2e-3
