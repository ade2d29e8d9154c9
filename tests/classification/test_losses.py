"""Losses on labels against loops over samples, hypotheses and classes."""

import math
from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from torchmcl.assignment import relaxed, top_n, winner_takes_all
from torchmcl.classification import class_targets, cmcl_loss
from torchmcl.distances import cross_entropy
from torchmcl.ensemble import members_loss
from torchmcl.hypotheses import Hypotheses
from torchmcl.losses import mcl_loss, rmcl_loss

sizes = st.tuples(
    st.integers(1, 4), st.integers(1, 3), st.integers(1, 5), st.integers(2, 5), st.integers(0, 2**31)
)
BETA = 0.75


def log_prob(logits: Tensor, c: int) -> Tensor:
    total = torch.zeros((), dtype=torch.float64)
    for value in logits:
        total = total + torch.exp(value)
    return logits[c] - torch.log(total)


def entropy_loop(probabilities: list[float], logits: Tensor) -> Tensor:
    return -sum(p * log_prob(logits, c) for c, p in enumerate(probabilities))


def divergence_loop(logits: Tensor) -> Tensor:
    """KL(uniform || prediction), class by class."""
    classes = len(logits)
    return sum((1 / classes) * (math.log(1 / classes) - log_prob(logits, c)) for c in range(classes))


def confident_loop(points: Tensor, labels: list[list[list[float] | None]], beta: float) -> Tensor:
    """`labels[s][m]` holds probabilities, or `None` where there is no label."""
    total, count = points.sum() * 0, 0
    for s, row in enumerate(labels):
        for label in row:
            if label is None:
                continue
            candidates = [
                entropy_loop(label, points[s, k])
                + beta * sum(divergence_loop(points[s, j]) for j in range(points.shape[1]) if j != k)
                for k in range(points.shape[1])
            ]
            total = total + min(candidates, key=lambda value: value.item())
            count += 1
    return total / max(count, 1)


def problem(batch: int, targets: int, hypotheses: int, classes: int, seed: int):
    random = torch.Generator().manual_seed(seed)
    points = 2 * torch.randn(batch, hypotheses, classes, generator=random, dtype=torch.float64)
    labels = torch.randint(classes, (batch, targets), generator=random)
    active = torch.rand(batch, targets, generator=random) < 0.7
    return points.requires_grad_(), labels, active


def one_hot_rows(labels: Tensor, active: Tensor, classes: int) -> list[list[list[float] | None]]:
    return [
        [[float(c == label) for c in range(classes)] if there else None for label, there in zip(*row, strict=True)]
        for row in zip(labels.tolist(), active.tolist(), strict=True)
    ]  # fmt: skip


def agree(ours: Tensor, theirs: Tensor, points: Tensor) -> None:
    """Value and gradient are the same to 1e-6."""
    torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(
        *(torch.autograd.grad(value, points, retain_graph=True)[0] for value in (ours, theirs)),
        rtol=1e-6,
        atol=1e-6,
    )


@settings(max_examples=25)
@given(sizes=sizes)
def test_cmcl_equals_loops(sizes):
    points, labels, active = problem(*sizes)
    junk = torch.where(active, labels, -7)
    theirs = confident_loop(points, one_hot_rows(labels, active, sizes[3]), BETA)
    agree(cmcl_loss(Hypotheses(points), junk, active, beta=BETA), theirs, points)


@settings(max_examples=15)
@given(sizes=sizes)
def test_soft_labels_equal_loops(sizes):
    points, labels, active = problem(*sizes)
    random = torch.Generator().manual_seed(sizes[-1])
    soft = torch.rand(*labels.shape, sizes[3], generator=random, dtype=torch.float64).softmax(-1)
    rows = [
        [each if there else None for each, there in zip(*row, strict=True)]
        for row in zip(soft.tolist(), active.tolist(), strict=True)
    ]
    soft = soft.masked_fill(~active[..., None], torch.nan)
    agree(cmcl_loss(Hypotheses(points), soft, active, beta=BETA), confident_loop(points, rows, BETA), points)


@settings(max_examples=15)
@given(sizes=sizes)
def test_mcl_on_labels_equals_loops(sizes):
    points, labels, active = problem(*sizes)
    h = Hypotheses(points)
    ours = mcl_loss(h, *class_targets(h, labels, active), distance=cross_entropy)
    agree(ours, confident_loop(points, one_hot_rows(labels, active, sizes[3]), 0.0), points)


@pytest.mark.parametrize("rule", [winner_takes_all, partial(top_n, n=2), partial(relaxed, epsilon=0.3)])
def test_without_the_divergence_it_is_mcl(rule):
    points, labels, active = problem(6, 3, 5, 4, seed=0)
    h = Hypotheses(points)
    plain = mcl_loss(h, *class_targets(h, labels, active), distance=cross_entropy, assign=rule)
    agree(cmcl_loss(h, labels, active, beta=0.0, assign=rule), plain, points)
    assert cmcl_loss(h, labels, active, beta=0.1, assign=rule) > plain


def test_two_winners_each_spare_half_of_their_divergence():
    points, labels, active = problem(4, 2, 4, 3, seed=1)
    rows = one_hot_rows(labels, active, 3)
    total = points.sum() * 0
    for s, row in enumerate(rows):
        divergence = [divergence_loop(points[s, k]) for k in range(4)]
        for label in filter(None, row):
            costs = [entropy_loop(label, points[s, k]) for k in range(4)]
            order = sorted(range(4), key=lambda k: (costs[k] - BETA * divergence[k]).item())
            for k in range(4):
                share = 0.5 * (k in order[:2])
                total = total + share * costs[k] + BETA * (1 - share) * divergence[k]
    ours = cmcl_loss(Hypotheses(points), labels, active, beta=BETA, assign=partial(top_n, n=2))
    agree(ours, total / active.sum(), points)


def test_the_winner_makes_the_whole_loss_least():
    """Hypothesis 1 has the worse cross-entropy, and wins because it would be punished more as a loser."""
    probs = torch.tensor([[[0.6, 0.2, 0.2], [0.5, 0.4999, 0.0001]]], dtype=torch.float64)
    points = probs.log().requires_grad_()
    assert cross_entropy(torch.tensor([1.0, 0.0, 0.0]).double(), points[0]).argmin() == 0
    first, second = torch.autograd.grad(cmcl_loss(Hypotheses(points), torch.tensor([0]), beta=1.0), points)[
        0
    ][0]
    torch.testing.assert_close(first, probs[0, 0] - 1 / 3)
    torch.testing.assert_close(second, probs[0, 1] - torch.tensor([1.0, 0.0, 0.0]))


def test_stochastic_labels_are_the_exact_loss_on_average():
    points, labels, active = problem(3, 2, 4, 3, seed=2)
    exact = cmcl_loss(Hypotheses(points), labels, active, beta=BETA)
    many = 20_000
    repeated = Hypotheses(points.expand(many, 3, 4, 3))
    wide = labels.expand(many, 3, 2), active.expand(many, 3, 2)
    drawn = cmcl_loss(repeated, *wide, beta=BETA, stochastic=True)
    torch.testing.assert_close(drawn, exact, rtol=0.01, atol=0)
    ours, theirs = (torch.autograd.grad(value, points)[0] for value in (drawn, exact))
    torch.testing.assert_close(ours, theirs, rtol=0.05, atol=5e-3)
    assert drawn != exact


def test_label_noise_moves_the_best_certainty_to_its_share():
    """With a share of wrong labels the loss is least where the winner believes the label to that share."""
    labels = torch.tensor([0] * 70 + [1] * 30)
    losses = {}
    for belief in (0.5, 0.6, 0.7, 0.8, 0.9):
        logits = torch.tensor([belief, 1 - belief]).log().expand(100, 1, 2)
        losses[belief] = cmcl_loss(Hypotheses(logits), labels, beta=BETA).item()
    assert min(losses, key=losses.__getitem__) == 0.7


def test_one_label_is_the_same_with_and_without_its_axis_and_ignored_ones_are_absent():
    points, labels, _ = problem(6, 1, 5, 4, seed=3)
    h = Hypotheses(points)
    ignored = labels.clone()
    ignored[1] = -100
    active = torch.ones(6, 1, dtype=torch.bool)
    active[1] = False
    masked = cmcl_loss(h, labels, active, beta=BETA)
    for other in (
        cmcl_loss(h, ignored, beta=BETA),
        cmcl_loss(h, ignored[:, 0], beta=BETA),
        cmcl_loss(h, labels[:, 0].to(torch.uint8), active[:, 0], beta=BETA),
    ):
        agree(masked, other, points)


def test_pixels_are_one_more_batch_axis():
    points, labels, active = problem(24, 2, 5, 4, seed=4)
    flat = cmcl_loss(Hypotheses(points), labels, active, beta=BETA)
    shape = (2, 3, 4)
    deep = cmcl_loss(
        Hypotheses(points.unflatten(0, shape)),
        labels.unflatten(0, shape),
        active.unflatten(0, shape),
        beta=BETA,
    )
    torch.testing.assert_close(flat, deep)


def test_nothing_labeled_is_zero_with_a_graph():
    points, labels, _ = problem(3, 2, 4, 3, seed=5)
    loss = cmcl_loss(Hypotheses(points), torch.full_like(labels, -100), beta=BETA)
    assert loss == 0
    assert (torch.autograd.grad(loss, points)[0] == 0).all()


def test_versatile_mcl_scores_the_winner():
    """vMCL: the cross-entropy of the winner, and that of the choice network against who it is."""
    points, labels, active = problem(5, 1, 4, 3, seed=6)
    logits = torch.randn(5, 4, dtype=torch.float64, requires_grad=True)
    h = Hypotheses(points, logits, "softmax")
    targets, there = class_targets(h, labels, active)
    total, count = points.sum() * 0, 0
    for s, row in enumerate(one_hot_rows(labels, active, 3)):
        for label in filter(None, row):
            costs = [entropy_loop(label, points[s, k]) for k in range(4)]
            winner = min(range(4), key=lambda k: costs[k].item())
            total = total + costs[winner] - log_prob(logits[s], winner)
            count += 1
    agree(rmcl_loss(h, targets, there, distance=cross_entropy), total / count, points)


def test_ensemble_members_learn_alone():
    points, labels, active = problem(5, 1, 3, 4, seed=7)
    h = Hypotheses(points)
    alone = sum(
        torch.nn.functional.cross_entropy(points[:, k][active[:, 0]], labels[:, 0][active[:, 0]])
        for k in range(3)
    )
    agree(members_loss(h, *class_targets(h, labels, active), distance=cross_entropy), alone, points)


def test_a_forbidden_class_costs_nothing_where_it_is_not_the_label():
    logits = torch.tensor([1.0, 0.0, -torch.inf], requires_grad=True)
    loss = cross_entropy(torch.tensor([1.0, 0.0, 0.0]), logits)
    torch.testing.assert_close(loss, torch.tensor(math.log(1 + math.exp(-1))))
    assert torch.isfinite(torch.autograd.grad(loss, logits)[0]).all()


@pytest.mark.usefixtures("unchecked")
class TestMistakes:
    h = Hypotheses(torch.zeros(2, 5, 3))

    @pytest.mark.parametrize(
        ("labels", "change", "error", "message"),
        [
            (torch.tensor([0, 3]), {}, ValueError, r"labels must be in 0..2, got 3"),
            (torch.tensor([0, -1]), {}, ValueError, r"labels must be in 0..2, got -1"),
            (torch.tensor([True, False]), {}, TypeError, "labels must be integers, got torch.bool"),
            (torch.tensor([0, 1, 2]), {}, ValueError, r"labels must be \(2,\) or \(2, 'targets'\)"),
            (torch.zeros(2, 1, 1).long(), {}, ValueError, r"got \(2, 1, 1\)"),
            (torch.ones(2, 4), {}, ValueError, r"must be \(2, 3\) or \(2, 'targets', 3\)"),
            (torch.ones(2, 3), {}, ValueError, "must sum to 1, got"),
            (torch.tensor([[2.0, -1.0, 0.0]] * 2), {}, ValueError, "must not be negative"),
            (torch.tensor([0, 1]), {"active": torch.ones(2)}, TypeError, "active must be a boolean mask"),
            (torch.tensor([0, 1]), {"active": torch.ones(3).bool()}, ValueError, r"active must be \(2,\)"),
            (
                torch.tensor([0, 1]),
                {"beta": -1.0},
                ValueError,
                "beta must be between 0 and 1e\\+30, got -1.0",
            ),
            (
                torch.tensor([0, 1]),
                {"beta": math.nan},
                ValueError,
                "beta must be between 0 and 1e\\+30, got nan",
            ),
        ],
    )
    def test_the_argument_is_named(self, labels, change, error, message):
        with pytest.raises(error, match=message):
            cmcl_loss(self.h, labels, **{"beta": 1.0, **change})
