"""Boxes, balls and regions of high density: probability, volume and intervals against brute force."""

import math

import numpy as np
import pytest
import torch
from scipy import stats
from torch.distributions import Independent, Normal

from torchmcl.distances import great_circle
from torchmcl.hypotheses import Hypotheses
from torchmcl.regions import BallRegion, BoxRegion, HighestDensityRegion
from torchmcl.regions._line import merged

KERNELS = ["gaussian", "laplace", "student"]


def answer(batch: tuple[int, ...] = (6,), hypotheses: int = 4, dim: int = 1, seed: int = 0) -> Hypotheses:
    random = torch.Generator().manual_seed(seed)
    points = torch.randn(*batch, hypotheses, dim, generator=random, dtype=torch.float64) * 3
    logits = torch.randn(*batch, hypotheses, generator=random, dtype=torch.float64)
    widths = torch.rand(*batch, hypotheses, generator=random, dtype=torch.float64) + 0.1
    return Hypotheses(points, logits, "softmax", widths)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("coverage", [0.5, 0.9])
def test_intervals_hold_the_probability_and_nothing_else_is_denser(kernel, coverage):
    mixture = answer().mixture(kernel)
    region = HighestDensityRegion(mixture, coverage)
    ends = region.intervals
    mass = (mixture.cdf(ends[..., 1].T[..., None]) - mixture.cdf(ends[..., 0].T[..., None])).nansum(0)
    assert (abs(mass - coverage) < 5 * region.error).all()
    grid = torch.linspace(-40, 40, 4001, dtype=torch.float64)[:, None, None].expand(-1, 6, 1)
    listed = ((ends[..., 0] <= grid) & (grid <= ends[..., 1])).any(-1)
    assert torch.equal(listed, region.contains(grid))


def test_one_normal_gives_its_central_interval():
    h = Hypotheses(torch.tensor([[2.0]]).double(), widths=torch.tensor([3.0]).double())
    level = torch.tensor(stats.norm.logpdf(1.645 * 3, 0, 3))
    ends = HighestDensityRegion(h, level=level).intervals
    torch.testing.assert_close(
        ends, torch.tensor([[2 - 4.935, 2 + 4.935]], dtype=torch.float64), atol=1e-9, rtol=0
    )


def test_widths_that_differ_by_a_million():
    h = Hypotheses(torch.tensor([[0.0], [5.0]]).double(), widths=torch.tensor([1e-3, 1e3]).double())
    region = HighestDensityRegion(h, 0.25, samples=20_000)
    ends = region.intervals
    assert len(ends) == 1
    assert abs(ends[0]).max() < 0.005
    broad = HighestDensityRegion(h, 0.9).intervals
    assert len(broad) == 1
    assert broad[0, 0] < -1000


@pytest.mark.parametrize("dim", [2, 3])
def test_volume_of_a_normal_and_its_error(dim):
    h = Hypotheses(torch.zeros(200, 1, dim), widths=torch.full((200, 1), 0.5))
    radius = math.sqrt(stats.chi2.ppf(0.8, dim)) * 0.5
    level = h.mixture().log_prob(torch.tensor([radius] + [0.0] * (dim - 1)).expand(200, dim))
    found = HighestDensityRegion(h, level=level).volume(2000)
    truth = math.pi ** (dim / 2) / math.gamma(dim / 2 + 1) * radius**dim
    z = (found.value - truth) / found.error
    assert abs(z.mean()) < 0.3
    assert 0.7 < z.std() < 1.3
    balls = BallRegion(h, torch.full((200,), radius)).volume(100)
    torch.testing.assert_close(balls.value, torch.full((200,), truth))
    assert (balls.error == 0).all()


def test_volume_of_balls_counts_overlaps_once():
    points = torch.tensor([[[0.0, 0.0], [1.0, 0.0], [9.0, 9.0], [50.0, 0.0]]])
    h = Hypotheses(points, torch.tensor([[0.0, 0.0, 0.0, -torch.inf]]), "softmax")
    found = BallRegion(h, torch.ones(1)).volume(20_000)
    lens = 2 * math.acos(0.5) - 0.5 * math.sqrt(3)
    assert abs(found.value.item() - (3 * math.pi - lens)) < 4 * found.error.item()
    assert found.error.item() < 0.05


def test_intervals_of_balls_are_joined():
    h = Hypotheses(torch.tensor([[[5.0], [0.0], [1.0]], [[0.0], [9.0], [3.0]]]))
    region = BallRegion(h, torch.tensor([1.0, -1.0]))
    assert region.intervals[0].tolist() == [[-1.0, 2.0], [4.0, 6.0]]
    assert region.intervals[1].isnan().all()
    assert region.volume().value.tolist() == [5.0, 0.0]
    assert region.contains(torch.tensor([[[1.5], [0.0]], [[3.0], [0.0]]])).tolist() == [
        [True, False],
        [False, False],
    ]


def test_merged_equals_a_sweep():
    random = np.random.default_rng(0)
    lower = random.uniform(size=(50, 6))
    ends = np.stack([lower, lower + random.uniform(0, 0.3, size=(50, 6))], -1)
    ends[random.uniform(size=(50, 6)) < 0.3] = np.nan
    for ours, theirs in zip(merged(torch.from_numpy(ends)).numpy(), ends, strict=True):
        swept: list[list[float]] = []
        for a, b in sorted(theirs[~np.isnan(theirs[:, 0])].tolist()):
            if swept and a <= swept[-1][1]:
                swept[-1][1] = max(swept[-1][1], b)
            else:
                swept.append([a, b])
        assert ours[~np.isnan(ours[:, 0])].tolist() == swept


def test_boxes():
    box = BoxRegion(torch.tensor([[0.0], [2.0]]), torch.tensor([[1.0], [1.0]]))
    assert box.contains(torch.tensor([[1.0], [1.5]])).tolist() == [True, False]
    assert box.volume().value.tolist() == [1.0, 0.0]
    assert box.intervals[0].tolist() == [[0.0, 1.0]]
    assert box.intervals[1].isnan().all()


def test_what_has_no_answer_says_so(unchecked):
    flat = answer(dim=2)
    with pytest.raises(ValueError, match="intervals exist in one dimension, the region has 2"):
        _ = HighestDensityRegion(flat, 0.9, samples=10).intervals
    with pytest.raises(ValueError, match="prediction has no widths"):
        HighestDensityRegion(Hypotheses(torch.zeros(2, 1)))
    with pytest.raises(ValueError, match="coverage must be above 0 and below 1, got 0"):
        HighestDensityRegion(flat, 0.0)
    with pytest.raises(NotImplementedError, match="distance euclidean only"):
        BallRegion(flat, torch.ones(6), great_circle).volume()
    with pytest.raises(ValueError, match="generator must be None for a Independent"):
        HighestDensityRegion(NORMAL, 0.9, generator=torch.Generator())
    with pytest.raises(ValueError, match=r"upper must be \(2, 1\) like lower"):
        BoxRegion(torch.zeros(2, 1), torch.ones(2, 2))
    with pytest.raises(ValueError, match=r"radius must be \(6,\) like the hypotheses"):
        BallRegion(flat, torch.ones(7))


NORMAL = Independent(Normal(torch.zeros(2, 2), 1.0), 1)


def test_the_region_of_a_distribution_of_torch_has_a_volume():
    region = HighestDensityRegion(NORMAL, 0.5, samples=20_000)
    assert region.volume(20_000).value == pytest.approx(2 * math.pi * math.log(2), rel=0.1)


UNKNOWN = Hypotheses(
    torch.rand(2, 3, 1), torch.tensor([[0.0, 1.0, 0.0], [torch.nan, 0.0, 0.0]]), widths=torch.ones(2, 3)
)


@pytest.mark.parametrize("dim", [1, 2])
@pytest.mark.parametrize(
    "make",
    [
        lambda h: HighestDensityRegion(h, samples=50),
        lambda h: HighestDensityRegion(h, level=torch.full((2,), -5.0)),
        lambda h: BallRegion(h, torch.ones(2)),
        lambda h: BallRegion(Hypotheses(h.points), torch.tensor([1.0, torch.nan])),
    ],
)
def test_a_region_of_what_is_not_known_holds_nothing_and_has_no_volume(make, dim):
    hypotheses = Hypotheses(UNKNOWN.points.expand(2, 3, dim), UNKNOWN.logits, widths=UNKNOWN.widths)
    region = make(hypotheses)
    assert region.contains(hypotheses.points[:, 0]).tolist() == [True, False]
    assert region.volume(50).value.isnan().tolist() == [False, True]
    if dim == 1:
        assert region.intervals[1].isnan().all()
