"""A run: train what the settings say, keep everything that is needed to go on, and evaluate."""

import math
import platform
import subprocess
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch.loggers import TensorBoardLogger
from lightning.pytorch.utilities import rank_zero_only
from torch import distributed, nn

import torchmcl
from torchmcl.audio.datamodule import AudioDataModule
from torchmcl.audio.pretrained import load_pretrained, load_weights, save_pretrained
from torchmcl.distances import great_circle, great_circle_swapped
from torchmcl.errors import UserError
from torchmcl.experiments.build import (
    build_data,
    build_loss,
    build_network,
    build_schedule,
    describe_network,
    open_data,
)
from torchmcl.experiments.config import Config, Kind, check_limits, read_config, to_plain, write_config
from torchmcl.experiments.evaluate import evaluate
from torchmcl.metrics import EarthMoversDistance, OracleError
from torchmcl.runs.checkpoint import CHECKPOINT
from torchmcl.runs.files import locked, read_json, sweep, write_json
from torchmcl.training import Hardware, History, Optimization, collapse, fit

__all__ = [
    "CONFIG",
    "METRICS",
    "evaluate_run",
    "load_network",
    "member_seeds",
    "prepare",
    "resume",
    "run_folder",
    "train",
]

CONFIG, WEIGHTS, NETWORK, METRICS = "config.yaml", "model.safetensors", "config.json", "metrics.json"
TRAINING, MEMBERS = "training.json", "members.json"


BUSY = "another process is training there; wait for it, or choose another run=FOLDER"


def train(config: Config, *, members: Sequence[Path] = (), progress: bool = True) -> Path:
    """Train, or go on where it stopped, then evaluate on validation and test scenes; returns the folder.

    Killed at any moment and called again, it ends with the same weights. On several processes the first one holds
    the folder, and alone saves and evaluates. An ensemble takes finished runs as its `members`, where given;
    runs with the seeds `member_seeds` are what it would train itself.
    """
    check_limits(config)
    if len(members) not in (0, config.method.members):
        raise ValueError(f"members has {len(members)} runs, the method {config.method.members} members")
    folder = run_folder(config)
    first = getattr(rank_zero_only, "rank", 0) == 0
    with locked(folder, BUSY) if first else nullcontext():
        if first:
            _claim(folder, config)
        if (folder / METRICS).exists():
            return folder
        if config.trainer.threads is not None:
            torch.set_num_threads(config.trainer.threads)
        data = build_data(config, progress=progress)
        if not (folder / WEIGHTS).exists():
            trained = (
                [_finished(run) for run in members]
                if members
                else [_train_member(config, data, folder, i, progress) for i in range(config.method.members)]
            )
            _part(data)
            if first:
                _save(folder, config, data, trained)
        if first:
            evaluate_run(folder, data=data)
    return folder


def prepare(folder: Path, config: Config, *, members: Sequence[Path] = ()) -> None:
    """Write the settings of a run into its folder, for `resume`.

    Args:
        folder: Of the run; it may hold a run with the same settings.
        config: The settings of the run.
        members: For an ensemble, the folders of its members' runs, beside `folder`.
    """
    if (folder / METRICS).exists():
        _compare(folder, config)
        return
    with locked(folder, BUSY):
        _claim(folder, config)
        if members:
            write_json(folder / MEMBERS, [member.name for member in members])


def resume(folder: str | Path) -> None:
    """Train and evaluate a run whose settings are in its folder, or continue where it stopped.

    Args:
        folder: That `prepare` has prepared; the members of an ensemble must be finished.
    """
    folder = Path(folder)
    config = replace(read_config(folder / CONFIG), run=str(folder))
    path = folder / MEMBERS
    names = read_json(path) if path.exists() else []
    if not isinstance(names, list) or not all(
        isinstance(name, str) and Path(name).name == name for name in names
    ):
        raise UserError(f"{path}: must hold the names of folders beside {folder.name}")
    train(config, members=[folder.parent / name for name in names], progress=False)


def evaluate_run(
    folder: str | Path, *, swapped: bool = False, data: AudioDataModule | None = None
) -> dict[str, Any]:
    """EMD, oracle error and frame recall of a finished run on its validation and test scenes.

    Written to `metrics.json`; with `swapped`, by the published formula for angles, to `metrics-swapped.json`.
    """
    folder = Path(folder)
    config, network = load_network(folder)
    data = data or open_data(config)
    distance = great_circle_swapped if swapped else great_circle
    found = {
        part: evaluate(
            network, loader(), slots=config.method.kind is not Kind.mcl, distance=distance
        ).summary()
        for part, loader in (("validation", data.val_dataloader), ("test", data.test_dataloader))
    }
    winners = found["validation"]["winners"] if config.method.kind is Kind.mcl else None
    metrics = {
        **_provenance(config),
        "train_seconds": _train_seconds(folder),
        "collapse": collapse(winners) if isinstance(winners, list) else None,
        **found,
    }
    write_json(folder / ("metrics-swapped.json" if swapped else METRICS), metrics)
    return metrics


def load_network(folder: str | Path) -> tuple[Config, nn.Module]:
    """The settings and the trained network of a run; reads YAML, JSON and safetensors, never a pickle."""
    folder = Path(folder)
    for name in (CONFIG, NETWORK, WEIGHTS):
        if not (folder / name).is_file():
            raise UserError(f"{folder}: no finished run, {name} is missing")
    config = read_config(folder / CONFIG)
    _update(folder, config)
    description, network = load_pretrained(folder)
    if describe_network(config, description.sample_rate, description.hypotheses) != description:
        raise UserError(f"{folder}: {CONFIG} and {NETWORK} describe different networks")
    return config, network


def _update(folder: Path, config: Config) -> None:
    """Bring a run of version 0.1, whose `config.json` does not describe the network, to the present form."""
    values = read_json(folder / NETWORK)
    if (
        not isinstance(values, dict)
        or not {"slots", "sample_rate"} <= values.keys()
        or not values.keys()
        <= {
            "slots",
            "sample_rate",
            "train_seconds",
        }
    ):
        return
    for key, most in (("sample_rate", 192_000), ("slots", 1000)):
        if not isinstance(values[key], int) or not 0 < values[key] <= most:
            raise UserError(
                f"{folder / NETWORK}: {key} is {values[key]!r}, must be a whole number from 1 to {most}"
            )
    description = describe_network(config, values["sample_rate"], values["slots"])
    description.check_size()
    load_weights(description.build(), folder / WEIGHTS)
    write_json(folder / TRAINING, {"train_seconds": values.get("train_seconds")})
    write_json(folder / NETWORK, asdict(description))


def member_seeds(config: Config) -> range:
    """The seed of each member of an ensemble; a single network has that of the run."""
    count = config.method.members
    first = config.seed if count == 1 else 1000 * config.seed
    return range(first, first + count)


def run_folder(config: Config) -> Path:
    """Where the run lives."""
    name = f"{config.method.name}-{config.data.name}-{config.scale}-seed{config.seed}"
    return Path(config.run) if config.run else Path("runs") / name


def _train_member(
    config: Config, data: AudioDataModule, folder: Path, member: int, progress: bool
) -> tuple[nn.Module, float]:
    place = folder if config.method.members == 1 else folder / f"member{member}"
    seed = data.seed = member_seeds(config)[member]
    settings = config.training
    if getattr(rank_zero_only, "rank", 0) == 0:
        sweep(place)
        sweep(place / "logs")
    fitted = fit(
        lambda: build_network(config, data.sample_rate, data.slots),
        build_loss(config.method),
        data,
        seed=seed,
        optimization=Optimization(
            epochs=settings.epochs,
            learning_rate=settings.learning_rate,
            weight_decay=settings.weight_decay,
            schedule=build_schedule(settings.schedule),
            clip=settings.clip,
            batches=settings.batches,
        ),
        hardware=Hardware(
            config.trainer.accelerator, config.trainer.devices, config.trainer.nodes, config.trainer.strategy
        ),
        metrics={"emd": EarthMoversDistance(great_circle), "oracle": OracleError(great_circle)},
        callbacks=[History(place / "logs" / "metrics.csv")],
        checkpoint=place / CHECKPOINT,
        progress=progress,
        logger=TensorBoardLogger(place, "logs", "tensorboard"),
    )
    return fitted.network, fitted.seconds


def _finished(run: Path) -> tuple[nn.Module, float]:
    return load_network(run)[1], _train_seconds(run) or 0.0


def _part(data: AudioDataModule) -> None:
    """The processes part: what follows is the work of the first one, on all of the data."""
    data.trainer = None
    if distributed.is_available() and distributed.is_initialized():
        distributed.barrier()
        distributed.destroy_process_group()


def _save(
    folder: Path, config: Config, data: AudioDataModule, members: Sequence[tuple[nn.Module, float]]
) -> None:
    description = describe_network(config, data.sample_rate, data.slots)
    network = description.build()
    parts = [network] if len(members) == 1 else list(network.members)  # type: ignore[arg-type]
    for part, (member, _) in zip(parts, members, strict=True):
        part.load_state_dict(member.state_dict())
    write_json(folder / TRAINING, {"train_seconds": sum(seconds for _, seconds in members)})
    save_pretrained(folder, description, network)
    for place in (folder, *(folder / f"member{member}" for member in range(config.method.members))):
        (place / CHECKPOINT).unlink(missing_ok=True)


def _claim(folder: Path, config: Config) -> None:
    """Note the settings of the run, or make sure that they are still the same; remove what was half written."""
    sweep(folder)
    if (folder / CONFIG).exists():
        _compare(folder, config)
    else:
        write_config(folder / CONFIG, config)


def _compare(folder: Path, config: Config) -> None:
    settings, before = to_plain(config), to_plain(read_config(folder / CONFIG))
    changed = [key for key in settings if key not in ("run", "trainer") and settings[key] != before[key]]
    if changed:
        raise UserError(
            f"{folder}: this run has other settings for {', '.join(changed)}; choose another run=FOLDER"
        )


def _train_seconds(folder: Path) -> float | None:
    path = folder / TRAINING
    seconds = read_json(path) if path.exists() else None
    seconds = seconds.get("train_seconds") if isinstance(seconds, dict) else None
    return float(seconds) if isinstance(seconds, int | float) and math.isfinite(seconds) else None


def _provenance(config: Config) -> dict[str, Any]:
    source = Path(torchmcl.__file__).parent
    git = subprocess.run(
        ["git", "-C", source, "rev-parse", "HEAD"], capture_output=True, text=True, check=False
    )
    return {
        "method": config.method.name,
        "data": config.data.name,
        "scale": config.scale,
        "seed": config.seed,
        "torchmcl": torchmcl.__version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "commit": git.stdout.strip() or None,
    }
