"""Transformed targets: densities, quantiles, moments and regions, against numerical integration and SciPy."""

import numpy as np
import pytest
import torch
from scipy.integrate import trapezoid
from scipy.stats import yeojohnson
from sklearn.preprocessing import PowerTransformer

from torchmcl import MCLRegressor
from torchmcl.tabular import scorers
from torchmcl.tabular.scaling import Standard
from torchmcl.tabular.warping import Warped, YeoJohnson


@pytest.mark.parametrize("power", [0.0, 0.3, 1.0, 1.7, 2.0])
def test_the_transformation_is_that_of_scipy_and_can_be_inverted(power):
    x = torch.linspace(-5, 5, 101, dtype=torch.double)
    transform = YeoJohnson(power)
    z = transform(x)
    np.testing.assert_allclose(z, yeojohnson(x.numpy(), power), atol=1e-12)
    torch.testing.assert_close(transform.inv(z), x)
    slope = torch.autograd.functional.jacobian(lambda each: transform(each).sum(), x)
    torch.testing.assert_close(transform.log_abs_det_jacobian(x, z), slope.log())


def test_the_power_is_that_of_scikit_learn_and_skewness_is_gone():
    values = np.random.default_rng(0).gamma(3.0, size=(5000, 1))
    units = Warped.of(Standard(np.zeros(1), np.ones(1)), values, np.ones(5000))
    assert units.power == pytest.approx(PowerTransformer().fit(values).lambdas_[0], abs=0.02)
    z = units.apply(values)
    assert abs(float((z**3).mean())) < 0.1
    np.testing.assert_allclose(units.invert(z), values)


@pytest.fixture(scope="module")
def log_normal():
    random = np.random.default_rng(0)
    x = random.normal(size=(600, 1))
    y = np.exp(x[:, 0] + 0.5 * random.normal(size=600))
    model = MCLRegressor(
        n_hypotheses=3, members=3, hidden=(32,), max_epochs=30, target_transform="auto", random_state=0, progress=False
    )  # fmt: skip
    return model.fit(x, y), x, y


def test_auto_transforms_log_normal_targets_and_leaves_normal_ones(log_normal):
    model, x, _ = log_normal
    assert model.target_transform_ == "yeo-johnson"
    plain = np.sin(x[:, 0]) + 0.3 * np.random.default_rng(1).normal(size=len(x))
    settings = {**model.get_params(), "max_epochs": 8}
    assert MCLRegressor(**settings).fit(x, plain).target_transform_ in (None, "yeo-johnson")
    with pytest.raises(ValueError, match="target_transform must be None for 2 outputs"):
        MCLRegressor(**settings).fit(x, np.stack([plain, plain], 1))


def test_density_moments_and_quantiles_are_those_of_the_integrated_density(log_normal):
    model, _, _ = log_normal
    rows = np.array([[-1.0], [0.0], [1.0]])
    grid = np.exp(np.linspace(-12, 7, 20001)) - 3
    low = model.predict_quantiles(rows, 1e-9)[:, 0].min()
    grid = np.concatenate([np.linspace(low, grid[0] + 1e-9, 2001)[:-1], grid]) if low < grid[0] else grid
    distribution = model.predict_dist(rows)
    for index, row in enumerate(rows):
        density = np.exp(model.log_prob(np.repeat(row[None], len(grid), 0), grid))
        assert trapezoid(density, grid) == pytest.approx(1, abs=1e-3)
        mean = trapezoid(density * grid, grid)
        assert model.predict(rows)[index] == pytest.approx(mean, rel=5e-3)
        assert distribution.mean[index, 0].item() == pytest.approx(mean, rel=5e-3)
        variance = trapezoid(density * (grid - mean) ** 2, grid)
        assert model.predict_std(rows)[index] ** 2 == pytest.approx(variance, rel=0.03)
        below = trapezoid(np.where(grid <= model.predict_quantiles(rows, 0.3)[index, 0], density, 0), grid)
        assert below == pytest.approx(0.3, abs=0.01)
    found = distribution.log_prob(torch.tensor([[0.5], [1.0], [2.0]]).double())
    np.testing.assert_allclose(found, model.log_prob(rows, [0.5, 1.0, 2.0]))


def test_draws_intervals_and_regions_agree_with_the_density(log_normal):
    model, x, y = log_normal
    rows = np.array([[-1.0], [1.0]])
    drawn = model.sample(rows, 4000, random_state=0)
    np.testing.assert_allclose(drawn.mean(1), model.predict(rows), rtol=0.1)
    ends = model.predict_interval(x, 0.8)
    assert ((ends[:, 0] <= y) & (y <= ends[:, 1])).mean() == pytest.approx(0.8, abs=0.07)
    region = model.predict_region(rows, 0.8)
    for row, intervals, threshold in zip(rows, region.intervals(), region.thresholds, strict=True):
        at = model.log_prob(np.repeat(row[None], intervals.size, 0), intervals.flatten())
        np.testing.assert_allclose(at, threshold, atol=1e-4)
    assert model.predict_region(x, 0.8).contains(y).mean() == pytest.approx(0.8, abs=0.07)
    # The region of highest density is narrower than the central interval of a skewed distribution.
    assert (region.size() < (lambda e: e[:, 1] - e[:, 0])(model.predict_interval(rows, 0.8)) * 1.02).all()


def test_hypotheses_and_the_scorer_are_in_the_units_of_the_targets(log_normal):
    model, x, y = log_normal
    hypotheses = model.predict_hypotheses(x)
    inside = (hypotheses.points[..., 0].numpy() > y.min() - 1) & (
        hypotheses.points[..., 0].numpy() < 3 * y.max()
    )
    assert inside.mean() > 0.95
    drawn = model.sample(x, 400, random_state=1)
    near = np.abs(drawn - y[:, None]).mean()
    apart = np.abs(drawn - np.roll(drawn, 1, 1)).mean()
    assert -scorers.crps(model, x, y) == pytest.approx(near - apart / 2, rel=0.03)


def test_saved_and_loaded_it_predicts_the_same(log_normal, tmp_path):
    model, x, _ = log_normal
    model.save(tmp_path)
    again = MCLRegressor.load(tmp_path)
    assert again.target_transform_ == "yeo-johnson"
    assert again.target_transform == "auto"
    np.testing.assert_array_equal(again.predict(x[:20]), model.predict(x[:20]))
    np.testing.assert_array_equal(again.predict_interval(x[:20]), model.predict_interval(x[:20]))


def test_losses_of_winners_refuse_it():
    with pytest.raises(ValueError, match="target_transform must be None with loss='rmcl'"):
        MCLRegressor(loss="rmcl", target_transform="auto").fit([[0.0], [1.0]], [0.0, 1.0])


def test_moments_follow_the_unit_of_the_target(log_normal):
    """Squares of large and of small targets are infinite and 0."""
    X, y = (each[:60] for each in log_normal[1:])
    draws = []
    for unit in (1.0, 2.0**900, 2.0**-900):
        model = MCLRegressor(
            members=1, max_epochs=1, target_transform="yeo-johnson", random_state=0, progress=False
        )
        model.fit(X, y * unit)
        draws.append((model.predict(X) / unit, model.predict_std(X) / unit))
    for mean, std in draws[1:]:
        np.testing.assert_allclose(mean, draws[0][0], rtol=1e-9)
        np.testing.assert_allclose(std, draws[0][1], rtol=1e-9)
