"""Valid files of every kind that a command reads: a small folder for each, and the commands that read them."""

import gzip
import json
import random
import shutil
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
import sofar
import soundfile

import commandline
import mnist
import torchmcl
from torchmcl.audio.foa import steering
from torchmcl.audio.training import LocalizerTraining, train_localizer


@dataclass(frozen=True)
class Reader:
    """A command, and files that it reads.

    Args:
        world: The folder of valid files.
        words: The command line, run in a copy of that folder.
        files: Those that are damaged, as patterns.
        waits: Whether other processes do the work, so that the command itself computes nothing.
        unread: Names of files that it looks for and does not read.
    """

    world: str
    words: tuple[str, ...]
    files: tuple[str, ...]
    waits: bool = False
    unread: tuple[str, ...] = ()

    def paths(self, worlds: Path) -> list[Path]:
        """The files, relative to the folder."""
        folder = worlds / self.world
        found = [path for pattern in self.files for path in sorted(folder.glob(pattern)) if path.is_file()]
        assert found, f"{self}: has no files"
        return [path.relative_to(folder) for path in found]


FIT = (
    "fit", "table.csv", "--target", "y", "--members", "1", "--hypotheses", "2", "--epochs", "1", "--out", "run",
)  # fmt: skip
FIT_PARQUET = ("fit", "table.parquet", *FIT[2:-1], "other")
FIT_LONG = (*FIT[:-3], "500", *FIT[-2:])
TRAIN = (
    "train", "scale=smoke", "data.folder=scenes", "trainer.threads=1", "trainer.accelerator=cpu", "run=run",
)  # fmt: skip
SIMULATE = (
    "simulate", "scenes", "--recordings", "5", "--duration", "2", "--sample-rate", "16000", "--workers", "1",
)  # fmt: skip
CLASSIFY = ("classify", "--task", "few", "--seeds", "1", "--images", "50", "--out", "out")
IMAGES = ("classify", "images", "--task", "few", "--seeds", "1", "--images", "20", "--out", "other")
TRAJECTORIES = ("trajectories", "tracks", "--scene", "none", "--seeds", "1", "--steps", "2", "--out", "out")
TOY = ("toy", "--no-ensembles", "--out", "out")
TABLES = ("tables", "uci", "--splits", "1", "--peers", "torchmcl", "--workers", "1", "--out", "out")
ROOMS = LocalizerTraining(voices=1, steps=1, scenes=1)
LOCALIZER = ("train-localizer", "run", "--voices", "1", "--steps", "1", "--scenes", "1")
OTHER_LOCALIZER = ("train-localizer", "other", *LOCALIZER[2:])
RMCL = "out/models/paper/seed0/rmcl"
WEIGHTS = "run/model.safetensors"
MODEL = ("run/*.json", WEIGHTS)
LIGHT: tuple[Reader, ...] = (
    Reader(
        "fit", ("predict", "run", "table.csv", "--out", "out.csv"), ("run/config.json", WEIGHTS, "table.csv")
    ),
    Reader("fit", ("predict", "run", "table.parquet", "--out", "out.csv"), ("table.parquet",)),
    Reader("fit", FIT, (*MODEL, "table.csv"), unread=("metrics.json",)),
    Reader("fit", FIT_PARQUET, ("table.parquet",)),
    Reader("unmeasured", FIT, ("run/README.md",)),
    Reader("localizer", ("localize", "sound.wav", "--model", "run", "--out", "out"), ("run/*", "sound.wav")),
    Reader(
        "forecaster", ("forecast", "tracks.txt", "--model", "run", "--out", "out"), ("run/*", "tracks.txt")
    ),
    Reader("forecaster", ("forecast", "tracks.ndjson", "--out", "out"), ("tracks.ndjson",)),
    Reader(
        "forecaster",
        ("forecast", "tracks.csv", "--homography", "h.txt", "--out", "out"),
        ("tracks.csv", "h.txt"),
    ),
    Reader("directions", ("evaluate-doa", "said.csv", "true.csv"), ("*.csv",)),
    Reader("directions", ("evaluate-doa", "said", "true", "--classes"), ("said/*", "true/*")),
)
"""Which are ready at once, but for a small fit, and read all that they read in less than a second."""
HEAVY: tuple[Reader, ...] = (
    Reader("fit", ("export", "run", "model.onnx"), MODEL, unread=("metrics.json",)),
    Reader("localizer", ("export", "run", "model.onnx"), MODEL, unread=("calibration.json",)),
    Reader("localizer", (*OTHER_LOCALIZER, "--start", "run"), MODEL, unread=("calibration.json",)),
    Reader("rooms", (*OTHER_LOCALIZER, "--responses", "room.sofa"), ("room.sofa",)),
    Reader("rooms", (*OTHER_LOCALIZER, "--responses", "room"), ("room/*",)),
    Reader("rooms", (*OTHER_LOCALIZER, "--sounds", "sounds"), ("sounds/*/*",)),
    Reader("forecaster", ("export", "run", "model.onnx"), MODEL),
    Reader("tables", TABLES, ("uci/*/data/*.txt",), waits=True),
    Reader("images", IMAGES, ("images/*",)),
    Reader(
        "train",
        ("evaluate", "run"),
        ("run/*.json", WEIGHTS, "scenes/*.json", "scenes/*/test_*.csv"),
        unread=("simulation.json",),
    ),
    Reader("old", ("evaluate", "run"), ("run/config.yaml", "run/config.json")),
    Reader(
        "train",
        TRAIN,
        (*MODEL, "scenes/*.json", "scenes/*/train_0*.csv"),
        unread=("config.json", "training.json", "simulation.json"),
    ),
    Reader(
        "train", ("localize", "sound.wav", "--model", "run", "--out", "out"), ("run/config.json", WEIGHTS)
    ),
    Reader("train", ("export", "run", "model.onnx"), MODEL, unread=("metrics.json", "training.json")),
    Reader("begun train", TRAIN, ("run/last.ckpt", "run/settings.json")),
    Reader("begun fit", FIT_LONG, ("run/last.ckpt", "run/settings.json")),
    Reader("begun toy", TOY, ("out/**/last.ckpt", "out/**/settings.json")),
    Reader("begun trajectories", TRAJECTORIES, ("out/**/last.ckpt", "out/**/settings.json")),
    Reader("train", SIMULATE, ("scenes/*.json", "scenes/*/train_0*.csv")),
    Reader(
        "train", ("inspect", "scenes", "--out", "out"), ("scenes/*/train_0*.csv", "scenes/*/train_0*.wav")
    ),
    Reader("trained", LOCALIZER, MODEL, unread=("calibration.json", "config.json")),
    Reader("unjudged", LOCALIZER, (*MODEL, "run/README.md")),
    Reader("begun localizer", LOCALIZER, ("run/settings.json", "run/voices/*")),
    Reader("classify", CLASSIFY, ("out/**/*.json", "out/**/*.safetensors"), unread=("results.json",)),
    Reader("trajectories", TRAJECTORIES, ("out/**/*.json", "out/**/*.safetensors", "tracks/eth/*/*.txt")),
    Reader("toy", TOY, ("out/**/*.json", "out/**/*.safetensors"), unread=("results.json",)),
    Reader("toy", ("export", RMCL, "model.onnx"), (f"{RMCL}/*",), unread=("metrics.json", "training.json")),
)
"""Which take longer, or need a training of each kind first."""


def make_worlds(worlds: Path, heavy: bool = True) -> tuple[Reader, ...]:
    """Make the valid files that readers need.

    Args:
        worlds: An empty folder.
        heavy: Whether those that need trainings as well.

    Returns:
        The readers.
    """
    models = Path(torchmcl.__file__).parent / "models"
    for name, model in (("localizer", "directions"), ("forecaster", "futures")):
        shutil.copytree(models / model, worlds / name / "run", ignore=shutil.ignore_patterns("*.md"))
    sound = np.random.default_rng(0).normal(0, 0.1, (8000, 4))
    soundfile.write(worlds / "localizer" / "sound.wav", sound, 16000)
    _write_tracks(worlds / "forecaster")
    _write_directions(worlds / "directions")
    _write_rooms(worlds / "rooms")
    _write_sets(worlds / "tables")
    (worlds / "images" / "images").mkdir(parents=True)
    mnist.write_set(worlds / "images" / "images", size=4)
    for path in (worlds / "images" / "images").glob("t10k-*"):
        path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
    (worlds / "fit").mkdir()
    draw = random.Random(0)
    table = [f"{draw.gauss(0, 1):.3f},{draw.choice('abc')},{draw.gauss(0, 1):.3f}" for _ in range(100)]
    (worlds / "fit" / "table.csv").write_text("\n".join(["x,kind,y", *table]) + "\n")
    pd.read_csv(worlds / "fit" / "table.csv").to_parquet(worlds / "fit" / "table.parquet")
    _done(FIT, worlds / "fit")
    shutil.copytree(worlds / "fit", worlds / "unmeasured")
    for name in ("metrics.json", "report.html"):
        (worlds / "unmeasured" / "run" / name).unlink()
    if not heavy:
        return LIGHT
    _make_heavy(worlds)
    return LIGHT + HEAVY


def _make_heavy(worlds: Path) -> None:
    (worlds / "train").mkdir()
    shutil.copy(worlds / "localizer" / "sound.wav", worlds / "train")
    _done(SIMULATE, worlds / "train")
    shutil.copytree(worlds / "train", worlds / "begun train")
    _done(TRAIN, worlds / "train")
    shutil.copytree(worlds / "train", worlds / "old")
    settings = worlds / "old" / "run" / "settings.json"
    settings.rename(settings.with_name("config.yaml"))  # JSON is YAML
    for name in ("eth", "hotel", "univ", "zara1", "zara2"):
        for part in ("train", "val", "test"):
            folder = worlds / "trajectories" / "tracks" / name / part
            folder.mkdir(parents=True)
            (folder / f"{name}_{part}.txt").write_text(_tracks("\t"))
    shutil.copytree(worlds / "trajectories", worlds / "begun trajectories")
    for name in ("classify", "toy", "begun toy", "begun fit"):
        (worlds / name).mkdir()
    shutil.copy(worlds / "fit" / "table.csv", worlds / "begun fit")
    finished = {"trajectories": TRAJECTORIES, "classify": CLASSIFY, "toy": TOY}
    for name, words in finished.items():
        _done(words, worlds / name)
    begun = {"train": TRAIN, "fit": FIT_LONG, "toy": TOY, "trajectories": TRAJECTORIES}
    for name, words in begun.items():
        _begun(words, worlds / f"begun {name}", "last.ckpt")
    _begun(LOCALIZER, worlds / "begun localizer", "voices.json")
    _train_localizer(worlds / "trained")
    shutil.copytree(worlds / "trained", worlds / "unjudged")
    (worlds / "unjudged" / "run" / "metrics.json").unlink()


def _train_localizer(folder: Path) -> None:
    """A network that is smaller than the command's, in a run of the command."""
    small = replace(ROOMS, voices=1, batch_size=2, hypotheses=3, filters=4, units=4)
    train_localizer(small, folder / "run")
    (folder / "run" / "settings.json").write_text(json.dumps(asdict(ROOMS)))


def _write_directions(folder: Path) -> None:
    rows = "".join(f"{frame},0,0,{frame},10\n" for frame in range(9))
    old = "".join(f"{frame},1,{frame},10\n" for frame in range(30))
    described = "sound_event_recording,start_time,end_time,ele,azi,dist\na.wav,0.5,1.5,10,20,1\n"
    for name in ("said", "true"):
        (folder / name).mkdir(parents=True)
        (folder / f"{name}.csv").write_text(rows)
        for number, text in enumerate((rows, old, described)):
            (folder / name / f"{number}.csv").write_text(text)


def _write_rooms(folder: Path) -> None:
    """Measured responses as a SOFA file and as a folder, and sounds of two classes."""
    places = np.array([[90.0, 0.0, 2.0], [0.0, 30.0, 1.0]])
    impulses = np.zeros((2, 4, 64))
    impulses[:, :, 5] = steering(np.radians(places[:, :2]), "acn-sn3d")
    sofa = sofar.Sofa("GeneralFIR", mandatory=True)
    sofa.Data_IR, sofa.Data_SamplingRate, sofa.Data_Delay = impulses, 48000.0, np.zeros((1, 4))
    sofa.SourcePosition, sofa.SourcePosition_Type = places, "spherical"
    sofa.SourcePosition_Units = "degree, degree, metre"
    sofa.ListenerPosition, sofa.ReceiverPosition = np.zeros((1, 3)), np.zeros((4, 3))
    (folder / "room").mkdir(parents=True)
    sofar.write_sofa(str(folder / "room.sofa"), sofa)
    lines = ["file,azimuth,elevation,distance"]
    for number, (azimuth, elevation, distance) in enumerate(places):
        soundfile.write(folder / "room" / f"{number}.wav", impulses[number].T, 48000, "FLOAT")
        lines.append(f"{number}.wav,{azimuth},{elevation},{distance}")
    (folder / "room" / "directions.csv").write_text("\n".join(lines) + "\n")
    sound = np.random.default_rng(0).normal(0, 0.1, 8000)
    for label in ("bell", "voice"):
        (folder / "sounds" / label).mkdir(parents=True)
        for number in range(5):
            soundfile.write(folder / "sounds" / label / f"{number}.wav", sound, 16000)


def _write_sets(folder: Path) -> None:
    """A table with one split, in the layout of the UCI collections."""
    data = folder / "uci" / "small" / "data"
    data.mkdir(parents=True)
    np.savetxt(data / "data.txt", np.random.default_rng(0).normal(size=(60, 3)), fmt="%.4f")
    indices = {"features": [0, 1], "target": [2], "train_0": range(50), "test_0": range(50, 60)}
    for name, values in indices.items():
        (data / f"index_{name}.txt").write_text("".join(f"{value}\n" for value in values))


def _begun(words: tuple[str, ...], folder: Path, file: str) -> None:
    """A run that was killed when it had written a file."""
    folder.mkdir(exist_ok=True)
    commandline.run(words, folder, seconds=300.0, work=300.0, until=lambda: any(folder.rglob(file)))
    assert list(folder.rglob(file)), f"{words[0]}: has written no {file}"


def _done(words: tuple[str, ...], folder: Path) -> None:
    ending = commandline.run(words, folder, seconds=600.0, work=300.0)
    assert ending.code == 0, f"{words[0]}: {ending.printed}"


def _tracks(between: str) -> str:
    rows = [(10 * step, agent, 0.4 * step, float(agent)) for step in range(24) for agent in range(3)]
    return "".join(between.join(map(str, row)) + "\n" for row in rows)


def _write_tracks(folder: Path) -> None:
    (folder / "tracks.txt").write_text(_tracks(" "))
    (folder / "tracks.csv").write_text("frame,id,x,y\n" + _tracks(","))
    (folder / "h.txt").write_text("1 0 0\n0 1 0\n0 0 1\n")
    lines = [{"scene": {"id": 0, "p": 1, "s": 0, "e": 200, "fps": 2.5}}]
    for row in _tracks(" ").splitlines():
        frame, agent, x, y = row.split()
        lines.append({"track": {"f": int(frame), "p": int(agent), "x": float(x), "y": float(y)}})
    (folder / "tracks.ndjson").write_text("".join(json.dumps(line) + "\n" for line in lines))
