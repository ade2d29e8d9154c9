"""Training: schedules, batches, the best weights, and a loss that is no number."""

import math
from itertools import pairwise

import pytest
import torch
from torch import nn

from bare import fit
from torchmcl.errors import UserError
from torchmcl.heads import HypothesisHead
from torchmcl.losses import rmcl_loss
from torchmcl.training import KeepBest, Learner, TensorBatches, constant, cosine, flat_cosine


def data(n=64):
    return torch.rand(n, 1), torch.rand(n, 2, 1), torch.rand(n, 2) < 0.7


@pytest.mark.parametrize("schedule", [constant, cosine, flat_cosine])
@pytest.mark.parametrize("epochs", [4.0, 5.0, 2.5])
def test_schedules_start_at_one_never_rise_and_end_low(schedule, epochs):
    factors = [schedule(epochs * i / 100, epochs) for i in range(101)]
    assert factors[0] == 1
    assert all(a >= b for a, b in pairwise(factors))
    if schedule is not constant:
        assert factors[-1] == pytest.approx(0, abs=1e-9)
    if schedule is flat_cosine:
        assert factors[49] == 1
        assert factors[75] == pytest.approx(0.5)


def test_the_learning_rate_follows_the_schedule_step_by_step():
    seen = []

    class Watch(Learner):
        def training_step(self, batch, batch_idx):
            loss = super().training_step(batch, batch_idx)
            seen.append(self.optimizers().param_groups[0]["lr"])
            return loss

    learner = Watch(HypothesisHead(1, 3, 1), rmcl_loss, schedule=cosine)
    fit(learner, TensorBatches(*data(), batch_size=16), TensorBatches(*data(), batch_size=64), epochs=3)
    expected = [1e-3 * cosine(step / 4, 3.0) for step in range(12)]
    assert seen == pytest.approx(expected)


def test_batches_cover_everything_once_in_another_order_each_epoch():
    numbers = torch.arange(10)
    batches = TensorBatches(numbers, numbers * 2, batch_size=3, shuffle_seed=0)
    assert len(batches) == 4
    first, second = ([torch.cat(parts) for parts in zip(*batches, strict=True)] for _ in range(2))
    for x, y in (first, second):
        assert sorted(x.tolist()) == list(range(10))
        assert torch.equal(y, x * 2)
    assert first[0].tolist() != second[0].tolist()
    again = [
        torch.cat(parts) for parts in zip(*TensorBatches(numbers, batch_size=3, shuffle_seed=0), strict=True)
    ]
    assert torch.equal(again[0], first[0])


@pytest.mark.parametrize(
    ("tensors", "options"),
    [
        ((), {}),
        ((torch.arange(10), torch.arange(12)), {"shuffle_seed": 0}),
        ((torch.arange(10), torch.arange(12)), {"batch_size": 20}),
        (([1, 2],), {}),
        ((torch.tensor(1.0),), {}),
        ((torch.arange(10),), {"batch_size": 0}),
        ((torch.arange(10),), {"batch_size": 2.5}),
        ((torch.arange(10),), {"shuffle_seed": -1}),
    ],
)
def test_what_gives_no_batches_is_named(tensors, options, unchecked):
    with pytest.raises((ValueError, TypeError), match=r"(tensors(\[0\])?|batch_size|shuffle_seed) must "):
        TensorBatches(*tensors, **{"batch_size": 4, **options})


def test_training_ends_with_the_best_weights():
    weights = {}

    class Watch(KeepBest):
        def on_validation_end(self, trainer, pl_module):
            loss = trainer.callback_metrics["validation_loss"].item()
            weights[loss] = pl_module.network.projection.weight.detach().clone()
            super().on_validation_end(trainer, pl_module)

    head = HypothesisHead(1, 3, 1)
    keep = Watch()
    learner = Learner(head, rmcl_loss, optimizer=lambda p: torch.optim.SGD(p, lr=3.0))
    fit(
        learner, TensorBatches(*data(), batch_size=8), TensorBatches(*data(), batch_size=64), [keep], epochs=6
    )
    best = min(weights)
    assert len(weights) == 6
    assert keep.best == best
    assert torch.equal(head.projection.weight, weights[best])


def test_patience_ends_training():
    learner = Learner(HypothesisHead(1, 3, 1), rmcl_loss, optimizer=lambda p: torch.optim.SGD(p, lr=0.0))
    batches = TensorBatches(*data(), batch_size=64)
    trainer = fit(learner, batches, batches, [KeepBest(patience=2)], epochs=50)
    assert trainer.current_epoch == 3


@pytest.mark.parametrize(
    ("spoil", "culprit"),
    [("inputs", "inputs, hypotheses, logits"), ("targets", "active targets"), ("weights", "weights")],
)
def test_a_loss_that_is_no_number_stops_with_its_batch_and_its_cause(spoil, culprit):
    inputs, targets, active = data(32)
    active[20, 0] = True
    network = nn.Sequential(HypothesisHead(1, 3, 1))
    if spoil == "inputs":
        inputs[20] = math.nan
    elif spoil == "targets":
        targets[20, 0] = math.nan
    else:
        with torch.no_grad():
            network[0].projection.weight[0] = math.nan
    batches = TensorBatches(inputs, targets, active, batch_size=8)
    where = 0 if spoil == "weights" else 2
    with pytest.raises(
        UserError, match=rf"stopped at batch {where} of epoch 0: the loss is (nan|inf); not finite: {culprit}"
    ):
        fit(Learner(network, rmcl_loss), batches, batches)


def test_nan_where_no_target_is_disturbs_nothing():
    inputs, targets, active = data(32)
    targets = targets.masked_fill(~active[..., None], math.nan)
    batches = TensorBatches(inputs, targets, active, batch_size=8)
    keep = KeepBest()
    fit(Learner(HypothesisHead(1, 3, 1), rmcl_loss), batches, batches, [keep])
    assert math.isfinite(keep.best)


@pytest.mark.parametrize(
    ("spoil", "culprit"), [("inputs", "inputs, hypotheses, logits"), ("targets", "active targets")]
)
def test_on_an_accelerator_the_batch_and_the_cause_are_named_some_steps_later(spoil, culprit):
    """The losses are looked at every few steps; what was finite in each step is remembered on the device."""

    class Late(Learner):
        def on_train_start(self):
            super().on_train_start()
            self._interval = 3

    inputs, targets, active = data(64)
    active[20, 0] = True
    (inputs if spoil == "inputs" else targets[:, 0])[20] = math.nan
    batches = TensorBatches(inputs, targets, active, batch_size=8)
    with pytest.raises(
        UserError, match=rf"stopped at batch 2 of epoch 0: the loss is nan; not finite: {culprit}$"
    ):
        fit(Late(HypothesisHead(1, 3, 1), rmcl_loss), batches, batches)
    short = TensorBatches(inputs[:24], targets[:24], active[:24], batch_size=8)
    with pytest.raises(UserError, match=r"stopped at batch 2 of epoch 0: the loss is nan"):
        fit(Late(HypothesisHead(1, 3, 1), rmcl_loss), short, short)
