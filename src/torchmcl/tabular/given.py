"""What a user gives, as NumPy knows it; whatever is wrong with it is said with the name of the argument."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from torch import Tensor

__all__ = ["as_numpy", "naming", "read_floats"]


@contextmanager
def naming(name: str) -> Iterator[None]:
    """Whatever NumPy, pandas and scikit-learn raise becomes a `ValueError` or `TypeError` that names the argument.

    Args:
        name: Of the argument.

    Example:
        >>> with naming("y"):
        ...     np.array(["x"]).astype(float)
        Traceback (most recent call last):
        ValueError: y cannot be read: could not convert string to float: np.str_('x')
    """
    try:
        yield
    except (ValueError, TypeError, OverflowError, RuntimeError, AttributeError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        if isinstance(error, kind) and re.search(rf"\b{name}\b", str(error)):
            raise
        raise kind(f"{name} cannot be read: {error}") from error


def as_numpy(value: Any) -> Any:
    """Tensors as arrays, masked arrays with NaN where they are masked, anything else as it is."""
    if isinstance(value, Tensor):
        own = value.detach().cpu()
        return (own.double() if own.is_floating_point() else own).numpy()
    if isinstance(value, np.ma.MaskedArray):
        kind = np.float64 if value.dtype.kind in "buif" else object
        return np.ma.filled(value.astype(kind), np.nan)
    return value


def read_floats(name: str, value: Any) -> Any:
    """An argument as an array of real numbers; text, dates and complex numbers are refused.

    Args:
        name: Of the argument.
        value: What the user gave.
    """
    with naming(name):
        array = np.asarray(as_numpy(value))
        if array.dtype.kind in "mMcSU":
            raise TypeError(f"{name} must hold numbers, got {array.dtype}")
        return array.astype(np.float64)
