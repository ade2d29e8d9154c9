"""Distances against vectors and high precision, and the axioms of a metric."""

import math
from fractions import Fraction

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from torchmcl.distances import cost_matrix, euclidean, great_circle, great_circle_swapped, squared_euclidean

azimuths = st.floats(-math.pi, math.pi)
elevations = st.floats(-math.pi / 2, math.pi / 2)
directions = st.tuples(azimuths, elevations).map(lambda d: torch.tensor(d, dtype=torch.float64))


def vector(direction):
    azimuth, elevation = direction.unbind(-1)
    return torch.stack(
        [elevation.cos() * azimuth.cos(), elevation.cos() * azimuth.sin(), elevation.sin()], -1
    )


@given(directions, directions)
def test_great_circle_is_the_angle_between_vectors(x, y):
    u, v = vector(x), vector(y)
    expected = 2 * torch.atan2((u - v).norm(), (u + v).norm())
    torch.testing.assert_close(great_circle(x, y), expected, rtol=0, atol=1e-14)


@given(directions, directions, directions)
def test_great_circle_is_a_metric(x, y, z):
    assert great_circle(x, x) == 0
    assert great_circle(x, y) >= 0
    torch.testing.assert_close(great_circle(x, y), great_circle(y, x), rtol=0, atol=1e-14)
    assert great_circle(x, z) <= great_circle(x, y) + great_circle(y, z) + 1e-12


@pytest.mark.parametrize("tiny", [1e-3, 1e-6, 1e-9, 1e-12])
def test_great_circle_keeps_its_digits(tiny):
    here = torch.tensor([0.7, 0.5], dtype=torch.float64)
    above = here + torch.tensor([0.0, tiny], dtype=torch.float64)
    step = float(Fraction(above[1].item()) - Fraction(here[1].item()))
    assert great_circle(here, above).item() == pytest.approx(step, rel=1e-12)
    opposite = torch.tensor([0.7 - math.pi, -0.5 + tiny], dtype=torch.float64)
    assert great_circle(here, opposite).item() == pytest.approx(math.pi - tiny, abs=1e-15)


def test_great_circle_in_degrees_of_the_swapped_formula():
    x, y = torch.deg2rad(torch.tensor([[90.0, -60.0], [90.0, 50.0]], dtype=torch.float64))
    assert torch.rad2deg(great_circle(x, y)).item() == pytest.approx(110)
    assert torch.rad2deg(great_circle_swapped(x, y)).item() == pytest.approx(0, abs=1e-6)
    assert torch.equal(great_circle_swapped(x, y), great_circle(x.flip(-1), y.flip(-1)))


def test_azimuth_wraps_around():
    x, y = torch.deg2rad(torch.tensor([[179.0, 0.0], [-179.0, 0.0]], dtype=torch.float64))
    assert torch.rad2deg(great_circle(x, y)).item() == pytest.approx(2)


@pytest.mark.parametrize("distance", [euclidean, squared_euclidean, great_circle, great_circle_swapped])
def test_gradients(distance):
    x = torch.randn(20, 2, dtype=torch.float64, requires_grad=True)
    y = torch.randn(20, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(distance, (x, y))
    pole = torch.tensor([[0.3, math.pi / 2], [0.3, -math.pi / 2], [0.0, 0.0]], dtype=torch.float64)
    for other in (pole, pole.flip(-1), pole + torch.tensor([math.pi, 0.0]), -pole):
        start = pole.clone().requires_grad_()
        (gradient,) = torch.autograd.grad(distance(start, other).sum(), start)
        assert torch.isfinite(gradient).all()


def test_cost_matrix_is_each_pair():
    points, targets = torch.randn(2, 4, 5, 3), torch.randn(2, 4, 2, 3)
    for distance in (euclidean, squared_euclidean):
        cost, active = cost_matrix(points, targets, distance=distance)
        assert active.all()
        for m in range(2):
            for k in range(5):
                torch.testing.assert_close(cost[..., m, k], distance(targets[..., m, :], points[..., k, :]))


@pytest.mark.parametrize("distance", [euclidean, squared_euclidean])
def test_mixed_precision_is_promoted(distance):
    cost, _ = cost_matrix(torch.zeros(1, 2, 1), torch.ones(1, 1, 1, dtype=torch.float64), distance=distance)
    assert cost.dtype == torch.float64
    assert (cost == 1).all()
