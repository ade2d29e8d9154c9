"""Coverage, reliability of scores and the PIT, against loops, SciPy and distributions that are known."""

import math

import numpy as np
import pytest
import torch
from scipy import stats

from cases import problem
from torchmcl.hypotheses import Hypotheses
from torchmcl.metrics import Coverage, ProbabilityIntegralTransform, ScoreCalibration
from torchmcl.regions import BallRegion, HighestDensityRegion
from torchmcl.regions.calibration import brier_score, covered, probability_integral_transform


def truth(n: int, spread: float = 1.0) -> tuple[Hypotheses, torch.Tensor]:
    """Two normal branches with known probabilities, whose predicted widths are `spread` times the true ones."""
    x = torch.rand(n, dtype=torch.float64)
    probs = torch.stack([0.2 + 0.6 * x, 0.8 - 0.6 * x], -1)
    points = torch.stack([x, -2 - x], -1)[..., None]
    right = Hypotheses(points, probs.log(), "softmax", torch.full((n, 2), 0.3).double())
    told = Hypotheses(points, probs.log(), "softmax", right.widths * spread)
    return told, right.mixture().sample()[:, None]


@pytest.mark.parametrize("coverage", [0.5, 0.9])
def test_a_right_prediction_is_covered_as_often_as_it_says(coverage):
    hypotheses, targets = truth(4000)
    error = 4 * math.sqrt(coverage * (1 - coverage) / 4000)
    metric = Coverage(coverage)
    metric.update(hypotheses, targets)
    assert abs(metric.compute().item() - coverage) < error
    dense = Coverage(coverage, region=lambda h: HighestDensityRegion(h, coverage, samples=500))
    dense.update(hypotheses, targets)
    assert abs(dense.compute().item() - coverage) < error + 0.01
    assert dense.width < 0.8 * metric.width


def test_covered_counts_active_targets_only():
    hypotheses = Hypotheses(torch.zeros(3, 1, 2))
    targets = torch.tensor([[[0.5, 0.0], [2.0, 0.0]], [[0.1, 0.0], [torch.nan, 0.0]], [[torch.nan, 0.0]] * 2])
    active = torch.tensor([[True, True], [True, False], [False, False]])
    share = covered(hypotheses, targets, active, region=lambda h: BallRegion(h, torch.ones(3)))
    assert share[:2].tolist() == [0.5, 1.0]
    assert share[2].isnan()


@pytest.mark.parametrize("link", ["sigmoid", "softmax"])
def test_brier_score_equals_loops(link):
    points, logits, targets, active = problem(6, 3, 4, 2, seed=0)
    answer = Hypotheses(points.detach(), logits.detach(), link)
    ours = brier_score(answer, targets, active)
    for s in range(6):
        cells = [
            torch.linalg.norm(answer.points[s] - targets[s, m], dim=-1).argmin().item()
            for m in range(3)
            if active[s, m]
        ]
        if link == "sigmoid":
            theirs = sum((answer.scores[s, k] - float(k in cells)) ** 2 for k in range(4))
        elif cells:
            theirs = sum((answer.probs[s, k] - cells.count(k) / len(cells)) ** 2 for k in range(4))
        else:
            assert ours[s].isnan()
            continue
        torch.testing.assert_close(ours[s], theirs)


def test_right_scores_have_a_small_calibration_error_and_wrong_ones_do_not():
    hypotheses, targets = truth(20_000)
    right, wrong = ScoreCalibration(), ScoreCalibration()
    right.update(hypotheses, targets)
    wrong.update(Hypotheses(hypotheses.points, 3 * hypotheses.logits, "softmax"), targets)
    assert right.compute() < 0.01
    assert wrong.compute() > 0.1
    confidence, frequency, count = right.reliability[2:8].T
    torch.testing.assert_close(confidence, frequency, atol=0.04, rtol=0)
    assert count.sum() == 40_000


@pytest.mark.parametrize("kernel", ["gaussian", "laplace"])
def test_pit_is_the_distribution_function(kernel):
    points, logits, targets, active = problem(5, 2, 3, 1, seed=1)
    widths = torch.rand(5, 3).double() + 0.1
    answer = Hypotheses(points.detach(), logits.detach(), widths=widths)
    ours = probability_integral_transform(answer, targets, active, kernel=kernel).numpy()
    law = {"gaussian": stats.norm, "laplace": stats.laplace}[kernel]
    z = (targets.numpy() - answer.points.numpy().swapaxes(-1, -2)) / widths.numpy()[:, None]
    theirs = (answer.probs.numpy()[:, None] * law.cdf(z)).sum(-1)
    np.testing.assert_allclose(ours[active], theirs[active], rtol=1e-12)
    assert np.isnan(ours[~active.numpy()]).all()


def test_pit_of_points_takes_the_middle_of_a_step():
    answer = Hypotheses(torch.tensor([[0.0], [1.0]]))
    found = probability_integral_transform(answer, torch.tensor([[-1.0], [0.0], [0.5], [1.0], [2.0]]))
    assert found.tolist() == [0.0, 0.25, 0.5, 0.75, 1.0]


def test_pit_histogram_is_flat_for_the_truth_and_not_for_narrow_widths():
    right, narrow = ProbabilityIntegralTransform(10), ProbabilityIntegralTransform(10)
    right.update(*truth(5000))
    narrow.update(*truth(5000, spread=0.5))
    assert stats.chisquare(right.compute().numpy()).pvalue > 1e-3
    assert right.deviation < 0.1
    assert narrow.deviation > 0.2
    assert narrow.compute()[0] > 1.3 * 500


def test_wrong_arguments_are_named(unchecked):
    flat = Hypotheses(torch.zeros(2, 3, 2))
    with pytest.raises(ValueError, match="a distribution function is for 1"):
        probability_integral_transform(flat, torch.zeros(2, 1, 2))
    with pytest.raises(ValueError, match="coverage must be above 0 and below 1"):
        Coverage(1.0)
    with pytest.raises(ValueError, match="bins must be at least 1"):
        ScoreCalibration(0)


@pytest.mark.parametrize("link", ["sigmoid", "softmax"])
def test_a_target_in_an_unknown_cell_is_no_score(link):
    hypotheses = Hypotheses(torch.rand(2, 3, 1), torch.zeros(2, 3), link)
    targets = torch.tensor([[[0.0]], [[torch.nan]]])
    assert brier_score(hypotheses, targets).isnan().tolist() == [False, True]
    assert probability_integral_transform(hypotheses, targets)[:, 0].isnan().tolist() == [False, True]
    with pytest.raises(ValueError, match="nobody knows in which cell a target is"):
        ScoreCalibration().update(hypotheses, targets)
    there = torch.tensor([[True], [False]])
    assert brier_score(hypotheses, targets, there)[0].isfinite()
    ScoreCalibration().update(hypotheses, targets, there)


def test_without_targets_there_is_a_score_of_what_is_not_there():
    hypotheses = Hypotheses(torch.zeros(1, 2, 1), torch.zeros(1, 2))
    assert brier_score(hypotheses, torch.zeros(1, 0, 1)).item() == 0.5
