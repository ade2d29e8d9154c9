"""Settings from words like `method=rmcl training.epochs=10`: the only place that knows Hydra.

An unknown key is an error that names the nearest one.
"""

import re
from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from difflib import get_close_matches
from importlib.resources import files
from typing import Any, get_type_hints

from hydra import compose, initialize_config_module
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.errors import HydraException
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from torchmcl.errors import UserError
from torchmcl.experiments.config import Config, from_plain

__all__ = ["GROUPS", "compose_config", "options"]

GROUPS = ("method", "data", "head", "network", "scale")


def options(group: str) -> list[str]:
    """The names of the files of a group.

    Args:
        group: One of `GROUPS`.

    Returns:
        For `"method"` all methods.
    """
    folder = files("torchmcl.experiments.conf") / group
    return sorted(
        name.removesuffix(".yaml") for entry in folder.iterdir() if (name := entry.name).endswith(".yaml")
    )


def compose_config(words: Sequence[str]) -> Config:
    """The settings of a run.

    Args:
        words: Like `method=rmcl` and `training.epochs=10`; what is not named is as in `conf/config.yaml`.

    Returns:
        The settings, checked.
    """
    ConfigStore.instance().store(name="schema", node=Config)
    for word in words:
        if "=" not in word or word.startswith(("+", "~")):
            raise UserError(f"{word}: a setting is written key=value, for example method=rmcl")
        if word.startswith("hydra"):
            raise UserError(f"{word}: no setting {word.split('=')[0]}")
        if "${" in word:
            raise UserError(f"{word}: settings are plain values")
    GlobalHydra.instance().clear()
    try:
        with initialize_config_module("torchmcl.experiments.conf", version_base="1.3"):
            composed = compose("config", list(words))
        return from_plain(OmegaConf.to_container(composed, enum_to_str=True))
    except (HydraException, OmegaConfBaseException) as error:
        raise UserError(_explain(error, words)) from None


def _explain(error: Exception, words: Sequence[str]) -> str:
    keys = _keys(Config)
    for word in words:
        key, value = word.split("=", 1)
        if key in GROUPS and value not in options(key):
            return f"{word}: {_nearest(value, options(key), f'{key} is one of')}"
        if key not in keys and key not in GROUPS:
            return f"{word}: no setting {key}; {_nearest(key, keys, 'settings are')}"
    return _first_line(error)


def _nearest(word: str, known: list[str], otherwise: str) -> str:
    close = get_close_matches(word, known, n=1, cutoff=0.5)
    return f"did you mean {close[0]}?" if close else f"{otherwise} {', '.join(known)}"


def _keys(kind: Any, prefix: str = "") -> list[str]:
    found = []
    for entry in fields(kind):
        inner = get_type_hints(kind)[entry.name]
        found.append(f"{prefix}{entry.name}")
        if is_dataclass(inner):
            found += _keys(inner, f"{prefix}{entry.name}.")
    return found


def _first_line(error: BaseException) -> str:
    cause = error.__cause__ or error
    lines = [line for line in str(cause).splitlines() if line.strip()]
    named = re.search(r"full_key: (\S+)", str(cause))
    return f"{named[1]}: {lines[0]}" if named else lines[0]
