"""A model's folder: what is there is used, a killed training continues, and broken files are named."""

import json
import multiprocessing
import os
import shutil
import signal
from dataclasses import replace

import pytest
import torch
from rich.console import Console
from safetensors.torch import load_file, save_file

from torchmcl.errors import UserError
from torchmcl.runs.progress import bar
from torchmcl.toy import outcomes
from torchmcl.toy.evaluate import predict
from torchmcl.toy.outcomes import run_model, work
from torchmcl.toy.train import samples
from torchmcl.training import Learner

GRID = 10


def run(folder, settings, method="smcl", seed=0):
    with bar(work(settings, (method,)), Console(quiet=True)) as progress:
        return run_model(method, settings, seed, samples(settings, seed), folder, progress, size=GRID)


@pytest.fixture(scope="module")
def finished(tiny, tmp_path_factory):
    """A folder with a trained and evaluated model."""
    folder = tmp_path_factory.mktemp("finished") / "smcl"
    run(folder, tiny)
    return folder


def test_a_model_comes_back_and_is_neither_trained_nor_evaluated_again(tiny, tmp_path, monkeypatch):
    for method in ("rmcl", "ie"):
        made = run(tmp_path / method, tiny, method)
        with monkeypatch.context() as patch:
            patch.delattr(outcomes, "train")
            patch.delattr(outcomes, "evaluate")
            found = run(tmp_path / method, tiny, method)
        t = torch.linspace(0, 1, 5)
        assert torch.equal(predict(found.trained.network, t).points, predict(made.trained.network, t).points)
        assert found.evaluation == made.evaluation
        assert found.trained.seconds == made.trained.seconds
        assert torch.equal(found.trained.path, made.trained.path)
    names = [
        "README.md",
        "metrics.json",
        "model.safetensors",
        "path.safetensors",
        "settings.json",
        "training.json",
    ]
    assert sorted(os.listdir(tmp_path / "rmcl")) == names


def test_other_settings_and_seeds_need_another_folder(tiny, finished):
    with pytest.raises(UserError, match="seed is 1, this run was made with 0"):
        run(finished, tiny, seed=1)
    with pytest.raises(UserError, match=r"settings.learning_rate is 0.1, this run was made with 0.003"):
        run(finished, replace(tiny, learning_rate=0.1))


FOREIGN = {
    "steps that are no row": lambda path: {"steps": path["steps"][:, None]},
    "other steps": lambda path: {"steps": path["steps"] + 1},
    "steps of another type": lambda path: {"steps": path["steps"].double()},
    "no steps": lambda path: {"steps": path["steps"][:0], "points": path["points"][:0]},
    "many steps": lambda path: {name: value.repeat_interleave(9, 0) for name, value in path.items()},
    "points of another shape": lambda path: {"points": path["points"][:, :, :1]},
    "points that are not finite": lambda path: {"points": path["points"] / 0},
    "further values": lambda path: {"more": torch.zeros(1)},
}


@pytest.mark.parametrize("what", FOREIGN)
def test_a_path_of_another_model_is_refused(what, tiny, finished, tmp_path):
    shutil.copytree(finished, tmp_path / "smcl")
    file = tmp_path / "smcl" / "path.safetensors"
    path = load_file(file)
    changed = path | FOREIGN[what](path)
    save_file({name: value.contiguous() for name, value in changed.items()}, file)
    with pytest.raises(UserError, match=r"path\.safetensors: is not the path of this model"):
        run(tmp_path / "smcl", tiny)


@pytest.mark.parametrize("change", [lambda x: x.to(torch.int8), lambda x: x.double(), lambda x: 1e30 + x])
def test_weights_that_no_training_gives_are_refused(change, tiny, finished, tmp_path):
    shutil.copytree(finished, tmp_path / "smcl")
    file = tmp_path / "smcl" / "model.safetensors"
    save_file({name: change(value) for name, value in load_file(file).items()}, file)
    with pytest.raises(UserError, match=r"model\.safetensors: "):
        run(tmp_path / "smcl", tiny)


@pytest.mark.parametrize("emd", [[], [[0.5, 0.1]], [[0.5, 0.1]] * 50])
def test_an_evaluation_at_other_times_is_refused(emd, tiny, finished, tmp_path):
    shutil.copytree(finished, tmp_path / "smcl")
    file = tmp_path / "smcl" / "metrics.json"
    plain = json.loads(file.read_text())
    plain["evaluation"]["emd"] = emd
    file.write_text(json.dumps(plain))
    with pytest.raises(UserError, match=r"metrics\.json: evaluation\.emd is not at the 50 times"):
        run(tmp_path / "smcl", tiny)


@pytest.mark.parametrize("name", ["model.safetensors", "path.safetensors", "training.json", "metrics.json"])
def test_a_broken_file_is_named(name, tiny, finished, tmp_path):
    shutil.copytree(finished, tmp_path, dirs_exist_ok=True)
    whole = (tmp_path / name).read_bytes()
    (tmp_path / name).write_bytes(whole[: len(whole) // 2])
    with pytest.raises(UserError, match=str(tmp_path)):
        run(tmp_path, tiny)


def die_at(step, folder, settings, method):
    """In a process of its own: train, and die without warning before that step."""
    train, done = Learner.training_step, []

    def counted(self, batch, batch_idx):
        if len(done) == step:
            os.kill(os.getpid(), signal.SIGKILL)
        done.append(batch_idx)
        return train(self, batch, batch_idx)

    Learner.training_step = counted
    run(folder, settings, method)


@pytest.mark.parametrize(("method", "fresh"), [("rmcl_star", False), ("smcl", True)])
def test_killed_without_warning_it_ends_with_equal_weights(method, fresh, tiny, tmp_path):
    settings = replace(tiny, epochs=4, fresh=fresh, schedule="flat_cosine", keep="best")
    whole = run(tmp_path / "whole", settings, method)
    for step in (2, 9, 5):
        process = multiprocessing.get_context("fork").Process(
            target=die_at, args=(step, tmp_path / "killed", settings, method)
        )
        process.start()
        process.join()
        assert process.exitcode == -signal.SIGKILL
    resumed = run(tmp_path / "killed", settings, method)
    one, two = (load_file(tmp_path / name / "model.safetensors") for name in ("whole", "killed"))
    assert all(torch.equal(one[key], two[key]) for key in one)
    assert resumed.evaluation == whole.evaluation
    assert torch.equal(resumed.trained.path, whole.trained.path)
    assert sorted(os.listdir(tmp_path / "whole")) == sorted(os.listdir(tmp_path / "killed"))
