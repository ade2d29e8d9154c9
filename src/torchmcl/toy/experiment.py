"""The experiment of Section 3.4: models trained or found, evaluated, and their numbers."""

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

import torchmcl
from torchmcl.runs.files import write_json
from torchmcl.runs.progress import Bar
from torchmcl.toy import store
from torchmcl.toy.evaluate import Evaluation, evaluate, predict, winner_entropy
from torchmcl.toy.floor import TIMES, floor
from torchmcl.toy.models import ENSEMBLES, METHODS, NAMES, Method
from torchmcl.toy.presets import Settings
from torchmcl.toy.train import Trained, samples, steps, train

__all__ = ["GRID_SIZE", "Outcome", "Run", "identity", "results", "run", "run_model", "work"]

GRID_SIZE = 100
"""The density is evaluated on so many cells a side."""

EVALUATION_UNITS = 400.0
"""What an evaluation is worth on the progress bar, in training steps of a single network."""


@dataclass(frozen=True)
class Outcome:
    """A trained model and its numbers."""

    trained: Trained
    evaluation: Evaluation


@dataclass(frozen=True)
class Run:
    """All models of one seed."""

    settings: Settings
    seed: int
    outcomes: dict[Method, Outcome]


def work(settings: Settings, methods: tuple[Method, ...] = METHODS) -> float:
    """How much there is to do for one seed, in steps of a single network."""
    return sum(_training_units(method, settings) + EVALUATION_UNITS for method in methods)


def run(
    settings: Settings,
    seed: int,
    folder: Path,
    bar: Bar,
    *,
    methods: tuple[Method, ...] = METHODS,
    size: int = GRID_SIZE,
) -> Run:
    """Train and evaluate what `folder` does not hold yet; each model is kept as soon as it is ready."""
    outcomes = {
        method: run_model(method, settings, seed, folder / method, bar, size=size) for method in methods
    }
    return Run(settings, seed, outcomes)


def run_model(
    method: Method, settings: Settings, seed: int, folder: Path, bar: Bar, *, size: int = GRID_SIZE
) -> Outcome:
    """One model, trained unless it is there, evaluated on a grid of `size x size` unless it has been."""
    config = identity(method, settings, seed)
    units = _training_units(method, settings)
    with bar.stage(f"seed {seed}: training {NAMES[method]}", units) as advance:
        trained = store.load(folder, method, settings, config)
        if trained is None:
            trained = train(
                method, settings, seed, samples(settings, seed), advance=lambda part: advance(units * part)
            )
            store.save(folder, trained, config)
    with bar.stage(f"seed {seed}: evaluating {NAMES[method]}", EVALUATION_UNITS) as advance:
        path = folder / "evaluation.json"
        about = {"model": _fingerprint(folder / "model.safetensors"), "grid": size}
        evaluation = _read_evaluation(path, about)
        if evaluation is None:
            _, validation = samples(settings, seed)
            evaluation = evaluate(
                predict(trained.network, TIMES),
                TIMES,
                winner_entropy(trained.network, validation),
                size=size,
                advance=lambda: advance(EVALUATION_UNITS / len(TIMES)),
            )
            write_json(path, {**about, **asdict(evaluation)})
    return Outcome(trained, evaluation)


def identity(method: Method, settings: Settings, seed: int) -> dict[str, Any]:
    """What must be equal for a trained model to be taken in place of a new one."""
    versions = {"torchmcl": torchmcl.__version__, "torch": torch.__version__}
    return {"method": method, "seed": seed, "settings": asdict(settings), **versions}


def results(runs: list[Run]) -> dict[str, Any]:
    """What `results.json` holds: numbers of one seed, or their means over several, with each seed under `runs`."""
    numbers = {run.seed: _numbers(run) for run in runs}
    first = runs[0]
    found: dict[str, Any] = {
        "preset": first.settings.name,
        "seed": first.seed,
        "torchmcl": torchmcl.__version__,
        "torch": torch.__version__,
        "floor_mean": floor().mean().item(),
        "models": _mean(list(numbers.values())),
    }
    if len(runs) > 1:
        found["seeds"] = [run.seed for run in runs]
        found["runs"] = [{"seed": seed, "models": models} for seed, models in numbers.items()]
    return found


def _numbers(run: Run) -> dict[str, Any]:
    return {
        method: {**asdict(outcome.evaluation), "train_seconds": outcome.trained.seconds}
        for method, outcome in run.outcomes.items()
    }


def _mean(values: list[Any]) -> Any:
    """The mean of equal structures of numbers, number by number."""
    first = values[0]
    if isinstance(first, dict):
        return {key: _mean([value[key] for value in values]) for key in first}
    if isinstance(first, list | tuple):
        return [_mean(list(parts)) for parts in zip(*values, strict=True)]
    return sum(values) / len(values)


def _training_units(method: Method, settings: Settings) -> float:
    return float(steps(method, settings) * (settings.hypotheses if method in ENSEMBLES else 1))


def _fingerprint(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _read_evaluation(path: Path, about: dict[str, Any]) -> Evaluation | None:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        if any(found.pop(key) != value for key, value in about.items()):
            return None
        return Evaluation(**{**found, "emd": [(t, value) for t, value in found["emd"]]})
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
