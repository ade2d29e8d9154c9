"""Training is repeatable, keeps what it says, and stops cleanly."""

import signal
import threading
from dataclasses import replace

import pytest
import torch
from torch.optim import Adam

from torchmcl import rmcl_loss
from torchmcl.toy.models import build, loss_of
from torchmcl.toy.train import PATH_TIMES, FreshBatches, HypothesisPath, epochs, samples, train
from torchmcl.training import Learner


def fit(method, settings, seed, advance=lambda part: None):
    return train(method, settings, seed, samples(settings, seed), advance=advance)


def validation_loss(method, settings, seed, network):
    _, (t, targets, active) = samples(settings, seed)
    return loss_of(method, settings)(network(t), targets, active).item()


def test_the_same_seed_gives_the_same_weights_and_leaves_the_global_generator_alone(tiny):
    before = torch.get_rng_state()
    a, b, c = (fit("rmcl", tiny, seed).network.state_dict() for seed in (1, 1, 2))
    assert torch.equal(before, torch.get_rng_state())
    assert all(torch.equal(a[name], b[name]) for name in a)
    assert not all(torch.equal(a[name], c[name]) for name in a)


@pytest.mark.parametrize("method", ["rmcl", "smcl", "ie"])
def test_training_lowers_the_validation_loss(tiny, method):
    tame = {"learning_rate": 1e-6, "ensemble_rate": 1e-6}
    short = fit(method, replace(tiny, epochs=1, training_samples=100, **tame), 0)
    longer = fit(method, replace(tiny, epochs=20, ensemble_epochs=20), 0)
    assert (
        validation_loss(method, tiny, 0, longer.network)
        < validation_loss(method, tiny, 0, short.network) - 0.01
    )


def test_best_weights_are_better_than_the_last_where_training_is_wild(tiny):
    wild = replace(tiny, epochs=6, learning_rate=3.0)
    gains = []
    for seed in range(3):
        best, last = (fit("smcl", replace(wild, keep=keep), seed).network for keep in ("best", "last"))
        gains.append(validation_loss("smcl", wild, seed, last) - validation_loss("smcl", wild, seed, best))
    assert min(gains) >= 0
    assert max(gains) > 1e-3


def test_training_and_validation_samples_are_different_and_sized(tiny):
    training, validation = samples(tiny, 0)
    assert (len(training.t), len(validation.t)) == (400, 200)
    assert not torch.equal(training.t[:200], validation.t)
    assert (samples(replace(tiny, outliers=0.3), 0)[0].targets.abs() > 1).any()


def test_progress_and_the_path_of_the_hypotheses(tiny):
    longer = replace(tiny, epochs=10)
    parts = []
    trained = fit("rmcl", longer, 0, parts.append)
    assert sum(parts) == pytest.approx(1)
    assert min(parts) >= 0
    assert trained.path.shape == (len(trained.path_steps), len(PATH_TIMES), 20, 2)
    assert trained.path_steps[0] == 0
    assert trained.path_steps[-1] == 40
    assert (trained.path_steps.diff() > 0).all()


def test_an_interrupt_reaches_the_caller_and_the_next_one_works(tiny):
    before = signal.getsignal(signal.SIGINT)

    def interrupt(part):
        raise KeyboardInterrupt

    assert threading.current_thread() is threading.main_thread()
    with pytest.raises(KeyboardInterrupt):
        fit("rmcl", replace(tiny, epochs=10), 0, interrupt)
    assert signal.getsignal(signal.SIGINT) is before


def test_fresh_samples_are_new_in_each_epoch_and_the_same_for_a_seed(tiny):
    def two_epochs(seed):
        batches = FreshBatches(tiny, seed)
        found = []
        for epoch in range(2):
            batches.set_epoch(epoch)
            found.append(torch.cat([t for t, _, _ in batches]))
        return found

    (first, second), (again, _), (other, _) = two_epochs(0), two_epochs(0), two_epochs(1)
    assert len(first) == tiny.training_samples
    assert torch.equal(first, again)
    assert not torch.equal(first, second)
    assert not torch.equal(first, other)
    a, b = (fit("smcl", replace(tiny, fresh=fresh), 0).network for fresh in (False, True))
    assert not torch.equal(a[0].weight, b[0].weight)


def test_ensembles_have_epochs_of_their_own(tiny):
    settings = replace(tiny, epochs=4, ensemble_epochs=2, mean_epochs=1)
    assert [epochs(method, settings) for method in ("smcl", "ie", "ie_mean")] == [4, 2, 1]


@pytest.mark.parametrize("change", [{"steps": ["x"]}, {"points": []}, {"points": [torch.zeros(7, 7)]}])
@pytest.mark.usefixtures("unchecked")
def test_a_restored_path_is_of_this_network(change, tiny):
    learner = Learner(build("rmcl", tiny), rmcl_loss, optimizer=Adam)
    path = HypothesisPath(10)
    path.on_train_start(None, learner)
    state = path.state_dict()
    path.load_state_dict(state)
    path.on_train_start(None, learner)
    path.load_state_dict(state | change)
    with pytest.raises(ValueError, match=r"steps|points"):
        path.on_train_start(None, learner)
