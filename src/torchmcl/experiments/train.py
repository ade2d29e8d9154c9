"""A run: train what the settings say, continue where it stopped, and evaluate."""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch
from lightning.pytorch.loggers import TensorBoardLogger
from lightning.pytorch.utilities import rank_zero_only
from torch import distributed, nn

from torchmcl.audio.datamodule import AudioDataModule
from torchmcl.audio.pretrained import sound_card
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
from torchmcl.experiments.config import Config, Kind, check_limits, to_plain
from torchmcl.experiments.evaluate import evaluate
from torchmcl.experiments.saved import RunMetrics, TrainingRecord, load_network, load_settings, update_run
from torchmcl.metrics import EarthMoversDistance, OracleError
from torchmcl.runs.files import read_json, sweep, write_json
from torchmcl.runs.folder import CHECKPOINT, CONFIG, MODEL, RunFolder
from torchmcl.runs.records import read_record, write_record
from torchmcl.sharing.cards import write_card
from torchmcl.training import Hardware, History, Optimization, collapse, fit

__all__ = ["evaluate_run", "member_seeds", "prepare", "resume", "run_folder", "train"]

MEMBERS = "members.json"
"""The names of the folders of an ensemble's members, beside its own."""

FREE = ("run", "trainer")
"""Settings that may change from call to call: they do not change the weights."""

BUSY = "another process is training there; wait for it, or choose another run=FOLDER"


def train(config: Config, *, members: Sequence[Path] = (), progress: bool = True) -> Path:
    """Train, or continue where it stopped, then evaluate on validation and test scenes.

    Killed at any moment and called again, it ends with the same weights. On several processes the first one holds
    the folder, and alone saves and evaluates.

    Args:
        config: The settings of the run.
        members: For an ensemble, finished runs to take as its members; they have the seeds `member_seeds`. Otherwise
            it trains them itself.
        progress: Whether to show progress bars.

    Returns:
        The folder of the run.
    """
    check_limits(config)
    _check_devices(config)
    if len(members) not in (0, config.method.members):
        raise ValueError(f"members has {len(members)} runs, the method {config.method.members} members")
    folder = run_folder(config)
    if config.trainer.threads is not None:
        torch.set_num_threads(config.trainer.threads)
    if getattr(rank_zero_only, "rank", 0) != 0:
        if not (folder / MODEL).exists():
            _train_members(config, build_data(config, progress=False), folder, progress=False)
        return folder
    update_run(folder)
    with RunFolder.open(folder, to_plain(config), ignore=FREE, busy=BUSY) as run:
        if run.state == "evaluated":
            return folder
        data = build_data(config, progress=progress)
        if run.state != "trained":
            trained = (
                [_finished(member) for member in members]
                if members
                else _train_members(config, data, folder, progress)
            )
            _save(run, config, data, trained)
        evaluate_run(folder, data=data)
    return folder


def prepare(folder: Path, config: Config, *, members: Sequence[Path] = ()) -> None:
    """Write the settings of a run into its folder, for `resume`.

    Args:
        folder: Of the run; it may hold a run with the same settings.
        config: The settings of the run.
        members: For an ensemble, the folders of its members' runs, beside `folder`.
    """
    update_run(folder)
    with RunFolder.open(folder, to_plain(config), ignore=FREE, busy=BUSY):
        if members and not (folder / MEMBERS).exists():
            write_json(folder / MEMBERS, [member.name for member in members])


def resume(folder: str | Path) -> None:
    """Train and evaluate a run whose settings are in its folder, or continue where it stopped.

    Args:
        folder: That `prepare` has prepared; the members of an ensemble must be finished.
    """
    folder = Path(folder)
    config = replace(load_settings(folder), run=str(folder))
    path = folder / MEMBERS
    names = read_json(path) if path.exists() else []
    if not isinstance(names, list) or not all(
        isinstance(name, str) and Path(name).name == name for name in names
    ):
        raise UserError(f"{path}: must hold the names of folders beside {folder.name}")
    train(config, members=[folder.parent / name for name in names], progress=False)


def evaluate_run(
    folder: str | Path, *, swapped: bool = False, data: AudioDataModule | None = None
) -> RunMetrics:
    """EMD, oracle error and frame recall of a finished run on its validation and test scenes.

    Args:
        folder: Of the run. The results are written to its `metrics.json`.
        swapped: Measure by the published formula for angles, and write to `metrics-swapped.json`.
        data: Of the run; otherwise those that its settings name, which must be there.

    Returns:
        The results.
    """
    folder = Path(folder)
    config, network = load_network(folder)
    data = data or open_data(config)
    rate = read_json(folder / CONFIG)["sample_rate"]
    if rate != data.sample_rate:
        raise UserError(
            f"{folder}: its network takes sound at {rate} Hz, its data are at {data.sample_rate} Hz"
        )
    distance = great_circle_swapped if swapped else great_circle
    slots = config.method.kind is not Kind.mcl
    validation, test = (
        evaluate(network, batches, slots=slots, distance=distance).summary()
        for batches in (data.val_dataloader(), data.test_dataloader())
    )
    metrics = RunMetrics(
        method=config.method.name,
        data=config.data.name,
        scale=config.scale,
        seed=config.seed,
        train_seconds=_train_seconds(folder),
        collapse=None if slots or validation.winners is None else collapse(validation.winners),
        validation=validation,
        test=test,
    )
    write_record(folder / ("metrics-swapped.json" if swapped else RunMetrics.file), metrics)
    return metrics


def member_seeds(config: Config) -> range:
    """The seed of each member of an ensemble.

    Args:
        config: The settings of a run.

    Returns:
        One seed for each member; a single network has that of the run.
    """
    count = config.method.members
    first = config.seed if count == 1 else 1000 * config.seed
    return range(first, first + count)


def run_folder(config: Config) -> Path:
    """The folder of a run.

    Args:
        config: The settings of the run.

    Returns:
        What `run` says, or a name below `runs`.
    """
    name = f"{config.method.name}-{config.data.name}-{config.scale}-seed{config.seed}"
    return Path(config.run) if config.run else Path("runs") / name


CLUSTER = ("SLURM_JOB_ID", "LSB_JOBID", "OMPI_COMM_WORLD_SIZE", "MASTER_ADDR")
"""Variables of which a cluster sets one."""


def _check_devices(config: Config) -> None:
    if config.trainer.nodes > 1 and not any(name in os.environ for name in CLUSTER):
        raise UserError(
            f"trainer.nodes is {config.trainer.nodes}, but nothing has started this process on several machines: "
            "use srun or torchrun"
        )
    devices, cores = config.trainer.devices, os.cpu_count() or 1
    on_cpu = config.trainer.accelerator == "cpu" or not torch.cuda.is_available()
    if on_cpu and devices > max(2, cores):
        raise UserError(f"trainer.devices is {devices}, this machine has {cores} cores")


def _train_members(
    config: Config, data: AudioDataModule, folder: Path, progress: bool
) -> list[tuple[nn.Module, float]]:
    trained = [_train_member(config, data, folder, i, progress) for i in range(config.method.members)]
    _leave_group(data)
    return trained


def _train_member(
    config: Config, data: AudioDataModule, folder: Path, member: int, progress: bool
) -> tuple[nn.Module, float]:
    place = folder if config.method.members == 1 else folder / f"member{member}"
    seed = data.seed = member_seeds(config)[member]
    settings = config.training
    if getattr(rank_zero_only, "rank", 0) == 0 and place != folder:
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


def _leave_group(data: AudioDataModule) -> None:
    """End the process group: what follows is done by the first process, on all of the data."""
    data.trainer = None
    if distributed.is_available() and distributed.is_initialized():
        distributed.barrier()
        distributed.destroy_process_group()


def _save(
    run: RunFolder, config: Config, data: AudioDataModule, members: Sequence[tuple[nn.Module, float]]
) -> None:
    description = describe_network(config, data.sample_rate, data.slots)
    network = description.build()
    networks = [network] if len(members) == 1 else list(network.members)  # type: ignore[arg-type]
    for own, (member, _) in zip(networks, members, strict=True):
        own.load_state_dict(member.state_dict())
    run.write(TrainingRecord(sum(seconds for _, seconds in members)))
    write_card(run.path, sound_card(description))
    run.save_model(network, description)
    for number in range(len(members)):
        (run.path / f"member{number}" / CHECKPOINT).unlink(missing_ok=True)


def _train_seconds(folder: Path) -> float | None:
    path = folder / TrainingRecord.file
    return read_record(path, TrainingRecord).train_seconds if path.exists() else None
