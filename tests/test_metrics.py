"""Metrics over batches against the same numbers by hand, on one process and on two."""

from functools import partial
from pathlib import Path

import pytest
import torch
from torch import Tensor

import distributed
from forks import run_ranks
from torchmcl.crps import mixture_crps
from torchmcl.distances import great_circle
from torchmcl.energy import energy_score
from torchmcl.hypotheses import Hypotheses
from torchmcl.likelihood import log_likelihood
from torchmcl.metrics import (
    CountRecall,
    Coverage,
    EarthMoversDistance,
    EnergyScore,
    NegativeLogLikelihood,
    OracleError,
    ScoreCalibration,
    WinnerHistogram,
)
from torchmcl.regions.calibration import covered
from torchmcl.transport import emd, oracle_error

Batch = tuple[Hypotheses, Tensor, Tensor]


def batches(dtype: torch.dtype = torch.float64) -> list[Batch]:
    made = []
    for size in ((4,), (2, 3), (1,), (0,)):
        hypotheses = Hypotheses(torch.rand(*size, 5, 2, dtype=dtype), torch.randn(*size, 5, dtype=dtype))
        active = torch.rand(*size, 3) < 0.5
        active = active if made else active.logical_and(torch.arange(4)[:, None] > 0)
        targets = torch.rand(*size, 3, 2, dtype=dtype).masked_fill(~active[..., None], torch.nan)
        made.append((hypotheses, targets, active))
    return made


@pytest.mark.parametrize(
    "kind", [(EarthMoversDistance, emd), (OracleError, oracle_error)], ids=["emd", "oracle"]
)
def test_mean_and_deviation_over_items(kind) -> None:
    metric, function = kind[0](distance=great_circle), kind[1]
    values = []
    for batch in batches():
        metric.update(*batch)
        values.append(function(*batch, distance=great_circle).flatten())
    values = torch.cat(values)
    assert values.isnan().any()
    values = values[~values.isnan()]
    torch.testing.assert_close(metric.compute(), values.mean(), rtol=1e-14, atol=0)
    torch.testing.assert_close(metric.std, values.std(correction=0), rtol=1e-12, atol=0)


def test_forward_gives_the_batch_and_accumulates() -> None:
    metric, other = EarthMoversDistance(), EarthMoversDistance()
    for batch in batches()[:3]:
        torch.testing.assert_close(metric(*batch), emd(*batch).nanmean())
        other.update(*batch)
    torch.testing.assert_close(metric.compute(), other.compute())
    torch.testing.assert_close(metric.std, other.std)


def test_deviation_of_close_values_keeps_its_digits() -> None:
    metric, steps = OracleError(), torch.tensor([0.0, 1.0, 2.0, 3.0], dtype=torch.float64) * 1e-3
    for step in steps:
        metric.update(Hypotheses(torch.zeros(1, 1, 1).double()), (1e6 + step).reshape(1, 1, 1))
    assert metric.std.item() == pytest.approx(steps.std(correction=0).item(), rel=1e-6)


def test_nan_in_a_hypothesis_is_not_left_out() -> None:
    metric = EarthMoversDistance()
    metric.update(Hypotheses(torch.full((2, 3, 2), torch.nan)), torch.zeros(2, 1, 2))
    assert metric.compute().isnan()


@pytest.mark.filterwarnings("ignore:The ``compute`` method of metric")
def test_before_the_first_item() -> None:
    means = (
        EarthMoversDistance(),
        OracleError(),
        CountRecall(),
        EnergyScore(),
        Coverage(),
        ScoreCalibration(),
    )
    for metric in means:
        assert metric.compute().isnan()
    assert OracleError().std.isnan()
    histogram = WinnerHistogram(4)
    assert histogram.compute().tolist() == [0, 0, 0, 0]
    assert (histogram.entropy.item(), histogram.never.item()) == (0, 4)


def test_asking_before_the_first_item_is_told() -> None:
    with pytest.warns(UserWarning, match="was called before the ``update`` method"):
        OracleError().compute()


def on_a_line() -> list[Batch]:
    made = []
    for hypotheses, targets, active in batches():
        widths = 0.1 + torch.rand(hypotheses.logits.shape).double()
        made.append(
            (
                Hypotheses(hypotheses.points[..., :1], hypotheses.logits, widths=widths),
                targets[..., :1],
                active,
            )
        )
    return made


@pytest.mark.parametrize(
    ("metric", "function"),
    [
        (EnergyScore(), energy_score),
        (EnergyScore(kernel="laplace"), partial(mixture_crps, kernel="laplace")),
        (NegativeLogLikelihood("student"), lambda *batch: -log_likelihood(*batch, kernel="student")),
        (Coverage(0.7), partial(covered, coverage=0.7)),
    ],
    ids=["energy", "crps", "likelihood", "coverage"],
)
def test_means_of_scores(metric, function) -> None:
    values = []
    for batch in on_a_line():
        metric.update(*batch)
        values.append(function(*batch).flatten())
    values = torch.cat(values)
    values = values[~values.isnan()]
    torch.testing.assert_close(metric.compute(), values.mean(), rtol=1e-12, atol=0)


def test_count_recall() -> None:
    metric, right, total = CountRecall(), 0, 0
    for hypotheses, targets, active in batches():
        metric.update(hypotheses, targets, active)
        for scores, present in zip(hypotheses.scores.reshape(-1, 5), active.reshape(-1, 3), strict=True):
            right += round(sum(scores.tolist())) == sum(present.tolist())
            total += 1
    assert 0 < right < total
    assert metric.compute().item() == right / total
    metric.reset()
    metric.update(
        Hypotheses(torch.zeros(2, 2, 1), torch.tensor([[9.0, 9.0], [9.0, -9.0]])), torch.zeros(2, 2, 1)
    )
    assert metric.compute().item() == 0.5


def test_winner_histogram() -> None:
    metric, counts = WinnerHistogram(5), [0] * 5
    for hypotheses, targets, active in batches():
        metric.update(hypotheses, targets, active)
        items = zip(
            hypotheses.points.reshape(-1, 5, 2), targets.reshape(-1, 3, 2), active.reshape(-1, 3), strict=True
        )
        for points, where, present in items:
            for k in {torch.linalg.norm(points - y, dim=-1).argmin().item() for y in where[present]}:
                counts[k] += 1
    assert metric.compute().tolist() == counts
    shares = torch.tensor(counts).double() / sum(counts)
    torch.testing.assert_close(metric.entropy, torch.distributions.Categorical(shares).entropy())
    assert metric.never.item() == counts.count(0)


def test_wrong_hypotheses_are_named() -> None:
    with pytest.raises(ValueError, match="there are 5 hypotheses, not 4"):
        WinnerHistogram(4).update(*batches()[0])
    with pytest.raises(ValueError, match="count needs scores with link 'sigmoid'"):
        CountRecall().update(Hypotheses(torch.zeros(2, 3, 1)), torch.zeros(2, 1, 1))


def test_two_processes_give_the_value_of_one(tmp_path: Path) -> None:
    run_ranks(distributed.main, tmp_path)


@pytest.mark.usefixtures("unchecked")
class TestMistakesOfCounting:
    hypotheses = Hypotheses(torch.zeros(2, 3, 1), torch.zeros(2, 3))

    @pytest.mark.parametrize(
        ("count", "message"),
        [(0, "n_hypotheses must be at least 1, got 0"), (2.5, "n_hypotheses must be an integer, got 2.5")],
    )
    def test_histogram_needs_hypotheses(self, count, message):
        with pytest.raises((TypeError, ValueError), match=message):
            WinnerHistogram(count)

    @pytest.mark.parametrize("metric", [CountRecall(), WinnerHistogram(3)])
    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"active": torch.ones(2, 4)}, "active must be a boolean mask, got torch.float32"),
            ({"active": torch.ones(2, 3).bool()}, r"active must be \(2, 4\), got \(2, 3\)"),
            ({"targets": torch.zeros(2, 4, 1).numpy()}, "targets must be a tensor, got ndarray"),
            ({"hypotheses": None}, "hypotheses must be Hypotheses, got NoneType"),
        ],
    )
    def test_arguments_are_named(self, metric, change, message):
        given = {"hypotheses": self.hypotheses, "targets": torch.zeros(2, 4, 1), **change}
        with pytest.raises((TypeError, ValueError), match=message):
            metric.update(**given)

    def test_what_is_nan_is_not_counted(self):
        targets = torch.full((2, 4, 1), torch.nan)
        with pytest.raises(ValueError, match="nobody knows which hypothesis wins"):
            WinnerHistogram(3).update(self.hypotheses, targets)
        WinnerHistogram(3).update(self.hypotheses, targets, torch.zeros(2, 4, dtype=torch.bool))
        unknown = Hypotheses(self.hypotheses.points, torch.full((2, 3), torch.nan))
        with pytest.raises(ValueError, match="hypotheses have scores that are NaN"):
            CountRecall().update(unknown, torch.zeros(2, 4, 1))
