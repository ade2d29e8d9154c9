"""The one way of training: a network, a loss, metrics and an optimizer, by Lightning."""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from lightning.pytorch import LightningModule
from torch import Tensor, nn
from torch.optim import Adam, Optimizer
from torch.optim.lr_scheduler import LambdaLR
from torchmetrics import Metric, MetricCollection

from torchmcl.errors import UserError
from torchmcl.hypotheses import Hypotheses
from torchmcl.training.distributed import together
from torchmcl.training.schedules import Schedule, constant

__all__ = ["Learner", "Loss"]

Loss = Callable[[Hypotheses, Tensor, Tensor | None], Tensor]
"""A function of hypotheses, targets and active."""


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
