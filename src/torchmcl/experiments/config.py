"""What a run is: typed settings, composed by Hydra; an unknown key is an error that names the nearest."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from enum import Enum
from importlib.resources import files
from typing import Any

from hydra import compose, initialize_config_module
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.errors import HydraException
from omegaconf import MISSING, DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from torchmcl.errors import UserError

__all__ = [
    "Config",
    "DataConfig",
    "Kind",
    "MethodConfig",
    "NetworkConfig",
    "Rule",
    "ScheduleName",
    "TrainingConfig",
    "compose_config",
    "from_plain",
    "options",
    "to_plain",
]

Kind = Enum("Kind", ["mcl", "pit", "pit_in_order"])
Rule = Enum("Rule", ["winner_takes_all", "top_n", "relaxed"])
ScheduleName = Enum("ScheduleName", ["constant", "cosine", "flat_cosine", "one_cycle", "reference"])


@dataclass
class MethodConfig:
    """A loss: `transport` x EMD + `regression` x WTA + `scoring` x scores, or one of the kinds of PIT.

    `hypotheses` is null for PIT, which has as many slots as the data has targets.
    """

    name: str = MISSING
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
    """A folder in one of the known layouts or, with `condition`, scenes that are made when missing."""

    name: str = MISSING
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
    """How directions are predicted, and whether hypotheses start all over the sphere."""

    output: str = "sphere"
    spread: bool = False


@dataclass
class NetworkConfig:
    """Sizes of SELDNet and of its features."""

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
    """Optimisation; `batches` limits an epoch to so many."""

    epochs: int = 100
    batches: int | None = None
    batch_size: int = 128
    learning_rate: float = 1e-3
    weight_decay: float = 0.01
    schedule: ScheduleName = ScheduleName.one_cycle
    clip: float = 1.0


@dataclass
class TrainerConfig:
    """Where it runs, as Lightning names it; `devices` on each of `nodes` machines."""

    accelerator: str = "auto"
    devices: int = 1
    nodes: int = 1
    strategy: str = "auto"
    threads: int | None = None


@dataclass
class Config:
    """A run."""

    method: MethodConfig = field(default_factory=MethodConfig)
    data: DataConfig = field(default_factory=DataConfig)
    head: HeadConfig = field(default_factory=HeadConfig)
    network: NetworkConfig = field(default_factory=NetworkConfig)
    training: TrainingConfig = field(default_factory=TrainingConfig)
    trainer: TrainerConfig = field(default_factory=TrainerConfig)
    seed: int = 0
    run: str | None = None
    scale: str = MISSING


def options(group: str) -> list[str]:
    """The names of the files of a group: `options("method")`."""
    folder = files("torchmcl.experiments.conf") / group
    return sorted(
        name.removesuffix(".yaml") for entry in folder.iterdir() if (name := entry.name).endswith(".yaml")
    )


def compose_config(overrides: Sequence[str]) -> Config:
    """The settings of a run from words like `method=rmcl` and `training.epochs=10`."""
    ConfigStore.instance().store(name="schema", node=Config)
    for word in overrides:
        if "=" not in word or word.startswith(("+", "~")):
            raise UserError(f"{word}: a setting is written key=value, for example method=rmcl")
        if word.startswith("hydra"):
            raise UserError(f"{word}: no setting {word.split('=')[0]}")
    GlobalHydra.instance().clear()
    try:
        with initialize_config_module("torchmcl.experiments.conf", version_base="1.3"):
            composed = compose("config", list(overrides))
        return _typed(composed)
    except (HydraException, OmegaConfBaseException) as error:
        raise UserError(_explain(error, overrides)) from None


def to_plain(config: Config) -> dict[str, Any]:
    """As plain values for YAML or JSON."""
    plain = OmegaConf.to_container(OmegaConf.structured(config), enum_to_str=True)
    assert isinstance(plain, dict)
    return {str(key): value for key, value in plain.items()}


def from_plain(plain: dict[str, Any]) -> Config:
    """The settings that `to_plain` wrote; anything that is not a setting is an error."""
    try:
        return _typed(OmegaConf.merge(OmegaConf.structured(Config), plain))
    except OmegaConfBaseException as error:
        raise UserError(f"configuration: {_first_line(error)}") from None


def _typed(composed: Any) -> Config:
    missing = sorted(OmegaConf.missing_keys(composed))
    if missing:
        raise UserError(f"{missing[0]} is missing: give it as {missing[0]}=VALUE")
    config = OmegaConf.to_object(composed)
    assert isinstance(config, Config)
    return config


def _explain(error: Exception, overrides: Sequence[str]) -> str:
    keys = list(_keys(OmegaConf.structured(Config)))
    groups = ("method", "data", "head", "network", "scale")
    for word in overrides:
        key, value = word.split("=", 1)
        if key in groups and value not in options(key):
            return f"{word}: {_nearest(value, options(key), f'{key} is one of')}"
        if key not in keys and key not in groups:
            return f"{word}: no setting {key}; {_nearest(key, keys, 'settings are')}"
    return _first_line(error)


def _nearest(word: str, known: list[str], otherwise: str) -> str:
    close = get_close_matches(word, known, n=1, cutoff=0.5)
    return f"did you mean {close[0]}?" if close else f"{otherwise} {', '.join(known)}"


def _keys(config: DictConfig, prefix: str = "") -> Iterator[str]:
    for key in map(str, config):
        yield f"{prefix}{key}"
        if isinstance(config._get_node(key), DictConfig):
            yield from _keys(config[key], f"{prefix}{key}.")


def _first_line(error: BaseException) -> str:
    cause = error.__cause__ or error
    lines = [line for line in str(cause).splitlines() if line.strip()]
    named = re.search(r"full_key: (\S+)", str(cause))
    return f"{named[1]}: {lines[0]}" if named else lines[0]
