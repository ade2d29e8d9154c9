"""The settings of a run: plain dataclasses, read from plain values, with limits; no Hydra.

A run folder may come from anywhere: its settings are data. Nothing in them is interpolated, imported or executed.
"""

import types
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from enum import Enum
from importlib.resources import files
from pathlib import Path
from typing import Any, Union, get_args, get_origin, get_type_hints

import yaml

from torchmcl.errors import UserError

__all__ = [
    "Config",
    "DataConfig",
    "HeadConfig",
    "Kind",
    "MethodConfig",
    "NetworkConfig",
    "Rule",
    "ScheduleName",
    "TrainerConfig",
    "TrainingConfig",
    "change",
    "check_limits",
    "from_plain",
    "read_method",
    "read_yaml",
    "to_plain",
]

UNSET = "???"
"""What must be given; OmegaConf has the same sign for it."""

Kind = Enum("Kind", ["mcl", "pit", "pit_in_order"])
Rule = Enum("Rule", ["winner_takes_all", "top_n", "relaxed"])
ScheduleName = Enum("ScheduleName", ["constant", "cosine", "flat_cosine", "one_cycle", "reference"])


@dataclass
class MethodConfig:
    """The loss of a method: `transport` x EMD + `regression` x WTA + `scoring` x scores, or one of the kinds of PIT.

    Args:
        name: Of the method.
        kind: Of the loss.
        hypotheses: K; null for PIT, which has as many as the data has targets.
        members: Networks of an ensemble.
        assign: The assignment rule.
        n: Of the rule `top_n`.
        epsilon: Of the rule `relaxed`.
        regression: Weight of the regression loss.
        scoring: Weight of the scoring loss.
        transport: Weight of the Earth Mover's Distance.
        scores: `sigmoid`, `softmax` or null for no scores.
        negatives: Hypotheses without a target that are drawn for the scoring loss; null for all.
        best_target_only: Learn only from the nearest target.
    """

    name: str = UNSET
    kind: Kind = Kind.mcl
    hypotheses: int | None = 5
    members: int = 1
    assign: Rule = Rule.winner_takes_all
    n: int | None = None
    epsilon: float | None = None
    regression: float = 1.0
    scoring: float = 1.0
    transport: float = 0.0
    scores: str | None = "sigmoid"
    negatives: int | None = None
    best_target_only: bool = False


@dataclass
class DataConfig:
    """A data set in one of the known layouts or, with `condition`, scenes that are simulated when missing.

    Args:
        name: Of the data set.
        folder: Where it is; null for simulated scenes in a folder below `data`.
        condition: Of simulated scenes, see `SceneSettings`.
        recordings: See `SceneSettings`.
        duration: See `SceneSettings`.
        sample_rate: See `SceneSettings`.
        events: See `SceneSettings`.
        synthesised: See `SceneSettings`.
        grid: See `SceneSettings`.
        seed: Of the scenes.
        fold: Cross-validation fold, from 1.
        convention: Of the channels.
        skip_broken: Leave out recordings that have a problem.
        augmentation: Rotate and reflect training chunks at random.
        cache: Folder of decoded sound; null for the user's cache.
    """

    name: str = UNSET
    folder: str | None = None
    condition: str | None = None
    recordings: int = 10
    duration: float = 30.0
    sample_rate: int = 44100
    events: str | None = None
    synthesised: bool = False
    grid: float = 10.0
    seed: int = 0
    fold: int = 1
    convention: str = "acn-n3d"
    skip_broken: bool = False
    augmentation: bool = False
    cache: str | None = None


@dataclass
class HeadConfig:
    """How directions are predicted.

    Args:
        output: `angles` or `sphere`, see `DirectionHead`.
        spread: Whether hypotheses start all over the sphere.
    """

    output: str = "sphere"
    spread: bool = False


@dataclass
class NetworkConfig:
    """Sizes of SELDNet and of its features.

    Args:
        filters: Channels of each convolution.
        pools: Pooling over frequency after each convolution.
        units: Of each recurrent layer and direction.
        layers: Recurrent layers.
        nfft: See `StftFeatures`.
        stride: See `StftFeatures`.
        bins: See `StftFeatures`.
        content: See `StftFeatures`.
    """

    filters: int = 64
    pools: list[int] = field(default_factory=lambda: [8, 8, 2])
    units: int = 128
    layers: int = 4
    nfft: int = 2048
    stride: int = 1
    bins: int | None = None
    content: str = "magnitude_phase"


@dataclass
class TrainingConfig:
    """The optimization.

    Args:
        epochs: Their number.
        batches: In an epoch, at most; null for all.
        batch_size: Of each device.
        learning_rate: Before the schedule.
        weight_decay: Of AdamW.
        schedule: Of the learning rate.
        clip: The largest norm of a gradient.
    """

    epochs: int = 100
    batches: int | None = None
    batch_size: int = 128
    learning_rate: float = 1e-3
    weight_decay: float = 0.01
    schedule: ScheduleName = ScheduleName.one_cycle
    clip: float = 1.0


@dataclass
class TrainerConfig:
    """The hardware, in the terms of Lightning.

    Args:
        accelerator: `auto`, `cpu`, `gpu`, ...
        devices: Of each machine.
        nodes: Machines.
        strategy: `auto`, `ddp`, ...
        threads: Of each process on the CPU; null leaves them as they are.
    """

    accelerator: str = "auto"
    devices: int = 1
    nodes: int = 1
    strategy: str = "auto"
    threads: int | None = None


@dataclass
class Config:
    """The settings of a run.

    Args:
        method: The loss.
        data: The data set.
        head: How directions are predicted.
        network: The sizes.
        training: The optimization.
        trainer: The hardware; it may change from call to call.
        seed: Of all random numbers.
        run: The run folder; null for a name below `runs`.
        scale: The name of the scale.
    """

    method: MethodConfig = field(default_factory=MethodConfig)
    data: DataConfig = field(default_factory=DataConfig)
    head: HeadConfig = field(default_factory=HeadConfig)
    network: NetworkConfig = field(default_factory=NetworkConfig)
    training: TrainingConfig = field(default_factory=TrainingConfig)
    trainer: TrainerConfig = field(default_factory=TrainerConfig)
    seed: int = 0
    run: str | None = None
    scale: str = UNSET


LIMITS: dict[str, tuple[float, float]] = {
    "seed": (0, 2**31 - 1),
    "method.hypotheses": (1, 10_000),
    "method.members": (1, 1000),
    "method.n": (1, 10_000),
    "method.epsilon": (0, 1),
    "method.regression": (0, 1e6),
    "method.scoring": (0, 1e6),
    "method.transport": (0, 1e6),
    "method.negatives": (1, 10_000),
    "data.recordings": (1, 100_000),
    "data.fold": (1, 100),
    "network.filters": (1, 1024),
    "network.units": (1, 2048),
    "network.layers": (1, 32),
    "network.nfft": (2, 2**17),
    "network.stride": (1, 2**10),
    "network.bins": (1, 2**16),
    "training.epochs": (1, 1_000_000),
    "training.batches": (1, 1_000_000_000),
    "training.batch_size": (1, 1_000_000),
    "training.learning_rate": (0, 1e3),
    "training.weight_decay": (0, 1e3),
    "training.clip": (0, 1e9),
    "trainer.devices": (1, 1024),
    "trainer.nodes": (1, 10_000),
    "trainer.threads": (1, 4096),
}

LARGEST_FILE = 1 << 16
"""Bytes of a file of settings."""

DEEPEST, MOST_NODES = 10, 2000
"""Nesting and values of a file of settings."""


def to_plain(config: Config) -> dict[str, Any]:
    """Settings as plain values for YAML or JSON.

    Args:
        config: The settings of a run.

    Returns:
        Nested dictionaries; enumerations as their names.
    """
    return asdict(config, dict_factory=_named)


def from_plain(plain: Any) -> Config:
    """The settings that `to_plain` wrote.

    Args:
        plain: Nested dictionaries from anywhere; a missing key takes its default.

    Returns:
        The settings; an unknown key, a value of another type and a value out of its limits are `UserError`s.
    """
    config = _typed(plain, Config, "")
    assert isinstance(config, Config)
    check_limits(config)
    return config


def change(config: Config, changes: dict[str, Any]) -> Config:
    """New settings with some values replaced.

    Args:
        config: Left as it is.
        changes: Values by key, for example `{"method": MethodConfig("rmcl"), "seed": 3, "method.hypotheses": 10}`,
            applied in order.

    Returns:
        The new settings, checked as in `from_plain`.
    """
    plain = to_plain(config)
    for key, value in changes.items():
        *groups, name = key.split(".")
        place = plain
        for group in groups:
            place = place[group]
        place[name] = asdict(value, dict_factory=_named) if is_dataclass(value) else value  # type: ignore[arg-type]
    return from_plain(plain)


def read_method(name: str) -> MethodConfig:
    """The settings of a method.

    Args:
        name: Of a file in `conf/method`.

    Returns:
        The loss and the number of hypotheses.
    """
    text = (files("torchmcl.experiments.conf") / "method" / f"{name}.yaml").read_text(encoding="utf-8")
    method = _typed(yaml.safe_load(text), MethodConfig, "method")
    assert isinstance(method, MethodConfig)
    return method


def check_limits(config: Config) -> None:
    """Refuse a setting that is out of its limits, by its name; what is null has none.

    Args:
        config: The settings of a run.
    """
    plain = to_plain(config)
    for key, (low, high) in LIMITS.items():
        group, _, name = key.rpartition(".")
        value = plain[group][name] if group else plain[name]
        if value is not None and not low <= value <= high:
            raise UserError(f"{key} is {value:g}, must be {low:g} to {high:g}")
    for pool in config.network.pools:
        if not 1 <= pool <= 1024:
            raise UserError(f"network.pools is {list(config.network.pools)}, each must be 1 to 1024")
    if not 1 <= len(config.network.pools) <= 10:
        raise UserError(f"network.pools has {len(config.network.pools)} entries, must be 1 to 10")
    _check_method(config.method)


def _check_method(method: MethodConfig) -> None:
    """Refuse settings of a loss that exclude each other: it would find out in the first step."""
    if method.kind is not Kind.mcl:
        return
    if method.assign is Rule.top_n and (method.n or 0) > (method.hypotheses or 0):
        raise UserError(f"method.n is {method.n}, must be at most method.hypotheses, {method.hypotheses}")
    if method.negatives is not None and method.scores == "softmax":
        raise UserError(
            "method.negatives must be null with method.scores=softmax, which has no negatives to draw"
        )
    if method.regression == method.scoring == method.transport == 0:
        raise UserError(
            "method.regression, method.scoring and method.transport are all 0: nothing is learned"
        )


def _named(items: list[tuple[str, Any]]) -> dict[str, Any]:
    return {key: value.name if isinstance(value, Enum) else value for key, value in items}


def read_yaml(path: Path) -> Any:
    """Plain values of a small file, whose structure is checked before anything is built.

    Args:
        path: At most 64 KB, without aliases.

    Returns:
        What it holds; anything that is not plain is a `UserError`.
    """
    size = path.stat().st_size
    if size > LARGEST_FILE:
        raise UserError(f"has {size} bytes, settings have at most {LARGEST_FILE}")
    depth = nodes = 0
    try:
        text = path.read_text(encoding="utf-8")
        for event in yaml.parse(text, Loader=yaml.SafeLoader):
            nodes += isinstance(event, yaml.NodeEvent)
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if isinstance(event, yaml.AliasEvent):
                raise UserError("has aliases, the settings of a run are plain values")
            if depth > DEEPEST or nodes > MOST_NODES:
                raise UserError(f"has more than {DEEPEST} levels or {MOST_NODES} values")
        return yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        if isinstance(error, UserError):
            raise
        raise UserError(str(error).splitlines()[0]) from None


def _typed(value: Any, kind: Any, key: str) -> Any:
    """The value as that type, or an error that names the key."""
    if get_origin(kind) in (types.UnionType, Union):
        inner = next(member for member in get_args(kind) if member is not types.NoneType)
        return None if value is None else _typed(value, inner, key)
    if is_dataclass(kind):
        return _dataclass(value, kind, key)
    if get_origin(kind) is list:
        if not isinstance(value, list | tuple) or len(value) > 100:
            raise UserError(f"{key} is {_short(value)}, must be a list")
        return [_typed(entry, get_args(kind)[0], key) for entry in value]
    if issubclass(kind, Enum):
        if isinstance(value, str) and value in kind.__members__:
            return kind[value]
        raise UserError(f"{key} is {_short(value)}, must be one of {', '.join(kind.__members__)}")
    number = isinstance(value, int) and not isinstance(value, bool)
    if kind is float and (number or isinstance(value, float)):
        return _float(value, key)
    if (kind is int and number) or (kind in (bool, str) and isinstance(value, kind)):
        return _text(value, key) if kind is str else value
    names = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}
    raise UserError(f"{key} is {_short(value)}, must be {names[kind]}")


def _dataclass(value: Any, kind: Any, key: str) -> Any:
    if not isinstance(value, dict):
        raise UserError(f"{key} is {_short(value)}, must hold settings" if key else "holds no settings")
    known, prefix = get_type_hints(kind), f"{key}." if key else ""
    unknown = [name for name in value if name not in known]
    if unknown:
        raise UserError(f"no setting {prefix}{_short(unknown[0])}")
    made = kind(**{name: _typed(entry, known[name], f"{prefix}{name}") for name, entry in value.items()})
    for entry in fields(kind):
        if getattr(made, entry.name) == UNSET:
            raise UserError(f"{prefix}{entry.name} is missing")
    return made


def _float(value: int | float, key: str) -> float:
    try:
        return float(value)
    except OverflowError:
        raise UserError(f"{key} is {_short(value)}, must be a number") from None


def _text(value: str, key: str) -> str:
    if "${" in value or "\0" in value or len(value) > 4096:
        raise UserError(f"{key} is {_short(value)}, settings are plain values of at most 4096 characters")
    return value


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
