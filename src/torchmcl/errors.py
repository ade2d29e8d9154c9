"""Errors that name the argument: the exception for mistakes of a caller, and the checks that all functions share."""

import math
from collections.abc import Callable, Collection
from numbers import Integral, Real
from typing import Any

import torch
from torch import Tensor

__all__ = [
    "UserError",
    "check_bools",
    "check_broadcast",
    "check_callable",
    "check_choice",
    "check_coordinates",
    "check_device",
    "check_flag",
    "check_floats",
    "check_generator",
    "check_integer",
    "check_integers",
    "check_nonnegative",
    "check_number",
    "check_positive",
    "check_shape",
    "check_sizes",
    "check_tensor",
    "check_text",
    "printable",
]


MOST = 2**31 - 1
"""The greatest count: nothing of which there are more fits into a tensor that a machine can hold."""


class UserError(ValueError):
    """A wrong argument or a broken file: one sentence that names it.

    The command line prints the sentence and ends with exit code 2; it never shows a traceback for it.
    """


def printable(text: str) -> str:
    r"""Characters that cannot be printed, such as those that begin a command for the terminal, as their codes.

    Args:
        text: Of a name, a path or a file.

    Example:
        >>> printable("\x1b[31mred\n")
        '\\x1b[31mred\\n'
    """
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)


def check_floats(name: str, value: Any, axes: str = "*batch") -> None:
    """Raise unless `value` is a floating-point tensor with at least the named axes.

    Args:
        name: The name of the argument, for the message.
        value: What the caller passed.
        axes: The axes in order, separated by spaces; the first may be `*batch`, which stands for any number.

    Raises:
        TypeError: If it is no tensor, or its dtype is not floating point.
        ValueError: If it has too few or too many axes.

    Example:
        >>> check_floats("points", torch.zeros(3), "*batch hypotheses dim")
        Traceback (most recent call last):
        ValueError: points must be (*batch, hypotheses, dim), got (3,)
    """
    check_tensor(name, value)
    if not value.is_floating_point():
        raise TypeError(f"{name} must be floating point, got {value.dtype}")
    named = axes.count(" ") + (axes[0] != "*")
    if value.ndim < named or (value.ndim != named and axes[0] != "*"):
        raise ValueError(f"{name} must be ({axes.replace(' ', ', ')}), got {tuple(value.shape)}")


def check_bools(name: str, value: Any, shape: tuple[int, ...], why: str = "") -> None:
    """Raise unless `value` is a boolean mask of that shape.

    Args:
        name: The name of the argument, for the message.
        value: What the caller passed.
        shape: The shape that it must have.
        why: What gives it that shape: `"like logits"`.

    Raises:
        TypeError: If it is no tensor, or not boolean.
        ValueError: If it has another shape.
    """
    check_tensor(name, value)
    if value.dtype != torch.bool:
        raise TypeError(f"{name} must be a boolean mask, got {value.dtype}")
    check_shape(name, value, shape, why)


def check_integers(name: str, value: Any) -> None:
    """Raise a `TypeError` unless `value` is a tensor of integers.

    Args:
        name: The name of the argument, for the message.
        value: What the caller passed.

    Example:
        >>> check_integers("labels", torch.zeros(3))
        Traceback (most recent call last):
        TypeError: labels must be integers, got torch.float32
    """
    check_tensor(name, value)
    if value.dtype == torch.bool or value.is_floating_point() or value.is_complex():
        raise TypeError(f"{name} must be integers, got {value.dtype}")


def check_shape(name: str, value: Tensor, shape: tuple[int, ...], why: str = "") -> None:
    """Raise a `ValueError` unless the tensor has that shape.

    Args:
        name: The name of the argument, for the message.
        value: A tensor.
        shape: The shape that it must have.
        why: What gives it that shape: `"for this cost"`.
    """
    if value.shape != shape:
        raise ValueError(f"{name} must be {tuple(shape)}{why and ' ' + why}, got {tuple(value.shape)}")


def check_coordinates(name: str, value: Any, dim: int, whose: str) -> None:
    """Raise unless `value` is a floating-point tensor whose last axis has `dim` coordinates.

    Args:
        name: The name of the argument, for the message.
        value: What the caller passed.
        dim: The number of coordinates that its last axis must have.
        whose: Who has that number, with its verb: `"hypotheses have"`.

    Example:
        >>> check_coordinates("y", torch.zeros(3), 2, "hypotheses have")
        Traceback (most recent call last):
        ValueError: y has 3 coordinates, hypotheses have 2
    """
    check_floats(name, value)
    coordinates = value.shape[-1] if value.ndim else 0
    if coordinates != dim:
        raise ValueError(f"{name} has {coordinates} coordinates, {whose} {dim}")


def check_broadcast(name: str, value: Tensor, batch: tuple[int, ...], whose: str) -> None:
    """Raise a `ValueError` unless all axes of `value` but the last broadcast with those of a batch.

    Args:
        name: The name of the argument, for the message.
        value: A tensor `(*batch, dim)`.
        batch: The axes that it must fit.
        whose: Who has those axes, with its verb: `"x has"`.

    Example:
        >>> check_broadcast("y", torch.zeros(3, 2), (4,), "x has")
        Traceback (most recent call last):
        ValueError: y has batch axes (3,), x has (4,)
    """
    own = value.shape[:-1]
    for mine, other in zip(reversed(own), reversed(batch), strict=False):
        if mine != other and mine != 1 and other != 1:
            raise ValueError(f"{name} has batch axes {tuple(own)}, {whose} {tuple(batch)}")


def check_positive(name: str, value: Tensor) -> None:
    """Raise a `ValueError` unless all values are positive; NaN is not.

    Values that cannot be read, because a graph is being traced or the function is mapped with `torch.vmap`,
    are not checked.

    Args:
        name: The name of the argument, for the message.
        value: A tensor.
    """
    _check_all(name, value, lambda: value > 0, "must be positive")


def check_nonnegative(name: str, value: Tensor) -> None:
    """Raise a `ValueError` if a value is negative or NaN, as `check_positive` does.

    Args:
        name: The name of the argument, for the message.
        value: A tensor.
    """
    _check_all(name, value, lambda: value >= 0, "must not be negative")


def _check_all(name: str, value: Tensor, fits: Callable[[], Tensor], what: str) -> None:
    if torch.compiler.is_compiling():
        return
    try:
        right = bool(fits().all())
    except RuntimeError:
        return
    if not right:
        raise ValueError(f"{name} {what}, got {value.detach().min().item()}")


def check_number(
    name: str,
    value: Any,
    low: int | float = -math.inf,
    high: int | float = math.inf,
    *,
    open_low: bool = False,
    finite: bool = False,
) -> None:
    """Raise unless `value` is a real number between `low` and `high`; NaN is not.

    Args:
        name: The name of the argument, for the message.
        value: What the caller passed.
        low: The least value that is allowed.
        high: The greatest value that is allowed.
        open_low: Whether `low` itself is not allowed.
        finite: Whether infinity is not allowed.

    Raises:
        TypeError: If it is no real number.
        ValueError: If it lies outside.

    Example:
        >>> check_number("beta", float("nan"), low=0)
        Traceback (most recent call last):
        ValueError: beta must be at least 0, got nan
    """
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a number, got {_kind(value)}")
    number = _as_float(value)
    if finite and math.isinf(number):
        raise ValueError(f"{name} must be finite, got {value}")
    if not (low <= number <= high and (number > low or not open_low)):
        if high == math.inf:
            wanted = f"above {low}" if open_low else f"at least {low}"
            wanted = "a number" if low == -math.inf else wanted
        else:
            wanted = f"above {low} and at most {high}" if open_low else f"between {low} and {high}"
        raise ValueError(f"{name} must be {wanted}, got {value}")


def check_integer(name: str, value: Any, least: int = 1, most: int = MOST) -> None:
    """Raise unless `value` is an integer from `least` to `most`.

    Args:
        name: The name of the argument, for the message.
        value: What the caller passed.
        least: The least value that is allowed.
        most: The greatest value that is allowed.

    Raises:
        TypeError: If it is no integer.
        ValueError: If it lies outside.

    Example:
        >>> check_integer("hypotheses", 2.5)
        Traceback (most recent call last):
        TypeError: hypotheses must be an integer, got 2.5
    """
    if isinstance(value, bool) or not isinstance(value, (int, Integral, torch.SymInt)):
        raise TypeError(f"{name} must be an integer, got {_kind(value)}")
    if value < least:
        raise ValueError(f"{name} must be at least {least}, got {value}")
    if value > most:  # type: ignore[operator]  # a symbolic integer must not become a fixed one
        raise ValueError(f"{name} must be at most {most}, got {value}")


def check_sizes(name: str, value: Any) -> None:
    """Raise unless `value` is a shape: a sequence of integers, none of them negative.

    Args:
        name: The name of the argument, for the message.
        value: What the caller passed.

    Raises:
        TypeError: If it is no sequence of integers.
        ValueError: If one of them is negative.

    Example:
        >>> check_sizes("shape", 5)
        Traceback (most recent call last):
        TypeError: shape must be a sequence of integers such as (5,), got 5
    """
    if not isinstance(value, (tuple, list)):
        raise TypeError(f"{name} must be a sequence of integers such as (5,), got {_kind(value)}")
    for size in value:
        check_integer(f"each of {name}", size, least=0)


def check_device(value: Any) -> torch.device:
    """The device that a name stands for; a `ValueError` where this machine has none of that name.

    Args:
        value: What the caller passed as `device`.

    Example:
        >>> check_device("cpu")
        device(type='cpu')
    """
    if not isinstance(value, str | torch.device):
        raise TypeError(f"device must be a name such as 'cpu' or 'cuda', got {_kind(value)}")
    try:
        device = torch.device(value)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:  # as torch says that it was built without one
        reason = str(error).strip().split("\n")[0]
        raise ValueError(f"device is {str(value)!r}, which cannot be used here ({reason})") from None
    return device


def check_flag(name: str, value: Any) -> None:
    """Raise a `TypeError` unless `value` is `True` or `False`.

    Args:
        name: The name of the argument, for the message.
        value: What the caller passed.

    Example:
        >>> check_flag("detach", 1)
        Traceback (most recent call last):
        TypeError: detach must be True or False, got 1
    """
    if not isinstance(value, bool):
        raise TypeError(f"{name} must be True or False, got {_kind(value)}")


def check_text(name: str, value: Any) -> None:
    """Raise a `TypeError` unless `value` is a string.

    Args:
        name: The name of the argument, for the message.
        value: What the caller passed.

    Example:
        >>> check_text("monitor", 3)
        Traceback (most recent call last):
        TypeError: monitor must be a string, got 3
    """
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a string, got {_kind(value)}")


def check_callable(name: str, value: Any, what: str) -> None:
    """Raise a `TypeError` unless `value` can be called.

    Args:
        name: The name of the argument, for the message.
        value: What the caller passed.
        what: What it should be: `"a function of two tensors of points"`.

    Example:
        >>> check_callable("distance", "euclidean", "a function of two tensors of points")
        Traceback (most recent call last):
        TypeError: distance must be a function of two tensors of points, got 'euclidean'
    """
    if not callable(value):
        raise TypeError(f"{name} must be {what}, got {_kind(value)}")


def check_generator(value: Any) -> None:
    """Raise a `TypeError` unless the argument `generator` is a `torch.Generator` or `None`.

    Args:
        value: What the caller passed.
    """
    if value is not None and not isinstance(value, torch.Generator):
        raise TypeError(f"generator must be a torch.Generator or None, got {_kind(value)}")


def check_choice(name: str, value: Any, choices: Collection[str | None]) -> None:
    """Raise a `ValueError` unless `value` is one of the choices.

    Args:
        name: The name of the argument, for the message.
        value: What the caller passed.
        choices: What is allowed.

    Example:
        >>> check_choice("link", "tanh", ("sigmoid", "softmax"))
        Traceback (most recent call last):
        ValueError: link must be 'sigmoid' or 'softmax', got 'tanh'
    """
    if not (value is None or isinstance(value, str)) or value not in choices:
        words = [repr(choice) for choice in choices]
        listed = " or ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
        raise ValueError(f"{name} must be {listed}, got {value!r}")


def _as_float(value: Any) -> float:
    """As a float; infinite where it is an integer beyond all floats."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def check_tensor(name: str, value: Any) -> None:
    """Raise a `TypeError` unless `value` is a dense tensor: not sparse, not nested.

    Args:
        name: The name of the argument, for the message.
        value: What the caller passed.
    """
    if not isinstance(value, Tensor):
        raise TypeError(f"{name} must be a tensor, got {_kind(value)}")
    if value.layout is not torch.strided or value.is_nested:
        kind = "nested tensor" if value.is_nested else f"tensor of layout {value.layout}"
        raise TypeError(f"{name} must be a dense tensor, got a {kind}")


def _kind(value: Any) -> str:
    """A number as it is, anything else by its type: a message never prints a large object."""
    simple = isinstance(value, (bool, int, float, str, type(None)))
    return repr(value)[:80] if simple else type(value).__name__
