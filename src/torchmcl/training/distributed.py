"""Several processes that train as one."""

from dataclasses import fields, replace
from typing import Any

from lightning.pytorch import LightningModule
from lightning.pytorch.strategies import DDPStrategy, Strategy
from torch import Tensor

from torchmcl.hypotheses import Hypotheses

__all__ = ["build_strategy", "gather_batch", "gather_hypotheses"]


def gather_batch(module: LightningModule, own: Tensor) -> Tensor:
    """The items of all processes, in the order in which `DistributedSampler` deals them out: one of each in turn.

    Differentiable: the gradient of an item is the sum of those that the processes have for it.

    Args:
        module: Of the trainer that runs the processes.
        own: The items of this process, `(batch, ...)`; each process must have as many.

    Returns:
        `(processes * batch, ...)`, or `own` where there is one process only.
    """
    if module.trainer.world_size == 1:
        return own
    gathered = module.all_gather(own, sync_grads=own.requires_grad)
    assert isinstance(gathered, Tensor)
    return gathered.transpose(0, 1).flatten(0, 1)


def gather_hypotheses(module: LightningModule, own: Hypotheses) -> Hypotheses:
    """The hypotheses of all processes, each of their tensors by `gather_batch`.

    Args:
        module: Of the trainer that runs the processes.
        own: The hypotheses of this process.

    Returns:
        The hypotheses for the gathered batch.
    """
    gathered: dict[str, Any] = {
        field.name: gather_batch(module, value)
        for field in fields(own)
        if isinstance(value := getattr(own, field.name), Tensor)
    }
    return replace(own, **gathered)


def build_strategy(name: str, processes: int) -> str | Strategy:
    """Lightning's strategy of that name; `auto` is `ddp` where there is more than one process.

    DDP runs without buffer broadcast: buffers are equal on all processes, and a process with more validation batches
    than the others would wait for a broadcast that never comes.

    Args:
        name: As Lightning's `strategy`.
        processes: How many there are.

    Returns:
        What Lightning's trainer takes as `strategy`.
    """
    if name == "ddp" or (name == "auto" and processes > 1):
        return DDPStrategy(broadcast_buffers=False)
    return name
