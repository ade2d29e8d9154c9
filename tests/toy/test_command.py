"""`torchmcl toy` from end to end on tiny networks: files, reuse, and mistakes of the caller."""

import json
import math
from dataclasses import replace

import pytest
from PIL import Image
from rich.console import Console
from typer.testing import CliRunner

from torchmcl.cli import app
from torchmcl.errors import UserError
from torchmcl.runs.progress import bar
from torchmcl.toy import experiment
from torchmcl.toy.command import run_seeds, toy
from torchmcl.toy.evaluate import Evaluation
from torchmcl.toy.experiment import results, run, work
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
    real = experiment.fit

    def fit(method, *rest):
        methods.append(method)
        return real(method, *rest)

    monkeypatch.setattr(experiment, "fit", fit)
    numbers = Evaluation(1.0, 1.0, [(0.0, 1.0)], 1.0, 1.0, 1.0, 1.0)
    monkeypatch.setattr(experiment, "evaluate", lambda *_, **__: numbers)
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


def test_an_interrupted_run_goes_on_with_the_next_model(tiny, tmp_path, trained, monkeypatch, silent):
    counted = experiment.fit

    def interrupted(method, *rest):
        if len(trained) == 2:
            raise KeyboardInterrupt
        return counted(method, *rest)

    monkeypatch.setattr(experiment, "fit", interrupted)
    with pytest.raises(KeyboardInterrupt):
        toy(tiny, seed=0, seeds=1, out=tmp_path, animate=False, console=silent)
    assert not (tmp_path / "results.json").exists()
    monkeypatch.setattr(experiment, "fit", counted)
    run_seeds(tiny, range(1), tmp_path, silent)
    assert trained == list(METHODS)


def test_other_settings_and_seeds_are_trained_anew(tiny, tmp_path, trained, silent):
    with bar(work(tiny), silent) as progress:
        for settings, seed in ((tiny, 0), (tiny, 0), (replace(tiny, learning_rate=0.1), 0), (tiny, 1)):
            run(settings, seed, tmp_path, progress, methods=("smcl",))
    assert trained == ["smcl"] * 3


def test_a_model_that_was_trained_anew_is_evaluated_anew(tiny, tmp_path, silent):
    with bar(work(tiny), silent) as progress:
        a, b = (run(tiny, seed, tmp_path, progress, methods=("smcl",), size=GRID) for seed in (0, 1))
    assert a.outcomes["smcl"].evaluation.emd_mean != b.outcomes["smcl"].evaluation.emd_mean


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
        (["toy", "--seeds", "0"], "--seeds must be at least 1, got 0"),
        (["toy", "--seed", "-1"], "--seed must not be negative, got -1"),
        (["toy-outliers", "--preset", "papper"], PRESET),
        (["toy-outliers", "--seed", "-1"], "--seed must not be negative, got -1"),
    ],
)
def test_wrong_arguments_are_named_before_anything_is_written(arguments, message, tmp_path):
    result = CliRunner().invoke(app, [*arguments, "--out", str(tmp_path / "out")])
    assert isinstance(result.exception, UserError)
    assert message in str(result.exception)
    assert not (tmp_path / "out").exists()
