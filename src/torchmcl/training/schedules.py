"""What changes during training: the learning rate, and parameters of a loss."""

import math
from collections.abc import Callable
from typing import Any

from torch import Tensor

from torchmcl.hypotheses import Hypotheses

__all__ = ["Schedule", "Scheduled", "constant", "cosine", "flat_cosine"]

Schedule = Callable[[float, float], float]
"""The factor of the learning rate after so many (fractional) epochs of so many."""


def constant(epoch: float, epochs: float) -> float:
    """The same rate throughout."""
    return 1.0


def cosine(epoch: float, epochs: float) -> float:
    """From 1 to 0 along half a cosine."""
    return 0.5 * (1 + math.cos(math.pi * min(epoch / epochs, 1.0)))


def flat_cosine(epoch: float, epochs: float) -> float:
    """1 in the first half, then to 0 along half a cosine."""
    return 1.0 if epoch < epochs / 2 else cosine(2 * epoch - epochs, epochs)


class Scheduled:
    """A loss some of whose arguments change during training, such as the temperature of an annealed assignment.

    `training.fit` sets `progress` to the part of the training that is done, from 0 to 1, before each step, and to 1
    for validation, so that the validation losses of epochs can be compared.

    Args:
        loss: A loss with keyword arguments.
        arguments: For each scheduled keyword argument a function from progress to its value.

    >>> from torchmcl.losses import rmcl_loss
    >>> loss = Scheduled(rmcl_loss, beta=lambda progress: 1.0 + progress)
    """

    def __init__(self, loss: Callable[..., Tensor], **arguments: Callable[[float], Any]) -> None:
        self.loss = loss
        self.arguments = arguments
        self.progress = 0.0

    def __call__(self, hypotheses: Hypotheses, targets: Tensor, active: Tensor | None = None) -> Tensor:
        """The loss with the arguments of the present progress."""
        values = {name: value(self.progress) for name, value in self.arguments.items()}
        return self.loss(hypotheses, targets, active, **values)
