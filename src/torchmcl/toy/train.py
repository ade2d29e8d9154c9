"""Training of one toy model."""

import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from lightning.pytorch import Callback, Trainer
from torch import Tensor, nn

from torchmcl.memory import keep_memory
from torchmcl.toy.data import Samples, draw
from torchmcl.toy.learner import STRIDE, Advance, StridingLearner
from torchmcl.toy.models import ENSEMBLES, Method, build, loss_of
from torchmcl.toy.presets import SCHEDULES, Settings
from torchmcl.training import KeepBest, Learner, TensorBatches, quiet

__all__ = ["Trained", "epochs", "fit", "samples", "steps"]


@dataclass(frozen=True, eq=False)
class Trained:
    """A network with the weights of its best epoch, and the path that its hypotheses took.

    `path` holds the points at `learner.PATH_TIMES` at the steps `path_steps`.
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


def epochs(method: Method, settings: Settings) -> int:
    """For how many epochs a method is trained."""
    own: dict[Method, int] = {"ie": settings.ensemble_epochs, "ie_mean": settings.mean_epochs}
    return own.get(method, settings.epochs)


def steps(method: Method, settings: Settings) -> int:
    """For how many steps a method is trained."""
    return epochs(method, settings) * _batches(settings)


def fit(method: Method, settings: Settings, seed: int, advance: Advance = lambda: None) -> Trained:
    """Train one model; the same arguments give the same weights. The process keeps freed memory from then on."""
    keep_memory()
    training, validation = samples(settings, seed)
    callbacks: list[Callback] = []
    if method in ENSEMBLES or settings.keep == "best":
        callbacks.append(KeepBest())
    with torch.random.fork_rng(range(torch.cuda.device_count())):
        torch.manual_seed(seed)
        learner = StridingLearner(
            build(method, settings),
            loss_of(method, settings),
            learning_rate=settings.learning_rate,
            weight_decay=settings.weight_decay,
            schedule=SCHEDULES[settings.schedule],
            batch_size=settings.batch_size,
            batches=_batches(settings),
            epochs=epochs(method, settings),
            advance=advance,
        )
        start = time.perf_counter()
        _run(
            learner,
            FreshBatches(settings, seed, STRIDE * settings.batch_size)
            if settings.fresh
            else TensorBatches(*training, batch_size=STRIDE * settings.batch_size, shuffle_seed=seed),
            TensorBatches(*validation, batch_size=settings.validation_samples),
            epochs=epochs(method, settings),
            callbacks=callbacks,
        )
    seconds = time.perf_counter() - start
    network = learner.network.eval().requires_grad_(False).cpu()
    return Trained(network, seconds, torch.tensor(learner.path_steps), torch.stack(learner.path))


class FreshBatches:
    """Batches of samples that are drawn anew for each epoch."""

    def __init__(self, settings: Settings, seed: int, batch_size: int) -> None:
        self.settings, self.seed, self.batch_size, self.epoch = settings, seed, batch_size, 0

    def __len__(self) -> int:
        return -(-self.settings.training_samples // self.batch_size)

    def __iter__(self) -> Iterator[tuple[Tensor, ...]]:
        self.epoch += 1
        seed = int(np.random.SeedSequence([self.seed, self.epoch]).generate_state(1)[0])
        fresh = draw(self.settings.training_samples, seed, outliers=self.settings.outliers)
        return iter(TensorBatches(*fresh, batch_size=self.batch_size))


def _batches(settings: Settings) -> int:
    return -(-settings.training_samples // settings.batch_size)


def _run(
    learner: Learner,
    training: "TensorBatches | FreshBatches",
    validation: TensorBatches,
    *,
    epochs: int,
    callbacks: list[Callback],
) -> None:
    handler = signal.getsignal(signal.SIGINT)
    with quiet():
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
        try:
            trainer.fit(learner, training, validation)
        except SystemExit:
            # Lightning turns Ctrl-C into an exit and goes on ignoring further ones.
            signal.signal(signal.SIGINT, handler)
            raise KeyboardInterrupt from None
