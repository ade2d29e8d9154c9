"""The leave-one-out study on ETH/UCY: train where missing, measure, and put the numbers together."""

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from torchmcl.errors import UserError
from torchmcl.runs.files import read_json
from torchmcl.runs.folder import CONFIG, METRICS, RunFolder
from torchmcl.runs.records import Record, from_plain
from torchmcl.trajectories.evaluation import MEASURED, evaluate
from torchmcl.trajectories.folds import (
    COUNTS,
    HELD_OUT,
    SCENES,
    Fold,
    every_video,
    folds,
    read_windows,
    shared_rows,
)
from torchmcl.trajectories.forecaster import Forecaster
from torchmcl.trajectories.recipe import Recipe
from torchmcl.trajectories.recipes import recipe_named

__all__ = ["Scores", "Training", "choose", "judges", "run_bundle", "run_choice", "run_scene", "summarize"]

Progress = Callable[[float], None]


@dataclass(frozen=True)
class Scores(Record):
    """What was measured of a network.

    Args:
        seconds: Of training.
        tests: For each test scene and protocol the measures by name.
    """

    file: ClassVar[str] = METRICS
    seconds: float
    tests: dict[str, dict[str, dict[str, float]]]

    def __post_init__(self) -> None:
        if self.seconds < 0:
            raise ValueError("seconds must not be negative")

    def complete(self, names: set[str]) -> bool:
        """Whether nothing is missing that is measured now: a run of an earlier version is measured again.

        Args:
            names: Of the test scenes.
        """
        return set(self.tests) == names and all(
            set(test) == set(COUNTS) and all(set(values) >= MEASURED for values in test.values())
            for test in self.tests.values()
        )


@dataclass(frozen=True)
class Training:
    """One network of the study: what it learns from, and by what it is measured.

    Args:
        train: Files of the windows to learn from.
        held_out: Files for temperature and widths.
        test: Files by which it is measured, under a name each group.
        recipe: How it learns.
        seed: Of its random numbers.
        run: The folder of the result.
    """

    train: tuple[Path, ...]
    held_out: tuple[Path, ...]
    test: tuple[tuple[str, tuple[Path, ...]], ...]
    recipe: Recipe
    seed: int
    run: Path

    @property
    def settings(self) -> dict[str, Any]:
        """What decides the result: a run with other settings is another run."""
        return {
            "recipe": asdict(self.recipe),
            "seed": self.seed,
            "train": [path.name for path in self.train],
            "held_out": [path.name for path in self.held_out],
        }


def run_scene(fold: Fold, recipe: Recipe, seed: int, run: Path, progress: Progress | bool = False) -> Scores:
    """Train a fold and measure it on its test scene; a finished run is read.

    Args:
        fold: The scene that is left out.
        recipe: How the network learns.
        seed: Of its random numbers.
        run: The folder of the run.
        progress: As for `Forecaster.fit`.

    Returns:
        The measures of the run.
    """
    training = Training(
        tuple(fold.files("train")),
        tuple(fold.files("val")),
        ((fold.scene, tuple(fold.files("test"))),),
        recipe,
        seed,
        run,
    )
    record = execute(training, progress)
    for protocol, counts in COUNTS.items():
        found = round(record.tests[fold.scene][protocol]["pedestrians"])
        if found != counts[fold.scene]:
            raise UserError(
                f"{fold.folder / 'test'}: has {found} pedestrians by the protocol {protocol!r}, the benchmark has "
                f"{counts[fold.scene]}"
            )
    return record


def execute(training: Training, progress: Progress | bool = False) -> Scores:
    """Train and measure; a finished run with the same settings is read, an interrupted one continues.

    Args:
        training: What to do.
        progress: As for `Forecaster.fit`.

    Returns:
        The measures of the run, as in its `metrics.json`.
    """
    with RunFolder.open(training.run, training.settings) as folder:
        scores = folder.read(Scores)
        if scores is None or not scores.complete({name for name, _ in training.test}):
            forecaster, seconds = _trained(training, folder, progress)
            tests = {name: evaluate(forecaster, read_windows(files)) for name, files in training.test}
            scores = Scores(seconds, tests)
            folder.write(scores)
        return scores


def _trained(training: Training, folder: RunFolder, progress: Progress | bool) -> tuple[Forecaster, float]:
    """The forecaster and the seconds that it took; one that was saved already is read."""
    if folder.state in ("trained", "evaluated"):
        return Forecaster.from_pretrained(training.run), _seconds(training.run / CONFIG)
    began = time.perf_counter()
    forecaster = Forecaster().fit_windows(
        read_windows(training.train),
        read_windows(training.held_out),
        recipe=training.recipe,
        seed=training.seed,
        checkpoint=folder.checkpoint,
        progress=progress,
    )
    seconds = time.perf_counter() - began
    forecaster.save(training.run, seconds=seconds)
    folder.checkpoint.unlink(missing_ok=True)
    return forecaster, seconds


def _seconds(path: Path) -> float:
    """How long the training of a saved forecaster took."""
    try:
        return from_plain(Scores, {"seconds": read_json(path).get("seconds"), "tests": {}}).seconds
    except UserError as error:
        raise UserError(f"{path}: {error}") from None


def summarize(records: dict[str, list[Scores]]) -> dict[str, Any]:
    """The content of `results.json`.

    Args:
        records: The runs of each scene, one for each seed from 0 on.

    Returns:
        For each scene and protocol the mean over seeds, each seed, and the mean over scenes.
    """
    scenes: dict[str, Any] = {}
    for scene, runs in records.items():
        tests = [run.tests[scene] for run in runs]
        scenes[scene] = {protocol: _mean([test[protocol] for test in tests]) for protocol in COUNTS}
        scenes[scene]["seeds"] = [
            {"seed": seed, "seconds": run.seconds, **test}
            for seed, (run, test) in enumerate(zip(runs, tests, strict=True))
        ]
    mean = {protocol: _mean([scenes[scene][protocol] for scene in scenes]) for protocol in COUNTS}
    return {"scenes": scenes, "mean": mean}


def _mean(rows: Sequence[dict[str, float]]) -> dict[str, float]:
    return {key: statistics.fmean(row[key] for row in rows) for key in rows[0]}


def run_bundle(data: Path, recipe: Recipe, seed: int, run: Path, progress: Progress | bool = False) -> Path:
    """Train the forecaster of the training parts of all videos, with temperature and widths by their val parts.

    Histories are shortened in 30 % of the windows, because it is meant for tracks of any length.

    Args:
        data: With one folder for each scene.
        recipe: How the network learns.
        seed: Of its random numbers.
        run: The folder of the forecaster.
        progress: As for `Forecaster.fit`.

    Returns:
        The folder.
    """
    held_out = tuple(every_video(data, "val"))
    recipe = replace(recipe, augmentation=replace(recipe.augmentation, shorten=0.3))
    training = Training(tuple(every_video(data, "train")), held_out, (("val", held_out),), recipe, seed, run)
    execute(training, progress)
    return run


def judges(data: Path, fold: str) -> list[tuple[str, list[Path], list[Path]]]:
    """What the settings of a fold are chosen on: nothing of its own scene.

    Args:
        data: With one folder for each scene.
        fold: The scene that the fold leaves out.

    Returns:
        For each judge the scene that is held out, the files to train on, and the files to measure on.

    Raises:
        UserError: A row of the fold's test files is among them.
    """
    [own] = folds(data, [fold])
    found = []
    for pair in HELD_OUT:
        if fold in pair:
            other = pair[1 - pair.index(fold)]
            train = own.files("train", without=pair)
            measured = own.files("train", only=[other]) + own.files("val", only=[other])
            common = shared_rows([*train, *own.files("val", without=pair), *measured], own.files("test"))
            if common:
                raise UserError(
                    f"{own.folder}: {common} rows of the test files are in the train and val files"
                )
            found.append((other, train, measured))
    return found


def run_choice(
    data: Path,
    pair: tuple[str, str],
    name: str,
    steps: int | None,
    run: Path,
    progress: Progress | bool = False,
) -> dict[str, float]:
    """Train one recipe without two scenes, and judge it on each of them.

    Args:
        data: With one folder for each scene.
        pair: The scenes.
        name: Of the recipe.
        steps: Of the optimizer.
        run: The folder of the run.
        progress: As for `Forecaster.fit`.

    Returns:
        minADE + minFDE / 2 on the videos of each scene of the pair, meters; the score of a scene counts for the fold
        of the other.
    """
    [fold] = folds(data, [pair[0]])
    [_, train, _] = next(judge for judge in judges(data, pair[0]) if judge[0] == pair[1])
    tests = tuple(
        (other, tuple(measured))
        for own, other in (pair, pair[::-1])
        for scene, _, measured in judges(data, own)
        if scene == other
    )
    held_out = tuple(fold.files("val", without=pair))
    training = Training(tuple(train), held_out, tests, recipe_named(name, steps), 0, run)
    tested = execute(training, progress).tests
    scores = {scene: tested[scene]["all"]["min_ade"] + tested[scene]["all"]["min_fde"] / 2 for scene in pair}
    if min(scores.values()) <= 0:
        raise UserError(
            f"{run / METRICS}: min_ade + min_fde / 2 must be positive, for recipes are compared by it"
        )
    return scores


def choose(scores: dict[tuple[str, str], dict[str, dict[str, float]]]) -> dict[str, dict[str, float]]:
    """Compare recipes, or numbers of steps, for each fold.

    Args:
        scores: For each pair of scenes and each candidate the score on both.

    Returns:
        For each fold and candidate the mean over its judges of the score relative to the first one; lower is better.
        The fold `mean` is the mean of the others.
    """
    table: dict[str, dict[str, float]] = {}
    for fold in SCENES:
        relative = []
        for pair, rows in scores.items():
            if fold in pair:
                judge = pair[1 - pair.index(fold)]
                first = next(iter(rows.values()))[judge]
                relative.append({name: row[judge] / first for name, row in rows.items()})
        table[fold] = _mean(relative)
    return {**table, "mean": _mean(list(table.values()))}
