"""Checkpoints that are complete or absent, and that are read as data only."""

import io
import pickle
import warnings
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch.plugins.io import TorchCheckpointIO

from torchmcl.errors import UserError
from torchmcl.runs.files import atomic, check_file
from torchmcl.runs.folder import CHECKPOINT

__all__ = ["CHECKPOINT", "AtomicCheckpoints"]


class AtomicCheckpoints(TorchCheckpointIO):
    """Checkpoints that are complete or absent, and of which only tensors and plain values are ever read."""

    def save_checkpoint(self, checkpoint: dict[str, Any], path: Any, storage_options: Any = None) -> None:
        """Write beside the earlier checkpoint, then take its place."""
        content = io.BytesIO()
        torch.save(checkpoint, content)
        with atomic(path) as temporary:
            temporary.write_bytes(content.getbuffer())

    def load_checkpoint(
        self, path: Any, map_location: Any = None, weights_only: bool | None = True
    ) -> dict[str, Any]:
        """Read tensors and plain values; anything else is an error before it is made."""
        check_file(Path(path))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = torch.load(path, map_location=map_location or "cpu", weights_only=True)
        except (pickle.UnpicklingError, RuntimeError, EOFError, ValueError, LookupError, TypeError):
            found = None
        # What the loops count is read long after training has begun.
        if not isinstance(found, dict) or not _has_form(found):
            raise UserError(f"{path}: is not a checkpoint of this program; remove it to train from the start")
        # Where an earlier process wrote, and which of its files the next one removes: nothing that a file may say.
        callbacks = {
            key: each for key, each in found["callbacks"].items() if "ModelCheckpoint" not in str(key)
        }
        return {**found, "callbacks": callbacks}


COUNTERS = ("ready", "started", "processed", "completed", "is_last_batch", "_batches_that_stepped")
"""The keys of loops that hold a number; all others hold dictionaries."""


def _has_form(found: dict[Any, Any]) -> bool:
    optimizers = found.get("optimizer_states")
    return (
        "state_dict" in found
        and isinstance(found.get("callbacks"), dict)
        and _is_counted(found.get("loops"))
        and isinstance(optimizers, list)
        and all(isinstance(each, dict) and _are_groups(each.get("param_groups")) for each in optimizers)
    )


def _are_groups(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, dict) for each in value)


def _is_counted(value: Any, key: Any = None) -> bool:
    if key in COUNTERS:
        return isinstance(value, int) and 0 <= value < 2**53
    return isinstance(value, dict) and all(_is_counted(each, name) for name, each in value.items())
