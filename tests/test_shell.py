"""The shell blocks of the documents, run line by line, on data and networks that take seconds."""

import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
import soundfile
from typer.testing import CliRunner

from test_documents import PAGES, ROOT, blocks
from torchmcl.cli import app
from torchmcl.experiments import studies, study
from torchmcl.experiments.train import resume
from torchmcl.runs import jobs as run_jobs
from torchmcl.toy import evaluate, experiment, outcomes, outliers, presets
from torchmcl.trajectories.forecaster import BUNDLED

SCENES = ("--recordings", "5", "--duration", "2", "--sample-rate", "16000")
"""As many and as long as those of `scale=smoke`."""
ONE_PROCESS = ("trainer.accelerator=cpu", "trainer.devices=1", "trainer.nodes=1", "trainer.strategy=auto")
WITH_SHELL = [path for path in (ROOT / "README.md", *PAGES) if blocks(path, "(?:ba)?sh")]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with what the documents take for granted: a recording, sounds, and recordings in published form."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    soundfile.write("concert.wav", rng.normal(0, 0.1, (32000, 4)), 16000)
    for folder in ("my_sounds", "SOUNDS"):
        for sound in range(18):
            path = Path(folder, f"class{sound % 3}", f"{sound}.wav")
            path.parent.mkdir(parents=True, exist_ok=True)
            soundfile.write(path, rng.normal(0, 0.1, 16000), 16000)
    _write_tracks()
    _write_houses()
    return tmp_path


def _write_tracks() -> None:
    """Two pedestrians, in meters and in pixels, a homography, and a forecaster."""
    rows = [
        (10 * step, person, 0.5 * step, person + 0.01 * step**2) for step in range(30) for person in (1, 2)
    ]
    Path("tracks.txt").write_text("".join("{} {} {} {}\n".format(*row) for row in rows))
    Path("pixels.csv").write_text("frame,id,x,y\n" + "".join("{},{},{},{}\n".format(*row) for row in rows))
    Path("H.txt").write_text("0.1 0 0\n0 0.1 0\n0 0 1\n")
    shutil.copytree(BUNDLED, "my-place")


def _write_houses() -> None:
    """A table with a price, and one without."""
    rng = np.random.default_rng(0)
    area, kind = rng.uniform(40, 200, 400), rng.choice(["flat", "house"], 400)
    rows = [
        f"{a:.0f},{k},{1000 * a + 5000 * n:.0f}"
        for a, k, n in zip(area, kind, rng.normal(size=400), strict=True)
    ]
    Path("houses.csv").write_text("\n".join(["area,kind,price", *rows]))
    Path("new.csv").write_text("area,kind\n80,flat\n120,house\n")


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything that a line of shell cannot make small: the toy experiment, repetitions, processes of a study."""
    tiny = {
        "training_samples": 400, "validation_samples": 200, "batch_size": 100, "epochs": 2, "units": 8,
        "ensemble_epochs": 1, "mean_epochs": 1,
    }  # fmt: skip
    for name, settings in presets.PRESETS.items():
        monkeypatch.setitem(presets.PRESETS, name, replace(settings, **tiny))
    monkeypatch.setattr(experiment, "toy", partial(experiment.toy, size=10))
    monkeypatch.setattr(outliers, "toy_outliers", partial(outliers.toy_outliers, size=10))
    monkeypatch.setattr(evaluate, "dual_emd", lambda cost, *_: cost.mean())
    monkeypatch.setattr(outcomes, "evaluate", partial(outcomes.evaluate, samples=50))
    monkeypatch.syspath_prepend(ROOT)
    for name in ("training", "transport"):
        module = import_module(f"benchmarks.{name}")
        real = module.medians
        monkeypatch.setattr(module, "medians", lambda calls, _, real=real: real(calls, 1))
    monkeypatch.setattr(study, "execute", _execute_here)
    monkeypatch.setattr(run_jobs, "check_address", lambda address: None)
    for name, chosen in studies.STUDIES.items():
        monkeypatch.setitem(studies.STUDIES, name, replace(chosen, rows=chosen.rows[:1]))


def _execute_here(jobs: Sequence[study.StudyRun], where: object) -> None:
    """One row of a table shows that a line of shell works; tests of studies show the others."""
    for job in jobs:
        if not job.is_done:
            resume(job.folder)


@pytest.mark.parametrize("path", WITH_SHELL, ids=lambda path: str(path.relative_to(ROOT).with_suffix("")))
def test_blocks_of_shell_run(path, place, small):
    for block in blocks(path, "(?:ba)?sh"):
        for line in block.replace("\\\n", "").splitlines():
            words = shlex.split(line, comments=True)
            if words:
                RUN[words[0]](words[1:])


PARSED = ("classify", "demo", "evaluate-doa", "export", "serve", "tables", "train-localizer", "trajectories")
"""Commands that take minutes, need data or have tests of all that they do: `test_documents.py` checks that their lines
can be called."""


def run_torchmcl(words: list[str]) -> None:
    name, *rest = words
    if name in PARSED:
        return
    if name in ("train", "study"):
        given = [word.removeprefix("data.folder=") for word in rest if word.startswith("data.folder=")]
        for folder in ",".join(given).split(","):
            if folder in ("ANSYN", "RESYN", "my_recordings"):
                _torchmcl("simulate", folder, *SCENES)
        sizes = ("scale=", "data.recordings=", "training.batch_size=", "training.epochs=")
        rest = [*(word for word in rest if not word.startswith(sizes)), "scale=smoke", "training.epochs=1"]
    if name == "train":
        rest += ONE_PROCESS
    if name in ("study", "toy"):
        rest += ["--seeds", "1"]
    if name == "fit":
        rest += ["--epochs", "2"]
    if name == "simulate":
        rest += SCENES
    if name == "inspect" and rest[0] == "my_recordings":
        _torchmcl("simulate", "my_recordings", *SCENES)
    _torchmcl(name, *rest)


def _torchmcl(*words: str) -> None:
    ended = CliRunner().invoke(app, words)
    assert ended.exit_code == 0, (words, ended.output, ended.exception)


def run_make(words: list[str]) -> None:
    """All that make would do, up to doing it: `make test` would call this test again."""
    subprocess.run(["make", "--dry-run", *words], cwd=ROOT, check=True, capture_output=True)


def run_python(words: list[str]) -> None:
    assert words[:2] == ["-m", "benchmarks"]
    assert import_module("benchmarks.__main__").main(words[2:]) in (0, 1)


def run_pip(words: list[str]) -> None:
    """Up to putting files into the environment that runs this test."""
    offline = ("--dry-run", "--no-index", "--no-deps", "--no-build-isolation")
    subprocess.run(
        [sys.executable, "-m", "pip", *words, *offline],
        cwd=ROOT,
        check=True,
        capture_output=True,
        timeout=120,
    )


def run_ray(words: list[str]) -> None:
    """Up to starting a cluster, which takes several machines."""
    from ray.scripts.scripts import cli

    cli.commands[words[0]].make_context(words[0], words[1:])


RUN: dict[str, Callable[[list[str]], None]] = {
    "torchmcl": run_torchmcl,
    "make": run_make,
    "python": run_python,
    "pip": run_pip,
    "ray": run_ray,
    "srun": lambda words: RUN[words[0]](words[1:]),
}
