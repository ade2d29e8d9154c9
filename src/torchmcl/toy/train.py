"""Training of one toy model."""

import logging
import signal
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from torch import Tensor, nn
from torch.optim import AdamW

from torchmcl.toy.data import Samples, draw
from torchmcl.toy.models import Method, build, loss_of
from torchmcl.toy.presets import SCHEDULES, Settings
from torchmcl.training import KeepBest, Learner, TensorBatches

__all__ = ["PATH_TIMES", "Trained", "fit", "samples", "steps"]

PATH_TIMES = (0.1, 0.6, 0.9)
PATH_LENGTH = 60
STEPS_SHOWN = 20
"""The progress bar moves after so many steps."""

VALIDATION_BATCH = 5_000
"""Small enough for the activations of twenty networks at once."""

Advance = Callable[[int], None]
"""Told how many steps have been done since it was last called."""


@dataclass(frozen=True, eq=False)
class Trained:
    """A network with the weights of its best epoch, and the path that its hypotheses took.

    `path` holds the points at `PATH_TIMES` at the steps `path_steps`.
    """

    network: nn.Module
    seconds: float
    path_steps: Tensor
    path: Tensor


def samples(settings: Settings, seed: int) -> tuple[Samples, Samples]:
    """The training and the validation set of a seed; outliers corrupt both."""
    sizes = settings.training_samples, settings.validation_samples
    seeds = np.random.SeedSequence(seed).generate_state(2).tolist()
    training, validation = (
        draw(size, each, outliers=settings.outliers) for size, each in zip(sizes, seeds, strict=True)
    )
    return training, validation


def steps(settings: Settings) -> int:
    """The number of training steps of a model that is not stopped early."""
    return settings.epochs * -(-settings.training_samples // settings.batch_size)


def fit(method: Method, settings: Settings, seed: int, advance: Advance | None = None) -> Trained:
    """Train one model; the same arguments give the same weights."""
    training, validation = samples(settings, seed)
    ensemble = method in ("ie", "ie_mean")
    watcher = _Watcher(steps(settings), advance or (lambda done: None))
    callbacks: list[Callback] = [watcher]
    if ensemble or settings.keep == "best":
        callbacks.append(KeepBest(patience=settings.patience if ensemble else None))
    with torch.random.fork_rng(range(torch.cuda.device_count())):
        torch.manual_seed(seed)
        learner = Learner(
            build(method, settings),
            loss_of(method, settings),
            optimizer=partial(
                AdamW, lr=settings.learning_rate, weight_decay=settings.weight_decay, fused=True
            ),
            schedule=SCHEDULES[settings.schedule],
        )
        start = time.perf_counter()
        _run(
            learner,
            TensorBatches(*training, batch_size=settings.batch_size, shuffle_seed=seed),
            TensorBatches(*validation, batch_size=VALIDATION_BATCH),
            epochs=settings.epochs,
            callbacks=callbacks,
        )
    seconds = time.perf_counter() - start
    network = learner.network.eval().requires_grad_(False).cpu()
    return Trained(network, seconds, torch.tensor(watcher.steps), torch.stack(watcher.points))


class _Watcher(Callback):
    """Moves the progress bar, and notes the hypotheses at more and more distant steps."""

    def __init__(self, total: int, advance: Advance) -> None:
        self.advance = advance
        self.noted = set(np.geomspace(1, total, PATH_LENGTH).astype(int).tolist())
        self.steps: list[int] = []
        self.points: list[Tensor] = []

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._note(0, pl_module)

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        if trainer.global_step in self.noted:
            self._note(trainer.global_step, pl_module)
        if trainer.global_step % STEPS_SHOWN == 0:
            self.advance(STEPS_SHOWN)

    def _note(self, step: int, learner: LightningModule) -> None:
        with torch.no_grad():
            points = learner(torch.tensor(PATH_TIMES, device=learner.device)[:, None]).points
        self.steps.append(step)
        self.points.append(points.cpu())


def _run(
    learner: Learner, training: TensorBatches, validation: TensorBatches, *, epochs: int, callbacks: list[Callback]
) -> None:
    logging.getLogger("lightning.pytorch").setLevel(logging.WARNING)
    trainer = Trainer(
        max_epochs=epochs,
        devices=1,
        logger=False,
        enable_checkpointing=False,
        enable_model_summary=False,
        enable_progress_bar=False,
        num_sanity_val_steps=0,
        callbacks=callbacks,
    )
    handler = signal.getsignal(signal.SIGINT)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module="lightning")
        warnings.filterwarnings("ignore", message=".*isinstance.treespec.*")
        try:
            trainer.fit(learner, training, validation)
        except SystemExit:
            # Lightning turns Ctrl-C into an exit and goes on ignoring further ones.
            signal.signal(signal.SIGINT, handler)
            raise KeyboardInterrupt from None
