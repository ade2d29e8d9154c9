"""Quantiles and intervals against SciPy and NumPy."""

import numpy as np
import pytest
import torch
from scipy import stats
from torch.distributions import MixtureSameFamily, Normal

from torchmcl.hypotheses import Hypotheses
from torchmcl.regions import central_interval, quantiles, shortest_interval

LEVELS = [0.01, 0.3, 0.5, 0.95]


def answer(batch: tuple[int, ...] = (3, 2), hypotheses: int = 4, widths: bool = True) -> Hypotheses:
    points, logits = torch.randn(*batch, hypotheses, 1).double() * 2, torch.randn(*batch, hypotheses).double()
    return Hypotheses(
        points, logits, "softmax", torch.rand(*batch, hypotheses).double() + 0.2 if widths else None
    )


def test_quantiles_of_a_mixture_have_their_probability():
    h = answer()
    found = quantiles(h, LEVELS)
    assert found.shape == (3, 2, 4)
    for level, y in zip(LEVELS, found.unbind(-1), strict=True):
        z = stats.norm.cdf(((y[..., None] - h.points[..., 0]) / h.widths).numpy())
        np.testing.assert_allclose((h.probs.numpy() * z).sum(-1), level, atol=1e-9)


def test_quantiles_of_points_are_those_of_numpy():
    h = answer(hypotheses=7, widths=False)
    h = Hypotheses(h.points)
    theirs = np.quantile(h.points[..., 0].numpy(), LEVELS, axis=-1, method="inverted_cdf")
    np.testing.assert_allclose(quantiles(h, LEVELS).numpy(), np.moveaxis(theirs, 0, -1))


def test_points_without_probability_are_no_quantiles():
    h = Hypotheses(torch.tensor([[0.0], [1.0], [9.0]]), torch.tensor([0.0, 0.0, -torch.inf]), "softmax")
    assert quantiles(h, [0.5, 0.99]).tolist() == [0.0, 1.0]


def test_other_distributions_are_sampled():
    normal = torch.distributions.Independent(Normal(torch.tensor([[0.0], [3.0]]), 1.0), 1)
    torch.testing.assert_close(
        central_interval(normal, 0.8, samples=20_000),
        torch.tensor([[-1.28, 1.28], [1.72, 4.28]]),
        atol=0.06,
        rtol=0,
    )


def test_shortest_interval_is_shortest():
    h = answer(batch=(5,))
    coverage, found = 0.7, shortest_interval(h, 0.7)
    mixture = h.mixture()
    inside = mixture.cdf(found[:, 1:]) - mixture.cdf(found[:, :1])
    torch.testing.assert_close(inside, torch.full((5,), coverage).double(), atol=1e-6, rtol=0)
    start = torch.linspace(0.001, 0.299, 500, dtype=torch.float64)[:, None].expand(-1, 5)
    theirs = (mixture.icdf(start + coverage) - mixture.icdf(start)).squeeze(-1).amin(0)
    assert (found[:, 1] - found[:, 0] <= theirs * (1 + 1e-4)).all()


def test_shortest_interval_of_points():
    h = Hypotheses(torch.tensor([[[0.0], [10.0], [10.5], [11.0], [30.0]]]))
    assert shortest_interval(h, 0.6).tolist() == [[10.0, 11.0]]
    assert central_interval(h, 0.6).tolist() == [[0.0, 11.0]]


def test_wrong_arguments_are_named(unchecked):
    with pytest.raises(ValueError, match="coverage must be above 0 and below 1, got 1"):
        central_interval(answer(), 1)
    with pytest.raises(ValueError, match="levels must be above 0 and below 1"):
        quantiles(answer(), [0.5, 1.5])
    with pytest.raises(ValueError, match="prediction has 2 coordinates"):
        quantiles(Hypotheses(torch.zeros(3, 2)), [0.5])


def test_torch_mixture_agrees():
    h = answer(batch=())
    theirs = MixtureSameFamily(torch.distributions.Categorical(h.probs), Normal(h.points[:, 0], h.widths))
    torch.testing.assert_close(theirs.cdf(quantiles(h, LEVELS)), torch.tensor(LEVELS).double())


@pytest.mark.parametrize("widths", [None, torch.ones(2, 3)])
def test_intervals_of_what_is_not_known_are_nan(widths):
    points = torch.tensor([[[0.0], [1.0], [2.0]], [[0.0], [1.0], [torch.nan]]])
    unscored = Hypotheses(points, widths=widths)
    scores = Hypotheses(points.nan_to_num(), torch.tensor([[0.0] * 3, [torch.nan, 0.0, 0.0]]), widths=widths)
    for hypotheses in (unscored, scores):
        for found in (
            quantiles(hypotheses, [0.2, 0.5]),
            central_interval(hypotheses),
            shortest_interval(hypotheses),
        ):
            assert found[0].isfinite().all()
            assert found[1].isnan().all()


def test_levels_have_one_axis_and_coverages_any_kind_of_float(unchecked):
    hypotheses = Hypotheses(torch.rand(2, 3, 1))
    with pytest.raises(ValueError, match=r"levels must be \(levels,\), one axis, got \(1, 2\)"):
        quantiles(hypotheses, torch.tensor([[0.1, 0.2]]))
    expected = central_interval(hypotheses, 0.5)
    assert torch.equal(central_interval(hypotheses, np.float32(0.5)), expected)
