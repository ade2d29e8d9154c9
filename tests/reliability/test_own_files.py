"""A person's files: only what we wrote is replaced, and nothing is begun that cannot end well."""

import os
import random
from pathlib import Path

import numpy as np
import pytest
import soundfile

import commandline

OWN = (
    ".own.json", ".git.csv", ".config.backup.yaml", ".model.v1.safetensors", "last.ckpt", "below/last.ckpt", "x.csv",
    "x.html", "smoke/table1.md", "results.json", "table.md", "futures.csv", "x.onnx", "index.html",
    "metrics.json", "summary.json",
)  # fmt: skip
HERE = {
    "train": ("train", "scale=smoke", "data=simulated", "run=."),
    "localize": ("localize", "x.wav", "--out", "."),
    "localize --html": ("localize", "x.wav", "--html", "--out", "."),
    "toy": ("toy", "--out", "."),
    "fit": ("fit", "table.csv", "--target", "y", "--out", "."),
    "classify": ("classify", "--out", "."),
    "forecast": ("forecast", "tracks.txt", "--out", "."),
    "forecast --all-frames": ("forecast", "tracks.txt", "--all-frames", "--out", "."),
    "demo": ("demo", "--out", "."),
    "simulate": ("simulate", ".", "--recordings", "2", "--duration", "1"),
    "export": ("export", "forecaster", "x.onnx"),
    "study": ("study", "table1", "scale=smoke", "--out", "."),
    "train-localizer": ("train-localizer", ".", "--voices", "1", "--steps", "1"),
}
AT_ONCE = {
    "many seeds": ("toy", "--seeds", "1000000000"),
    "a fine grid": ("simulate", "s", "--grid", "1e-9"),
    "more than the disk holds": ("simulate", "s", "--recordings", "100000"),
    "voices": ("train-localizer", "s", "--voices", "10000000"),
    "devices": ("train", "scale=smoke", "trainer.devices=1000", "run=r"),
    "a seed of 65 bits": ("fit", "table.csv", "--target", "y", "--seed", str(2**65)),
    "n above K": ("train", "scale=smoke", "method.assign=top_n", "method.n=99", "run=r"),
    "negatives of a softmax": ("train", "scale=smoke", "method=rmcl_star", "method.scores=softmax", "run=r"),
    "weights of zero": (
        "train", "scale=smoke", "method.regression=0", "method.scoring=0", "method.transport=0", "run=r",
    ),
    "the root folder, toy": ("toy", "--out", "/"),
    "the root folder, demo": ("demo", "--out", "/"),
    "the root folder, forecast": ("forecast", "tracks.txt", "--out", "/"),
    "the root folder, classify": ("classify", "--out", "/"),
    "an undecodable name": ("localize", os.fsdecode(b"\xff.wav")),
    "an undecodable folder": ("simulate", os.fsdecode(b"\xff"), "--recordings", "2", "--duration", "1"),
    "machines without a cluster": ("train", "scale=smoke", "trainer.nodes=2", "run=r"),
    "data that are not there, study": ("study", "table1", "scale=paper", "data=ansyn", "data.folder=nowhere"),
    "more voices than the disk holds": ("train-localizer", "run", "--voices", "1000000"),
    "more hypotheses than the memory holds": ("fit", "table.csv", "--target", "y", "--hypotheses", "100000000"),
    "two of one name": ("localize", "x.wav", "below/x.wav", "--out", "out"),
}  # fmt: skip


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A folder with a person's files, and data for all commands."""
    folder = tmp_path / "home"
    for below in ("below", "smoke"):
        (folder / below).mkdir(parents=True)
    for name in OWN:
        (folder / name).write_text("mine")
    sound = np.random.default_rng(0).normal(0, 0.1, (8000, 4))
    for name in ("x.wav", "below/x.wav"):
        soundfile.write(folder / name, sound, 16000)
    draw = random.Random(0)
    rows = "".join(f"{draw.random():.3f},{draw.random():.3f}\n" for _ in range(60))
    (folder / "table.csv").write_text("x,y\n" + rows)
    tracks = "".join(
        f"{10 * step} {agent} {0.4 * step} {agent}\n" for step in range(24) for agent in range(3)
    )
    (folder / "tracks.txt").write_text(tracks)
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.filterwarnings("ignore:.*fork.*")
@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("command", HERE)
def test_nothing_of_a_person_is_replaced(command, home):
    commandline.ready()
    before = contents(home)
    ending = commandline.run(HERE[command], home)
    assert ending.complaint is None
    assert ending.code == 2
    assert contents(home) == before


@pytest.mark.filterwarnings("ignore:.*fork.*")
@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("what", AT_ONCE)
def test_what_cannot_end_well_is_refused_at_once(what, home):
    commandline.ready()
    before = contents(home)
    ending = commandline.run(AT_ONCE[what], home)
    assert ending.complaint is None
    assert ending.code == 2
    assert ending.computed < 1
    assert contents(home) == before
