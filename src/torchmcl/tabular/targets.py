"""Every form of y as one: targets with a mask."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_array

from torchmcl.tabular.given import as_numpy, naming

__all__ = ["Targets", "read_targets"]

Array = NDArray[np.float64]
LARGEST = 1e300
"""Numbers beyond are refused: their differences could be infinite."""


@dataclass(frozen=True, eq=False)
class Targets:
    """Targets of each row.

    Args:
        values: `(rows, targets, dim)`, zeros where absent.
        active: `(rows, targets)`, which exist.
        scalar: Whether `y` was `(rows,)`.
    """

    values: Array
    active: NDArray[np.bool_]
    scalar: bool

    @property
    def dim(self) -> int:
        """Coordinates of a target."""
        return self.values.shape[-1]

    def take(self, rows: NDArray[np.int64]) -> "Targets":
        """Those of some of the rows."""
        return Targets(self.values[rows], self.active[rows], self.scalar)


def read_targets(y: Any) -> Targets:
    """Read `y`: `(rows,)`, `(rows, dim)`, `(rows, targets, dim)` with NaN for absent targets, or a ragged list.

    Raises:
        ValueError: If it holds text, NaN or infinity, numbers beyond 1e300, no target at all, or has another shape.
    """
    if y is None:
        raise ValueError("MCLRegressor requires y to be passed, but the target y is None")
    with naming("y"):
        y = as_numpy(y)
        targets = _read_ragged(y) if _is_ragged(y) else _read_array(y)
    present = targets.values[targets.active]
    if not len(present):
        raise ValueError("y holds no target at all: every one of its rows is NaN or empty")
    largest = np.abs(present).max()
    if largest > LARGEST:
        raise ValueError(f"y holds {largest:g}: numbers beyond {LARGEST:g} are not supported, scale y down")
    return targets


def _is_ragged(y: Any) -> bool:
    return isinstance(y, list | tuple) and len(y) > 0 and all(np.ndim(each) == 2 for each in y)


def _read_array(y: Any) -> Targets:
    if isinstance(y, list | tuple) and len({np.shape(each) for each in y}) > 1:
        raise ValueError("y holds arrays of different shapes: each of them must be (targets, dim)")
    if np.asarray(y).dtype.kind in "mM":
        raise ValueError("y must hold numbers, got dates or durations: replace them by numbers, such as days")
    check = partial(check_array, ensure_2d=False, input_name="y")
    try:
        values = check(y, allow_nd=True, dtype=np.float64, ensure_all_finite=False)
    except ValueError as error:
        if "could not convert string" in str(error):
            raise ValueError(f"y must hold numbers: {error}") from None
        raise
    if values.ndim not in (1, 2, 3):
        raise ValueError(f"y must be (n,), (n, dim) or (n, targets, dim), got {values.shape}")
    if values.ndim < 3:
        check(values)
        return Targets(
            values.reshape(len(values), 1, -1), np.ones((len(values), 1), dtype=bool), values.ndim == 1
        )
    active = ~np.isnan(values).all(-1)
    if not np.isfinite(values[active]).all():
        raise ValueError("y contains infinity or a target with some but not all coordinates NaN")
    return Targets(np.where(active[..., None], values, 0.0), active, False)


def _read_ragged(y: Sequence[Any]) -> Targets:
    parts = [np.asarray(as_numpy(each), dtype=np.float64) for each in y]
    dims = {part.shape[1] for part in parts}
    if len(dims) != 1:
        raise ValueError(f"y holds targets with {sorted(dims)} coordinates: all must have the same number")
    counts = np.array([len(part) for part in parts])
    active = np.arange(max(counts.max(), 1)) < counts[:, None]
    values = np.zeros((*active.shape, dims.pop()))
    values[active] = np.concatenate(parts)
    if not np.isfinite(values).all():
        raise ValueError("y contains NaN or infinity: leave absent targets out of the list")
    return Targets(values, active, False)
