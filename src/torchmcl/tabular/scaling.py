"""Standardization that a few far outliers do not decide, of numbers of any magnitude."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

__all__ = ["Standard", "limit", "weighted_quantile"]

Array = NDArray[np.float64]
REACH = 20.0
"""What lies farther from the median than so many interquartile ranges counts as if it lay there."""
LIMIT = 30.0
"""Where standardized numbers stop growing linearly."""


@dataclass(frozen=True, eq=False)
class Standard:
    """A center and a scale for each column: mean and standard deviation of what is not far outside.

    Args:
        center: `(columns,)`.
        scale: `(columns,)`, positive; 1 for a constant column.
    """

    center: Array
    scale: Array

    linear: ClassVar[bool] = True
    """Whether equal steps of a number are equal steps of the standardized one."""

    @classmethod
    def fit(cls, values: Array, weights: Array) -> "Standard":
        """Of `values (rows, columns)`, in which NaN is left out, with the weight of each row."""
        found = [_center_and_scale(column, weights) for column in values.T]
        return cls(np.array([center for center, _ in found]), np.array([scale for _, scale in found]))

    def apply(self, values: Array) -> Array:
        """In units of the scale from the center; finite for any finite number."""
        return np.clip(np.clip(values / self.scale, -1e300, 1e300) - self.center / self.scale, -1e300, 1e300)

    def invert(self, values: Array) -> Array:
        """The numbers that `apply` would map to `values`."""
        return values * self.scale + self.center

    def log_slope(self, standardized: Array) -> Array:
        """The logarithm of the Jacobian determinant of `apply`, at standardized rows `(..., columns)`."""
        return np.full(standardized.shape[:-1], -np.log(self.scale).sum())


def limit(values: Array) -> Array:
    """Standardized numbers, where those beyond `LIMIT` grow like a logarithm only.

    >>> limit(np.array([1.0, -30.0, 1e300])).round()
    array([  1., -30., 721.])
    """
    size = np.abs(values)
    return np.where(size > LIMIT, np.sign(values) * (LIMIT + np.log1p(np.maximum(size - LIMIT, 0))), values)


def weighted_quantile(values: Array, levels: Array, weights: Array) -> Array:
    """Quantiles of a column; integer weights act as repetitions of a row.

    >>> weighted_quantile(np.array([1.0, 2.0, 3.0]), np.array([0.5]), np.array([1.0, 1.0, 4.0]))
    array([3.])
    """
    order = np.argsort(values, kind="stable")
    below = np.cumsum(weights[order])
    index = np.searchsorted(below, levels * below[-1], side="left")
    return values[order][np.minimum(index, len(values) - 1)]


def _center_and_scale(column: Array, weights: Array) -> tuple[float, float]:
    there = ~np.isnan(column)
    values, weights = column[there], weights[there]
    unit = float(np.abs(values).max(initial=0.0))
    if unit == 0.0:
        return 0.0, 1.0
    # Divided first: squares of numbers beyond 1e155 are infinite, those of numbers below 1e-160 are 0.
    values = values / unit
    low, middle, high = weighted_quantile(values, np.array([0.25, 0.5, 0.75]), weights)
    if high > low:
        reach = REACH * (high - low)
        values = np.clip(values, middle - reach, middle + reach)
    center = float(np.average(values, weights=weights))
    deviation = float(np.sqrt(np.average((values - center) ** 2, weights=weights)))
    # A constant column has a deviation of rounding errors.
    scale = deviation if deviation > 1e-12 * abs(center) else 0.0
    return center * unit, scale * unit or 1.0
