"""What changes during training: the learning rate, and parameters of a loss."""

import inspect
import math
from collections.abc import Callable
from functools import partial
from numbers import Real
from typing import Any

from torch import Tensor

from torchmcl.assignment import Assign, Assignment
from torchmcl.errors import check_callable, check_number
from torchmcl.hypotheses import Hypotheses

__all__ = [
    "Schedule",
    "Scheduled",
    "constant",
    "cosine",
    "flat_cosine",
    "geometric",
    "linear",
    "scheduled_rule",
]

Schedule = Callable[[float, float], float]
"""The factor of the learning rate after so many (fractional) epochs of so many."""


def constant(epoch: float, epochs: float) -> float:
    """The same rate throughout.

    Args:
        epoch: Epochs done, with their fraction.
        epochs: Of the whole training.

    Returns:
        The factor of the learning rate.
    """
    return 1.0


def cosine(epoch: float, epochs: float) -> float:
    """From 1 to 0 along half a cosine.

    Args:
        epoch: Epochs done, with their fraction.
        epochs: Of the whole training.

    Returns:
        The factor of the learning rate.
    """
    return 0.5 * (1 + math.cos(math.pi * min(epoch / epochs, 1.0)))


def flat_cosine(epoch: float, epochs: float) -> float:
    """1 in the first half, then to 0 along half a cosine.

    Args:
        epoch: Epochs done, with their fraction.
        epochs: Of the whole training.

    Returns:
        The factor of the learning rate.
    """
    return 1.0 if epoch < epochs / 2 else cosine(2 * epoch - epochs, epochs)


class Scheduled:
    """A loss some of whose arguments change during training, such as the temperature of an annealed assignment.

    `training.fit` sets `progress` to the part of the training that is done, from 0 to 1, before each step, and to 1
    for validation, so that the validation losses of epochs can be compared. The numbers at the end of each epoch are
    logged, and as they depend on the progress alone, a resumed training continues with the right ones.

    Args:
        loss: A loss with keyword arguments.
        arguments: For each scheduled keyword argument a function from progress to its value.

    >>> from torchmcl.losses import rmcl_loss
    >>> loss = Scheduled(rmcl_loss, beta=lambda progress: 1.0 + progress)
    """

    def __init__(self, loss: Callable[..., Tensor], **arguments: Callable[[float], Any]) -> None:
        check_callable("loss", loss, "a function of hypotheses, targets and active")
        for name, value in arguments.items():
            check_callable(name, value, "a function of progress such as linear(1, 0)")
        self.loss = loss
        self.arguments = arguments
        self.progress = 0.0

    def __call__(self, hypotheses: Hypotheses, targets: Tensor, active: Tensor | None = None) -> Tensor:
        """The loss with the arguments of the present progress."""
        values = {name: value(self.progress) for name, value in self.arguments.items()}
        return self.loss(hypotheses, targets, active, **values)

    @property
    def numbers(self) -> dict[str, float]:
        """The scheduled numbers at the present progress by name; those of a rule by the names of its parameters."""
        found: dict[str, float] = {}
        for name, value in self.arguments.items():
            now = value(self.progress)
            parts = now.keywords if isinstance(now, partial) else {name: now}
            found |= {key: float(part) for key, part in parts.items() if isinstance(part, Real)}
        return found


def linear(start: int | float, end: int | float, until: int | float = 1) -> Callable[[float], float]:
    """A number that changes evenly.

    Args:
        start: Its value at the start of training.
        end: Its value from the progress `until` on.
        until: The part of the training that it changes in, above 0 and at most 1.

    Returns:
        A function from progress, 0 to 1, to the value.

    Example:
        >>> linear(20, 1)(0.5)
        10.5
    """
    check_number("start", start, finite=True)
    check_number("end", end, finite=True)
    check_number("until", until, 0, 1, open_low=True)
    return lambda progress: start + (end - start) * min(progress / until, 1.0)


def geometric(start: int | float, end: int | float, until: int | float = 1) -> Callable[[float], float]:
    """A positive number that changes by equal factors in equal times, as temperatures should.

    Args:
        start: Its value at the start of training, above 0.
        end: Its value from the progress `until` on, above 0.
        until: The part of the training that it changes in, above 0 and at most 1.

    Returns:
        A function from progress, 0 to 1, to the value.

    Example:
        >>> round(geometric(1, 0.01)(0.5), 6)
        0.1
    """
    check_number("start", start, 0, open_low=True, finite=True)
    check_number("end", end, 0, open_low=True, finite=True)
    exponent = linear(math.log(start), math.log(end), until)
    return lambda progress: math.exp(exponent(progress))


def scheduled_rule(
    rule: Callable[..., Assignment], **parameters: Callable[[float], float]
) -> Callable[[float], Assign]:
    """An assignment rule whose parameters change during training, for the argument `assign` of `Scheduled`.

    Parameters that are integers, such as n of `top_n`, are rounded.

    Args:
        rule: `annealed`, `top_n`, `relaxed` or another function of the cost.
        parameters: For each of its parameters a function from progress to its value, such as `linear(20, 1)`.

    Returns:
        A function from progress to the rule.

    Example:
        >>> from torchmcl import rmcl_loss, top_n
        >>> loss = Scheduled(rmcl_loss, assign=scheduled_rule(top_n, n=linear(20, 1)))
        >>> loss.numbers
        {'n': 20.0}
    """
    check_callable("rule", rule, "a function of the cost such as annealed")
    known = inspect.signature(rule).parameters
    for name, value in parameters.items():
        check_callable(name, value, "a function of progress such as linear(1, 0)")
        if name not in known:
            raise ValueError(f"{name} is no parameter of {getattr(rule, '__name__', 'the rule')}")
    whole = {name for name in parameters if known[name].annotation is int}

    def at(progress: float) -> Assign:
        values = {name: value(progress) for name, value in parameters.items()}
        return partial(rule, **{name: round(v) if name in whole else v for name, v in values.items()})

    return at
