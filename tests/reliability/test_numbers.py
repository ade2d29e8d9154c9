"""Training on data that nobody would wish for: finite to the end, and what went wrong is told."""

import json
import math
import re
import warnings

import pytest
import torch
from torch import nn

import bare
from torchmcl import HypothesisHead, MCLRegressor, mcl_loss, relaxed, rmcl_loss, transport_loss
from torchmcl.errors import UserError
from torchmcl.experiments.compose import compose_config
from torchmcl.experiments.report import print_metrics
from torchmcl.experiments.train import train
from torchmcl.training import CollapseWarning, Learner, TensorBatches, collapse

N = 64


def fit(network, loss, inputs, targets, callbacks=(), epochs=5, rate=1e-2):
    batches = TensorBatches(inputs, targets, torch.ones(targets.shape[:-1], dtype=torch.bool), batch_size=16)
    learner = Learner(network, loss, optimizer=lambda p: torch.optim.Adam(p, lr=rate))
    trainer = bare.fit(learner, batches, batches, callbacks, epochs)
    return trainer.callback_metrics["validation_loss"].item()


def network(hypotheses=5, scores="sigmoid"):
    return nn.Sequential(nn.Linear(1, 8), nn.ReLU(), HypothesisHead(8, hypotheses, 2, scores))


def outliers():
    targets = torch.randn(N, 1, 2)
    return torch.rand(N, 1), torch.where(torch.rand(N, 1, 1) < 0.1, 1e8 * targets, targets)


HARD = {
    "outliers": outliers,
    "heavy tails": lambda: (torch.rand(N, 1), torch.distributions.Cauchy(0, 1).sample((N, 1, 2))),
    "constant inputs": lambda: (torch.zeros(N, 1), torch.randn(N, 1, 2)),
    "constant targets": lambda: (torch.rand(N, 1), torch.ones(N, 1, 2)),
    "duplicated targets": lambda: (torch.rand(N, 1), torch.randn(N, 1, 2).expand(N, 4, 2).clone()),
    "scale 1e-6": lambda: (1e-6 * torch.rand(N, 1), 1e-6 * torch.randn(N, 3, 2)),
    "scale 1e6": lambda: (1e6 * torch.rand(N, 1), 1e6 * torch.randn(N, 3, 2)),
    "one sample": lambda: (torch.rand(1, 1), torch.randn(1, 1, 2)),
}
LOSSES = {
    "rmcl": rmcl_loss,
    "rmcl, one negative": lambda h, t, a: rmcl_loss(h, t, a, negatives=1),
    "relaxed": lambda h, t, a: mcl_loss(h, t, a, assign=lambda cost: relaxed(cost, 0.1)),
    "transport": transport_loss,
}


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("hard", HARD)
def test_training_stays_finite(hard, loss):
    inputs, targets = HARD[hard]()
    model = network()
    value = fit(model, LOSSES[loss], inputs, targets, epochs=3)
    assert math.isfinite(value)
    assert all(torch.isfinite(parameter).all() for parameter in model.parameters())


@pytest.mark.parametrize("hypotheses", [200, 1000])
def test_many_more_hypotheses_than_data_are_finite_and_told(hypotheses):
    model = network(hypotheses)
    with pytest.warns(RuntimeWarning, match=rf"\d+ of {hypotheses} hypotheses never win \(hypotheses \d"):
        value = fit(model, rmcl_loss, torch.rand(8, 1), torch.randn(8, 1, 2), [CollapseWarning()], epochs=3)
    assert math.isfinite(value)
    assert all(torch.isfinite(parameter).all() for parameter in model.parameters())


def far_away(hypotheses=5):
    """Four hypotheses so far out that the first one wins everything."""
    model = network(hypotheses)
    with torch.no_grad():
        model[-1].projection.bias[2 : 2 * hypotheses] = 1e3
    return model


def test_hypotheses_that_start_far_away_are_reported_with_what_to_try():
    said = r"4 of 5 hypotheses never win \(hypotheses 1, 2, 3, 4\): try to start them spread .*relaxed.*fewer"
    with pytest.warns(RuntimeWarning, match=said):
        fit(far_away(), rmcl_loss, torch.rand(N, 1), torch.randn(N, 1, 2), [CollapseWarning()])


def test_what_is_suggested_helps():
    """With relaxed assignment those that start far away come back, and nothing is reported."""

    def losers_learn(hypotheses, targets, active):
        return mcl_loss(hypotheses, targets, active, assign=lambda cost: relaxed(cost, 0.5))

    torch.manual_seed(1)
    model = far_away(2)
    with torch.no_grad():
        model[-1].projection.bias[2:4] = 20.0
    angle = torch.where(torch.rand(N, 1, 1) < 0.5, -1.0, 1.0)
    targets = angle + 0.1 * torch.randn(N, 1, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit(model, losers_learn, torch.rand(N, 1), targets, [CollapseWarning()], epochs=60, rate=0.1)


def test_a_healthy_training_is_silent():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for hypotheses in (1, 3):
            fit(network(hypotheses), rmcl_loss, torch.rand(N, 1), torch.randn(N, 3, 2), [CollapseWarning()])


def test_nothing_is_said_of_nothing():
    assert collapse([]) is None
    assert collapse([0, 0]) is None, "there was no target"


def test_a_run_ends_with_a_word_on_collapse(smoke, capsys):
    words = smoke("run", "method.hypotheses=300", "training.epochs=1", "training.batches=1")
    folder = train(compose_config(words), progress=False)
    print_metrics(folder)
    told = json.loads((folder / "metrics.json").read_text())["collapse"]
    assert re.match(
        r"\d+ of 300 hypotheses never win \(hypotheses .*, \.\.\.\): try to start them spread", told
    )
    assert f"collapse: {told}" in capsys.readouterr().out


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_the_estimator_is_equivariant_to_scale_where_it_matters(scale):
    """It standardises: the answer to data in other units is the same answer in those units."""
    random = torch.Generator().manual_seed(0)
    x = torch.rand(200, 1, generator=random).numpy()
    y = torch.randn(200, 2, generator=random).numpy()
    model = MCLRegressor(n_hypotheses=4, random_state=0, max_epochs=3)
    plain = model.fit(x, y).predict(x[:5])
    scaled = model.fit(x, scale * y).predict(x[:5])
    torch.testing.assert_close(
        torch.from_numpy(scaled / scale), torch.from_numpy(plain), rtol=2e-3, atol=2e-3
    )


def test_a_loss_that_overflows_stops_with_its_batch():
    inputs = torch.rand(N, 1)
    targets = torch.randn(N, 1, 2)
    targets[40] = 3e38
    targets[40, 0, 1] = -3e38
    where = re.escape("stopped at batch 2 of epoch 0: the loss is inf; not finite: the loss alone")
    with pytest.raises(UserError, match=where):
        fit(network(), rmcl_loss, inputs, targets)


def test_a_diverging_optimiser_is_stopped_and_named():
    def explode(parameters):
        return torch.optim.SGD(parameters, lr=1e38)

    batches = TensorBatches(
        torch.rand(N, 1), torch.randn(N, 1, 2), torch.ones(N, 1, dtype=torch.bool), batch_size=16
    )
    with pytest.raises(
        UserError, match=r"stopped at batch \d of epoch 0: the loss is .*; not finite: .*hypotheses"
    ):
        bare.fit(Learner(network(), rmcl_loss, optimizer=explode), batches, batches)
