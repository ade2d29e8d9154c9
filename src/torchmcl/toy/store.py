"""The folder of a trained toy model."""

import json
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from torchmcl.runs.files import atomic, write_json
from torchmcl.toy.models import Method, build
from torchmcl.toy.presets import Settings
from torchmcl.toy.train import Trained

__all__ = ["load", "save"]


def save(folder: Path, trained: Trained, config: dict[str, Any]) -> None:
    """Write `model.safetensors` and `path.safetensors`, then `config.json`, whose presence says that all is there."""
    with atomic(folder / "model.safetensors") as path:
        save_file(trained.network.state_dict(), path)
    with atomic(folder / "path.safetensors") as path:
        save_file({"steps": trained.path_steps, "points": trained.path}, path)
    write_json(folder / "config.json", {**config, "train_seconds": trained.seconds})


def load(folder: Path, method: Method, settings: Settings, config: dict[str, Any]) -> Trained | None:
    """The model in `folder`, or `None` when there is none that was trained under exactly this `config`."""
    try:
        found = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        if any(found[key] != value for key, value in config.items()):
            return None
        network = build(method, settings)
        network.load_state_dict(load_file(folder / "model.safetensors"))
        path = load_file(folder / "path.safetensors")
        seconds = float(found["train_seconds"])
    except (OSError, ValueError, KeyError, RuntimeError, SafetensorError):
        return None
    return Trained(network.eval().requires_grad_(False), seconds, path["steps"], path["points"])
