"""Conformal levels, against their definition; regions, against a grid."""

import numpy as np
import pytest
import torch
from scipy.special import ndtr, ndtri

from torchmcl import Hypotheses
from torchmcl.tabular.calibration import (
    Calibration,
    carry_over,
    central_level,
    density_level,
    density_threshold,
    log_density,
)
from torchmcl.tabular.regions import _where_above
from torchmcl.tabular.scaling import Standard

PLAIN = Standard(np.zeros(1), np.ones(1))


def levels(scores, weights=None, groups=None):
    weights = np.ones(len(scores)) if weights is None else weights
    return Calibration(np.array(scores)[:, None], np.array(scores), weights, groups)


def test_the_level_is_the_conformal_quantile():
    scores = np.random.default_rng(0).uniform(size=99)
    for coverage in (0.5, 0.8, 0.9):
        found = levels(scores).interval_levels(coverage, None, 2)
        assert found.shape == (2, 1)
        assert found[0, 0] == np.sort(scores)[int(np.ceil(100 * coverage)) - 1]


def test_smoothed_levels_are_less_noisy_and_no_less_right():
    random = np.random.default_rng(0)
    plain, smooth = [], []
    for _ in range(300):
        # Half of the spread that the model expects, so that the level must differ from the coverage.
        scores = 2 * ndtr(np.abs(0.5 * random.normal(size=70))) - 1
        for found, kept in ((plain, False), (smooth, True)):
            own = Calibration(scores[:, None], scores, np.ones(70), None, kept)
            level = own.interval_levels(0.8, None, 1)[0, 0]
            found.append(2 * ndtr(2 * ndtri((1 + level) / 2)) - 1)
    assert np.mean(smooth) == pytest.approx(0.8, abs=0.01)
    assert np.std(smooth) < 0.85 * np.std(plain)


def test_smoothing_vanishes_with_many_rows_and_keeps_infinity():
    scores = np.random.default_rng(0).beta(2, 5, size=50_000)
    own = Calibration(scores[:, None], scores, np.ones(len(scores)), None, True)
    for coverage in (0.5, 0.9, 0.95):
        found = own.interval_levels(coverage, None, 1)[0, 0]
        assert (scores <= found).mean() == pytest.approx(coverage, abs=0.006)
    few = Calibration(scores[:8, None], scores[:8], np.ones(8), None, True)
    with pytest.warns(UserWarning, match="8 rows are too few"):
        assert few.interval_levels(0.9, None, 1)[0, 0] == np.inf


def test_levels_are_carried_over_to_all_members():
    """Members with a common error and one of their own: what five need follows from what one needs and two."""
    random = np.random.default_rng(0)
    common, own = 0.5 * random.normal(size=100_000), 0.8 * random.normal(size=(5, 100_000))

    def scores(members):
        """Levels under one normal distribution as wide as the mixture of so many members of width 0.9."""
        width = np.sqrt(0.9**2 + 0.8**2 * (1 - 1 / members))
        return 2 * ndtr(np.abs(common + own[:members].mean(0)) / width) - 1

    pair, alone = scores(2)[:, None], np.stack([scores(1)] * 4, 1).reshape(-1, 2, 2)
    carried = Calibration(pair, pair[:, 0], np.ones(len(pair)), None, True, alone, 5)
    for coverage in (0.5, 0.9):
        found = carried.interval_levels(coverage, None, 1)[0, 0], carried.region_levels(coverage, None, 1)[0]
        assert found == pytest.approx([np.quantile(scores(5), coverage)] * 2, abs=0.005)
        assert abs(found[0] - np.quantile(pair, coverage)) > 0.03
    few = Calibration(pair[:8], pair[:8, 0], np.ones(8), None, True, alone[:8], 5)
    with pytest.warns(UserWarning, match="8 rows are too few"):
        assert few.interval_levels(0.9, None, 1)[0, 0] == np.inf


def test_more_members_need_less_if_two_need_less_than_one():
    found = [carry_over(1.2, 0.9, 1.5, members) for members in (1, 2, 3, 5, 100)]
    assert found[:2] == pytest.approx([1.2, 0.9])
    assert (np.diff(found) < 0).all()
    for one, two in ((0.9, 1.0), (0.0, 2.0), (5.0, 0.0), (0.0, 0.0)):
        assert 0 <= carry_over(one, two, 1.5, 5) < 10


def test_weights_are_repetitions():
    scores = np.array([0.1, 0.2, 0.3, 0.4])
    weighted = levels(scores, np.array([1.0, 5.0, 1.0, 1.0])).region_levels(0.5, None, 1)
    assert weighted[0] == 0.2


def test_coverage_is_exact_on_the_average():
    random = np.random.default_rng(0)
    inside = [
        (random.uniform(size=50) <= levels(random.uniform(size=39)).region_levels(0.9, None, 1)[0]).mean()
        for _ in range(400)
    ]
    assert np.mean(inside) == pytest.approx(0.9, abs=0.01)


def test_too_few_rows_are_infinite_and_warned_of():
    with pytest.warns(UserWarning, match=r"8 rows are too few to calibrate a coverage of 0.9, which needs 9"):
        assert levels(np.linspace(0, 1, 8)).region_levels(0.9, None, 1)[0] == np.inf
    assert levels(np.linspace(0, 1, 9)).region_levels(0.9, None, 1)[0] == 1


def test_groups_have_levels_of_their_own():
    calibration = levels(np.r_[np.full(20, 0.2), np.full(20, 0.8)], groups=np.array(["a"] * 20 + ["b"] * 20))
    assert calibration.region_levels(0.9, ["b", "a"], 2).tolist() == [0.8, 0.2]
    with pytest.raises(ValueError, match="groups holds 'c', which calibration had no row of"):
        calibration.region_levels(0.9, ["c"], 1)
    with pytest.raises(ValueError, match=r"groups must be \(2,\)"):
        calibration.region_levels(0.9, ["a"], 2)
    with pytest.raises(ValueError, match="groups need a model that was calibrated by group"):
        levels([0.5] * 20).region_levels(0.9, ["a"], 1)


def test_levels_of_targets_are_uniform_under_the_truth():
    torch.manual_seed(0)
    one = Hypotheses(
        torch.tensor([[-2.0], [2.0]]).double(), torch.zeros(2).double(), "softmax", torch.ones(2).double()
    )
    many = Hypotheses.stack([one] * 2000)
    y = many.mixture().sample(())
    for found in (central_level(many, y)[:, 0], density_level(many, y, PLAIN)):
        for level in (0.25, 0.5, 0.9):
            assert (found <= level).double().mean() == pytest.approx(level, abs=0.03)


@pytest.mark.parametrize(("hypotheses", "dim"), [(1, 1), (10, 1), (20, 1), (10, 2), (4, 60)])
@pytest.mark.parametrize("spread", [0.0, 0.5, 3.0])
def test_the_level_of_a_density_is_that_of_many_draws(hypotheses, dim, spread):
    random = torch.Generator().manual_seed(0)

    def normal(*shape):
        return torch.randn(*shape, generator=random, dtype=torch.double)

    h = Hypotheses(
        spread * normal(30, hypotheses, dim),
        normal(30, hypotheses),
        "softmax",
        (0.3 * normal(30, hypotheses)).exp(),
    )
    y = h.mixture().sample((), random)
    drawn = h.mixture().log_prob(h.mixture().sample((4000,), random)) > h.mixture().log_prob(y)
    # 512 draws have an error of 0.015 on the average.
    error = density_level(h, y, Standard(np.zeros(dim), np.ones(dim))) - drawn.double().mean(0)
    assert error.abs().mean() < (0.015 if dim == 1 else 0.04)
    assert error.mean().abs() < 0.02


@pytest.mark.parametrize(("hypotheses", "dim"), [(1, 1), (50, 1), (10, 2)])
def test_a_region_has_the_targets_whose_level_is_at_most_its_own(hypotheses, dim):
    """So that its coverage is that of the levels it was calibrated by."""
    random = torch.Generator().manual_seed(0)
    points, logits, widths, y = (
        torch.randn(*shape, generator=random, dtype=torch.double)
        for shape in ((200, hypotheses, dim), (200, hypotheses), (200, hypotheses), (200, dim))
    )
    h, units = Hypotheses(points, logits, "softmax", widths.exp()), Standard(np.zeros(dim), np.ones(dim))
    own, density = density_level(h, y, units), log_density(h.mixture(), units, y)
    for level in (0.0, 0.5, 0.9, 0.99, 0.999):
        threshold = density_threshold(h, torch.full((200,), level, dtype=torch.double), units)
        assert torch.equal(density >= threshold, own <= level)
    # Levels of calibration are levels of targets, and a region has the targets at its edge.
    assert (density >= density_threshold(h, own, units)).all()
    assert (density_threshold(h, torch.ones(200).double(), units) == -torch.inf).all()


def test_a_region_of_two_branches_has_two_intervals():
    two = Hypotheses(
        torch.tensor([[-3.0], [3.0]]).double(),
        torch.zeros(2).double(),
        "softmax",
        torch.full((2,), 0.5).double(),
    )
    found = _where_above(two, PLAIN, two.mixture().log_prob(torch.tensor([[3.5]]).double())[0])
    np.testing.assert_allclose(found, [[-3.5, -2.5], [2.5, 3.5]], atol=1e-6)
