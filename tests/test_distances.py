"""Distances against vectors and high precision, and the axioms of a metric."""

import math
from fractions import Fraction

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from torchmcl.distances import (
    chordal,
    cost_matrix,
    euclidean,
    great_circle,
    great_circle_swapped,
    squared_euclidean,
)

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


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("distance", "x", "y", "message"),
    [
        (great_circle, torch.zeros(3), torch.zeros(3), "x has 3 coordinates, a direction has 2"),
        (great_circle, torch.zeros(2), torch.zeros(3), "y has 3 coordinates, a direction has 2"),
        (great_circle, [0.0, 0.0], torch.zeros(2), "x must be a tensor, got list"),
        (great_circle_swapped, torch.zeros(1), torch.zeros(2), "x has 1 coordinates, a direction has 2"),
        (chordal, torch.zeros(3), torch.zeros(3), "x has 3 coordinates, a direction has 2"),
        (
            chordal,
            torch.zeros(2, dtype=torch.long),
            torch.zeros(2),
            "x must be floating point, got torch.int64",
        ),
        (euclidean, torch.zeros(3), torch.zeros(2), "y has 2 coordinates, x has 3"),
        (euclidean, None, torch.zeros(2), "x must be a tensor, got None"),
        (squared_euclidean, torch.zeros(2, dtype=torch.int), torch.zeros(2), "x must be floating point"),
        (squared_euclidean, torch.zeros(2), torch.zeros(()), "y has 0 coordinates, x has 2"),
    ],
)
def test_mistakes_are_named(distance, x, y, message):
    with pytest.raises((TypeError, ValueError), match=message):
        distance(x, y)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"points": [[0.0]]}, "points must be a tensor, got list"),
        ({"targets": None}, "targets must be a tensor, got None"),
        ({"targets": torch.zeros(4, 2, dtype=torch.long)}, "targets must be floating point, got torch.int64"),
        ({"active": torch.ones(4)}, "active must be a boolean mask, got torch.float32"),
        ({"active": torch.ones(4, 1, dtype=torch.bool)}, r"active must be \(4,\), got \(4, 1\)"),
        ({"active": [True] * 4}, "active must be a tensor, got list"),
        (
            {"distance": "great_circle"},
            "distance must be a function of two tensors of points, got 'great_circle'",
        ),
        ({"distance": lambda x, y: (x - y).abs()}, r"distance must reduce the last axis to \(4, 3\)"),
        (
            {"distance": lambda x, y: None},
            "distance must return a floating-point tensor, it returned NoneType",
        ),
        (
            {"distance": lambda x, y: (x - y).norm(dim=-1).long()},
            "floating-point tensor, it returned torch.int64",
        ),
    ],
)
def test_mistakes_of_a_cost_matrix_are_named(change, message):
    with pytest.raises((TypeError, ValueError), match=message):
        cost_matrix(**{"points": torch.zeros(3, 2), "targets": torch.zeros(4, 2), **change})
