"""Several processes that train as one."""

from typing import Any

import torch
from torch import Tensor, distributed

__all__ = ["together"]


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
