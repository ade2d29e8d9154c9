"""Callbacks of the trainer: best weights, early stopping, and the warning of a collapse."""

import math
import warnings
from collections.abc import Sequence
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer
from torch import Tensor

from torchmcl.distances import Distance, euclidean
from torchmcl.metrics import WinnerHistogram

__all__ = ["KeepBest", "WatchWinners", "collapse"]


class KeepBest(Callback):
    """Ends training with the weights that had the lowest `validation_loss`, kept in memory meanwhile."""

    def __init__(self, patience: int | None = None) -> None:
        self.patience = patience
        self.best = math.inf
        self.epoch = -1
        self.weights: dict[str, Tensor] = {}

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        loss = trainer.callback_metrics.get("validation_loss")
        if trainer.sanity_checking or loss is None:
            return
        if loss.item() < self.best:
            self.best, self.epoch = loss.item(), trainer.current_epoch
            self.weights = {name: value.detach().clone() for name, value in pl_module.state_dict().items()}
        elif self.patience is not None and trainer.current_epoch - self.epoch >= self.patience:
            trainer.should_stop = True

    def on_fit_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if self.weights:
            pl_module.load_state_dict(self.weights)

    def state_dict(self) -> dict[str, Any]:
        return {"best": self.best, "epoch": self.epoch, "weights": self.weights}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.best, self.epoch, self.weights = state_dict["best"], state_dict["epoch"], state_dict["weights"]


def collapse(winners: Sequence[int]) -> str | None:
    """A sentence on the hypotheses that never won, and what to try; None where all have.

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


class WatchWinners(Callback):
    """Counts which hypotheses win on the last validation batches, and warns at the end of those that never do."""

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
