"""Parameters of rules that change during training: values, log, and resuming in the middle."""

import pytest
import torch
from lightning.pytorch import Callback
from torch import nn

from torchmcl import HypothesisHead, annealed, rmcl_loss, top_n
from torchmcl.training import (
    Hardware,
    Optimization,
    Scheduled,
    TensorBatches,
    fit,
    geometric,
    linear,
    scheduled_rule,
)

DATA = torch.rand(2, 48, 1, generator=torch.Generator().manual_seed(0))


def batches():
    return TensorBatches(DATA[0], DATA[1][:, None], batch_size=12, shuffle_seed=1)


def train(loss, **options):
    network = lambda: nn.Sequential(nn.Linear(1, 8), nn.ReLU(), HypothesisHead(8, 5, 1))  # noqa: E731
    return fit(
        network, loss, batches(), batches(), seed=0, optimization=Optimization(epochs=4),
        hardware=Hardware("cpu"), **options,
    )  # fmt: skip


def test_values_over_the_training():
    assert [linear(4, 0)(p) for p in (0, 0.25, 1)] == [4, 3, 0]
    assert [linear(4, 0, until=0.5)(p) for p in (0.25, 0.5, 1)] == [2, 0, 0]
    assert [geometric(100, 1)(p) for p in (0, 0.5, 1)] == pytest.approx([100, 10, 1])
    assert [scheduled_rule(top_n, n=linear(5, 1))(p).keywords["n"] for p in (0.0, 0.3, 1.0)] == [5, 4, 1]


def test_they_are_logged_as_they_were_at_the_end_of_each_epoch():
    loss = Scheduled(
        rmcl_loss,
        assign=scheduled_rule(annealed, temperature=linear(1, 0)),
        beta=lambda progress: 2 * progress,
    )
    history = train(loss).history
    last = [(epoch + 3 / 4) / 4 for epoch in range(4)]
    assert [row["temperature"] for row in history] == pytest.approx([1 - p for p in last])
    assert [row["beta"] for row in history] == pytest.approx([2 * p for p in last])


class Stop(Callback):
    def on_train_epoch_start(self, trainer, pl_module):
        if trainer.current_epoch == 2:
            raise RuntimeError("stopped")


def test_a_resumed_training_goes_on_with_the_same_values(tmp_path):
    def loss():
        return Scheduled(rmcl_loss, assign=scheduled_rule(top_n, n=linear(5, 1)))

    whole = train(loss())
    with pytest.raises(RuntimeError, match="stopped"):
        train(loss(), checkpoint=tmp_path / "last.ckpt", callbacks=[Stop()])
    resumed = train(loss(), checkpoint=tmp_path / "last.ckpt")
    assert [row["n"] for row in resumed.history] == [row["n"] for row in whole.history] == [4, 3, 2, 1]
    for ours, theirs in zip(resumed.network.parameters(), whole.network.parameters(), strict=True):
        assert torch.equal(ours, theirs)


def test_wrong_parameters_are_named(unchecked):
    with pytest.raises(ValueError, match="epsilon is no parameter of top_n"):
        scheduled_rule(top_n, epsilon=linear(1, 0))
    with pytest.raises(ValueError, match="end must be above 0, got 0"):
        geometric(1, 0)
    for wrong in (
        lambda: linear(0, float("inf")),
        lambda: linear("a", 1),
        lambda: geometric(float("inf"), 1),
        lambda: Scheduled(None),
        lambda: Scheduled(rmcl_loss, beta=3.0),
        lambda: scheduled_rule(None),
        lambda: scheduled_rule(annealed, temperature=3.0),
    ):
        with pytest.raises(
            (ValueError, TypeError), match=r"^(start|end|loss|beta|rule|temperature) must be "
        ):
            wrong()
