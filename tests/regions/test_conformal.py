"""Split conformal prediction: coverage that holds for a bad model, exactly as the theorem has it."""

import math
import warnings

import pytest
import torch

from torchmcl.hypotheses import Hypotheses
from torchmcl.regions import BallRegion, BoxRegion, Conformal, HighestDensityRegion

SCORES = ["quantile", "density", "distance"]


def bad_model(x: torch.Tensor, dim: int) -> Hypotheses:
    """Two branches, of which one is missed and the other too narrow."""
    points = torch.stack([x, 0.3 * x, torch.zeros_like(x)], -1)[..., None].expand(*x.shape, 3, dim)
    widths = torch.full((*x.shape, 3), 0.05)
    return Hypotheses(points, torch.tensor([1.0, 0.0, -1.0]).expand(*x.shape, 3), "softmax", widths)


def data(n: int, dim: int) -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.rand(n) * 2 - 1
    side = torch.where(torch.rand(n) < 0.5, 1.0, -1.0)
    return x, side[:, None] * (1 + x[:, None].abs()) + 0.3 * torch.randn(n, dim)


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("dim", [1, 2])
@pytest.mark.parametrize("level", [0.5, 0.9])
def test_coverage_holds_for_a_bad_model(score, dim, level):
    """200 random splits: 100 held-out items and 100 new ones; the tolerance is four standard errors.

    Quantiles are those of the points, which takes less time.
    """

    def answer(x: torch.Tensor) -> Hypotheses:
        h = bad_model(x, dim)
        return Hypotheses(h.points, h.logits, h.link) if score == "quantile" else h

    covered = []
    for _ in range(200):
        x, y = data(200, dim)
        held, new = slice(0, 100), slice(100, 200)
        region = Conformal(score, level).calibrate(answer(x[held]), y[held]).region(answer(x[new]))
        covered.append(region.contains(y[new]).double().mean())
    mean, error = torch.stack(covered).mean().item(), torch.stack(covered).std().item() / math.sqrt(200)
    assert level - 4 * error <= mean <= level + 1 / 101 + 4 * error


@pytest.mark.parametrize("score", SCORES)
def test_a_point_is_inside_if_its_score_is_small_enough(score):
    x, y = data(300, 2)
    prediction = bad_model(x, 2)
    conformal = Conformal(score, 0.8).calibrate(prediction, y)
    region = conformal.region(prediction)
    kinds = {"quantile": BoxRegion, "density": HighestDensityRegion, "distance": BallRegion}
    assert isinstance(region, kinds[score])
    scores = conformal.strangeness(prediction, y)
    threshold = scores.sort().values[math.ceil(301 * 0.8) - 1]
    clear = (scores - threshold).abs() > 1e-5
    assert torch.equal(region.contains(y)[clear], (scores <= threshold)[clear])


@pytest.mark.parametrize("score", SCORES)
def test_intervals_on_a_line_are_the_region(score):
    x, y = data(200, 1)
    region = Conformal(score, 0.7).calibrate(bad_model(x, 1), y).region(bad_model(x[:5], 1))
    grid = torch.linspace(-4, 4, 1601)[:, None, None].expand(-1, 5, 1)
    ends = region.intervals
    listed = ((ends[..., 0] <= grid) & (grid <= ends[..., 1])).any(-1)
    assert (listed == region.contains(grid)).float().mean() > 0.999


def test_every_group_is_covered_by_itself():
    """The second group is three times as noisy; without groups it would be covered too rarely."""
    covered = torch.zeros(2, 2)
    for _ in range(100):
        group = torch.rand(400) < 0.3
        y = torch.randn(400, 1) * torch.where(group, 3.0, 1.0)[:, None]
        prediction = Hypotheses(torch.zeros(400, 1, 1), widths=torch.ones(400, 1))
        plain = Conformal("distance", 0.9).calibrate(prediction[:200], y[:200]).region(prediction[200:])
        grouped = (
            Conformal("distance", 0.9)
            .calibrate(prediction[:200], y[:200], groups=group[:200].long())
            .region(prediction[200:], groups=group[200:].long())
        )
        for row, region in enumerate((plain, grouped)):
            inside = region.contains(y[200:]).float()
            covered[row] += torch.stack([inside[~group[200:]].mean(), inside[group[200:]].mean()]) / 100
    assert covered[0, 1] < 0.8
    torch.testing.assert_close(covered[1], torch.tensor([0.9, 0.9]), atol=0.02, rtol=0)


def test_weights_mend_a_shift():
    """New items come from where the noise is larger; their likelihood ratio is known."""
    plain, weighted = [], []
    for _ in range(100):
        x, new = torch.rand(400), torch.rand(400).sqrt()
        y, later = ((0.2 + z) * torch.randn(400) for z in (x, new))
        prediction = Hypotheses(torch.zeros(400, 1, 1))
        conformal = Conformal("distance", 0.9).calibrate(prediction, y[:, None])
        plain.append(conformal.region(prediction).contains(later[:, None]).float().mean())
        conformal.calibrate(prediction, y[:, None], weights=2 * x)
        weighted.append(conformal.region(prediction, weights=2 * new).contains(later[:, None]).float().mean())
    assert torch.stack(plain).mean() < 0.87
    assert 0.893 < torch.stack(weighted).mean() < 0.915


def test_equal_weights_are_no_weights():
    x, y = data(50, 1)
    prediction = bad_model(x, 1)
    plain = Conformal("density", 0.9).calibrate(prediction, y).threshold()
    same = Conformal("density", 0.9).calibrate(prediction, y, weights=torch.full((50,), 7.0))
    assert same.threshold(weights=torch.tensor(7.0)) == plain


@pytest.mark.parametrize("score", SCORES)
def test_too_few_items_give_the_infinite_set_and_a_warning(score):
    x, y = data(8, 1)
    conformal = Conformal(score, 0.9).calibrate(bad_model(x, 1), y)
    with pytest.warns(UserWarning, match="2 of 2 regions are infinite: a coverage of 0.9 needs at least 9"):
        region = conformal.region(bad_model(x[:2], 1))
    assert region.intervals.tolist() == [[[-math.inf, math.inf]]] * 2
    assert region.contains(torch.tensor([[1e9], [-1e9]])).all()
    assert region.volume().value.isinf().all()
    x, y = data(9, 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        conformal = Conformal(score, 0.9).calibrate(bad_model(x, 1), y)
        assert conformal.threshold() == conformal.scores.max()


def test_an_unknown_group_has_the_infinite_set():
    x, y = data(40, 1)
    conformal = Conformal("distance", 0.5).calibrate(bad_model(x, 1), y, groups=torch.arange(40) % 2)
    with pytest.warns(UserWarning, match="1 of 3 regions are infinite"):
        found = conformal.threshold(torch.Size([3]), groups=torch.tensor([0, 1, 2]))
    assert found.isinf().tolist() == [False, False, True]


def test_wrong_arguments_are_named(unchecked):
    x, y = data(20, 1)
    prediction = bad_model(x, 1)
    for level in (0, 1, 1.5, -0.1, math.nan):
        with pytest.raises(ValueError, match="coverage must be above 0 and below 1"):
            Conformal("quantile", level)
    with pytest.raises(ValueError, match="score must be 'quantile', 'density' or 'distance', got 'box'"):
        Conformal("box")
    with pytest.raises(ValueError, match="calibrate must be called before"):
        Conformal().region(prediction)
    with pytest.raises(ValueError, match="y must be finite"):
        Conformal().calibrate(prediction, y * torch.nan)
    with pytest.raises(ValueError, match=r"y must be \(20, 1\), got \(19, 1\)"):
        Conformal().calibrate(prediction, y[1:])
    with pytest.raises(ValueError, match="prediction has no widths"):
        Conformal("density").calibrate(Hypotheses(prediction.points), y)
    with pytest.raises(
        ValueError, match="groups must be given here as in calibrate, where they were not given"
    ):
        Conformal().calibrate(prediction, y).region(prediction, groups=torch.zeros(20).long())
    with pytest.raises(ValueError, match="weights must be finite and not negative"):
        Conformal().calibrate(prediction, y, weights=-torch.ones(20))
    weighted = Conformal().calibrate(prediction, y, weights=torch.ones(20))
    for wrong in (-1.0, math.nan, math.inf):
        with pytest.raises(ValueError, match="weights must be finite and not negative"):
            weighted.region(prediction, weights=torch.full((20,), wrong))
    with pytest.raises(ValueError, match="prediction has 2 coordinates, calibrate had 1"):
        Conformal().calibrate(prediction, y).region(Hypotheses(torch.zeros(20, 3, 2)))
    unknown = Hypotheses(prediction.points, torch.full((20, 3), math.nan), widths=prediction.widths)
    for score in ("quantile", "density", "distance"):
        with pytest.raises(ValueError, match="prediction gives scores that are NaN"):
            Conformal(score).calibrate(unknown, y)


def test_without_any_weight_the_set_is_infinite():
    x, y = data(20, 1)
    prediction = bad_model(x, 1)
    conformal = Conformal("quantile", 0.5).calibrate(prediction, y, weights=torch.zeros(20))
    with pytest.warns(UserWarning, match="2 of 2 regions are infinite"):
        assert conformal.threshold(torch.Size([2]), weights=torch.zeros(2)).isinf().all()
