"""Ensembles: together as apart."""

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
