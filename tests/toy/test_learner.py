"""Strides change how often Lightning is asked, and nothing else."""

from functools import partial
from unittest.mock import Mock

import pytest
import torch
from torch.optim import AdamW

import bare
from torchmcl.losses import rmcl_loss
from torchmcl.toy.data import draw
from torchmcl.toy.learner import STRIDE, StridingLearner
from torchmcl.toy.models import build
from torchmcl.training import Learner, TensorBatches, constant, cosine

EPOCHS, BATCH = 3, 10


@pytest.mark.parametrize("samples", [10, 95, 1000])
@pytest.mark.parametrize("schedule", [constant, cosine])
def test_the_weights_are_those_of_the_plain_learner(tiny, samples, schedule):
    data, validation = draw(samples, seed=0), draw(50, seed=1)
    batches = -(-samples // BATCH)
    options = {"optimizer": partial(AdamW, lr=1e-2), "schedule": schedule}
    torch.manual_seed(0)
    plain = Learner(build("rmcl", tiny), rmcl_loss, **options)
    torch.manual_seed(0)
    advance = Mock()
    striding = StridingLearner(
        build("rmcl", tiny),
        rmcl_loss,
        **options,
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
