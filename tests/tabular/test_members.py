"""Members: the ring, merging, and stacked networks that are as good as separate ones."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from torchmcl import Hypotheses
from torchmcl.crps import mixture_crps
from torchmcl.tabular.members import KeepBestMembers, MemberBatches, pool, ring, score_of_halves
from torchmcl.tabular.merging import merge_hypotheses
from torchmcl.tabular.network import Readout, StackedLinear, StackedMembers, start_points
from torchmcl.tabular.recipe import Problem, _HeldOut, _unseen_answers


@pytest.mark.parametrize("members", [1, 2, 3, 5])
def test_every_block_of_the_ring_is_unseen_by_its_holders(members):
    folds = ring(200, members, 0.1, seed=0)
    for train, held in zip(folds.train, folds.validation, strict=True):
        assert len(held) == 20
        assert sorted([*train.tolist(), *held.tolist()]) == list(range(200))
    blocks = folds.blocks.flatten().tolist()
    assert len(set(blocks)) == len(blocks)
    for row in blocks:
        assert sum(row in held.tolist() for held in folds.validation) == min(members, 2)


@pytest.mark.parametrize(("rows", "fraction"), [(2, 0.1), (4, 0.1), (100, 0.0)])
def test_no_validation_where_there_are_too_few_rows(rows, fraction):
    folds = ring(rows, 5, fraction, seed=0)
    assert folds.validation.shape == (5, 0)
    assert folds.train.shape == (5, rows)


@pytest.mark.parametrize(
    ("rows", "members", "fraction", "block"), [(100, 5, 0.5, 20), (12, 10, 0.3, 1), (9, 2, 0.5, 2)]
)
def test_blocks_that_would_overlap_are_smaller(rows, members, fraction, block):
    folds = ring(rows, members, fraction, seed=0)
    assert folds.blocks.shape == (members, block)
    assert folds.blocks.unique().numel() == members * block


def test_pairs_are_the_two_members_that_hold_a_block_out():
    folds = ring(100, 5, 0.1, seed=0)
    # Each member answers with its own number and the row.
    owner = torch.arange(5.0)[:, None].expand(5, 10)
    points = torch.stack([owner, folds.validation.float()], -1)[..., None, :]
    pairs = pool(
        folds.out_of_fold(
            Hypotheses(points, torch.zeros(points.shape[:-1]), "softmax", torch.ones(points.shape[:-1]))
        )
    )
    rows = folds.blocks.flatten()
    assert torch.equal(pairs.points[..., 1], rows[:, None].expand(-1, 2).float())
    for row, holders in zip(rows.tolist(), pairs.points[..., 0].tolist(), strict=True):
        assert {int(each) for each in holders} == {
            index for index, held in enumerate(folds.validation) if row in held.tolist()
        }


def test_pooled_members_are_the_average_of_their_distributions():
    torch.manual_seed(0)
    members = Hypotheses(torch.randn(3, 4, 5, 1), torch.randn(3, 4, 5), "softmax", torch.rand(3, 4, 5) + 0.1)
    y = torch.randn(4, 1)
    each = torch.stack([members[index].mixture().log_prob(y) for index in range(3)])
    torch.testing.assert_close(pool(members).mixture().log_prob(y), each.logsumexp(0) - np.log(3))


@pytest.mark.parametrize("dim", [1, 2])
def test_merging_keeps_mean_and_variance(dim):
    torch.manual_seed(0)
    many = Hypotheses(
        torch.randn(6, 20, dim, dtype=torch.double), torch.randn(6, 20, dtype=torch.double), "softmax",
        torch.rand(6, 20, dtype=torch.double) + 0.1,
    )  # fmt: skip
    few = merge_hypotheses(many, 4)
    assert few.points.shape == (6, 4, dim)
    torch.testing.assert_close(few.mean, many.mean)
    torch.testing.assert_close(few.variance.sum(-1), many.variance.sum(-1))
    assert (few.probs[:, :-1] >= few.probs[:, 1:]).all()


def test_merging_hardly_changes_the_score():
    torch.manual_seed(0)
    many = Hypotheses(torch.randn(200, 30, 1), torch.randn(200, 30), "softmax", torch.rand(200, 30) + 0.3)
    y = torch.randn(200, 1, 1)
    before, after = (mixture_crps(each, y).mean() for each in (many, merge_hypotheses(many, 8)))
    assert after == pytest.approx(before.item(), rel=0.01)


def test_stacked_layers_are_linear_layers():
    torch.manual_seed(0)
    stacked = StackedLinear(3, 4, 2)
    x = torch.randn(3, 5, 4)
    for index in range(3):
        alone = nn.Linear(4, 2)
        with torch.no_grad():
            alone.weight.copy_(stacked.weight[index].T)
            alone.bias.copy_(stacked.bias[index, 0])
        torch.testing.assert_close(stacked(x)[index], alone(x[index]))


def test_no_member_sees_another():
    torch.manual_seed(0)
    network = StackedMembers(3, 2, 1, (8,), "relu", Readout(4, 1), torch.zeros(3, 4, 1))
    x = torch.randn(3, 5, 3, requires_grad=True)
    network(x).points[1].sum().backward()
    assert x.grad is not None
    assert (x.grad[[0, 2]] == 0).all()
    assert (x.grad[1] != 0).any()


def test_points_start_at_the_quantiles():
    targets = torch.arange(101.0)[:, None]
    assert start_points(targets, 2, 5)[0, :, 0].tolist() == pytest.approx([10, 30, 50, 70, 90])


def test_batches_give_each_member_its_rows_once():
    rows = torch.stack([torch.arange(10), torch.arange(10, 20)])
    batches = MemberBatches(torch.arange(20.0), rows=rows, batch_size=4, seed=0)
    seen = torch.cat([part for (part,) in batches], 1)
    assert [sorted(each.tolist()) for each in seen] == rows.tolist()
    drawn = MemberBatches(
        torch.arange(20.0), rows=rows, batch_size=4, seed=0, weights=(torch.arange(20) % 10 == 3).float()
    )
    assert all((part % 10 == 3).all() for (part,) in drawn)


@pytest.mark.usefixtures("unchecked")
def test_each_half_of_the_validation_rows_chooses_its_own_epoch():
    """Three epochs: the first half finds the first one best, the second half the last one, both together the second."""
    network = nn.ParameterDict({"epoch": torch.zeros(2)})
    keep = KeepBestMembers(lambda total, weight, _: (total, weight), None)
    scores = torch.tensor([[1.0, 4.0], [2.0, 2.0], [4.0, 1.0]])
    for epoch, score in enumerate(scores):
        network["epoch"].data.fill_(epoch)
        keep.on_validation_start(None, None)
        for half in score:  # in two batches
            outputs = {"hypotheses": half.expand(2, 5)}
            keep.on_validation_batch_end(None, None, outputs, (None, torch.ones(2, 5), None), 0)
        keep.on_validation_end(SimpleNamespace(current_epoch=epoch), SimpleNamespace(network=network))
    assert [each["epoch"].tolist() for each in keep.kept] == [[1.0, 1.0], [0.0, 0.0], [2.0, 2.0]]
    assert keep.best.tolist() == [[2.0, 2.0], [1.0, 1.0], [1.0, 1.0]]
    assert keep.epochs == [1, 1]


def test_a_half_without_weight_chooses_as_all_rows_do():
    found = score_of_halves(torch.tensor([[0.0, 0.0, 3.0, 5.0]]), torch.tensor([[0.0, 0.0, 1.0, 1.0]]))
    assert found.tolist() == [[4.0], [4.0], [4.0]]


def test_rows_are_answered_by_the_epoch_that_the_others_chose():
    """The network answers with its weight: 1 chosen by the first half, 2 by the second, 0 by all."""

    class Same(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.zeros(()))

        def forward(self, x):
            return Hypotheses(self.weight.expand(*x.shape[:-1], 1, 1))

    network, kept = Same(), [{"weight": torch.tensor(float(value))} for value in range(3)]
    empty = torch.zeros(7, 1, 1)
    problem = Problem(torch.zeros(7, 2), empty, empty[..., 0] == 0, None, 2)
    for rows, expected in ((torch.arange(5), [2, 2, 1, 1, 1]), (torch.arange(1), [1])):
        held = _HeldOut(problem, rows.expand(3, -1))
        assert _unseen_answers(network, kept, held).points[:, :, 0, 0].tolist() == [expected] * 3
        assert network.weight == 0


@pytest.mark.parametrize(
    "change",
    [
        {"best": 1.0},
        {"best": torch.zeros(3)},
        {"best": torch.zeros(2, 2)},
        {"best": None},
        {"epochs": [1]},
        {"epochs": ["x", 0]},
        {"kept": {}},
        {"kept": [{}, {}]},
        {"kept": [{"weight": torch.zeros(7, 7), "bias": torch.zeros(1)}] * 3},
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_what_is_restored_is_of_this_network(change):
    network = nn.Linear(3, 1)
    state = {"best": torch.zeros(3, 2), "epochs": [0, 1], "kept": [network.state_dict()] * 3}
    keep = KeepBestMembers(lambda *_: None, None)

    def restore(content):
        keep.load_state_dict(content)
        keep.on_train_start(None, SimpleNamespace(network=network))

    restore(state)
    with pytest.raises(ValueError, match=r"best|epochs|kept"):
        restore(state | change)
