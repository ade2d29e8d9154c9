"""How a network is trained, and where."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from torch import nn
from torch.optim import AdamW, Optimizer

from torchmcl.errors import check_callable, check_choice, check_integer, check_number, check_text
from torchmcl.training.schedules import Schedule, constant

__all__ = ["Hardware", "Optimization", "fused_adamw"]

MOST_THREADS = 4096
"""Of a process: each takes memory before it does anything."""


def fused_adamw(parameters: Iterable[nn.Parameter], *, lr: float, weight_decay: float) -> Optimizer:
    """AdamW in one kernel for all parameters.

    Args:
        parameters: Of the network.
        lr: The learning rate.
        weight_decay: Decoupled.

    Returns:
        The optimizer.
    """
    return AdamW(parameters, lr=lr, weight_decay=weight_decay, fused=True)


@dataclass(frozen=True)
class Optimization:
    """How weights are changed, for how long, and which of them are kept.

    Args:
        epochs: At most so many.
        learning_rate: Before the schedule.
        weight_decay: Decoupled, as in AdamW.
        schedule: The factor of the learning rate, at each step.
        clip: The largest norm of a gradient; `None` does not clip.
        patience: Epochs without a better `monitor` after which training stops; `None` never stops early.
        monitor: The logged value that decides: `validation_loss` or the name of a metric.
        mode: Whether the lowest or the highest `monitor` is best.
        keep: The weights of the best epoch or the last ones. Without validation data the last ones are kept.
        ema: The decay of an exponential moving average of the weights, which is then what is validated and kept;
            `None` for no average.
        optimizer: Called with the parameters, `lr` and `weight_decay`.
        batches: At most so many batches an epoch; `None` for all.
        block: Batches that one training step of Lightning holds, with a step of the optimizer for each. Several save
            most of Lightning's time per step, which exceeds that of a small network. Callbacks see blocks as batches.
    """

    epochs: int = 20
    learning_rate: float = 1e-3
    weight_decay: float = 0.0
    schedule: Schedule = constant
    clip: float | None = None
    patience: int | None = None
    monitor: str = "validation_loss"
    mode: Literal["min", "max"] = "min"
    keep: Literal["best", "last"] = "best"
    ema: float | None = None
    optimizer: Callable[..., Optimizer] = fused_adamw
    batches: int | None = None
    block: int = 1

    def __post_init__(self) -> None:
        check_integer("epochs", self.epochs)
        check_integer("block", self.block)
        for name in ("patience", "batches"):
            if getattr(self, name) is not None:
                check_integer(name, getattr(self, name))
        for name in ("learning_rate", "weight_decay"):
            check_number(name, getattr(self, name), 0, finite=True)
        if self.clip is not None:
            check_number("clip", self.clip, 0)
        if self.ema is not None:
            check_number("ema", self.ema, 0)
            if self.ema >= 1:
                raise ValueError(f"ema must be below 1, got {self.ema}")
        check_callable("schedule", self.schedule, "a function of the epochs done and of all epochs")
        check_callable("optimizer", self.optimizer, "a function that makes an optimizer")
        check_text("monitor", self.monitor)
        check_choice("mode", self.mode, ("min", "max"))
        check_choice("keep", self.keep, ("best", "last"))


@dataclass(frozen=True)
class Hardware:
    """Where training runs.

    Args:
        accelerator: `auto`, `cpu`, `gpu` or another name that Lightning knows.
        devices: Of each machine.
        nodes: Machines.
        strategy: Lightning's; `auto` is DDP where there is more than one process.
        threads: Of each process on the CPU; `None` leaves them as they are.
    """

    accelerator: str = "auto"
    devices: int = 1
    nodes: int = 1
    strategy: str = "auto"
    threads: int | None = None

    def __post_init__(self) -> None:
        check_text("accelerator", self.accelerator)
        check_text("strategy", self.strategy)
        check_integer("devices", self.devices)
        check_integer("nodes", self.nodes)
        if self.threads is not None:
            check_integer("threads", self.threads, most=MOST_THREADS)
