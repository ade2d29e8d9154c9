"""From what a user gives to standardized rows."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils.validation import validate_data

from torchmcl.tabular.columns import Columns, Table, is_frame, read_table
from torchmcl.tabular.given import as_numpy, naming
from torchmcl.tabular.recipe import Problem
from torchmcl.tabular.rows import Rows, merge, read_weights
from torchmcl.tabular.scaling import LIMIT, Standard
from torchmcl.tabular.settings import is_directional
from torchmcl.tabular.targets import read_targets
from torchmcl.tabular.warping import Warped

__all__ = ["Preparation", "prepare", "validated_table"]


@dataclass(frozen=True, eq=False)
class Preparation:
    """Rows and how they become numbers.

    Args:
        rows: That are trained on.
        columns: How an input is encoded.
        units: How a target is standardized.
        validation: The rows of `eval_set`, if there is one.
    """

    rows: Rows
    columns: Columns
    units: Standard
    validation: Rows | None

    @property
    def problem(self) -> Problem:
        """The rows in standardized units."""
        return self._problem(self.rows)

    @property
    def validation_problem(self) -> Problem | None:
        """The rows of `eval_set` in standardized units."""
        return None if self.validation is None else self._problem(self.validation)

    def warped(self) -> "Preparation":
        """The same rows, with targets of one output transformed by Yeo-Johnson."""
        active = self.rows.targets.active
        weights = self.rows.weights[active.nonzero()[0]]
        return replace(self, units=Warped.of(self.units, self.rows.targets.values[active], weights))

    def log_slope(self, held: NDArray[np.int64]) -> float:
        """Of the units, the mean over the targets of held-out rows, or of `eval_set` if there is one.

        Added to a log-likelihood of standardized targets it gives that of the targets themselves.
        """
        rows, index = (self.rows, held) if self.validation is None else (self.validation, slice(None))
        targets, weights, active = rows.targets.values[index], rows.weights[index], rows.targets.active[index]
        each = self.units.log_slope(np.clip(self.units.apply(targets), -LIMIT, LIMIT))
        total = (active * weights[:, None]).sum()
        return float((each * weights[:, None])[active].sum() / total) if total > 0 else 0.0

    def _problem(self, rows: Rows) -> Problem:
        targets = np.clip(self.units.apply(rows.targets.values), -LIMIT, LIMIT)
        targets = np.where(rows.targets.active[..., None], targets, 0.0)
        equal = bool((rows.weights == rows.weights[0]).all())
        return Problem(
            torch.from_numpy(self.columns.apply(rows.table)),
            torch.from_numpy(targets).float(),
            torch.from_numpy(rows.targets.active),
            None if equal else torch.from_numpy(rows.weights / rows.weights.mean()).float(),
            self.columns.numeric,
        )


def prepare(estimator: Any, X: Any, y: Any, sample_weight: Any, eval_set: Any) -> Preparation:
    """Check and read everything; a `ValueError` or `TypeError` names what is wrong."""
    if is_directional(estimator) and estimator.loss == "energy":
        raise ValueError("distance must be euclidean with loss='energy': directions need loss='rmcl'")
    table = validated_table(estimator, X)
    targets = read_targets(y)
    weights = read_weights(sample_weight, len(table.numbers))
    if is_directional(estimator) and targets.dim != 2:
        raise ValueError(f"y has {targets.dim} coordinates, directions have 2: azimuth and elevation")
    # Inputs without a target teach the scores of rMCL that nothing is there; the energy score learns nothing of them.
    keep_empty = estimator.loss != "energy"
    if estimator.target_transform is not None and targets.dim > 1:
        raise ValueError(f"target_transform must be None for {targets.dim} outputs: it is for one")
    rows = merge(table, targets, weights, keep_empty)
    if len(rows) < 2:
        raise ValueError(f"X and y have n_samples={len(rows)} different row: at least 2 are needed")
    columns = Columns.fit(rows.table, rows.weights)
    units = _units(estimator, rows)
    if eval_set is None:
        return Preparation(rows, columns, units, None)
    return Preparation(rows, columns, units, _read_eval_set(estimator, columns, targets.dim, eval_set))


def validated_table(estimator: Any, X: Any, categorical: tuple[bool, ...] | None = None) -> Table:
    """`X` as a table, with scikit-learn's checks of its shape and of the names of its columns.

    Args:
        estimator: That keeps or knows the names.
        X: What the user gave.
        categorical: Which columns are categories, after training.
    """
    first = categorical is None
    with naming("X"):
        if not is_frame(X):
            X = validate_data(
                estimator, _mixed(as_numpy(X)), dtype=None, ensure_all_finite=False, reset=first
            )
        else:
            validate_data(estimator, X, skip_check_array=True, reset=first)
            if not len(X) or not X.shape[1]:
                raise ValueError(
                    f"X has {len(X)} rows and {X.shape[1]} columns: at least 1 of both is needed"
                )
        return read_table(X, categorical)


def _mixed(X: Any) -> Any:
    """Lists of cells of several types as they are, where NumPy would make all of them text."""
    as_text = isinstance(X, list | tuple) and np.asarray(X).dtype.kind in "US"
    return np.array(X, dtype=object) if as_text else X


def _units(estimator: Any, rows: Rows) -> Standard:
    if is_directional(estimator):
        return Standard(np.zeros(2), np.ones(2))
    row, _ = rows.targets.active.nonzero()
    present = rows.targets.values[rows.targets.active]
    units = Standard.fit(present, rows.weights[row])
    # A constant target has a scale of 1, which would be out of proportion to a small one.
    largest = np.abs(present).max(axis=0)
    units = Standard(units.center, np.where(largest > 0, np.minimum(units.scale, largest), units.scale))
    if estimator.loss == "energy":
        return units
    # One scale for all coordinates, so that Voronoi cells keep their shape.
    return Standard(units.center, np.full_like(units.scale, units.scale.max()))


def _read_eval_set(estimator: Any, columns: Columns, dim: int, eval_set: Any) -> Rows:
    if not isinstance(eval_set, tuple | list) or len(eval_set) != 2:
        raise ValueError("eval_set must be a pair (X, y)")
    with naming("eval_set"):
        table = validated_table(estimator, eval_set[0], columns.categorical)
        targets = read_targets(eval_set[1])
        if targets.dim != dim:
            raise ValueError(f"eval_set has targets with {targets.dim} coordinates, y has {dim}")
        return merge(table, targets, np.ones(len(table.numbers)), keep_empty=False)
