"""One toy model in its run folder: trained unless it is there, evaluated unless it has been."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch
from rich.console import Console
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor, nn

import torchmcl
from torchmcl.errors import UserError
from torchmcl.runs import Record, RunFolder, atomic
from torchmcl.runs.folder import MODEL, SETTINGS
from torchmcl.runs.progress import Bar, bar
from torchmcl.runs.weights import load_weights
from torchmcl.sharing.cards import Card, write_card
from torchmcl.toy.data import Samples
from torchmcl.toy.evaluate import Evaluation, evaluate, predict, winner_entropy
from torchmcl.toy.floor import TIMES
from torchmcl.toy.models import ENSEMBLES, NAMES, Method, build
from torchmcl.toy.presets import Settings
from torchmcl.toy.train import Trained, path_points, path_steps, samples, steps, train
from torchmcl.training.restoring import check_form

__all__ = ["GRID_SIZE", "Metrics", "Outcome", "Run", "load_network", "run_model", "run_models", "work"]

GRID_SIZE = 100
"""The density is evaluated on so many cells a side."""

EVALUATION_UNITS = 400.0
"""What an evaluation is worth on the progress bar, in training steps of a single network."""

PATH = "path.safetensors"


@dataclass(frozen=True)
class Training(Record):
    """How long the training took, in all of its parts."""

    file: ClassVar[str] = "training.json"
    seconds: float


@dataclass(frozen=True)
class Metrics(Record):
    """How close the hypotheses are to p(y | t), on a grid of so many cells a side."""

    file: ClassVar[str] = "metrics.json"
    grid: int
    evaluation: Evaluation


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


def work(settings: Settings, methods: tuple[Method, ...]) -> float:
    """How much there is to do for one seed, in steps of a single network.

    Args:
        settings: Of the training.
        methods: What is trained.

    Returns:
        Units of the progress bar.
    """
    return sum(_training_units(method, settings) + EVALUATION_UNITS for method in methods)


def run_model(
    method: Method,
    settings: Settings,
    seed: int,
    data: tuple[Samples, Samples],
    folder: Path,
    bar: Bar,
    *,
    size: int = GRID_SIZE,
) -> Outcome:
    """Train and evaluate what the folder does not hold; killed and called again, it ends with equal weights.

    Args:
        method: The model.
        settings: Of its training.
        seed: Of its training.
        data: Training and validation set.
        folder: Its run folder.
        bar: Is advanced by the units that `work` counts.
        size: Cells a side of the grid.

    Returns:
        The model and its numbers.
    """
    with RunFolder.open(folder, _identity(method, settings, seed)) as run:
        units = _training_units(method, settings)
        with bar.stage(f"seed {seed}: training {NAMES[method]}", units) as advance:
            if run.state in ("new", "training"):
                _train(run, method, settings, seed, data, lambda part: advance(units * part))
            trained = _load(run, method, settings)
        with bar.stage(f"seed {seed}: evaluating {NAMES[method]}", EVALUATION_UNITS) as advance:
            metrics = _read_metrics(run)
            if metrics is None or metrics.grid != size:
                evaluation = evaluate(
                    predict(trained.network, TIMES),
                    TIMES,
                    winner_entropy(trained.network, data[1]),
                    size=size,
                    advance=lambda: advance(EVALUATION_UNITS / len(TIMES)),
                )
                metrics = Metrics(size, evaluation)
                run.write(metrics)
    return Outcome(trained, metrics.evaluation)


def run_models(
    methods: list[Method], settings: dict[str, Any], seed: int, folder: str, size: int = GRID_SIZE
) -> None:
    """`run_model` for several methods, as a job of its own process.

    Args:
        methods: The models, one after another.
        settings: Of their training, plain values.
        seed: Of their training.
        folder: That holds the run folders.
        size: Cells a side of the grid.
    """
    chosen = Settings(**settings)
    data = samples(chosen, seed)
    with bar(work(chosen, tuple(methods)), Console(quiet=True)) as progress:
        for method in methods:
            run_model(method, chosen, seed, data, Path(folder) / method, progress, size=size)


def _identity(method: Method, settings: Settings, seed: int) -> dict[str, Any]:
    """What must be equal for a trained model to be taken in place of a new one."""
    versions = {"torchmcl": torchmcl.__version__, "torch": torch.__version__}
    return {"method": method, "seed": seed, "settings": asdict(settings), **versions}


def _train(
    run: RunFolder,
    method: Method,
    settings: Settings,
    seed: int,
    data: tuple[Samples, Samples],
    advance: Callable[[float], None],
) -> None:
    trained = train(method, settings, seed, data, checkpoint=run.checkpoint, advance=advance)
    run.write(Training(trained.seconds))
    with atomic(run.path / PATH) as path:
        path.write_bytes(save({"steps": trained.path_steps, "points": trained.path}))
    write_card(run.path, _card(method, settings, seed))
    run.save_model(trained.network)


def _card(method: Method, settings: Settings, seed: int) -> Card:
    return Card(
        f"{NAMES[method]} of the toy experiment, preset {settings.name}, seed {seed}",
        "other",
        f"{settings.hypotheses} hypotheses in a square, for a time between 0 and 1.",
        "from torchmcl.export import write_onnx\nfrom torchmcl.toy.exporting import toy_graph\n\n"
        'write_onnx(toy_graph("FOLDER"), "toy.onnx")',
        "It knows the distribution of Section 3.4 of the paper, and nothing else.",
    )


def load_network(folder: Path, method: Method, settings: Settings) -> nn.Module:
    """The trained network of a run folder; what cannot be read is a `UserError`.

    Args:
        folder: The run folder.
        method: Of the model.
        settings: Of its training.

    Returns:
        The network in evaluation mode.
    """
    network = build(method, settings)
    load_weights(network, folder / MODEL, SETTINGS)
    return network.eval().requires_grad_(False)


def _load(run: RunFolder, method: Method, settings: Settings) -> Trained:
    training = run.read(Training)
    network = load_network(run.path, method, settings)
    path = _load_path(run.path / PATH, method, settings, network)
    seconds = 0.0 if training is None else training.seconds
    return Trained(network, seconds, path["steps"], path["points"])


def _load_path(file: Path, method: Method, settings: Settings, network: nn.Module) -> dict[str, Tensor]:
    chosen = torch.tensor(path_steps(steps(method, settings)))
    points = path_points(network)
    try:
        found = load_file(file)
        check_form(found, {"steps": chosen, "points": points.expand(len(chosen), *points.shape)}, "it")
        if not torch.equal(found["steps"], chosen):
            raise ValueError("steps are not those of its settings")
    except (OSError, SafetensorError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise UserError(f"{file}: is not the path of this model ({reason}); remove {file.parent}") from None
    return found


def _read_metrics(run: RunFolder) -> Metrics | None:
    metrics = run.read(Metrics)
    if metrics is not None:
        times = TIMES.new_tensor([t for t, _ in metrics.evaluation.emd])
        if times.shape != TIMES.shape or not times.allclose(TIMES):
            raise UserError(
                f"{run.path / Metrics.file}: evaluation.emd is not at the {len(TIMES)} times of the experiment"
            )
    return metrics


def _training_units(method: Method, settings: Settings) -> float:
    return float(steps(method, settings) * (settings.hypotheses if method in ENSEMBLES else 1))
