"""Intervals and regions that hold their coverage: split conformal prediction with out-of-fold or fresh rows."""

import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Calibration"]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Calibration:
    """How unusual the targets of rows were that the model had not seen, as levels between 0 and 1.

    Args:
        interval: For each target and coordinate the level of the central interval that just contains it,
            `|2 F(y) - 1|`, `(targets, dim)`.
        region: For each target the probability of the highest-density region that just contains it, `(targets,)`.
        weights: Of the targets.
        groups: The group of each target as text, or `None`.
    """

    interval: Array
    region: Array
    weights: Array
    groups: NDArray[np.str_] | None = field(default=None)

    def interval_levels(self, coverage: float, groups: Any, rows: int) -> Array:
        """The level of the central interval that holds `coverage`, `(rows, dim)`; infinite with too few targets."""
        columns = [self._levels(column, coverage, groups, rows) for column in self.interval.T]
        return np.stack(columns, axis=1)

    def region_levels(self, coverage: float, groups: Any, rows: int) -> Array:
        """The probability of the highest-density region that holds `coverage`, `(rows,)`."""
        return self._levels(self.region, coverage, groups, rows)

    def _levels(self, scores: Array, coverage: float, groups: Any, rows: int) -> Array:
        if groups is None or self.groups is None:
            if groups is not None:
                raise ValueError("groups need a model that was calibrated by group: calibrate(X, y, groups=...)")
            return np.full(rows, _quantile(scores, self.weights, coverage))
        wanted = np.asarray(groups).astype(str)
        if wanted.shape != (rows,):
            raise ValueError(f"groups must be {(rows,)}, one for each row, got {wanted.shape}")
        levels = np.empty(rows)
        for group in np.unique(wanted):
            own = self.groups == group
            if not own.any():
                raise ValueError(f"groups holds {str(group)!r}, which calibration had no row of")
            levels[wanted == group] = _quantile(scores[own], self.weights[own], coverage, f" in group {group!s}")
        return levels


def _quantile(scores: Array, weights: Array, coverage: float, where: str = "") -> float:
    """The conformal quantile: the smallest score with `coverage` of the weight below, a new row counted as infinite."""
    order = np.argsort(scores, kind="stable")
    below = np.cumsum(weights[order])
    # The new row weighs as much as the average of the others.
    needed = coverage * (below[-1] + weights.mean())
    index = int(np.searchsorted(below, needed * (1 - 1e-12)))
    if index >= len(scores):
        least = int(np.ceil(coverage / (1 - coverage)))
        warnings.warn(
            f"{len(scores)} rows{where} are too few to calibrate a coverage of {coverage:g}, which needs {least}: "
            "the interval is infinite",
            UserWarning,
            stacklevel=2,
        )
        return np.inf
    return float(scores[order[index]])
