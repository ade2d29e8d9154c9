"""Ensembles: together as apart."""

from functools import partial

import pytest
import torch
from torch import nn

from torchmcl.ensemble import Ensemble, StackedEnsemble, members_loss
from torchmcl.heads import HypothesisHead
from torchmcl.hypotheses import Hypotheses
from torchmcl.losses import mcl_loss


def build() -> nn.Module:
    return nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 2))


def test_members_stand_side_by_side():
    members = [build(), nn.Sequential(nn.Linear(3, 4), HypothesisHead(4, hypotheses=2, dim=2))]
    inputs = torch.randn(5, 3)
    hypotheses = Ensemble(members)(inputs)
    assert hypotheses.logits is None
    expected = torch.cat([members[0](inputs)[:, None], members[1](inputs).points], 1)
    assert torch.equal(hypotheses.points, expected)


def scored(widths: bool = True) -> nn.Module:
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), HypothesisHead(4, 3, 1, "sigmoid", widths=widths))


def test_a_stacked_ensemble_hears_train_and_eval():
    ensemble = StackedEnsemble(lambda: nn.Sequential(nn.Linear(3, 8), nn.Dropout(0.5)), members=4)
    inputs = torch.randn(5, 3)
    assert not torch.equal(ensemble(inputs).points, ensemble(inputs).points)
    ensemble.eval()
    assert torch.equal(ensemble(inputs).points, ensemble(inputs).points)
    torch.testing.assert_close(ensemble(inputs).points, ensemble.unstack().eval()(inputs).points)


def test_frozen_weights_stay_frozen_in_a_stack():
    def half_frozen() -> nn.Module:
        network = nn.Linear(3, 2)
        network.bias.requires_grad_(False)
        return network

    found = dict(StackedEnsemble(half_frozen, members=2).named_parameters())
    assert {name: each.requires_grad for name, each in found.items()} == {"weight": True, "bias": False}


def test_unscored_members_keep_their_widths():
    members = [HypothesisHead(3, 2, 1, scores=None, widths=True) for _ in range(2)]
    inputs = torch.randn(5, 3)
    expected = torch.cat([member(inputs).widths for member in members], -1)
    assert torch.equal(Ensemble(members)(inputs).widths, expected)


SHARED = nn.Linear(3, 2)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: StackedEnsemble(lambda: SHARED, 3), "build must make another network each time"),
        (lambda: StackedEnsemble(lambda: 3, 3), "build must make a torch.nn.Module, it made int"),
        (
            lambda: StackedEnsemble(partial(next, iter([nn.Linear(3, 2), nn.Linear(3, 1)])), 2),
            "build must make networks with the same weights and shapes",
        ),
        (lambda: Ensemble([nn.LSTM(3, 2)])(torch.ones(2, 3)), "members must return Hypotheses or a tensor"),
        (
            lambda: Ensemble([nn.Linear(3, 2), nn.Linear(3, 1)])(torch.ones(2, 3)),
            "members must return equal batch axes and dim",
        ),
    ],
)
def test_members_that_do_not_fit_are_named(call, message, unchecked):
    with pytest.raises((ValueError, TypeError), match=message):
        call()


def test_scored_members_are_one_distribution():
    members, inputs = [scored() for _ in range(4)], torch.randn(5, 3)
    together = Ensemble(members)(inputs)
    assert together.points.shape == (5, 12, 1)
    parts = [member(inputs) for member in members]
    y = torch.linspace(-2, 2, 9)[:, None, None]
    density = torch.stack([part.mixture().log_prob(y).exp() for part in parts]).mean(0)
    torch.testing.assert_close(together.mixture().log_prob(y).exp(), density)
    torch.testing.assert_close(together.probs.reshape(5, 4, 3).sum(-1), torch.full((5, 4), 0.25))
    torch.testing.assert_close(together.mean, torch.stack([part.mean for part in parts]).mean(0))


def test_stacked_scored_members_are_those_of_the_ensemble():
    stacked, inputs = StackedEnsemble(scored, members=4), torch.randn(2, 5, 3)
    ours, theirs = stacked(inputs), stacked.unstack()(inputs)
    for part in ("points", "logits", "widths"):
        torch.testing.assert_close(getattr(ours, part), getattr(theirs, part))


def test_pool_weighs_its_parts():
    one, two = Hypotheses(torch.zeros(2, 1)), Hypotheses(torch.ones(3, 1), torch.randn(3))
    pooled = Hypotheses.pool([one, two], weights=[3.0, 1.0])
    torch.testing.assert_close(pooled.probs[:2].sum(), torch.tensor(0.75))
    torch.testing.assert_close(pooled.mean, torch.tensor([0.25]))


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("parts", "weights", "message"),
    [
        ([], None, "parts is empty"),
        ([torch.zeros(2, 1)], None, "parts must be a sequence of Hypotheses"),
        (
            [Hypotheses(torch.zeros(2, 1)), Hypotheses(torch.zeros(2, 2))],
            None,
            "parts must have equal batch axes",
        ),
        ([Hypotheses(torch.zeros(2, 1))], [0.0], "each of weights must be above 0"),
        ([Hypotheses(torch.zeros(2, 1))], [1.0, 1.0], "weights must be 1 positive numbers"),
        (
            [Hypotheses(torch.zeros(2, 1)), Hypotheses(torch.zeros(2, 1), widths=torch.ones(2))],
            None,
            "parts must all have widths",
        ),
    ],
)
def test_parts_that_cannot_be_pooled(parts, weights, message):
    with pytest.raises((TypeError, ValueError), match=message):
        Hypotheses.pool(parts, weights)


def test_stacked_equals_its_members():
    stacked = StackedEnsemble(build, members=4)
    inputs = torch.randn(2, 5, 3)
    torch.testing.assert_close(stacked(inputs).points, stacked.unstack()(inputs).points)
    assert stacked(inputs).points.std(-2).min() > 0


def test_state_survives_saving():
    first, second = StackedEnsemble(build, members=3), StackedEnsemble(build, members=3)
    second.load_state_dict(first.state_dict())
    inputs = torch.randn(5, 3)
    assert torch.equal(first(inputs).points, second(inputs).points)


@pytest.mark.parametrize("best_target_only", [True, False])
def test_trained_together_as_each_alone(best_target_only):
    stacked = StackedEnsemble(build, members=3)
    alone = stacked.unstack()
    inputs, targets = torch.randn(32, 3), torch.randn(32, 2, 2)
    active = torch.rand(32, 2) < 0.7
    together = torch.optim.Adam(stacked.parameters(), lr=1e-2)
    apart = [torch.optim.Adam(member.parameters(), lr=1e-2) for member in alone.members]
    for _ in range(5):
        together.zero_grad()
        members_loss(stacked(inputs), targets, active, best_target_only=best_target_only).backward()
        together.step()
        for member, optimizer in zip(alone.members, apart, strict=True):
            optimizer.zero_grad()
            single = Hypotheses(member(inputs)[:, None])
            mcl_loss(single, targets, active, best_target_only=best_target_only).backward()
            optimizer.step()
    torch.testing.assert_close(stacked(inputs).points, alone(inputs).points, atol=1e-5, rtol=1e-4)


def test_an_ensemble_needs_members():
    with pytest.raises(ValueError, match="members is empty"):
        Ensemble([])
    with pytest.raises(ValueError, match="members must be at least 1, got 0"):
        StackedEnsemble(build, members=0)
