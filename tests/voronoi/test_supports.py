"""Supports and the volumes of Voronoi cells, against SciPy and Monte Carlo."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial import ConvexHull, SphericalVoronoi, Voronoi
from scipy.stats import kstest

from torchmcl.directions import to_vectors
from torchmcl.distances import euclidean, great_circle
from torchmcl.voronoi.supports import Box, Space, Sphere

SQUARE = Box([-1, -1], [1, 1])


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def points_in(box, *shape, seed=0, spread=1.0):
    """Points of the box, or of a larger one."""
    uniforms = torch.rand(*shape, box.dim, generator=generator(seed), dtype=torch.float64)
    low, high = torch.tensor(box.low).double(), torch.tensor(box.high).double()
    return (low + high) / 2 + spread * (uniforms - 0.5) * (high - low)


def counted_volumes(support, points, samples=200_000, seed=1):
    """An independent estimate: the share of uniform draws nearest to each point, and its standard error."""
    y = support.sample((samples,), generator(seed)).double()
    nearest = support.distance(y[:, None], points).argmin(-1)
    share = torch.bincount(nearest, minlength=len(points)) / samples
    return support.volume * share, support.volume * (share * (1 - share) / samples).sqrt()


def mirrored_areas(points, low, high):
    """SciPy's diagram of the points and of their images in the four sides, which bound the cells."""
    points = np.asarray(points)
    mirrors = [points]
    for axis in range(2):
        for side in (low[axis], high[axis]):
            image = points.copy()
            image[:, axis] = 2 * side - image[:, axis]
            mirrors.append(image)
    diagram = Voronoi(np.concatenate(mirrors))
    regions = [diagram.regions[diagram.point_region[k]] for k in range(len(points))]
    return np.array([ConvexHull(diagram.vertices[region]).volume for region in regions])


class TestBox:
    @pytest.mark.parametrize(
        ("low", "high", "words"),
        [
            ([0, 0], [1, 0], "below high"),
            ([0, 0], [1], "low has 2 coordinates, high has 1"),
            ([0, math.nan], [1, 1], "low must be a finite number"),
            ([0.0], [math.inf], "high must be a finite number"),
            (torch.zeros(1, 1), torch.ones(1, 1), "low must be a finite number"),
        ],
    )
    def test_mistakes_are_named(self, low, high, words):
        with pytest.raises(ValueError, match=words):
            Box(low, high)

    @pytest.mark.usefixtures("unchecked")
    @pytest.mark.parametrize(
        ("use", "words"),
        [
            (
                lambda box: box.cell_volumes(torch.zeros(3, 2, dtype=torch.long)),
                "points must be floating point",
            ),
            (lambda box: box.contains(torch.zeros(2, dtype=torch.long)), "y must be floating point"),
            (lambda box: box.contains([0.0, 0.0]), "y must be a tensor, got list"),
            (lambda box: box.contains(None), "y must be a tensor, got None"),
            (lambda box: box.cell_volumes(np.zeros((3, 2))), "points must be a tensor, got ndarray"),
            (lambda box: box.cell_volumes(torch.zeros(2)), r"points must be \(\*batch, hypotheses, dim\)"),
            (lambda box: box.cells(torch.zeros(3, 2), 0.0), "scale must be above 0, got 0.0"),
            (lambda box: box.cells(torch.zeros(3, 2), math.nan), "scale must be above 0, got nan"),
            (lambda box: box.sample(3), "shape must be a sequence of integers"),
            (lambda box: box.sample((-3,)), "each of shape must be at least 0, got -3"),
            (lambda box: Box("a", "b"), "low must be a number or a sequence of them, got 'a'"),
            (lambda box: Box(None, 1), "low must be a number or a sequence of them, got None"),
            (lambda box: Box(0, 1, seed=2**70), "seed must be at most"),
            (lambda box: Box(0, 1, samples=2.5), "samples must be an integer, got 2.5"),
            (lambda box: Sphere().contains(torch.zeros(3)), "y has 3 coordinates, the support has 2"),
            (lambda box: Space(2).sample((3,)), "Space has no uniform distribution"),
            (lambda box: Space(2).cells(torch.zeros(1, 2)), "scale must be finite"),
        ],
    )
    def test_arguments_are_named(self, use, words):
        with pytest.raises((TypeError, ValueError), match=words):
            use(SQUARE)

    def test_samples_must_allow_an_error(self):
        with pytest.raises(ValueError, match="samples must be at least 2, got 1"):
            Box(0, 1, samples=1)

    def test_numbers_sequences_and_tensors_are_the_same(self):
        assert Box(0, 2) == Box([0], (2.0,)) == Box(torch.tensor([0.0]), torch.tensor(2))
        assert hash(Box(0, 2)) == hash(Box([0], [2]))

    def test_contains_its_faces_and_its_draws(self):
        box = Box([-1, 0.1, 2], [1, 0.3, 9])
        assert box.volume == pytest.approx(2 * 0.2 * 7)
        assert box.contains(torch.tensor([[1, 0.1, 9], [1.001, 0.2, 3], [torch.nan, 0.2, 3]])).tolist() == [
            True,
            False,
            False,
        ]
        draws = box.sample((5, 1000), generator())
        assert draws.shape == (5, 1000, 3)
        assert box.contains(draws).all()
        for axis in range(3):
            scaled = (draws[..., axis].flatten() - box.low[axis]) / (box.high[axis] - box.low[axis])
            assert kstest(scaled.numpy(), "uniform").pvalue > 1e-4

    def test_wrong_coordinates_are_named(self):
        with pytest.raises(ValueError, match="points has 3 coordinates, the support has 2"):
            SQUARE.cell_volumes(torch.zeros(4, 3))
        with pytest.raises(ValueError, match="y has 1 coordinates, the support has 2"):
            SQUARE.contains(torch.zeros(4, 1))


class TestSphere:
    def test_draws_are_uniform(self):
        draws = Sphere().sample((20_000,), generator())
        assert Sphere().contains(draws).all()
        assert kstest(draws[:, 1].sin().numpy(), "uniform", args=(-1, 2)).pvalue > 1e-4
        assert kstest(draws[:, 0].numpy(), "uniform", args=(-math.pi, 2 * math.pi)).pvalue > 1e-4

    def test_contains_directions_only(self):
        y = torch.tensor([[9.0, 0.0], [0.0, torch.pi / 2], [0.0, 1.6], [torch.inf, 0.0], [0.0, torch.nan]])
        assert Sphere().contains(y).tolist() == [True, True, False, False, False]

    def test_distances_belong_to_supports(self):
        assert SQUARE.distance is euclidean
        assert Sphere().distance is great_circle

    @pytest.mark.parametrize("count", [4, 5, 20, 60])
    def test_areas_equal_scipy(self, count):
        points = Sphere().sample((count,), generator(count)).double()
        expected = SphericalVoronoi(to_vectors(points).numpy()).calculate_areas()
        area, error = Sphere().cell_volumes(points)
        np.testing.assert_allclose(area.numpy(), expected, rtol=1e-9)
        assert (error == 0).all()

    def test_few_and_degenerate_directions(self):
        right = math.pi / 2
        cases = {
            "one": ([[1.0, 0.3]], [4]),
            "poles": ([[0, right], [0, -right]], [2, 2]),
            "near": ([[0.0, 0.0], [1e-7, 0.0]], [2, 2]),
            "three on the equator": ([[0.0, 0], [right, 0], [math.pi, 0]], [1.5, 1, 1.5]),
            "coplanar": ([[k * right, 0.0] for k in range(4)], [1, 1, 1, 1]),
            "octahedron": ([[k * right, 0.0] for k in range(4)] + [[0, right], [0, -right]], [2 / 3] * 6),
            "one pole twice": ([[0.0, right], [2.0, right], [0, -right]], [2, 0, 2]),
            "a full turn apart": ([[-math.pi, 0.0], [math.pi, 0.0], [0.0, 0.0]], [2, 0, 2]),
        }
        for name, (points, expected) in cases.items():
            area = Sphere().cell_volumes(torch.tensor(points, dtype=torch.float64)).value
            np.testing.assert_allclose(area.numpy() / math.pi, expected, atol=1e-9, err_msg=name)


class TestVolumes:
    @given(st.lists(st.integers(-12, 12), min_size=1, max_size=7))
    @settings(max_examples=60, deadline=None)
    def test_line_equals_brute_force(self, steps):
        """Integer points coincide and leave the box often; on a grid of midpoints counting is exact."""
        box = Box(-5, 5)
        points = torch.tensor(steps, dtype=torch.float64)[:, None] / 2
        grid = torch.arange(-5 + 1 / 16, 5, 1 / 8, dtype=torch.float64)
        owner = (grid[:, None] - points[:, 0]).abs().argmin(-1)
        expected = torch.bincount(owner, minlength=len(points)) / 8
        torch.testing.assert_close(box.cell_volumes(points).value, expected.double(), atol=1e-12, rtol=0)

    @pytest.mark.parametrize("count", [1, 2, 3, 10, 50])
    def test_plane_equals_scipy(self, count):
        box = Box([-1, 0], [2, 1])
        points = points_in(box, count, seed=count)
        area, error = box.cell_volumes(points)
        np.testing.assert_allclose(area.numpy(), mirrored_areas(points, box.low, box.high), rtol=1e-9)
        assert (error == 0).all()

    @given(st.lists(st.tuples(st.integers(-6, 6), st.integers(-6, 6)), min_size=1, max_size=9))
    @settings(max_examples=60, deadline=None)
    def test_lattice_points_equal_counting(self, places):
        """Coincident, collinear and cocircular points, on the border and outside of the box."""
        points = torch.tensor(places, dtype=torch.float64) / 4
        side = torch.arange(-1 + 1 / 128, 1, 1 / 64, dtype=torch.float64)
        grid = torch.cartesian_prod(side, side)
        owner = (grid[:, None] - points).square().sum(-1).argmin(-1)
        expected = torch.bincount(owner, minlength=len(points)) * 4 / len(grid)
        area = SQUARE.cell_volumes(points).value
        assert area.sum().item() == pytest.approx(4, abs=1e-12)
        torch.testing.assert_close(area, expected.double(), atol=0.08, rtol=0)
        assert (area[expected == 0] < 0.02).all()

    @pytest.mark.parametrize("dim", [1, 2, 3, 5])
    @pytest.mark.parametrize("spread", [1.0, 2.5])
    def test_boxes_equal_monte_carlo(self, dim, spread):
        box = Box([-1] * dim, list(range(1, dim + 1)))
        points = points_in(box, 6, seed=dim, spread=spread)
        value, error = box.cell_volumes(points)
        counted, counting_error = counted_volumes(box, points)
        assert (
            (value - counted).abs() <= 4.5 * (error.square() + counting_error.square()).sqrt() + 1e-12
        ).all()
        assert ((error > 0) == (value > 0)).all() if dim > 2 else (error == 0).all()
        assert (value.sum() - box.volume).abs() <= 5 * error.square().sum().sqrt() + 1e-12

    def test_standard_error_is_honest(self):
        """Over seeds the estimates scatter by what they say."""
        points = points_in(Box([0] * 3, [1] * 3), 5)
        runs = [Box([0] * 3, [1] * 3, samples=512, seed=seed).cell_volumes(points) for seed in range(60)]
        scatter = torch.stack([run.value for run in runs]).std(0)
        stated = torch.stack([run.error for run in runs]).mean(0)
        assert ((scatter / stated > 0.7) & (scatter / stated < 1.4)).all()

    def test_tiny_cells_are_measured_as_well_as_large_ones(self):
        """The inner cell of a lattice is a cube, here a billionth of a unit: counting would never meet it."""
        step = 1e-3
        lattice = torch.cartesian_prod(*[torch.tensor([-step, 0, step], dtype=torch.float64)] * 3)
        value, error = Box([-1] * 3, [1] * 3).cell_volumes(lattice)
        assert value[13].item() == pytest.approx(step**3, rel=0.1)
        assert error[13] < 0.03 * step**3
        assert (value[13] - step**3).abs() < 4 * error[13]

    @pytest.mark.parametrize("support", [Box(-1, 1), SQUARE, Box([-1] * 3, [1] * 3), Sphere()], ids=str)
    def test_symmetries(self, support):
        points = support.sample((2, 3, 7), generator()).double()
        volumes = support.cell_volumes(points).value
        assert volumes.shape == (2, 3, 7)
        order = torch.randperm(7, generator=generator())
        torch.testing.assert_close(support.cell_volumes(points[..., order, :]).value, volumes[..., order])
        torch.testing.assert_close(support.cell_volumes(points[1, 2]).value, volumes[1, 2])
        single = support.cell_volumes(points.float()).value
        assert single.dtype == torch.float32
        torch.testing.assert_close(single.double(), volumes, rtol=1e-4, atol=1e-5)

    @pytest.mark.parametrize("support", [Box(-1, 1), SQUARE, Box([-1] * 3, [1] * 3), Sphere()], ids=str)
    def test_extremes(self, support):
        points = support.sample((3, 4), generator()).double()
        points[0, 2] = points[0, 0]
        points[1, 1, 0] = torch.nan
        before = points.clone()
        volumes, error = support.cell_volumes(points)
        assert volumes[0, 2] == 0
        assert (volumes[0, [0, 1, 3]] > 0).all()
        assert volumes[1].isnan().all()
        assert error[1].isnan().all()
        assert (volumes[2] > 0).all()
        torch.testing.assert_close(points, before, equal_nan=True)
        alone = support.cell_volumes(points[2, :1]).value
        assert alone.item() == pytest.approx(support.volume, rel=0.03 if support.dim == 3 else 1e-12)

    def test_outside_of_the_box(self):
        points = torch.tensor([[-3.0, 0.0], [3.0, 0.0], [50.0, 0.0]], dtype=torch.float64)
        assert SQUARE.cell_volumes(points).value.tolist() == pytest.approx([2, 2, 0])
        assert Box(-1, 1).cell_volumes(points[:, :1]).value.tolist() == pytest.approx([1, 1, 0])
        value, error = Box([-1] * 3, [1] * 3).cell_volumes(torch.nn.functional.pad(points, (0, 1)))
        assert ((value - torch.tensor([4.0, 4, 0])).abs() <= 4 * error).all()
        assert (error < 0.1).all()
