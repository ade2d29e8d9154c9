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
        if not isinstance(found, dict) or "state_dict" not in found or not _is_plain(found.get("loops")):
            raise UserError(f"{path}: is not a checkpoint of this program; remove it to train from the start")
        return found


def _is_plain(value: Any) -> bool:
    """Whether it consists of dictionaries, lists, whole numbers, strings and `None`."""
    if isinstance(value, dict):
        return all(_is_plain(each) for each in value.values())
    if isinstance(value, (list, tuple)):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, (int, str))
