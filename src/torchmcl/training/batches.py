"""Batches of tensors that are in memory."""

import math
from collections.abc import Iterator

import torch
from torch import Tensor

__all__ = ["TensorBatches"]


class TensorBatches:
    """Batches of tensors that are in memory: slices of one permutation an epoch, nothing item by item.

    >>> [x.tolist() for (x,) in TensorBatches(torch.arange(5), batch_size=2)]
    [[0, 1], [2, 3], [4]]
    """

    def __init__(self, *tensors: Tensor, batch_size: int, shuffle_seed: int | None = None) -> None:
        self.tensors = tensors
        self.batch_size = batch_size
        self.shuffle = None if shuffle_seed is None else torch.Generator().manual_seed(shuffle_seed)

    def __len__(self) -> int:
        return math.ceil(len(self.tensors[0]) / self.batch_size)

    def __iter__(self) -> Iterator[tuple[Tensor, ...]]:
        tensors = self.tensors
        if self.shuffle is not None:
            order = torch.randperm(len(tensors[0]), generator=self.shuffle).to(tensors[0].device)
            tensors = tuple(tensor.index_select(0, order) for tensor in tensors)
        yield from zip(*(tensor.split(self.batch_size) for tensor in tensors), strict=True)
