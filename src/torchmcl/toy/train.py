"""Training of one toy model."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from torch import Tensor, nn

from torchmcl.toy.data import Samples, draw
from torchmcl.toy.models import ENSEMBLES, Method, build, loss_of
from torchmcl.toy.presets import SCHEDULES, Settings
from torchmcl.training import Optimization, TensorBatches, cosine, fit
from torchmcl.training.restoring import check_form

__all__ = ["PATH_TIMES", "Trained", "epochs", "path_points", "path_steps", "samples", "steps", "train"]

PATH_TIMES = (0.1, 0.5, 0.9)
PATH_LENGTH = 50
CHUNK = 5000
"""Samples validated at once."""


@dataclass(frozen=True, eq=False)
class Trained:
    """A network with the kept weights, and the path that its hypotheses took.

    `path` holds the points at `PATH_TIMES` at the steps `path_steps`.
    """

    network: nn.Module
    seconds: float
    path_steps: Tensor
    path: Tensor


def samples(settings: Settings, seed: int) -> tuple[Samples, Samples]:
    """The training and the validation set of a seed; outliers corrupt both.

    Args:
        settings: Sizes of the sets, and the share of outliers.
        seed: Of the draws.

    Returns:
        Training and validation set.
    """
    sizes = settings.training_samples, settings.validation_samples
    seeds = np.random.SeedSequence(seed).generate_state(2).tolist()
    training, validation = (
        draw(size, each, outliers=settings.outliers) for size, each in zip(sizes, seeds, strict=True)
    )
    return training, validation


def epochs(method: Method, settings: Settings) -> int:
    """For how many epochs a method is trained.

    Args:
        method: Which model.
        settings: Of the training.

    Returns:
        The number of epochs.
    """
    own: dict[Method, int] = {"ie": settings.ensemble_epochs, "ie_mean": settings.mean_epochs}
    return own.get(method, settings.epochs)


def steps(method: Method, settings: Settings) -> int:
    """For how many steps a method is trained.

    Args:
        method: Which model.
        settings: Of the training.

    Returns:
        The number of steps.
    """
    return epochs(method, settings) * -(-settings.training_samples // settings.batch_size)


def train(
    method: Method,
    settings: Settings,
    seed: int,
    data: tuple[Samples, Samples],
    *,
    checkpoint: Path | None = None,
    advance: Callable[[float], None] = lambda part: None,
) -> Trained:
    """Train one model; the same arguments give the same weights.

    Args:
        method: What to train.
        settings: How.
        seed: Of weights and of the order of samples.
        data: Training and validation set.
        checkpoint: Where to resume from, and what to write after each epoch.
        advance: Called with the part of the training, out of 1, that was done since its last call.

    Returns:
        The trained network and the path of its hypotheses.
    """
    training, validation = data
    ensemble = method in ENSEMBLES
    path = HypothesisPath(steps(method, settings))
    fitted = fit(
        lambda: build(method, settings),
        loss_of(method, settings),
        FreshBatches(settings, seed)
        if settings.fresh
        else TensorBatches(*training, batch_size=settings.batch_size, shuffle_seed=seed),
        TensorBatches(*validation, batch_size=CHUNK),
        seed=seed,
        optimization=Optimization(
            epochs=epochs(method, settings),
            learning_rate=settings.ensemble_rate if ensemble else settings.learning_rate,
            weight_decay=settings.weight_decay,
            schedule=cosine if ensemble else SCHEDULES[settings.schedule],
            keep="best" if ensemble else settings.keep,
        ),
        callbacks=[path],
        checkpoint=checkpoint,
        progress=advance,
    )
    network = fitted.network.requires_grad_(False)
    return Trained(network, fitted.seconds, torch.tensor(path.steps), torch.stack(path.points))


class FreshBatches:
    """Batches of samples that are drawn anew for each epoch."""

    def __init__(self, settings: Settings, seed: int) -> None:
        self.settings, self.seed, self.epoch = settings, seed, 0

    def set_epoch(self, epoch: int) -> None:
        """Choose the samples: the same epoch always has the same."""
        self.epoch = epoch

    def __len__(self) -> int:
        return -(-self.settings.training_samples // self.settings.batch_size)

    def __iter__(self) -> Iterator[tuple[Tensor, ...]]:
        seed = int(np.random.SeedSequence([self.seed, self.epoch + 1]).generate_state(1)[0])
        fresh = draw(self.settings.training_samples, seed, outliers=self.settings.outliers)
        yield from TensorBatches(*fresh, batch_size=self.settings.batch_size)


def path_steps(total: int) -> list[int]:
    """The steps at which the path is noted: before the first one, then more and more distant ones.

    Args:
        total: How many steps the training has.

    Returns:
        The steps, in order.
    """
    return [0, *sorted(set(np.geomspace(1, total, PATH_LENGTH).astype(int).tolist()))]


@torch.no_grad()
def path_points(network: nn.Module) -> Tensor:
    """The points of a path at one step.

    Args:
        network: From times to hypotheses.

    Returns:
        Points at `PATH_TIMES`.
    """
    device = next(network.parameters()).device
    return network(torch.tensor(PATH_TIMES, device=device)[:, None]).points.cpu()


class HypothesisPath(Callback):
    """The points at `PATH_TIMES`, at more and more distant steps."""

    def __init__(self, total: int) -> None:
        self.chosen = path_steps(total)
        self.steps: list[int] = []
        self.points: list[Tensor] = []

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if not self.steps:
            self._note(0, pl_module)
            return
        past = self.chosen[: len(self.steps)]
        check_form(self.steps, past, "steps")
        if self.steps != past:
            raise ValueError("steps are not those of this training")
        check_form(self.points, [path_points(pl_module)] * len(self.steps), "points")

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        step = trainer.global_step
        if step in self.chosen:
            self._note(step, pl_module)

    def _note(self, step: int, module: LightningModule) -> None:
        self.steps.append(step)
        self.points.append(path_points(module))

    def state_dict(self) -> dict[str, Any]:
        return {"steps": self.steps, "points": self.points}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.steps, self.points = list(state_dict["steps"]), list(state_dict["points"])
