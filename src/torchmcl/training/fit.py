"""The one way to train: a network, a loss, batches."""

import logging
import os
import signal
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from lightning.fabric.utilities.exceptions import MisconfigurationException
from lightning.pytorch import Callback, LightningDataModule, Trainer
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.loggers import Logger
from lightning.pytorch.utilities import rank_zero_only
from lightning.pytorch.utilities.exceptions import SIGTERMException
from torch import nn
from torchmetrics import Metric, MetricCollection

from torchmcl.errors import UserError, check_callable, check_integer, check_text
from torchmcl.runs.checkpoint import AtomicCheckpoints
from torchmcl.runs.progress import training_bar
from torchmcl.training.batches import Batches, ListedBatches, SeededBatches, check_batches
from torchmcl.training.callbacks import AverageWeights, History, KeepBest, Progress, SeedEachEpoch
from torchmcl.training.distributed import build_strategy
from torchmcl.training.learner import Learner, Loss
from torchmcl.training.settings import Hardware, Optimization

__all__ = ["Fitted", "fit", "quiet"]

UNRESTORABLE = (
    LookupError, TypeError, ValueError, ArithmeticError, AttributeError, RuntimeError, MisconfigurationException,
)  # fmt: skip
"""What restoring a checkpoint raises that is not of this training."""


@dataclass(frozen=True, eq=False)
class Fitted:
    """What came of a training.

    Args:
        network: With the kept weights, on the CPU, in evaluation mode.
        best: The best value of `monitor`; `None` without validation data.
        epochs: How many were trained.
        seconds: Of training and validation, also before it was resumed.
        history: The logged values of each epoch.
    """

    network: nn.Module
    best: float | None
    epochs: int
    seconds: float
    history: tuple[dict[str, int | float], ...]


def fit(
    network: nn.Module | Callable[[], nn.Module],
    loss: Loss,
    train: Batches | LightningDataModule,
    validation: Batches | None = None,
    *,
    seed: int,
    optimization: Optimization = Optimization(),  # noqa: B008
    hardware: Hardware = Hardware(),  # noqa: B008
    metrics: Mapping[str, Metric] | None = None,
    callbacks: Sequence[Callback] = (),
    checkpoint: str | Path | None = None,
    progress: bool | Callable[[float], None] = False,
    logger: Logger | None = None,
) -> Fitted:
    """Train a network; the same arguments give the same weights.

    The global random numbers, the number of threads, log levels and signal handlers are afterwards as they were
    before. Trainings in several threads of a process run one after another. Ctrl-C raises `KeyboardInterrupt`.

    Args:
        network: Maps inputs to `Hypotheses`; or a function that makes it, called under the seed.
        loss: A function of hypotheses, targets and active.
        train: Batches `(inputs, targets, active, ...)`, or a data module that has those of validation as well.
        validation: Batches of the same kind.
        seed: Of all random numbers that are drawn meanwhile.
        optimization: How weights are changed, for how long, and which are kept.
        hardware: Where.
        metrics: Computed on the validation data after each epoch and logged by these names; each is updated with
            hypotheses, targets and active.
        callbacks: Lightning's. During validation the network has the weights that would be kept, averaged ones
            included. `on_validation_batch_end` gets `outputs["hypotheses"]` and the batch. A callback that chooses
            weights by itself (with `keep="last"`) copies them in `on_validation_end` and loads them in `on_fit_end`.
        checkpoint: A file that is written after each epoch. Where it exists, training is resumed from it; killed at
            any moment and called again, it ends with equal weights. The caller removes it.
        progress: Whether to show a progress bar; or a function that is called with the part done since its last call.
        logger: Of Lightning, for TensorBoard and the like.

    Returns:
        The network with the kept weights, and how it came about.

    Example:
        >>> from torchmcl import HypothesisHead, rmcl_loss
        >>> from torchmcl.training import TensorBatches
        >>> data = TensorBatches(torch.rand(64, 1), torch.rand(64, 1, 2), batch_size=16, shuffle_seed=0)
        >>> fitted = fit(HypothesisHead(1, 3, 2), rmcl_loss, data, data, seed=0, optimization=Optimization(epochs=2))
        >>> fitted.epochs, len(fitted.history)
        (2, 2)
    """
    check_integer("seed", seed, least=0, most=2**63 - 1)
    _check(network, loss, train, validation)
    _check_settings(optimization, hardware, metrics)
    _check_places(callbacks, checkpoint, progress, logger)
    if optimization.block > 1 and (
        isinstance(train, LightningDataModule) or optimization.batches is not None
    ):
        raise ValueError(
            f"block is {optimization.block}, must be 1 with a data module or where batches are limited"
        )
    validated = validation is not None or isinstance(train, LightningDataModule)
    keep = KeepBest(
        optimization.patience, optimization.monitor, optimization.mode, optimization.keep == "best"
    )
    history = next((each for each in callbacks if isinstance(each, History)), None) or History()
    with ExitStack() as stack:
        stack.enter_context(_ONE_AT_A_TIME)
        stack.enter_context(_threads(hardware.threads))
        stack.enter_context(torch.random.fork_rng(range(torch.cuda.device_count())))
        stack.enter_context(quiet())
        torch.manual_seed(seed)
        average = None if optimization.ema is None else AverageWeights(optimization.ema)
        learner = Learner(
            _built(network),
            loss,
            optimizer=partial(
                optimization.optimizer,
                lr=optimization.learning_rate,
                weight_decay=optimization.weight_decay,
            ),
            schedule=optimization.schedule,
            metrics=metrics,
            clip=optimization.clip,
            after_step=None if average is None else average.update,
            block=optimization.block,
        )
        own: list[Callback] = [SeedEachEpoch(seed), *([keep] if validated else []), *callbacks]
        if history not in own:
            own.append(history)
        if progress and getattr(rank_zero_only, "rank", 0) == 0:
            advance = stack.enter_context(training_bar()) if progress is True else progress
            own.append(Progress(advance))
        if average is not None:
            own.append(average)
        trainer = _trainer(optimization, hardware, own, checkpoint, logger)
        resume = None
        if checkpoint is not None and Path(checkpoint).exists():
            resume = Path(checkpoint).absolute()
        with _interruptible(), _readable(resume, learner):
            if isinstance(train, LightningDataModule):
                trainer.fit(learner, datamodule=train, ckpt_path=resume, weights_only=True)
            else:
                batches = SeededBatches(train, seed, optimization.block)
                if isinstance(validation, list | tuple):
                    validation = ListedBatches(validation)
                trainer.fit(learner, batches, validation, ckpt_path=resume, weights_only=True)
    return Fitted(
        learner.network.cpu().eval(),
        keep.best if keep.epoch >= 0 else None,
        len(history.rows),
        history.seconds,
        tuple(history.rows),
    )


def _check(network: Any, loss: Any, train: Any, validation: Any) -> None:
    check_callable("network", network, "a torch.nn.Module or a function that makes one")
    check_callable("loss", loss, "a function of hypotheses, targets and active")
    if not isinstance(train, LightningDataModule):
        check_batches("train", train)
    elif validation is not None:
        raise ValueError("validation must be None with a data module, which has batches of its own")
    if validation is not None:
        check_batches("validation", validation)


def _check_settings(optimization: Any, hardware: Any, metrics: Any) -> None:
    _check_type("optimization", optimization, Optimization, "an Optimization")
    _check_type("hardware", hardware, Hardware, "a Hardware")
    _check_type("metrics", metrics, Mapping | None, "a mapping of names to metrics")
    for name, metric in (metrics or {}).items():
        check_text("each name of metrics", name)
        _check_type(f"metrics[{name!r}]", metric, Metric | MetricCollection, "a torchmetrics.Metric")
        if not name or "." in name or name in LOSSES:
            taken = " and ".join(LOSSES)
            raise ValueError(f"each name of metrics must have no dot and differ from {taken}, got {name!r}")


def _check_places(callbacks: Any, checkpoint: Any, progress: Any, logger: Any) -> None:
    _check_type("callbacks", callbacks, Sequence, "a sequence of callbacks")
    for each in callbacks:
        _check_type("each of callbacks", each, Callback, "a lightning.pytorch.Callback")
    _check_type("checkpoint", checkpoint, str | Path | None, "a path or None")
    if progress is not None and not isinstance(progress, bool):
        check_callable("progress", progress, "True, False or a function")
    _check_type("logger", logger, Logger | list | bool | None, "a logger of Lightning or None")


def _check_type(name: str, value: Any, kind: Any, what: str) -> None:
    if not isinstance(value, kind):
        raise TypeError(f"{name} must be {what}, got {type(value).__name__}")


def _built(network: nn.Module | Callable[[], nn.Module]) -> nn.Module:
    made = network if isinstance(network, nn.Module) else network()
    _check_type("network", made, nn.Module, "a torch.nn.Module or a function that makes one")
    if not any(each.requires_grad for each in made.parameters()):
        raise ValueError(f"network must have weights that can be trained, {type(made).__name__} has none")
    return made


LOSSES = ("training_loss", "validation_loss")
"""What is logged without being asked for."""

_ONE_AT_A_TIME = threading.RLock()
"""Random numbers, warnings and log levels belong to the process, not to a thread of it."""


def _trainer(
    optimization: Optimization,
    hardware: Hardware,
    callbacks: list[Callback],
    checkpoint: str | Path | None,
    logger: Logger | None,
) -> Trainer:
    if checkpoint is not None:
        path = Path(checkpoint).absolute()  # Lightning takes a leading ~ for the home folder
        callbacks = [
            *callbacks,
            ModelCheckpoint(
                path.parent, path.stem, enable_version_counter=False, save_on_train_epoch_end=True
            ),
        ]
    processes = hardware.devices * hardware.nodes
    on_gpus = hardware.accelerator in ("auto", "gpu", "cuda") and torch.cuda.is_available()
    try:
        return Trainer(
            accelerator=hardware.accelerator,
            devices=hardware.devices,
            num_nodes=hardware.nodes,
            strategy=build_strategy(hardware.strategy, processes),
            # PyTorch synchronizes batch norm on GPUs only.
            sync_batchnorm=processes > 1 and on_gpus,
            plugins=[AtomicCheckpoints()],
            use_distributed_sampler=False,
            max_epochs=optimization.epochs,
            limit_train_batches=optimization.batches or 1.0,
            callbacks=callbacks,
            enable_progress_bar=False,
            enable_model_summary=False,
            num_sanity_val_steps=0,
            logger=logger or False,
        )
    except (MisconfigurationException, ImportError, ValueError) as error:
        raise UserError(
            f"hardware: device {hardware.accelerator!r} cannot be used: {str(error).splitlines()[0]}"
        ) from None


@contextmanager
def _threads(count: int | None) -> Iterator[None]:
    before = torch.get_num_threads()
    if count is not None:
        torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def _readable(checkpoint: str | Path | None, learner: Learner) -> Iterator[None]:
    """Whatever goes wrong while a training is restored is the fault of its checkpoint."""
    try:
        yield
    except UserError:
        raise
    except UNRESTORABLE as error:
        if checkpoint is None or learner.started:
            raise
        raise UserError(
            f"{checkpoint}: is not a checkpoint of this training ({str(error).splitlines()[0]}); "
            "remove it to train from the start"
        ) from None


@contextmanager
def _interruptible() -> Iterator[None]:
    """Lightning turns Ctrl-C and SIGTERM into an exit and ignores further ones: give both back to the caller."""
    signals = (signal.SIGINT, signal.SIGTERM)
    before = {each: signal.getsignal(each) for each in signals}
    terminated = False
    try:
        yield
    except SIGTERMException:
        terminated = True
    except SystemExit as end:
        if isinstance(end.__context__, KeyboardInterrupt):
            raise end.__context__ from None
        raise
    finally:
        if threading.current_thread() is threading.main_thread():
            for each, handler in before.items():
                if handler is not None:
                    signal.signal(each, handler)
    if terminated:
        os.kill(os.getpid(), signal.SIGTERM)


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
