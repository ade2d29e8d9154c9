"""What makes a run survive: whole checkpoints, random numbers that depend on the step, and its record."""

import csv
import io
import pickle
import time
import warnings
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.callbacks import Checkpoint
from lightning.pytorch.plugins.io import TorchCheckpointIO

from torchmcl.errors import UserError
from torchmcl.runs.files import atomic, write_text

__all__ = ["CHECKPOINT", "AtomicCheckpoints", "Record", "SeedEachStep"]

CHECKPOINT = "last.ckpt"


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
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = torch.load(path, map_location=map_location or "cpu", weights_only=True)
        except (pickle.UnpicklingError, RuntimeError, EOFError, ValueError, LookupError, TypeError):
            found = None
        if not isinstance(found, dict) or "state_dict" not in found:
            raise UserError(f"{path}: is not a checkpoint of this program; remove it to train from the start")
        return found


class SeedEachStep(Callback):
    """Random numbers of a step depend on the seed and its number alone: a resumed run draws the same.

    So do those of a validation batch, whichever process has it.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def on_train_batch_start(
        self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int
    ) -> None:
        torch.manual_seed(1_000_003 * self.seed + trainer.global_step)

    def on_validation_batch_start(
        self,
        trainer: Trainer,
        pl_module: LightningModule,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        torch.manual_seed(1_000_003 * self.seed + batch_idx * trainer.world_size + trainer.global_rank)


class Record(Checkpoint):
    """One row of metrics an epoch, as CSV, and the seconds of training; both go on where they stopped.

    A kind of checkpoint, so that Lightning calls it when all metrics of the epoch are there.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rows: list[dict[str, float]] = []
        self.seconds = 0.0

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._since = time.perf_counter()

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        now = time.perf_counter()
        self.seconds, self._since = self.seconds + now - self._since, now
        values = {name: float(value) for name, value in trainer.callback_metrics.items()}
        self.rows.append({"epoch": trainer.current_epoch, "step": trainer.global_step, **values})
        if trainer.is_global_zero:
            text = io.StringIO()
            writer = csv.DictWriter(text, list(self.rows[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(self.rows)
            write_text(self.path, text.getvalue())

    def state_dict(self) -> dict[str, Any]:
        return {"rows": self.rows, "seconds": self.seconds}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.rows, self.seconds = list(state_dict["rows"]), state_dict["seconds"]
