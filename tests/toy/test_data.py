"""The toy distribution against its definition, by counting."""

import pytest
import torch
from scipy.stats import cauchy, kstest

from torchmcl.toy.data import density, draw, grid, pair_probability, sample, square_probs


@pytest.mark.parametrize("t", [0.0, 0.1, 0.5, 0.9, 1.0])
def test_samples_fall_into_the_squares_as_often_as_they_should(t):
    y = sample(torch.tensor(t), (40_000,), torch.Generator().manual_seed(1))
    square = 2 * (y[:, 0] >= 0).long() + (y[:, 1] >= 0).long()
    found = torch.bincount(square, minlength=4) / len(y)
    torch.testing.assert_close(
        found, torch.tensor([(1 - t) / 2, t / 2, t / 2, (1 - t) / 2]), atol=0.01, rtol=0
    )


def test_samples_are_uniform_within_a_square():
    y = sample(torch.tensor(0.3), (40_000,), torch.Generator().manual_seed(1))
    for axis in (0, 1):
        assert kstest(y[:, axis] % 1, "uniform").pvalue > 1e-3


def test_the_density_is_that_of_the_samples():
    y = sample(torch.tensor(0.3), (200_000,), torch.Generator().manual_seed(2))
    points, mass = grid(torch.tensor(0.3), size=4)
    cell = torch.cdist(y, points).argmin(-1)
    found = torch.bincount(cell, minlength=16) / len(y)
    torch.testing.assert_close(found, mass, atol=4e-3, rtol=0)
    torch.testing.assert_close(mass / 0.25, density(points, torch.tensor(0.3)))


def test_the_density_integrates_to_one_and_is_zero_outside():
    t = torch.linspace(0, 1, 7)
    _, mass = grid(t, size=20)
    torch.testing.assert_close(mass.sum(-1), torch.ones(7))
    assert density(torch.tensor([1.01, 0.0]), torch.tensor(0.5)) == 0


def test_grids_that_cut_squares_are_refused():
    with pytest.raises(ValueError, match="size must be even"):
        grid(torch.tensor(0.5), size=5)


def test_times_are_uniform_and_pairs_as_frequent_as_q():
    t, targets, active = draw(100_000, seed=3)
    assert kstest(t[:, 0], "uniform").pvalue > 1e-3
    assert active[:, 0].all()
    for low in (0.0, 0.25, 0.5, 0.75):
        inside = (t[:, 0] >= low) & (t[:, 0] < low + 0.25)
        expected = pair_probability(t[inside, 0]).mean()
        torch.testing.assert_close(active[inside, 1].float().mean(), expected, atol=0.01, rtol=0)
    assert (targets.abs() <= 1).all()


def test_both_targets_follow_the_time():
    t, targets, _ = draw(100_000, seed=4)
    early = t[:, 0] < 0.1
    diagonal = (targets[..., 0] < 0) == (targets[..., 1] < 0)
    expected = square_probs(t[early, 0])[:, [0, 3]].sum(-1).mean()
    for which in (0, 1):
        torch.testing.assert_close(diagonal[early, which].float().mean(), expected, atol=0.01, rtol=0)


def test_a_seed_gives_the_same_samples_and_another_gives_others():
    for a, b in zip(draw(100, seed=5), draw(100, seed=5), strict=True):
        assert torch.equal(a, b)
    assert not torch.equal(draw(100, seed=5).t, draw(100, seed=6).t)


def test_outliers_are_as_frequent_as_asked_and_cauchy():
    _, targets, _ = draw(100_000, seed=7, outliers=0.5)
    _, all_outliers, _ = draw(20_000, seed=8, outliers=1.0)
    outside = (targets.abs() > 1).any(-1).float().mean()
    torch.testing.assert_close(
        outside, 0.5 * (all_outliers.abs() > 1).any(-1).float().mean(), atol=0.01, rtol=0
    )
    # Every coordinate of a bivariate Cauchy vector is a standard Cauchy number.
    assert kstest(all_outliers[:, 0, 1], cauchy.cdf).pvalue > 1e-3
    with pytest.raises(ValueError, match="outliers must be a probability"):
        draw(10, seed=0, outliers=2.0)
