"""The rows that are trained on: a weight of two is a row that is there twice."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from torchmcl.tabular.columns import Table
from torchmcl.tabular.given import read_floats
from torchmcl.tabular.targets import Targets

__all__ = ["Rows", "merge", "read_weights"]

Array = NDArray[np.float64]
LARGEST = 1e290
"""Weights beyond are divided by the largest of them."""
MOST_COPIES = 5
"""Whole weights become repeated rows unless there were, on the average, more copies of a row than this."""


@dataclass(frozen=True, eq=False)
class Rows:
    """Inputs, targets and weights of the training rows, in an order that depends on their values alone."""

    table: Table
    targets: Targets
    weights: Array

    def __len__(self) -> int:
        return len(self.weights)


def read_weights(sample_weight: Any, rows: int, active: NDArray[np.bool_] | None = None) -> Array:
    """The weight of each row; ones where there are none.

    Args:
        sample_weight: What the user gave.
        rows: How many there are.
        active: Which targets exist, `(rows, targets)`, where at least one must have a weight.

    Raises:
        ValueError: If they are negative, not finite, all zero, or not one for each row.
    """
    if sample_weight is None:
        return np.ones(rows)
    weights: Array = read_floats("sample_weight", sample_weight)
    if weights.shape != (rows,):
        raise ValueError(f"sample_weight must be {(rows,)}, one weight for each row, got {weights.shape}")
    if not np.isfinite(weights).all() or (weights < 0).any():
        raise ValueError("sample_weight must hold finite numbers that are not negative")
    if not weights.any():
        raise ValueError("sample_weight is zero for every row: there is nothing to learn from")
    if active is not None:
        _check_some(active[weights > 0])
    # The sum of very large weights is infinite; only their proportions count.
    return weights if weights.max() < LARGEST else weights / weights.max()


def merge(table: Table, targets: Targets, weights: Array, keep_empty: bool) -> Rows:
    """Leave out rows of weight 0, put the others in an order of their own, and treat weights as repetitions.

    A row with a weight of two is the same as a row that is there twice. Whole weights become repeated rows; otherwise
    equal rows become one row that has the weight of all of them.

    Args:
        table: The inputs.
        targets: Their targets.
        weights: Of the rows.
        keep_empty: Whether rows without a target stay.
    """
    if len(targets.values) != len(table.numbers):
        raise ValueError(
            f"X has {len(table.numbers)} rows and y has {len(targets.values)}: inconsistent numbers of samples"
        )
    kept = np.flatnonzero((weights > 0) & (targets.active.any(1) | keep_empty))
    _check_some(targets.active[kept])
    table, targets, weights = table.take(kept), targets.take(kept), weights[kept]
    first, index = _unique(table, targets)
    total = np.bincount(index, weights=weights).astype(np.float64)
    whole = bool((total == np.round(total)).all())
    if whole and total.sum() <= MOST_COPIES * len(first):
        # As rows of their own they are held out one by one, as new rows that equal a training row will come.
        first, total = first.repeat(total.astype(np.int64)), np.ones(int(total.sum()))
    return Rows(table.take(first), targets.take(first), total)


def _check_some(active: NDArray[np.bool_]) -> None:
    if not active.any():
        raise ValueError("sample_weight is zero for every row that has a target")


def _unique(table: Table, targets: Targets) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    codes = [np.unique(column, return_inverse=True)[1] for column in table.labels.T]
    parts = [
        table.numbers,
        *(code[:, None] for code in codes),
        targets.values.reshape(len(targets.values), -1),
    ]
    # Adding 0 makes -0 the same as 0.
    key = np.ascontiguousarray(np.concatenate([*parts, targets.active], axis=1, dtype=np.float64) + 0.0)
    packed = key.view(np.dtype((np.void, key.shape[1] * key.itemsize)))[:, 0]
    _, first, index = np.unique(packed, return_index=True, return_inverse=True)
    return first, index.reshape(-1)
