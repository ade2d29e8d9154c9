"""Runs: every method and every choice trains, finishes, is found again and evaluates."""

import json
import math

import pytest
import torch

from torchmcl.errors import UserError
from torchmcl.experiments.build import build_data, build_loss, build_network
from torchmcl.experiments.compose import compose_config, options
from torchmcl.experiments.evaluate import evaluate, only_active
from torchmcl.experiments.saved import load_network
from torchmcl.experiments.train import evaluate_run, train
from torchmcl.hypotheses import Hypotheses

TINY = ["scale=smoke", "trainer.threads=1", "trainer.accelerator=cpu"]


@pytest.fixture(scope="module")
def scenes(tmp_path_factory):
    """Folders of scenes that all runs of this file share."""
    place = tmp_path_factory.mktemp("scenes")
    return {condition: str(place / condition) for condition in ("anechoic", "reverberant")}


def config(tmp_path, scenes, *words, name="run"):
    data = "reverberant" if "data=reverberant" in words else "anechoic"
    return compose_config([*TINY, f"data.folder={scenes[data]}", f"run={tmp_path / name}", *words])


CHOICES = [f"method={name}" for name in options("method")] + [
    "data=reverberant", "head=angles", "training.schedule=reference", "training.schedule=flat_cosine",
    "training.schedule=constant", "training.schedule=cosine", "method.scores=softmax",
]  # fmt: skip


@pytest.mark.parametrize("choice", CHOICES)
def test_every_choice_runs(choice, tmp_path, scenes):
    """One optimizer step and one epoch show that a choice fits together."""
    words = (choice, "training.epochs=1", "training.batches=1")
    folder = train(config(tmp_path, scenes, *words), progress=False)
    metrics = json.loads((folder / "metrics.json").read_text())
    for part in ("validation", "test"):
        assert sorted(metrics[part]["groups"]) == ["D1", "D2", "D3"]
        for group in metrics[part]["groups"].values():
            for value in group.values():
                assert 0 < value["mean"] < 180
                assert value["chunks"] > 0
    assert not list(folder.rglob("*.ckpt"))
    settings, _ = load_network(folder)
    assert settings.method.name == metrics["method"]
    members = settings.method.members
    assert len(list(folder.glob("member*"))) == (members if members > 1 else 0)


@pytest.mark.parametrize("network", options("network"))
def test_networks_fit_the_rate_of_their_scale(network, tmp_path, scenes):
    rate = {"paper": 44100, "small": 16000}[network]
    made = build_network(compose_config([f"network={network}"]), rate, slots=3)
    out = made(torch.zeros(1, 4, rate // 2, dtype=torch.int16))
    assert out.points.shape == (1, 25, 5, 2)


def test_a_finished_run_is_reused_and_another_is_not_overwritten(tmp_path, scenes):
    folder = train(config(tmp_path, scenes), progress=False)
    before = (folder / "metrics.json").stat().st_mtime_ns
    train(config(tmp_path, scenes), progress=False)
    assert (folder / "metrics.json").stat().st_mtime_ns == before
    with pytest.raises(UserError, match="seed is 1, this run was made with 0; choose another folder"):
        train(config(tmp_path, scenes, "seed=1"), progress=False)


def test_interrupted_after_an_epoch_it_ends_with_the_same_weights(tmp_path, scenes, monkeypatch):
    words = ("training.epochs=3", "method=rmcl_star")
    whole = train(config(tmp_path, scenes, *words, name="whole"), progress=False)
    import torchmcl.training as training

    step = training.Learner.training_step

    def stumbling(self, batch, batch_idx):
        if self.current_epoch == 2:
            raise KeyError("the power is gone")
        return step(self, batch, batch_idx)

    monkeypatch.setattr(training.Learner, "training_step", stumbling)
    broken = config(tmp_path, scenes, *words, name="broken")
    with pytest.raises(KeyError):
        train(broken, progress=False)
    assert (tmp_path / "broken" / "last.ckpt").exists()
    monkeypatch.setattr(training.Learner, "training_step", step)
    again = train(broken, progress=False)
    first, second = (load_network(folder)[1].state_dict() for folder in (whole, again))
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_swapped_angles_are_measured_beside(tmp_path, scenes):
    folder = train(config(tmp_path, scenes), progress=False)
    plain = json.loads((folder / "metrics.json").read_text())["test"]["groups"]["D1"]["emd"]["mean"]
    swapped = evaluate_run(folder, swapped=True).test.groups["D1"]["emd"].mean
    assert swapped != plain
    assert json.loads((folder / "metrics.json").read_text())["test"]["groups"]["D1"]["emd"]["mean"] == plain


def test_evaluation_of_an_oracle_is_zero(tmp_path, scenes):
    data = build_data(config(tmp_path, scenes), progress=False)

    class Oracle(torch.nn.Module):
        def __init__(self, batch):
            super().__init__()
            self.batch = batch

        def forward(self, waveform):
            return Hypotheses(self.batch.targets, torch.where(self.batch.active, 30.0, -30.0))

    for batch in data.test_dataloader():
        for slots in (True, False):
            summary = evaluate(Oracle(batch), [batch], slots=slots).summary()
            assert summary.frame_recall == 1
            for group in summary.groups.values():
                assert group["emd"].mean == pytest.approx(0, abs=1e-3)
                assert group["oracle"].mean == pytest.approx(0, abs=1e-3)


def test_slots_without_activity_fall_back_on_the_most_active():
    points = torch.randn(3, 2, 2)
    logits = torch.tensor([[1.0, 2.0], [-1.0, 2.0], [-1.0, -2.0]])
    hypotheses, empty = only_active(Hypotheses(points, logits))
    assert hypotheses.probs.tolist() == [[0.5, 0.5], [0.0, 1.0], [1.0, 0.0]]
    assert empty.tolist() == [False, False, True]


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["data=ansyn"], "data.folder is missing: say where ansyn lies with data.folder=PATH"),
        (["method.n=3"], "method.n is 3, method.assign is winner_takes_all: n belongs to top_n"),
        (["method.epsilon=0.5"], "epsilon belongs to relaxed"),
        (
            ["method=pit", "method.hypotheses=9"],
            "method.hypotheses is 9, but PIT needs one slot for each of 3 targets",
        ),
        (["method.hypotheses=null"], "method.hypotheses is null, which only PIT can do without"),
        (["method.scores=null"], "method.scores is null: method.scoring and method.transport must be 0"),
        (["network.pools=[7]"], "network: pools is .*: 32 bins cannot be pooled by 7"),
        (["method.scores=tanh"], "network: scores is 'tanh', must be one of sigmoid, softmax, None"),
        (["method.best_target_only=true"], "method.scoring needs method.regression above 0"),
    ],
)
def test_settings_that_contradict_each_other(words, message):
    settings = compose_config([*TINY, *words])

    def build():
        build_loss(settings.method)
        build_network(settings, 16000, slots=3)
        build_data(settings)

    with pytest.raises(UserError, match=message):
        build()


def test_broken_runs_are_refused(tmp_path, scenes):
    with pytest.raises(UserError, match=r"no finished run, settings\.json is missing"):
        load_network(tmp_path)
    folder = train(config(tmp_path, scenes), progress=False)
    weights = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(weights[: len(weights) // 2])
    with pytest.raises(UserError, match=r"model.safetensors: "):
        load_network(folder)
    (folder / "settings.json").write_text("{}")
    with pytest.raises(UserError, match=r"settings\.json: scale is missing"):
        load_network(folder)


def test_schedule_of_the_reference_peaks_at_its_fifth_epoch():
    from torchmcl.experiments.build import build_schedule
    from torchmcl.experiments.config import ScheduleName

    rates = [0.0025 * build_schedule(ScheduleName.reference)(float(epoch), 100.0) for epoch in range(100)]
    assert max(range(100), key=rates.__getitem__) == 4
    assert max(rates) == pytest.approx(0.0025 / math.sqrt(5))


def test_an_ensemble_is_not_made_of_too_few_runs(tmp_path, scenes):
    with pytest.raises(ValueError, match="members has 1 runs, the method 5 members"):
        train(config(tmp_path, scenes, "method=ie"), members=[tmp_path])
