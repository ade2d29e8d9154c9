"""From settings to objects: the data, the network and the loss of a run."""

import math
from functools import partial
from pathlib import Path

from torch import Tensor, nn

from torchmcl.assignment import Assign, relaxed, top_n, winner_takes_all
from torchmcl.audio.datamodule import AudioDataModule
from torchmcl.audio.foa import convention_named
from torchmcl.audio.pretrained import NetworkDescription
from torchmcl.audio.scenes import SceneSettings
from torchmcl.audio.simulate import simulate
from torchmcl.distances import cost_matrix, great_circle
from torchmcl.errors import UserError
from torchmcl.experiments.config import Config, DataConfig, Kind, MethodConfig, Rule, ScheduleName
from torchmcl.hypotheses import Hypotheses
from torchmcl.losses import mcl_loss, pit_loss, rmcl_loss, transport_loss
from torchmcl.training import Loss, Schedule, constant, cosine, flat_cosine

__all__ = [
    "build_data",
    "build_loss",
    "build_network",
    "build_schedule",
    "check_data",
    "describe_network",
    "open_data",
]


def build_data(config: Config, *, workers: int = 1, progress: bool = True) -> AudioDataModule:
    """The data of a run; simulated scenes are made when missing.

    Args:
        config: The settings of the run.
        workers: Processes that simulate.
        progress: Whether simulating shows a progress bar.

    Returns:
        Training, validation and test chunks.
    """
    check_data(config)
    data = config.data
    folder = _data_folder(data)
    if data.condition is not None:
        settings = SceneSettings(
            condition=data.condition,
            recordings=data.recordings,
            duration=data.duration,
            sample_rate=data.sample_rate,
            events=data.events,
            synthesised=data.synthesised,
            grid=data.grid,
            seed=data.seed,
            convention=data.convention,
        )
        simulate(folder, settings, workers=workers, progress=progress)
    return _data_module(config, folder, data.cache)


def check_data(config: Config) -> None:
    """Refuse a folder that is not there, unless its scenes are simulated.

    Args:
        config: The settings of the run.
    """
    folder = _data_folder(config.data)
    if config.data.condition is None and not folder.is_dir():
        raise UserError(f"{folder}: no such folder")


def open_data(config: Config) -> AudioDataModule:
    """The data of a run that may come from elsewhere: nothing is simulated, and decoded sound goes to the user's cache.

    Args:
        config: The settings of the run.

    Returns:
        Training, validation and test chunks; a folder that is not there is a `UserError`.
    """
    folder = _data_folder(config.data)
    if not folder.is_dir():
        raise UserError(f"{folder}: no such folder, the data of the run are not there")
    return _data_module(config, folder, None)


def _data_folder(data: DataConfig) -> Path:
    if data.folder is not None:
        return Path(data.folder)
    if data.condition is None:
        raise UserError(f"data.folder is missing: say where {data.name} lies with data.folder=PATH")
    sounds = [Path(data.events).name] if data.events else []
    if data.synthesised or not sounds:
        sounds.append("synthesised")
    size = f"{data.recordings}x{data.duration:g}s-{data.sample_rate}hz-grid{data.grid:g}-seed{data.seed}"
    return Path("data") / "-".join([data.condition, *sounds, size])


def _data_module(config: Config, folder: Path, cache: str | None) -> AudioDataModule:
    return AudioDataModule(
        folder,
        fold=config.data.fold,
        batch_size=config.training.batch_size,
        seed=config.seed,
        convention=convention_named(config.data.convention),
        skip_broken=config.data.skip_broken,
        cache=cache,
        augmentation=config.data.augmentation,
    )


def describe_network(config: Config, sample_rate: int, slots: int) -> NetworkDescription:
    """What a finished run of these settings predicts with: one network, or an ensemble of its members.

    Args:
        config: The settings of the run.
        sample_rate: Of its data, in hertz.
        slots: Targets in a frame of its data, which is the number of hypotheses for PIT.

    Returns:
        The description, from which the network is built.
    """
    method, network = config.method, config.network
    try:
        return NetworkDescription(
            method=method.name,
            sample_rate=sample_rate,
            hypotheses=_hypotheses(method, slots),
            scores=method.scores,  # type: ignore[arg-type]
            output=config.head.output,  # type: ignore[arg-type]
            nfft=network.nfft,
            stride=network.stride,
            bins=network.bins,
            content=network.content,  # type: ignore[arg-type]
            filters=network.filters,
            pools=tuple(network.pools),
            units=network.units,
            layers=network.layers,
            members=method.members,
        )
    except UserError as error:
        raise UserError(f"network: {error}") from None


def build_network(config: Config, sample_rate: int, slots: int) -> nn.Module:
    """One network of a run, with new weights; an ensemble has several.

    Args:
        config: The settings of the run.
        sample_rate: Of its data, in hertz.
        slots: Targets in a frame of its data.

    Returns:
        A network from waveforms `(batch, 4, samples)` to `Hypotheses` `(batch, frames)`.
    """
    return describe_network(config, sample_rate, slots).build_member(spread=config.head.spread)


def build_loss(method: MethodConfig) -> Loss:
    """The loss of a method, in radians on the sphere.

    Args:
        method: Its settings; those that contradict each other are a `UserError`.

    Returns:
        A function of hypotheses, targets and active.
    """
    if method.kind is Kind.pit:
        return _pit
    if method.kind is Kind.pit_in_order:
        return _pit_in_order
    if method.scores is None and (method.scoring > 0 or method.transport > 0):
        raise UserError("method.scores is null: method.scoring and method.transport must be 0")
    if method.scoring > 0 and (method.regression <= 0 or method.best_target_only):
        raise UserError("method.scoring needs method.regression above 0 and not method.best_target_only")
    return partial(_weighted, method, _rule(method))


def build_schedule(name: ScheduleName) -> Schedule:
    """The schedule of the learning rate.

    Args:
        name: Of the schedule.

    Returns:
        The factor of the learning rate after so many (fractional) epochs of so many.
    """
    known: dict[ScheduleName, Schedule] = {
        ScheduleName.constant: constant,
        ScheduleName.cosine: cosine,
        ScheduleName.flat_cosine: flat_cosine,
        ScheduleName.one_cycle: _one_cycle,
        ScheduleName.reference: _reference,
    }
    return known[name]


def _hypotheses(method: MethodConfig, slots: int) -> int:
    if method.kind is Kind.mcl:
        if method.hypotheses is None:
            raise UserError("method.hypotheses is null, which only PIT can do without")
        return method.hypotheses
    if method.hypotheses not in (None, slots):
        raise UserError(
            f"method.hypotheses is {method.hypotheses}, but PIT needs one slot for each of {slots} targets"
        )
    return slots


def _rule(method: MethodConfig) -> Assign:
    if (method.n is not None) != (method.assign is Rule.top_n):
        raise UserError(f"method.n is {method.n}, method.assign is {method.assign.name}: n belongs to top_n")
    if (method.epsilon is not None) != (method.assign is Rule.relaxed):
        raise UserError(
            f"method.epsilon is {method.epsilon}, method.assign is {method.assign.name}: "
            "epsilon belongs to relaxed"
        )
    if method.n is not None:
        return partial(top_n, n=method.n)
    if method.epsilon is not None:
        return partial(relaxed, epsilon=method.epsilon)
    return winner_takes_all


def _weighted(
    method: MethodConfig, rule: Assign, hypotheses: Hypotheses, targets: Tensor, active: Tensor | None
) -> Tensor:
    loss = hypotheses.points.new_zeros(())
    if method.scoring > 0:
        loss = loss + method.regression * rmcl_loss(
            hypotheses, targets, active, distance=great_circle, assign=rule,
            beta=method.scoring / method.regression, negatives=method.negatives,
        )  # fmt: skip
    elif method.regression > 0:
        loss = loss + method.regression * mcl_loss(
            hypotheses, targets, active, distance=great_circle, assign=rule,
            best_target_only=method.best_target_only,
        )  # fmt: skip
    if method.transport > 0:
        loss = loss + method.transport * transport_loss(hypotheses, targets, active, distance=great_circle)
    return loss


def _pit(hypotheses: Hypotheses, targets: Tensor, active: Tensor | None) -> Tensor:
    assert hypotheses.logits is not None
    assert active is not None
    return pit_loss(hypotheses.points, hypotheses.logits, targets, active, distance=great_circle)


def _pit_in_order(hypotheses: Hypotheses, targets: Tensor, active: Tensor | None) -> Tensor:
    assert hypotheses.logits is not None
    cost, active = cost_matrix(hypotheses.points, targets, active, distance=great_circle)
    matched = cost.diagonal(dim1=-2, dim2=-1) * active
    activity = nn.functional.binary_cross_entropy_with_logits(hypotheses.logits, active.to(cost.dtype))
    return activity + matched.sum() / active.sum().clamp(min=1)


def _one_cycle(epoch: float, epochs: float) -> float:
    """Up along a cosine during 30 %, down to nearly nothing along another."""
    progress = min(epoch / epochs, 1.0)
    if progress < 0.3:
        return 1 - 0.96 * 0.5 * (1 + math.cos(math.pi * progress / 0.3))
    return 0.5 * (1 + math.cos(math.pi * (progress - 0.3) / 0.7)) + 4e-6


def _reference(epoch: float, epochs: float) -> float:
    """The schedule that the reference code runs, for a base rate of 0.0025: its peak is 0.0011."""
    number = math.floor(epoch) + 1
    return min(number**-0.5, number * 5**-1.5)
