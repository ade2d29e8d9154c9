"""Batches of tensors that are in memory."""

import math
from collections.abc import Iterator, Mapping, Sequence, Sized
from itertools import islice
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from torchmcl.errors import check_integer, check_tensor

__all__ = ["Batches", "ListedBatches", "SeededBatches", "TensorBatches", "check_batches", "seed_epoch"]

LARGEST_SEED = 2**64 - 1


@runtime_checkable
class Batches(Sized, Protocol):
    """What `fit` trains on: anything with a length that yields batches `(inputs, targets, active, ...)`.

    Where it has a method `set_epoch(epoch)`, that is called before each epoch. The batches of an epoch must depend on
    its number alone if a training is to be resumed exactly.
    """

    def __iter__(self) -> Iterator: ...


class TensorBatches:
    """Batches of tensors in memory: slices of one permutation an epoch.

    Args:
        tensors: With the same first axis.
        batch_size: Of all batches but the last, which may be smaller.
        shuffle_seed: Decides the order, anew in each epoch; `None` keeps the order of the tensors.

    >>> [x.tolist() for (x,) in TensorBatches(torch.arange(5), batch_size=2)]
    [[0, 1], [2, 3], [4]]
    """

    def __init__(self, *tensors: Tensor, batch_size: int, shuffle_seed: int | None = None) -> None:
        if not tensors:
            raise ValueError("tensors must hold at least one tensor, got none")
        for number, tensor in enumerate(tensors):
            check_tensor(f"tensors[{number}]", tensor)
            if tensor.shape[:1] != tensors[0].shape[:1] or not tensor.ndim:
                shapes = [tuple(each.shape) for each in tensors]
                raise ValueError(f"tensors must have the same first axis, got the shapes {shapes}")
        check_integer("batch_size", batch_size)
        if shuffle_seed is not None:
            check_integer("shuffle_seed", shuffle_seed, least=0, most=LARGEST_SEED)
        self.tensors = tensors
        self.batch_size = batch_size
        self.shuffle_seed = shuffle_seed
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Choose the order of the next pass; the pass after it has that of the next epoch."""
        self.epoch = epoch

    def __len__(self) -> int:
        return math.ceil(len(self.tensors[0]) / self.batch_size)

    def __iter__(self) -> Iterator[tuple[Tensor, ...]]:
        tensors, epoch = self.tensors, self.epoch
        self.epoch = epoch + 1
        if self.shuffle_seed is not None:
            state = np.random.SeedSequence([self.shuffle_seed, epoch]).generate_state(1)
            random = torch.Generator().manual_seed(int(state[0]))
            order = torch.randperm(len(tensors[0]), generator=random).to(tensors[0].device)
            tensors = tuple(tensor.index_select(0, order) for tensor in tensors)
        yield from zip(*(tensor.split(self.batch_size) for tensor in tensors), strict=True)


class ListedBatches:
    """Batches in a list, of which Lightning would take each for a source of batches.

    Args:
        batches: The list or the tuple.
    """

    def __init__(self, batches: Sequence[Any]) -> None:
        self.batches = batches

    def __len__(self) -> int:
        return len(self.batches)

    def __iter__(self) -> Iterator:
        return iter(self.batches)


def check_batches(name: str, value: Any) -> None:
    """Raise unless `value` is `Batches`, at least one.

    Args:
        name: The name of the argument, for the message.
        value: What the caller passed.

    Raises:
        TypeError: If it is something else, or has no length.
        ValueError: If it is empty.

    Example:
        >>> check_batches("train", [])
        Traceback (most recent call last):
        ValueError: train is empty: there is no batch to learn from or to validate on
    """
    wanted = f"{name} must be batches with a length, such as TensorBatches or a DataLoader"
    if not isinstance(value, Batches) or isinstance(value, (Tensor, str, bytes, Mapping)):
        raise TypeError(f"{wanted}, got {type(value).__name__}")
    try:
        count = len(value)
    except TypeError as error:
        raise TypeError(f"{wanted}: {error}") from None
    if not count:
        raise ValueError(f"{name} is empty: there is no batch to learn from or to validate on")


def seed_epoch(seed: int, number: int) -> None:
    """Set the global random numbers by a seed and the number of an epoch or a batch.

    Without a GPU by the generator itself: `torch.manual_seed` then notes where it was called from, which takes longer
    than a step of a small network.

    Args:
        seed: Of the training.
        number: Of the epoch or the batch.
    """
    value = (1_000_003 * seed + number) % 2**63
    if torch.cuda.is_available() or torch.backends.mps.is_available():
        torch.manual_seed(value)
    else:
        torch.default_generator.manual_seed(value)


class SeededBatches:
    """Batches whose random numbers depend on the seed and the number of the epoch alone.

    The seed is set when the first batch is asked for, which a resumed training does at the same moment as any other.

    Args:
        batches: Where they come from; its sampler, where it has one, is told the number of the epoch as well.
        seed: Of the training.
        block: How many batches are handed out at once, as a list; 1 hands out the batches themselves.
    """

    def __init__(self, batches: Batches, seed: int, block: int = 1) -> None:
        self.batches, self.seed, self.block, self.epoch = batches, seed, block, 0

    def set_epoch(self, epoch: int) -> None:
        """Choose the random numbers, and pass the number of the epoch on."""
        self.epoch = epoch
        for each in (self.batches, getattr(self.batches, "sampler", None)):
            tell = getattr(each, "set_epoch", None)
            if tell is not None:
                tell(epoch)

    def __len__(self) -> int:
        return math.ceil(len(self.batches) / self.block)

    def __iter__(self) -> Iterator:
        seed_epoch(self.seed, self.epoch)
        batches = iter(self.batches)
        if self.block == 1:
            yield from batches
        while block := list(islice(batches, self.block)):
            yield block
