"""Callbacks of the trainer: weights to keep, averages of weights, random numbers, history, and the collapse warning."""

import csv
import io
import math
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.callbacks import Checkpoint
from torch import Tensor
from torch.optim.swa_utils import get_ema_multi_avg_fn

from torchmcl.distances import Distance, euclidean
from torchmcl.errors import UserError
from torchmcl.metrics import WinnerHistogram
from torchmcl.runs.files import write_text
from torchmcl.training.batches import seed_epoch
from torchmcl.training.restoring import check_form

__all__ = [
    "AverageWeights",
    "CollapseWarning",
    "History",
    "KeepBest",
    "Progress",
    "SeedEachEpoch",
    "collapse",
]


class KeepBest(Callback):
    """Ends training with the weights of the epoch whose `monitor` was best, kept in memory meanwhile.

    Args:
        patience: Epochs without a better value after which training stops; `None` never stops early.
        monitor: The name of a logged value.
        mode: Whether the lowest or the highest value is best.
        restore: Whether to end with the best weights; otherwise the last ones stay.
    """

    def __init__(
        self,
        patience: int | None = None,
        monitor: str = "validation_loss",
        mode: Literal["min", "max"] = "min",
        restore: bool = True,
    ) -> None:
        self.patience, self.monitor, self.mode, self.restore = patience, monitor, mode, restore
        self.best = math.inf if mode == "min" else -math.inf
        self.epoch = -1
        self.weights: dict[str, Tensor] = {}
        self.stopped = False

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if self.weights:
            check_form(self.weights, pl_module.state_dict(), "weights")
        # A resumed training that had stopped early is over.
        trainer.should_stop = trainer.should_stop or self.stopped

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if trainer.sanity_checking:
            return
        if self.monitor not in trainer.callback_metrics:
            logged = ", ".join(sorted(trainer.callback_metrics))
            raise UserError(f"monitor is {self.monitor!r}, must be one of {logged}")
        value = trainer.callback_metrics[self.monitor].item()
        if math.isnan(value):
            raise UserError(
                f"training stopped after epoch {trainer.current_epoch}: {self.monitor} is nan; "
                "a smaller learning_rate may help"
            )
        if value < self.best if self.mode == "min" else value > self.best:
            self.best, self.epoch = value, trainer.current_epoch
            if self.restore:
                self.weights = {name: each.detach().clone() for name, each in pl_module.state_dict().items()}
        elif self.patience is not None and trainer.current_epoch - self.epoch >= self.patience:
            trainer.should_stop = self.stopped = True

    def on_fit_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if self.weights:
            pl_module.load_state_dict(self.weights)

    def state_dict(self) -> dict[str, Any]:
        return {"best": self.best, "epoch": self.epoch, "weights": self.weights, "stopped": self.stopped}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        found = {name: state_dict[name] for name in ("best", "epoch", "stopped")}
        check_form(found, {"best": 0.0, "epoch": 0, "stopped": False}, "the best epoch")
        self.best, self.epoch, self.stopped = found.values()
        self.weights = {**state_dict["weights"]}


class AverageWeights(Callback):
    """Exponential moving average of the weights, which takes their place in validation and at the end.

    Step `t`, counted from 0, has the factor `min(decay, (1 + t) / (10 + t))`, so that the first weights are forgotten
    quickly. Must come after all callbacks that look at the weights in `on_validation_end`. The learner calls `update`.

    Args:
        decay: The factor of the average after many steps, such as 0.99.
    """

    def __init__(self, decay: float) -> None:
        self.decay = decay
        self.average: list[Tensor] = []
        self.steps = 0

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.live = list(pl_module.parameters())
        start = self.average or self.live
        check_form(start, self.live, "average")
        self.average = [
            value.detach().clone().to(own.device) for value, own in zip(start, self.live, strict=True)
        ]

    @torch.no_grad()
    def update(self) -> None:
        """Take the weights after a step into the average."""
        decay = min(self.decay, (1 + self.steps) / (10 + self.steps))
        get_ema_multi_avg_fn(decay)(self.average, self.live, self.steps)
        self.steps += 1

    def on_validation_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._swap()

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._swap()

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._swap()

    def _swap(self) -> None:
        for own, average in zip(self.live, self.average, strict=True):
            own.data, average.data = average.data, own.data

    def state_dict(self) -> dict[str, Any]:
        return {"average": self.average, "steps": self.steps}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        check_form(state_dict["steps"], 0, "steps")
        self.average, self.steps = list(state_dict["average"]), state_dict["steps"]


class SeedEachEpoch(Callback):
    """Random numbers depend on the seed and the number of the epoch alone: a resumed training draws the same.

    Those of a validation batch depend on its number alone, whichever process has it. Batches that are drawn with random
    numbers of their own, other than in a data module, come from `SeededBatches`.

    Args:
        seed: Of the training.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def on_train_batch_start(
        self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int
    ) -> None:
        # Not before the epoch: a resumed training makes its iterator of batches earlier, which may draw a number.
        if batch_idx == 0:
            seed_epoch(self.seed, trainer.current_epoch)

    def on_validation_batch_start(
        self,
        trainer: Trainer,
        pl_module: LightningModule,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        seed_epoch(self.seed, batch_idx * trainer.world_size + trainer.global_rank)


class History(Checkpoint):
    """One row of logged values an epoch, and the seconds of training; a resumed training continues both.

    A kind of `Checkpoint`, because Lightning calls these when all values of the epoch are there.

    Args:
        path: Where the rows are written as CSV after each epoch, if anywhere.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = path
        self.rows: list[dict[str, int | float]] = []
        self.seconds = 0.0

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._since = time.perf_counter()

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        now = time.perf_counter()
        self.seconds, self._since = self.seconds + now - self._since, now
        values = {name: float(value) for name, value in trainer.callback_metrics.items()}
        self.rows.append({"epoch": trainer.current_epoch, "step": trainer.global_step, **values})
        if self.path is not None and trainer.is_global_zero:
            text = io.StringIO()
            names = dict.fromkeys(name for row in self.rows for name in row)
            writer = csv.DictWriter(text, list(names), lineterminator="\n")
            writer.writeheader()
            writer.writerows(self.rows)
            write_text(self.path, text.getvalue())

    def state_dict(self) -> dict[str, Any]:
        return {"rows": self.rows, "seconds": self.seconds}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        check_form(state_dict["seconds"], 0.0, "seconds")
        self.rows, self.seconds = [dict(row) for row in state_dict["rows"]], state_dict["seconds"]


class Progress(Callback):
    """Calls a function with the part of the training, out of 1, that was done since its last call.

    Args:
        advance: The function; it is called about ten times a second.
    """

    INTERVAL = 0.1

    def __init__(self, advance: Callable[[float], None]) -> None:
        self.advance = advance
        self.told, self.last = 0.0, 0.0

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        if time.perf_counter() - self.last > self.INTERVAL:
            batches = int(trainer.num_training_batches)
            self._tell((trainer.current_epoch + (batch_idx + 1) / batches) / (trainer.max_epochs or 1))

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._tell(1.0)

    def _tell(self, done: float) -> None:
        self.advance(done - self.told)
        self.told, self.last = done, time.perf_counter()


def collapse(winners: Sequence[int]) -> str | None:
    """A sentence on the hypotheses that never won, and what to try; None where all have.

    Args:
        winners: How often each hypothesis won.

    Returns:
        The sentence, or `None`.

    >>> print(collapse([7, 0, 3]).split(":")[0])
    1 of 3 hypotheses never wins (hypothesis 1)
    >>> collapse([7, 2, 3]) is None
    True
    """
    never = [str(index) for index, count in enumerate(winners) if count == 0]
    if not never or not any(winners):
        return None
    shown = ", ".join(never[:10]) + (", ..." if len(never) > 10 else "")
    one = len(never) == 1
    return (
        f"{len(never)} of {len(winners)} hypotheses never {'wins' if one else 'win'} "
        f"(hypothes{'is' if one else 'es'} {shown}): try to start them spread over the targets, to let losers learn "
        "(top_n or relaxed assignment, a transport loss), or fewer hypotheses"
    )


class CollapseWarning(Callback):
    """Warns at the end of training of hypotheses that win nowhere on the validation data.

    Args:
        distance: The distance by which a hypothesis wins.
    """

    def __init__(self, distance: Distance = euclidean) -> None:
        self.distance = distance
        self.histogram: WinnerHistogram | None = None

    def on_validation_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.histogram = None

    def on_validation_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, *indices: int
    ) -> None:
        hypotheses = outputs["hypotheses"]
        if self.histogram is None:
            self.histogram = WinnerHistogram(hypotheses.n_hypotheses, self.distance).to(
                hypotheses.points.device
            )
        self.histogram.update(hypotheses, *batch[1:3])

    def on_fit_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        # torchmetrics makes a number of the histogram of a single hypothesis
        found = None if self.histogram is None else collapse(self.histogram.compute().reshape(-1).tolist())
        if found is not None and trainer.is_global_zero:
            warnings.warn(found, RuntimeWarning, stacklevel=1)
