"""The one way of training: a network, a loss, metrics and an optimiser, by Lightning."""

import logging
import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from torch import Tensor, distributed, nn
from torch.optim import Adam, Optimizer
from torch.optim.lr_scheduler import LambdaLR
from torchmetrics import Metric, MetricCollection

from torchmcl.distances import Distance, euclidean
from torchmcl.errors import UserError
from torchmcl.hypotheses import Hypotheses
from torchmcl.metrics import WinnerHistogram

__all__ = [
    "KeepBest",
    "Learner",
    "Loss",
    "Schedule",
    "TensorBatches",
    "WatchWinners",
    "collapse",
    "constant",
    "cosine",
    "flat_cosine",
    "quiet",
    "together",
]

Loss = Callable[[Hypotheses, Tensor, Tensor | None], Tensor]
"""A function of hypotheses, targets and active."""

Schedule = Callable[[float, float], float]
"""The factor of the learning rate after so many (fractional) epochs of so many."""


def constant(epoch: float, epochs: float) -> float:
    """The same rate throughout."""
    return 1.0


def cosine(epoch: float, epochs: float) -> float:
    """From 1 to 0 along half a cosine."""
    return 0.5 * (1 + math.cos(math.pi * min(epoch / epochs, 1.0)))


def flat_cosine(epoch: float, epochs: float) -> float:
    """1 in the first half, then to 0 along half a cosine."""
    return 1.0 if epoch < epochs / 2 else cosine(2 * epoch - epochs, epochs)


@contextmanager
def quiet() -> Iterator[None]:
    """Lightning without its remarks on hardware, loggers and workers; its errors still come through."""
    loggers = [logging.getLogger(name) for name in ("lightning.pytorch", "lightning.fabric")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", module="lightning")
            warnings.filterwarnings("ignore", message=".*isinstance.treespec.*")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


class _Together(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, own: Tensor) -> Tensor:
        parts = [torch.empty_like(own) for _ in range(distributed.get_world_size())]
        distributed.all_gather(parts, own.contiguous())
        return torch.stack(parts, dim=1).flatten(0, 1)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        total = grads[0].clone(memory_format=torch.contiguous_format)
        distributed.all_reduce(total)
        return total.unflatten(0, (-1, distributed.get_world_size()))[:, distributed.get_rank()].contiguous()


def together(own: Tensor) -> Tensor:
    """The items of all processes, dealt back as `DistributedSampler` dealt them out: one of each in turn.

    Differentiable: the gradient of an item is the sum of those that the processes have for it. All must have the
    same number of items. One process alone has its own.
    """
    if not (distributed.is_available() and distributed.is_initialized()):
        return own
    return _Together.apply(own)


class Learner(LightningModule):
    """Trains `network` on batches `(inputs, targets, active)`; what a batch holds beyond these is left aside.

    `optimizer` is called with the parameters; `schedule` multiplies its learning rate at each step. The loss of
    the validation batches is logged as `validation_loss`, and each of `metrics` under its own name.

    On several processes the loss is that of the batches of all of them together, as one process would have it: a
    mean over the active targets of each would give targets a weight that depends on the company they are in.
    """

    def __init__(
        self,
        network: nn.Module,
        loss: Loss,
        *,
        optimizer: Callable[[Iterable[nn.Parameter]], Optimizer] = Adam,
        schedule: Schedule = constant,
        metrics: dict[str, Metric] | None = None,
    ) -> None:
        super().__init__()
        self.network = network
        self.loss = loss
        self.optimizer = optimizer
        self.schedule = schedule
        self.metrics = MetricCollection(dict(metrics or {}), compute_groups=False)

    def forward(self, inputs: Any) -> Hypotheses:
        return self.network(inputs)

    def training_step(self, batch: Sequence[Any], batch_idx: int) -> Tensor:
        inputs, targets, active = batch[:3]
        hypotheses = self(inputs)
        loss = self._loss_of_all(hypotheses, targets, active)
        value = loss.item()
        if not math.isfinite(value):
            raise UserError(self._diagnosis(batch, hypotheses, loss, batch_idx))
        self._loss_sum += value * len(targets)
        self._loss_count += len(targets)
        return loss

    def _loss_of_all(self, own: Hypotheses, targets: Tensor, active: Tensor | None) -> Tensor:
        if self.trainer.world_size == 1:
            return self.loss(own, targets, active)
        logits = None if own.logits is None else together(own.logits)
        everybodys = Hypotheses(together(own.points), logits, own.link)
        present = None if active is None else together(active.byte()).bool()
        return self.loss(everybodys, together(targets), present)

    def on_train_epoch_start(self) -> None:
        # Summed here and logged once: to log each step costs a tenth of a small network's step.
        self._loss_sum, self._loss_count = 0.0, 0

    def on_train_epoch_end(self) -> None:
        mean = torch.tensor(self._loss_sum / max(self._loss_count, 1), device=self.device)
        self.log("training_loss", mean, sync_dist=True)

    def validation_step(self, batch: Sequence[Any], batch_idx: int) -> dict[str, Hypotheses]:
        inputs, targets, active = batch[:3]
        hypotheses = self(inputs)
        loss = self.loss(hypotheses, targets, active)
        self.log("validation_loss", loss, batch_size=len(targets), prog_bar=True, sync_dist=True)
        for name, metric in self.metrics.items():
            metric.update(hypotheses, targets, active)
            self.log(name, metric)
        return {"hypotheses": hypotheses}

    def configure_optimizers(self) -> Any:
        optimizer = self.optimizer(self.parameters())
        if self.schedule is constant:
            return optimizer
        self.trainer.fit_loop.setup_data()
        total = int(self.trainer.estimated_stepping_batches)
        epoch = math.ceil(self.trainer.num_training_batches / self.trainer.accumulate_grad_batches)
        scheduler = LambdaLR(optimizer, lambda step: self.schedule(step / epoch, total / epoch))
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}

    def _diagnosis(self, batch: Sequence[Any], hypotheses: Hypotheses, loss: Tensor, index: int) -> str:
        inputs, targets, active = batch[:3]
        present = targets if active is None else targets[active]
        suspects = {
            "inputs": inputs,
            "active targets": present,
            "weights": torch.cat([p.detach().flatten() for p in self.network.parameters()]),
            "hypotheses": hypotheses.points,
            "logits": hypotheses.logits,
        }
        found = [
            name
            for name, value in suspects.items()
            if isinstance(value, Tensor) and value.is_floating_point() and not torch.isfinite(value).all()
        ]
        return (
            f"training stopped at batch {index} of epoch {self.current_epoch}: the loss is {loss.item()}; "
            f"not finite: {', '.join(found) if found else 'the loss alone'}"
        )


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


class TensorBatches:
    """Batches of tensors that are in memory: slices of one permutation an epoch, nothing item by item.

    >>> [x.tolist() for (x,) in TensorBatches(torch.arange(5), batch_size=2)]
    [[0, 1], [2, 3], [4]]
    """

    def __init__(self, *tensors: Tensor, batch_size: int, shuffle_seed: int | None = None) -> None:
        self.tensors = tensors
        self.batch_size = batch_size
        self.shuffle = None if shuffle_seed is None else torch.Generator().manual_seed(shuffle_seed)

    def __len__(self) -> int:
        return math.ceil(len(self.tensors[0]) / self.batch_size)

    def __iter__(self) -> Iterator[tuple[Tensor, ...]]:
        tensors = self.tensors
        if self.shuffle is not None:
            order = torch.randperm(len(tensors[0]), generator=self.shuffle).to(tensors[0].device)
            tensors = tuple(tensor.index_select(0, order) for tensor in tensors)
        yield from zip(*(tensor.split(self.batch_size) for tensor in tensors), strict=True)
