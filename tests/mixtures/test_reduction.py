"""Few points in place of many, against all subsets, the closed form on a line, and other choices of points."""

from itertools import combinations

import pytest
import torch
from scipy.optimize import minimize
from torch import Tensor

from torchmcl.distances import chordal, great_circle
from torchmcl.hypotheses import Hypotheses
from torchmcl.voronoi.supports import Sphere


def energy_distance(x: Tensor, p: Tensor, z: Tensor, q: Tensor, distance=None) -> float:
    """`2 E d(X, Z) - E d(X, X') - E d(Z, Z')` by loops over pairs."""
    apart = distance or (lambda a, b: (a - b).norm())

    def expected(x, p, z, q):
        return sum(a * b * apart(u, v) for a, u in zip(p, x, strict=True) for b, v in zip(q, z, strict=True))

    return float(2 * expected(x, p, z, q) - expected(x, p, x, p) - expected(z, q, z, q))


def random(*batch: int, hypotheses: int, dim: int) -> Hypotheses:
    logits = torch.randn(*batch, hypotheses, dtype=torch.float64)
    return Hypotheses(torch.randn(*batch, hypotheses, dim, dtype=torch.float64), logits, "softmax")


def best_subset(h: Hypotheses, count: int) -> float:
    """All subsets, each with the best probabilities that SciPy finds."""
    apart = torch.cdist(h.points, h.points)
    best = float("inf")
    for chosen in combinations(range(h.n_hypotheses), count):
        rows = list(chosen)
        reach, between = (apart[rows] @ h.probs).numpy(), apart[rows][:, rows].numpy()

        def energy(q, reach=reach, between=between):
            return 2 * reach @ q - q @ between @ q

        even = [1 / count] * count
        total = {"type": "eq", "fun": lambda q: q.sum() - 1}
        found = minimize(energy, even, bounds=[(0, 1)] * count, constraints=[total], method="SLSQP").fun
        best = min(best, found - (h.probs @ apart @ h.probs).item())
    return best


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_nearly_as_good_as_the_best_of_all_subsets(dim):
    for _ in range(4):
        h = random(hypotheses=7, dim=dim)
        few = h.reduce(3)
        ours = energy_distance(h.points, h.probs, few.points, few.probs)
        assert ours <= 1.05 * best_subset(h, 3)


def test_two_points_on_a_line_are_as_good_as_a_grid():
    h = random(hypotheses=40, dim=1)
    few = h.reduce(2)
    ours = energy_distance(h.points, h.probs, few.points, few.probs)
    grid = torch.linspace(-2.5, 2.5, 41, dtype=torch.float64)
    reach = (grid[:, None] - h.points[:, 0]).abs() @ h.probs
    share = torch.linspace(0, 1, 41, dtype=torch.float64)
    apart = (grid[:, None] - grid).abs()[..., None]
    cross = share * reach[:, None, None] + (1 - share) * reach[None, :, None]
    own = (h.points - h.points[:, 0]).abs()
    best = (2 * cross - 2 * share * (1 - share) * apart).amin() - h.probs @ own @ h.probs
    assert ours <= best.item() + 1e-9


@pytest.mark.parametrize("dim", [1, 2, 5])
def test_better_than_the_most_probable_and_than_random_subsets(dim):
    h = random(6, hypotheses=40, dim=dim)
    few = h.reduce(6)
    for item in range(6):
        x, p = h.points[item], h.probs[item]
        ours = energy_distance(x, p, few.points[item], few.probs[item])
        for rows in (p.topk(6).indices, torch.randperm(40)[:6], torch.randperm(40)[:6]):
            cells = torch.cdist(x, x[rows]).argmin(-1)
            mass = torch.zeros(6, dtype=torch.float64).scatter_add(0, cells, p)
            assert ours < energy_distance(x, p, x[rows], mass)


def test_on_the_sphere_the_azimuth_is_periodic():
    near = torch.tensor(
        [[3.1, 0.0], [-3.1, 0.05], [3.13, -0.05], [0.0, 0.5], [0.1, 0.5]], dtype=torch.float64
    )
    few = Hypotheses(near).reduce(2, distance=chordal)
    assert Sphere().contains(few.points).all()
    centers = torch.tensor([[torch.pi, 0.0], [0.05, 0.5]], dtype=torch.float64)
    assert great_circle(few.points[:, None], centers).amin(0).max() < 0.1
    torch.testing.assert_close(few.probs.sort().values, torch.tensor([0.4, 0.6]).double(), atol=0.02, rtol=0)


def test_variance_is_nearly_kept_by_the_widths():
    h = random(5, hypotheses=30, dim=2)
    wide = Hypotheses(h.points, h.logits, "softmax", torch.rand(5, 30).double() + 0.2)
    few = wide.reduce(8)
    assert few.widths.shape == (5, 8)
    torch.testing.assert_close(few.variance, wide.variance, rtol=0.2, atol=0.05)


def test_shapes_dtypes_and_what_is_already_few():
    h = Hypotheses(torch.randn(2, 3, 10, 2))
    few = h.reduce(4)
    assert (few.points.shape, few.points.dtype) == ((2, 3, 4, 2), torch.float32)
    torch.testing.assert_close(few[1, 2].mean, h[1, 2].reduce(4).mean)
    assert h.reduce(10) is h
    assert h.reduce(1).points.shape == (2, 3, 1, 2)


def test_degenerate_sets():
    same = Hypotheses(torch.ones(6, 2)).reduce(2)
    torch.testing.assert_close(same.mean, torch.ones(2))
    pruned = Hypotheses(torch.randn(6, 2), torch.tensor([0.0, 0, 0, 0, 0, -torch.inf]), "softmax").reduce(3)
    assert pruned.probs.isfinite().all()
    copies = Hypotheses(torch.randn(3, 1).repeat(4, 1)).reduce(3)
    assert copies.mean.isfinite().all()


@pytest.mark.usefixtures("unchecked")
def test_mistakes_are_named():
    h = Hypotheses(torch.randn(5, 2))
    with pytest.raises(ValueError, match="count must be at least 1, got 0"):
        h.reduce(0)
    with pytest.raises(TypeError, match=r"count must be an integer, got 2\.5"):
        h.reduce(2.5)
    with pytest.raises(ValueError, match="distance must be euclidean or chordal"):
        h.reduce(2, distance=great_circle)
