"""`torchmcl toy` from end to end on tiny networks: files, reuse, and mistakes of the caller."""

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from PIL import Image
from rich.console import Console
from safetensors.torch import load_file
from typer.testing import CliRunner

from forks import execute
from torchmcl.cli import app
from torchmcl.errors import UserError
from torchmcl.runs import RunFolder
from torchmcl.toy import experiment, outcomes
from torchmcl.toy.evaluate import Evaluation
from torchmcl.toy.experiment import results, toy
from torchmcl.toy.floor import TIMES
from torchmcl.toy.models import METHODS

GRID = 10
NUMBERS = {
    "emd_mean", "emd_mean_sampled", "emd", "oracle_mean", "centroid_error", "score_error", "winner_entropy",
    "train_seconds",
}  # fmt: skip


@pytest.fixture
def silent() -> Console:
    return Console(quiet=True)


@pytest.fixture
def trained(monkeypatch) -> list[str]:
    """The methods that are trained from now on; they are not evaluated."""
    methods: list[str] = []
    real = outcomes.train

    def train(method, *rest, **options):
        methods.append(method)
        return real(method, *rest, **options)

    monkeypatch.setattr(outcomes, "train", train)
    numbers = Evaluation(1.0, 1.0, [(t, 1.0) for t in TIMES.tolist()], 1.0, 1.0, 1.0, 1.0)
    monkeypatch.setattr(outcomes, "evaluate", lambda *_, **__: numbers)
    return methods


def test_everything_is_written_and_what_is_there_is_used(tiny, tiny_run, tiny_out, trained):
    console = Console(record=True, width=120)
    toy(tiny, seed=0, seeds=1, out=tiny_out, animate=True, console=console, size=GRID)
    assert trained == []
    found = json.loads((tiny_out / "results.json").read_text())
    assert {"preset", "seed", "torchmcl", "torch", "floor_mean", "models"} <= set(found)
    assert (found["preset"], found["seed"]) == ("tiny", 0)
    assert set(found["models"]) == set(METHODS)
    for numbers in found["models"].values():
        assert set(numbers) == NUMBERS
        assert len(numbers["emd"]) == 50
        assert sum(value for _, value in numbers["emd"]) / 50 == pytest.approx(numbers["emd_mean"])
        assert numbers["emd_mean"] > found["floor_mean"]
        assert 0 <= numbers["winner_entropy"] <= math.log(20)
    text = console.export_text()
    assert all(name in text for name in ("rMCL*", "IE (mean)", "best 20 points", "0.1568"))
    with Image.open(tiny_out / "figure1.png") as image:
        assert image.width > 1500
    assert (tiny_out / "figure1.pdf").read_bytes().startswith(b"%PDF")
    with Image.open(tiny_out / "animation.gif") as image:
        assert image.n_frames > 3


def test_ensembles_can_be_left_out(tiny, tmp_path, trained, silent):
    toy(tiny, seed=0, seeds=1, out=tmp_path, animate=False, console=silent, ensembles=False)
    assert trained == ["rmcl", "rmcl_star", "smcl"]
    assert list(json.loads((tmp_path / "results.json").read_text())["models"]) == trained
    with Image.open(tmp_path / "figure1.png") as image:
        assert image.width > 1500


def test_a_folder_in_use_a_persons_folder_and_the_root_are_refused_at_once(tiny, tmp_path, trained, silent):
    def attempt(out):
        toy(tiny, seed=0, seeds=1, out=out, animate=False, console=silent)

    with (
        RunFolder.open(tmp_path / "run", {"command": "toy"}),
        pytest.raises(UserError, match="another process"),
    ):
        attempt(tmp_path / "run")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "results.json").write_text("{}")
    with pytest.raises(UserError, match="is no run"):
        attempt(tmp_path / "mine")
    with pytest.raises(UserError, match="is the root folder"):
        attempt(Path("/"))
    assert trained == []
    assert (tmp_path / "mine" / "results.json").read_text() == "{}"


def test_several_seeds_are_averaged(tiny_run):
    once, twice = results([tiny_run]), results([tiny_run, replace(tiny_run, seed=1)])
    assert "runs" not in once
    assert twice["seeds"] == [0, 1]
    assert twice["models"]["rmcl"]["emd_mean"] == pytest.approx(once["models"]["rmcl"]["emd_mean"])
    assert twice["models"]["rmcl"]["emd"][3] == pytest.approx(once["models"]["rmcl"]["emd"][3])
    assert [each["seed"] for each in twice["runs"]] == [0, 1]
    assert twice["runs"][1]["models"]["smcl"]["emd_mean"] == once["models"]["smcl"]["emd_mean"]


PRESET = "--preset must be one of paper, tuned, got 'papper'"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["toy", "--preset", "papper"], PRESET),
        (["toy", "--seeds", "0"], "--seeds must be 1 to 1000, got 0"),
        (["toy", "--seeds", "1000000000"], "--seeds must be 1 to 1000, got 1000000000"),
        (["toy", "--seed", "-1"], "--seed must be 0 to 4294967295, got -1"),
        (["toy", "--seed", str(2**70)], f"--seed must be 0 to 4294967295, got {2**70}"),
        (["toy-outliers", "--preset", "papper"], PRESET),
        (["toy-outliers", "--seed", "-1"], "--seed must be 0 to 4294967295, got -1"),
    ],
)
def test_wrong_arguments_are_named_before_anything_is_written(arguments, message, tmp_path):
    result = CliRunner().invoke(app, [*arguments, "--out", str(tmp_path / "out")])
    assert isinstance(result.exception, UserError)
    assert message in str(result.exception)
    assert not (tmp_path / "out").exists()


def test_two_processes_give_the_models_of_one(tiny, tiny_run, tmp_path, trained, monkeypatch, silent):
    monkeypatch.setattr(experiment, "execute", execute)
    toy(tiny, seed=0, seeds=1, out=tmp_path / "two", animate=False, console=silent, workers=2)
    assert trained == [], "all is trained in other processes"
    for method in METHODS:
        folder = tmp_path / "two" / "models" / tiny.name / "seed0" / method
        weights = load_file(folder / "model.safetensors")
        expected = tiny_run.outcomes[method].trained.network.state_dict()
        assert all(torch.equal(weights[name], value) for name, value in expected.items())
        assert (folder / "README.md").is_file()
