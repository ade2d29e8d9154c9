"""Schedules of the learning rate."""

import math
from collections.abc import Callable

__all__ = ["Schedule", "constant", "cosine", "flat_cosine"]

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
