"""What happens in a step of training and of validation."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NoReturn

import torch
from lightning.pytorch import LightningModule
from torch import Tensor, nn
from torch.optim import Adam, Optimizer
from torchmetrics import Metric, MetricCollection

from torchmcl.errors import UserError
from torchmcl.hypotheses import Hypotheses
from torchmcl.training.distributed import gather_batch, gather_hypotheses
from torchmcl.training.restoring import check_form, check_optimizer
from torchmcl.training.schedules import Schedule, Scheduled, constant

__all__ = ["Learner", "Loss"]

Loss = Callable[[Hypotheses, Tensor, Tensor | None], Tensor]
"""A function of hypotheses, targets and active."""

CHECK_INTERVAL = 50
"""On an accelerator, steps between two looks at the losses: each look waits for the device."""


class Learner(LightningModule):
    """Trains `network` on batches `(inputs, targets, active)`; further entries of a batch are ignored.

    Logs `training_loss`, `validation_loss` and each of `metrics` under its own name, once an epoch. The validation
    step returns `{"hypotheses": ...}`, which callbacks receive as `outputs` of `on_validation_batch_end`.

    With several processes the loss is computed over the gathered batch of all of them. Averaging within each process
    would weight targets by the number of targets on their process.

    Args:
        network: Maps inputs to `Hypotheses`.
        loss: A function of hypotheses, targets and active.
        optimizer: Makes an optimizer from the parameters.
        schedule: The factor of the learning rate, at each step.
        metrics: Metrics with `update(hypotheses, targets, active)`, by name.
        clip: The largest norm of a gradient; `None` does not clip.
        after_step: Called after each step of the optimizer.
        block: How many batches, as a list, a training step of Lightning holds.
    """

    def __init__(
        self,
        network: nn.Module,
        loss: Loss,
        *,
        optimizer: Callable[[Iterable[nn.Parameter]], Optimizer] = Adam,
        schedule: Schedule = constant,
        metrics: Mapping[str, Metric] | None = None,
        clip: float | None = None,
        after_step: Callable[[], None] | None = None,
        block: int = 1,
    ) -> None:
        super().__init__()
        # The loop over steps is here: that of Lightning calls twenty hooks for each, which small networks would feel.
        self.automatic_optimization = False
        self.network = network
        self.loss = loss
        self.make_optimizer = optimizer
        self.schedule = schedule
        self.clip = clip
        self.after_step = after_step
        self.started = False
        self.block = block
        self.metrics = MetricCollection(dict(metrics or {}), compute_groups=False)

    def forward(self, inputs: Any) -> Hypotheses:
        """The network's hypotheses for a batch of inputs.

        Args:
            inputs: A batch of them.

        Returns:
            The hypotheses.
        """
        return self.network(inputs)

    def configure_optimizers(self) -> Optimizer:
        """One optimizer; the schedule is applied by `training_step`."""
        self._optimizer = self.make_optimizer(self.parameters())
        self._rates = [group["lr"] for group in self._optimizer.param_groups]
        return self._optimizer

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Refuse weights and states of the optimizer that are not like those of this training.

        Args:
            checkpoint: What was read.
        """
        check_form(checkpoint["state_dict"], self.state_dict(), "state_dict")
        for states in checkpoint["optimizer_states"]:
            check_optimizer(states, self.make_optimizer, self.parameters())

    def on_train_start(self) -> None:
        """Learn how many steps an epoch has."""
        batches: Any = self.trainer.train_dataloader
        self._steps = int(self.trainer.num_training_batches) if self.block == 1 else len(batches.batches)
        self._epochs = float(self.trainer.max_epochs or 1)
        self._interval = 1 if self.device.type == "cpu" else CHECK_INTERVAL

    def on_train_epoch_start(self) -> None:
        """Begin the mean of the training loss, and tell the batches which epoch it is."""
        self._losses: list[Tensor] = []
        self._counts: list[int] = []
        self._finite: list[Tensor] = []
        self._checked = 0
        batches: Any = self.trainer.train_dataloader
        if hasattr(batches, "set_epoch"):
            batches.set_epoch(self.current_epoch)

    def training_step(self, batch: Sequence[Any], batch_idx: int) -> None:
        """Take a step of the optimizer with a batch, or one with each batch of a block.

        Args:
            batch: Inputs, targets, active.
            batch_idx: Its number in the epoch.
        """
        if self.block == 1:
            self._step(batch, batch_idx)
            return
        for index, each in enumerate(batch):
            self._step(each, batch_idx * self.block + index)

    def _step(self, batch: Sequence[Any], batch_idx: int) -> None:
        """A step at its learning rate."""
        self._apply_schedules(batch_idx)
        inputs, targets, active = _parts(batch)
        hypotheses = self.network(inputs)
        loss = self._loss_of_all(hypotheses, targets, active)
        if not isinstance(loss, Tensor) or loss.ndim or not loss.requires_grad:
            _refuse(loss)
        self._losses.append(loss.detach())
        self._counts.append(len(targets))
        if self._interval > 1:
            self._finite.append(torch.stack(list(self._flags(batch, hypotheses).values())))
        if len(self._losses) - self._checked >= self._interval:
            self._check(batch, hypotheses)
        self._update(loss)

    def _update(self, loss: Tensor) -> None:
        optimizer: Any = self.optimizers()
        optimizer.zero_grad()
        if self.trainer.world_size == 1:
            loss.backward()
        else:
            self.manual_backward(loss)
        if self.clip is not None:
            nn.utils.clip_grad_norm_(self.network.parameters(), self.clip)
        optimizer.step()
        if self.after_step is not None:
            self.after_step()
        self.started = True  # whatever was restored has been used

    def on_train_epoch_end(self) -> None:
        """Log the mean of the training loss, once: logging each step would slow a small network by a tenth."""
        self._check()
        weights = torch.tensor(self._counts, dtype=torch.float32)
        mean = (torch.stack(self._losses).float().cpu() * weights).sum() / weights.sum()
        self.log("training_loss", mean, sync_dist=True)
        if isinstance(self.loss, Scheduled):
            self.loss.progress = self._progress  # validation has set it to 1
            self.log_dict(self.loss.numbers)

    def validation_step(self, batch: Sequence[Any], batch_idx: int) -> dict[str, Hypotheses]:
        """Log loss and metrics of a batch; returns its hypotheses for callbacks.

        Args:
            batch: Inputs, targets, active.
            batch_idx: Its number.

        Returns:
            `{"hypotheses": ...}`.
        """
        inputs, targets, active = _parts(batch)
        hypotheses = self.network(inputs)
        loss = self.loss(hypotheses, targets, active)
        self.log("validation_loss", loss, batch_size=len(targets), sync_dist=True)
        for name, metric in self.metrics.items():
            metric.update(hypotheses, targets, active)
            self.log(name, metric)
        return {"hypotheses": hypotheses}

    def on_validation_start(self) -> None:
        """Validate with the final values of what a loss anneals, so that epochs can be compared."""
        if isinstance(self.loss, Scheduled):
            self.loss.progress = 1.0

    def _apply_schedules(self, batch_idx: int) -> None:
        if self.schedule is constant and not isinstance(self.loss, Scheduled):
            return
        epoch = self.current_epoch + batch_idx / self._steps
        if isinstance(self.loss, Scheduled):
            self.loss.progress = self._progress = epoch / self._epochs
        factor = self.schedule(epoch, self._epochs)
        for group, rate in zip(self._optimizer.param_groups, self._rates, strict=True):
            group["lr"] = rate * factor

    def _loss_of_all(self, own: Hypotheses, targets: Tensor, active: Tensor | None) -> Tensor:
        if self.trainer.world_size == 1:
            return self.loss(own, targets, active)
        present = None if active is None else gather_batch(self, active.byte()).bool()
        return self.loss(gather_hypotheses(self, own), gather_batch(self, targets), present)

    def _check(self, batch: Sequence[Any] = (), hypotheses: Hypotheses | None = None) -> None:
        """Stop where a loss since the last look is not finite, naming its batch and what else is not finite."""
        recent = self._losses[self._checked :]
        if recent and not (recent[0] if len(recent) == 1 else torch.stack(recent)).isfinite().all():
            first = next(index for index, loss in enumerate(recent) if not loss.isfinite()) + self._checked
            names = ["inputs", "active targets", "weights", "hypotheses", "logits"]
            if self._interval > 1:
                finite = self._finite[first].tolist()
            else:
                assert hypotheses is not None
                finite = [bool(flag) for flag in self._flags(batch, hypotheses).values()]
            found = [name for name, fine in zip(names, finite, strict=True) if not fine]
            cause = "" if {"inputs", "active targets"} & {*found} else "; a smaller learning_rate may help"
            raise UserError(
                f"training stopped at batch {first} of epoch {self.current_epoch}: the loss is "
                f"{self._losses[first].item()}; not finite: {', '.join(found) or 'the loss alone'}{cause}"
            )
        self._checked = len(self._losses)

    def _flags(self, batch: Sequence[Any], hypotheses: Hypotheses) -> dict[str, Tensor]:
        """Which of the suspects are finite, without waiting for the device."""
        inputs, targets, active = _parts(batch)
        if active is not None:
            targets = targets.masked_fill(
                ~active.reshape(active.shape + (1,) * (targets.ndim - active.ndim)), 0
            )
        weights = [parameter.detach().isfinite().all() for parameter in self.network.parameters()]
        return {
            "inputs": self._is_finite(inputs),
            "active targets": self._is_finite(targets),
            "weights": torch.stack(weights).all() if weights else self._is_finite(None),
            "hypotheses": self._is_finite(hypotheses.points),
            "logits": self._is_finite(hypotheses.logits),
        }

    def _is_finite(self, value: Any) -> Tensor:
        if isinstance(value, Tensor):
            return value.detach().isfinite().all()
        return torch.ones((), dtype=torch.bool, device=self.device)


def _refuse(loss: Any) -> NoReturn:
    if not isinstance(loss, Tensor):
        raise TypeError(f"loss must return a tensor, it returned {type(loss).__name__}")
    if loss.ndim:
        raise ValueError(f"loss must return one number, it returned the shape {tuple(loss.shape)}")
    raise ValueError("loss must return a number that depends on the weights of the network")


def _parts(batch: Sequence[Any]) -> tuple[Any, Tensor, Tensor | None]:
    if not isinstance(batch, Sequence) or len(batch) < 2:
        raise ValueError(f"each batch must be (inputs, targets, active, ...), got {type(batch).__name__}")
    return batch[0], batch[1], batch[2] if len(batch) > 2 else None
