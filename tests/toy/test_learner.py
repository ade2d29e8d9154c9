"""Strides change how often Lightning is asked, and nothing else."""

from functools import partial
from unittest.mock import Mock

import pytest
import torch
from torch.optim import AdamW

import bare
from torchmcl.losses import rmcl_loss
from torchmcl.toy.data import draw
from torchmcl.toy.learner import STRIDE, StridingLearner, Update
from torchmcl.toy.models import build
from torchmcl.training import Learner, TensorBatches, constant, cosine

EPOCHS, BATCH = 3, 10


@pytest.mark.parametrize("samples", [10, 95, 1000])
@pytest.mark.parametrize("schedule", [constant, cosine])
def test_the_weights_are_those_of_the_plain_learner(tiny, samples, schedule):
    data, validation = draw(samples, seed=0), draw(50, seed=1)
    batches = -(-samples // BATCH)
    torch.manual_seed(0)
    plain = Learner(
        build("rmcl", tiny),
        rmcl_loss,
        optimizer=partial(AdamW, lr=1e-2, weight_decay=0.1),
        schedule=schedule,
    )
    torch.manual_seed(0)
    advance = Mock()
    striding = StridingLearner(
        build("rmcl", tiny),
        rmcl_loss,
        learning_rate=1e-2,
        weight_decay=0.1,
        schedule=schedule,
        batch_size=BATCH,
        batches=batches,
        epochs=EPOCHS,
        advance=advance,
    )
    for learner, size in ((plain, BATCH), (striding, STRIDE * BATCH)):
        trainer = bare.fit(
            learner,
            TensorBatches(*data, batch_size=size),
            TensorBatches(*validation, batch_size=50),
            epochs=EPOCHS,
        )
        learner.found = {name: value.item() for name, value in trainer.callback_metrics.items()}
    for a, b in zip(plain.network.parameters(), striding.network.parameters(), strict=True):
        torch.testing.assert_close(a, b)
    assert advance.call_count == EPOCHS * batches
    assert striding.found == pytest.approx(plain.found, rel=1e-5)
    assert set(plain.found) == {"training_loss", "validation_loss"}


def test_updates_are_the_steps_of_adamw(tiny):
    data = draw(BATCH, seed=0)
    found = []
    for wrap in (lambda optimizer: optimizer.step, Update):
        torch.manual_seed(0)
        network = build("rmcl", tiny)
        optimizer = AdamW(
            network.parameters(), lr=1e-2, weight_decay=0.1, betas=(0.8, 0.9), eps=1e-3, fused=True
        )
        step = wrap(optimizer)
        for rate in (1e-2, 1e-2, 1e-3, 1e-1, 1e-2):
            optimizer.param_groups[0]["lr"] = rate
            optimizer.zero_grad()
            rmcl_loss(network(data[0]), *data[1:]).backward()
            step()
        optimizer.step()  # may go on by itself
        states = [optimizer.state[parameter] for parameter in network.parameters()]
        found.append([*network.parameters(), *(value for state in states for value in state.values())])
    for expected, ours in zip(*found, strict=True):
        assert torch.equal(expected, ours)
