"""A learner for networks so small that the bookkeeping around a step would cost a tenth of it."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import AdamW

from torchmcl.hypotheses import Hypotheses
from torchmcl.training import Learner, Loss, Schedule, constant

__all__ = ["PATH_TIMES", "STRIDE", "Advance", "StridingLearner"]

STRIDE = 49
"""Optimiser steps for each step of Lightning's."""

PATH_TIMES = (0.1, 0.6, 0.9)
PATH_LENGTH = 60

Advance = Callable[[], None]
"""Called after each step."""


class Update:
    """The steps of an `AdamW(fused=True)`: the first by itself, the others straight to its kernel.

    The first finds the state and checks it. To do so again at each step, with hooks and profiling around it, takes
    twice as long as the kernel does for 80,000 weights. Every parameter must have a gradient.
    """

    def __init__(self, optimizer: AdamW) -> None:
        self.optimizer = optimizer
        self.ready = False

    def __call__(self) -> None:
        if not self.ready:
            self.optimizer.step()
            self._find_state()
            return
        group = self.group
        with torch.no_grad():
            self.count += 1
            torch._fused_adamw_(
                group["params"],
                [parameter.grad for parameter in group["params"]],
                self.means,
                self.squares,
                [],
                self.counts,
                lr=group["lr"],
                beta1=self.beta1,
                beta2=self.beta2,
                weight_decay=group["weight_decay"],
                eps=group["eps"],
                amsgrad=False,
                maximize=False,
            )

    def _find_state(self) -> None:
        (self.group,) = self.optimizer.param_groups
        self.beta1, self.beta2 = self.group["betas"]
        states = [self.optimizer.state[parameter] for parameter in self.group["params"]]
        self.means, self.squares = ([state[name] for state in states] for name in ("exp_avg", "exp_avg_sq"))
        # Views of one tensor, for one addition to count the steps of all.
        self.count = torch.stack([state["step"] for state in states])
        self.counts = list(self.count.unbind())
        for state, count in zip(states, self.counts, strict=True):
            state["step"] = count
        self.ready = True


class StridingLearner(Learner):
    """Takes an AdamW step for each `batch_size` of the samples that it is given, in the same way as `Learner`.

    The points at `PATH_TIMES` are noted in `path` at the more and more distant steps in `path_steps`.
    """

    def __init__(
        self,
        network: nn.Module,
        loss: Loss,
        *,
        learning_rate: float,
        weight_decay: float,
        schedule: Schedule,
        batch_size: int,
        batches: int,
        epochs: int,
        advance: Advance,
    ) -> None:
        strides = -(-batches // STRIDE)
        super().__init__(
            network,
            loss,
            optimizer=partial(AdamW, lr=learning_rate, weight_decay=weight_decay, fused=True),
            schedule=constant
            if schedule is constant
            else lambda epoch, total: schedule(epoch * strides / batches, total),
        )
        self.automatic_optimization = False
        self.batch_size = batch_size
        self.advance = advance
        self.noted = set(np.geomspace(1, batches * epochs, PATH_LENGTH).astype(int).tolist())
        self.path_steps: list[int] = []
        self.path: list[Tensor] = []
        self.step = 0

    def on_train_start(self) -> None:
        self._note()

    def training_step(self, batch: Sequence[Any], batch_idx: int) -> None:  # type: ignore[override]
        """A stride of steps."""
        optimizer: Any = self.optimizers(use_pl_optimizer=False)
        update = Update(optimizer)
        scheduler: Any = self.lr_schedulers()
        parameters = list(self.network.parameters())
        for part in zip(*(tensor.split(self.batch_size) for tensor in batch), strict=True):
            loss = super().training_step(part, batch_idx)
            for parameter in parameters:
                parameter.grad = None  # `zero_grad` takes ten times as long to say so
            loss.backward()
            update()
            if scheduler is not None:
                scheduler.step()
            self.step += 1
            if self.step in self.noted:
                self._note()
            self.advance()

    def validation_step(self, batch: Sequence[Any], batch_idx: int) -> None:  # type: ignore[override]
        """All samples: by the network in batches whose activations stay in the cache, by the loss at once."""
        inputs, targets, active = batch[:3]
        hypotheses = Hypotheses.cat([self(part) for part in inputs.split(self.batch_size)])
        loss = self.loss(hypotheses, targets, active)
        self.log("validation_loss", loss, batch_size=len(targets), sync_dist=True)

    def _note(self) -> None:
        with torch.no_grad():
            points = self(torch.tensor(PATH_TIMES, device=self.device)[:, None]).points
        self.path_steps.append(self.step)
        self.path.append(points.cpu())
