"""The study of five methods: trains what is missing, and puts the results together."""

import math
import statistics
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from torchmcl.classification import (
    class_entropy,
    class_error,
    class_log_probs,
    class_owners,
    class_winners,
    entropy_histogram,
    oracle_class_error,
)
from torchmcl.errors import UserError
from torchmcl.hypotheses import Hypotheses
from torchmcl.images.data import ImageSet, Split, Task, split
from torchmcl.images.methods import BETA, METHODS, loss_of
from torchmcl.images.networks import Scaling, build_networks
from torchmcl.runs.files import read_json, write_json
from torchmcl.runs.records import from_plain
from torchmcl.training import Hardware, Optimization, TensorBatches, fit

__all__ = ["MEASURES", "Settings", "check_seeds", "run", "settings_of", "summarize", "work"]

BINS = 20
PIXEL_NOISE = 0.1
"""Standard deviation of the noise on test images, whose values are in [0, 1]."""
CHUNK, USUAL = 2000, 28 * 28
"""Images that are classified at once, of that many pixels; fewer of larger ones."""
MOST_SEEDS = 1000

MEASURES = {
    "top1": "top-1 %",
    "oracle": "oracle %",
    "top5": "top-5 %",
    "nll": "NLL",
    "noise": "noise %",
    "owned": "entropy, owned",
    "other": "entropy, other",
}
"""Headings of the measures: `noise` is the top-1 error with pixel noise, NLL and entropies are in nats."""


@dataclass(frozen=True)
class Settings:
    """What a run depends on, besides the method and the seed.

    Args:
        data: The name of the data set.
        checksum: Of its images and labels.
        task: `few`, `ambiguous` or `noisy`.
        images: How many there are to train from.
        epochs: Of training; the last weights are kept.
        batch_size: Of training.
        learning_rate: Of Adam.
        hypotheses: K.
        beta: The weight of the divergence in CMCL.
        scaling: Of the pixels.
        hidden: Units of the hidden layer.
    """

    data: str
    checksum: int
    task: Task
    images: int
    epochs: int
    batch_size: int = 50
    learning_rate: float = 3e-3
    hypotheses: int = 5
    beta: float = BETA
    scaling: Scaling = "image"
    hidden: int = 64


def settings_of(
    data: ImageSet, task: Task, images: int | None = None, scaling: Scaling = "image"
) -> Settings:
    """The settings of a task: few epochs where labels are wrong, for they would be learned by heart."""
    usual = 2000 if not data.bundled else 300 if task == "few" else 500
    chosen = images or min(usual, data.available)
    epochs = 15 if not data.bundled else 20 if task == "noisy" else 60
    checksum = 0
    for tensor in (*data.train, *data.test):
        checksum = zlib.crc32(tensor.numpy().tobytes(), checksum)
    return Settings(data.name, checksum, task, chosen, epochs, scaling=scaling)


def check_seeds(seeds: int) -> None:
    """Refuse a number of seeds that is no study."""
    if not 1 <= seeds <= MOST_SEEDS:
        raise UserError(f"--seeds must be between 1 and {MOST_SEEDS}, got {seeds}")


def work(settings: Settings) -> int:
    """Training steps of a run."""
    return settings.epochs * math.ceil(settings.images / settings.batch_size)


def run(
    folder: Path,
    data: ImageSet,
    settings: Settings,
    method: str,
    seed: int,
    advance: Callable[[float], None],
    *,
    validation: bool = False,
) -> dict[str, Any]:
    """The record of one method and seed: read where it exists, otherwise trained, evaluated and written.

    Args:
        folder: Of the study.
        data: Where images come from.
        settings: Of the task.
        method: A key of `METHODS`.
        seed: Draws the images and the initial weights.
        advance: Called with the part of the training that was done since its last call.
        validation: Whether to measure on held-out training images in place of the test images.

    Returns:
        The measures, the winners by class and the entropy histogram.
    """
    path = folder / "runs" / settings.task / method / f"seed{seed}.json"
    wanted = {**asdict(settings), "method": method, "seed": seed, "validation": validation}
    if path.exists():
        return _check(read_json(path), wanted, data.classes, path)
    parts = split(data, settings.task, settings.images, seed, validation=validation)
    network = _train(parts, data.classes, settings, method, seed, advance)
    record = {"settings": wanted, **evaluate(network, parts, seed)}
    write_json(path, record)
    return record


def _check(record: Any, wanted: dict[str, Any], classes: int, path: Path) -> dict[str, Any]:
    if not isinstance(record, dict) or set(record) != {"settings", "measures", "winners", "histogram"}:
        raise UserError(f"{path}: is not a record of this study; remove it or choose another --out")
    found = record["settings"]
    for key, value in wanted.items():
        if not isinstance(found, dict) or found.get(key) != value:
            was = found.get(key) if isinstance(found, dict) else None
            raise UserError(f"{path}: was made with {key} {was}, not {value}; choose another --out")
    try:
        outcome = from_plain(_Outcome, {key: record[key] for key in ("measures", "winners", "histogram")})
    except UserError as error:
        raise UserError(f"{path}: {error}") from None
    widths = {*map(len, outcome.winners)}, {*map(len, outcome.histogram)}
    counts = (each for table in (outcome.winners, outcome.histogram) for row in table for each in row)
    fits = outcome.measures.keys() >= MEASURES.keys() and widths == ({wanted["hypotheses"]}, {BINS})
    if not fits or len(outcome.winners) != classes or not all(0 <= each < 2**53 for each in counts):
        raise UserError(f"{path}: is not a record of this study; remove it or choose another --out")
    return record


@dataclass(frozen=True)
class _Outcome:
    """What the record of a run holds beside its settings."""

    measures: dict[str, float]
    winners: list[list[float]]
    histogram: tuple[list[float], list[float]]


def _train(
    parts: Split, classes: int, settings: Settings, method: str, seed: int, advance: Callable[[float], None]
) -> torch.nn.Module:
    def build() -> torch.nn.Module:
        return build_networks(
            parts.train_images,
            hypotheses=settings.hypotheses,
            classes=classes,
            link=METHODS[method].link,
            scaling=settings.scaling,
            hidden=settings.hidden,
        )

    active = torch.ones_like(parts.train_labels, dtype=torch.bool)
    batches = TensorBatches(
        parts.train_images, parts.train_labels, active, batch_size=settings.batch_size, shuffle_seed=seed
    )
    optimization = Optimization(epochs=settings.epochs, learning_rate=settings.learning_rate, keep="last")
    return fit(
        build,
        loss_of(METHODS[method]),
        batches,
        seed=seed,
        optimization=optimization,
        hardware=Hardware(accelerator="cpu", threads=1),
        progress=advance,
    ).network


def evaluate(network: torch.nn.Module, parts: Split, seed: int) -> dict[str, Any]:
    """Measures on the test images; a class is owned by the hypothesis that wins most of its training images."""
    labels = parts.test_labels
    with torch.no_grad():
        winners = class_winners(_predict(network, parts.train_images), parts.train_labels)
        hypotheses = _predict(network, parts.test_images)
        random = torch.Generator().manual_seed(seed)
        noise = PIXEL_NOISE * torch.randn(parts.test_images.shape, generator=random)
        disturbed = _predict(network, parts.test_images + noise)
    owners = class_owners(winners)
    owned = owners[labels][:, None] == torch.arange(hypotheses.n_hypotheses)
    entropy = class_entropy(hypotheses)
    top = min(5, hypotheses.dim)
    values = {
        "top1": 100 * class_error(hypotheses, labels),
        "oracle": 100 * oracle_class_error(hypotheses, labels),
        "top5": 100 * class_error(hypotheses, labels, top=top),
        "nll": -class_log_probs(hypotheses).gather(-1, labels[:, None]),
        "noise": 100 * class_error(disturbed, labels),
        "owned": entropy[owned],
        "other": entropy[~owned],
    }
    return {
        "measures": {name: value.double().mean().item() for name, value in values.items()},
        "winners": winners.tolist(),
        "histogram": entropy_histogram(hypotheses, labels, owners, bins=BINS).tolist(),
    }


def _predict(network: torch.nn.Module, images: Tensor) -> Hypotheses:
    pixels = images[0].numel()
    size = CHUNK if pixels <= USUAL else max(CHUNK * USUAL // pixels, 1)
    return Hypotheses.cat([network(part) for part in images.split(size)])


def summarize(records: Mapping[str, Sequence[dict[str, Any]]]) -> dict[str, Any]:
    """Means and standard deviations over seeds, winners of the first seed and the histogram of all of them."""
    return {
        method: {
            **{name: _moments([record["measures"][name] for record in each]) for name in MEASURES},
            "winners": each[0]["winners"],
            "histogram": torch.tensor([record["histogram"] for record in each]).sum(0).tolist(),
        }
        for method, each in records.items()
    }


def _moments(values: list[float]) -> dict[str, Any]:
    return {
        "mean": statistics.fmean(values),
        "std": statistics.stdev(values) if len(values) > 1 else None,
        "values": values,
    }
