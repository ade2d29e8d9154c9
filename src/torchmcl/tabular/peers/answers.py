"""What a method predicts for the rows of a table, and how it is judged."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import elementwise
from scipy.special import erf, logsumexp, ndtr

__all__ = ["Answer", "Fitted", "GaussianMixture", "QuantileTable", "mean_absolute"]

Array = NDArray[np.float64]


@runtime_checkable
class Answer(Protocol):
    """Predictive distributions, one for each row."""

    @property
    def mean(self) -> Array:
        """The expected value of each row."""

    def nll(self, y: Array) -> Array | None:
        """Negative log-likelihood of each row, `None` where there is no density."""

    def crps(self, y: Array) -> Array:
        """Continuous ranked probability score of each row."""

    def interval(self, coverage: float) -> tuple[Array, Array]:
        """Lower and upper ends."""


Fitted = Callable[[Array], Answer]
"""A trained method: from inputs to its answer."""


@dataclass(frozen=True)
class GaussianMixture:
    """Rows of `(rows, components)` weights, means and widths."""

    weights: Array
    means: Array
    widths: Array

    @property
    def mean(self) -> Array:
        """`sum w m`."""
        return (self.weights * self.means).sum(-1)

    def nll(self, y: Array) -> Array:
        """Of the mixture's density."""
        z = (y[:, None] - self.means) / self.widths
        with np.errstate(divide="ignore"):
            terms = np.log(self.weights) - 0.5 * z**2 - np.log(self.widths) - 0.5 * math.log(2 * math.pi)
        return -logsumexp(terms, axis=-1)

    def crps(self, y: Array) -> Array:
        """In closed form; `A` is the expected absolute value of a normal variable."""
        w, m, s = self.weights, self.means, self.widths
        first = (w * mean_absolute(y[:, None] - m, s)).sum(-1)
        second = np.empty(len(y))
        for start in range(0, len(y), 256):
            part = slice(start, start + 256)
            spread = np.hypot(s[part, :, None], s[part, None, :])
            pairs = mean_absolute(m[part, :, None] - m[part, None, :], spread)
            second[part] = np.einsum("ri,rij,rj->r", w[part], pairs, w[part])
        return first - 0.5 * second

    def quantile(self, level: float) -> Array:
        """By bracketed root finding."""
        low = (self.means - 40 * self.widths).min(-1)
        high = (self.means + 40 * self.widths).max(-1)

        def excess(y: Array, *rows: Array) -> Array:
            count = len(rows) // 3
            w, m, s = (np.stack(rows[i * count : (i + 1) * count]) for i in range(3))
            return (w * ndtr((y - m) / s)).sum(0) - level

        rows = (*self.weights.T, *self.means.T, *self.widths.T)
        return elementwise.find_root(excess, (low, high), args=rows).x

    def interval(self, coverage: float) -> tuple[Array, Array]:
        """The central interval."""
        return self.quantile((1 - coverage) / 2), self.quantile((1 + coverage) / 2)


@dataclass(frozen=True)
class QuantileTable:
    """Rows of values at `levels`, in ascending order, with intervals that were calibrated apart.

    Args:
        levels: Equally spaced in probability, `(2 i + 1) / (2 n)`: all quantiles weigh the same.
        values: `(rows, levels)`.
        ends: From a coverage to the ends of the calibrated interval.
        density: Negative log-likelihood of a row, where the method has one.
    """

    levels: Array
    values: Array
    ends: Callable[[float], tuple[Array, Array]]
    density: Callable[[Array], Array] | None = None

    @property
    def mean(self) -> Array:
        """Of the quantiles, which have equal weight."""
        return self.values.mean(-1)

    def nll(self, y: Array) -> Array | None:
        """Where the method has a density."""
        return None if self.density is None else self.density(y)

    def crps(self, y: Array) -> Array:
        """Of the distribution with equal mass on each quantile."""
        count = len(self.levels)
        ranks = 2 * np.arange(1, count + 1) - count - 1
        return np.abs(self.values - y[:, None]).mean(-1) - (self.values * ranks).sum(-1) / count**2

    def interval(self, coverage: float) -> tuple[Array, Array]:
        """As calibrated."""
        return self.ends(coverage)


def mean_absolute(difference: Array, width: Array) -> Array:
    """`E |difference + width Z|` of a standard normal variable Z."""
    z = difference / width
    return difference * erf(z / math.sqrt(2)) + width * math.sqrt(2 / math.pi) * np.exp(-0.5 * z**2)
