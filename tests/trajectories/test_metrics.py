"""Measures against loops over pedestrians, hypotheses and steps."""

import itertools
import math

import pytest
import torch

from torchmcl import Hypotheses
from torchmcl.trajectories import measures, metrics


@pytest.fixture
def answers() -> Hypotheses:
    return Hypotheses(
        torch.randn(7, 5, 24, dtype=torch.float64), torch.randn(7, 5, dtype=torch.float64), "softmax"
    )


@pytest.fixture
def future() -> torch.Tensor:
    return torch.randn(7, 12, 2, dtype=torch.float64)


def errors(answers: Hypotheses, future: torch.Tensor) -> list[list[list[float]]]:
    return [
        [[math.dist(points[2 * step : 2 * step + 2], truth[step]) for step in range(12)] for points in person]
        for person, truth in zip(answers.points.tolist(), future.tolist(), strict=True)
    ]


@pytest.mark.parametrize("k", [None, 1, 3])
def test_best_of_k(answers, future, k):
    for person, rows in enumerate(errors(answers, future)):
        order = sorted(range(5), key=lambda index: -float(answers.probs[person, index]))[: k or 5]
        ade = min(sum(rows[index]) / 12 for index in order)
        fde = min(rows[index][-1] for index in order)
        assert measures.min_ade(answers, future, k)[person] == pytest.approx(ade)
        assert measures.min_fde(answers, future, k)[person] == pytest.approx(fde)
        assert bool(measures.misses(answers, future, k, threshold=1.2)[person]) == (fde > 1.2)


def test_scores_and_energy(answers, future):
    for person, rows in enumerate(errors(answers, future)):
        probs = answers.probs[person].tolist()
        ends = [row[-1] for row in rows]
        best = ends.index(min(ends))
        assert measures.brier_min_fde(answers, future)[person] == pytest.approx(
            ends[best] + (1 - probs[best]) ** 2
        )
        means = [sum(row) / 12 for row in rows]
        assert measures.nearest(answers, future)[person] == means.index(min(means))
        between = errors(
            Hypotheses(answers.points[person].expand(5, 5, 24)), answers.points[person].unflatten(-1, (12, 2))
        )
        spread = sum(
            probs[i] * probs[j] * sum(between[i][j]) / 12 for i, j in itertools.product(range(5), repeat=2)
        )
        expected = sum(p * mean for p, mean in zip(probs, means, strict=True)) - spread / 2
        assert measures.energy_displacement(answers, future)[person] == pytest.approx(expected)


def test_energy_of_one_hypothesis_is_its_ade(future):
    alone = Hypotheses(torch.randn(7, 1, 24, dtype=torch.float64))
    torch.testing.assert_close(measures.energy_displacement(alone, future), measures.min_ade(alone, future))


def test_likelihood_is_that_of_torch(answers, future):
    widths = torch.rand(7, 12, dtype=torch.float64) + 0.2
    points = answers.points.unflatten(-1, (12, 2)).transpose(1, 2)
    mixture = torch.distributions.MixtureSameFamily(
        torch.distributions.Categorical(logits=answers.logits[:, None].expand(7, 12, 5)),
        torch.distributions.Independent(torch.distributions.Normal(points, widths[..., None, None]), 1),
    )
    torch.testing.assert_close(
        measures.kernel_nll(answers, future, widths), -mixture.log_prob(future).mean(-1)
    )


def test_single_answer_has_the_least_expected_distance(answers):
    found = measures.single_answer(answers, iterations=200)
    points = answers.points.unflatten(-1, (12, 2))

    def expected(center):
        return (answers.probs[..., None] * (points - center[:, None]).norm(dim=-1)).sum(1)

    least = expected(found)
    for _ in range(50):
        assert (least <= expected(found + 0.02 * torch.randn_like(found)) + 1e-9).all()
    assert (expected(measures.single_answer(answers)) < 1.01 * least).all()


def test_calibration_of_true_probabilities_is_small_and_of_others_is_not():
    torch.manual_seed(0)
    points = torch.linspace(0, 100, 5)[:, None] * torch.ones(24)
    logits = torch.randn(20000, 5)
    winner = torch.distributions.Categorical(logits=logits).sample()
    future = points[winner].unflatten(-1, (12, 2))
    honest = Hypotheses(points.expand(20000, 5, 24), logits, "softmax")
    assert measures.calibration_error(honest, future) < 0.01
    boastful = Hypotheses(honest.points, 4 * logits, "softmax")
    assert measures.calibration_error(boastful, future) > 0.1
    metric = metrics.Calibration()
    for part in torch.arange(20000).split(7000):
        metric.update(boastful[part], future[part])
    torch.testing.assert_close(metric.compute(), measures.calibration_error(boastful, future))


def test_the_floor_is_the_error_that_exact_probabilities_have_by_chance():
    torch.manual_seed(0)
    points = torch.linspace(0, 100, 5)[:, None] * torch.ones(24)
    logits = torch.randn(300, 5, dtype=torch.float64)
    honest = Hypotheses(points.expand(300, 5, 24).double(), logits, "softmax")
    draws = []
    for _ in range(200):
        winner = torch.multinomial(honest.probs, 1)[:, 0]
        future = honest.points[torch.arange(300), winner].unflatten(-1, (12, 2))
        draws.append(measures.calibration_error(honest, future))
    expected = torch.stack(draws).mean()
    torch.testing.assert_close(measures.calibration_floor(honest), expected, rtol=0.1, atol=0)
    assert measures.calibration_floor(honest) == measures.calibration_floor(honest)
    more = Hypotheses(honest.points.repeat(16, 1, 1), logits.repeat(16, 1), "softmax")
    torch.testing.assert_close(measures.calibration_floor(more), expected / 4, rtol=0.2, atol=0)


def test_collisions_are_found_between_the_steps():
    crossing = torch.tensor([[[0.0, 0.0], [2.0, 0.0]], [[1.0, -1.0], [1.0, 1.0]], [[0.0, 5.0], [2.0, 5.0]]])
    together = torch.zeros(3, dtype=torch.long)
    assert measures.collisions(crossing, together).tolist() == [True, True, False]
    assert measures.collisions(crossing, torch.arange(3)).tolist() == [False, False, False]
    later = crossing.clone()
    later[1] = torch.tensor([[1.0, -3.0], [1.0, 1.0]])
    assert measures.collisions(later, together).tolist() == [False, False, False]


def test_collisions_against_fine_steps():
    torch.manual_seed(1)
    futures, instants = torch.randn(30, 12, 2), torch.randint(0, 4, (30,))
    part = torch.linspace(0, 1, 400)[:, None, None, None]
    fine = (futures[:, :-1] * (1 - part) + futures[:, 1:] * part).transpose(0, 1).flatten(1, 1)
    for person in range(30):
        others = [o for o in range(30) if o != person and instants[o] == instants[person]]
        least = min(float((fine[person] - fine[o]).norm(dim=-1).min()) for o in others)
        if abs(least - 0.2) > 0.01:
            assert bool(measures.collisions(futures, instants)[person]) == (least < 0.2)


PAIRS = [
    (metrics.MinADE, measures.min_ade, {}),
    (metrics.MinADE, measures.min_ade, {"k": 2}),
    (metrics.MinFDE, measures.min_fde, {"k": 3}),
    (metrics.MissRate, measures.misses, {"threshold": 1.0}),
    (metrics.BrierMinFDE, measures.brier_min_fde, {}),
    (metrics.EnergyDisplacement, measures.energy_displacement, {}),
]


@pytest.mark.parametrize(("metric", "function", "settings"), PAIRS)
def test_classes_are_means_over_batches(answers, future, metric, function, settings):
    made = metric(**settings)
    for part in (slice(0, 3), slice(3, 7)):
        made.update(answers[part], future[part])
    torch.testing.assert_close(made.compute(), function(answers, future, **settings).double().mean())


def test_collision_rate():
    futures, instants = torch.randn(20, 12, 2), torch.arange(20) // 5
    metric = metrics.CollisionRate(distance=0.5)
    for part in (slice(0, 10), slice(10, 20)):
        metric.update(futures[part], instants[part])
    expected = measures.collisions(futures, instants, 0.5).double().mean()
    torch.testing.assert_close(metric.compute(), expected)


def test_wrong_number_of_steps(answers, unchecked):
    with pytest.raises(ValueError, match="future has 8 steps, hypotheses have 12"):
        measures.min_ade(answers, torch.zeros(7, 8, 2))


def test_the_likelihood_of_batches_is_that_of_all(answers, future):
    widths = torch.rand(7, 12, dtype=torch.float64) + 0.1
    metric = metrics.KernelNLL()
    for part in torch.arange(7).split(3):
        metric.update(answers[part], future[part], widths[part])
    torch.testing.assert_close(metric.compute(), measures.kernel_nll(answers, future, widths).mean())
