"""Intervals and regions that hold their coverage: split conformal prediction with out-of-fold or fresh rows."""

import math
import warnings
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri
from torch import Tensor
from torch.distributions import Distribution

from torchmcl.hypotheses import Hypotheses
from torchmcl.tabular.members import pool
from torchmcl.tabular.scaling import Standard
from torchmcl.tabular.targets import Targets

__all__ = ["Calibration", "calibrate", "calibrate_out_of_fold", "density_threshold"]

Array = NDArray[np.float64]
BANDWIDTH = 0.8
"""Of the smoothing of out-of-fold levels, in probability, times the cube root of the number of targets."""
LEAST = 1e-3
"""Normal quantiles of levels below count as this, so that their logarithm is finite."""
NODES, ROWS_AT_ONCE = 256, 64
"""Nodes that tell the probability of a region, at least, and rows whose nodes are in memory at once."""
ROUNDING = 1e-9
"""Of a sum of probabilities."""
LARGEST_SEQUENCE = 50
"""Coordinates of a quasi-random sequence; with more it is no more even than random numbers."""


@dataclass(frozen=True, eq=False)
class Calibration:
    """How unusual the targets of rows were that the model had not seen, as levels between 0 and 1.

    Args:
        interval: For each target and coordinate the level of the central interval that just contains it,
            `|2 F(y) - 1|`, `(targets, dim)`.
        region: For each target the probability of the highest-density region that just contains it, `(targets,)`.
        weights: Of the targets.
        groups: The group of each target as text, or `None`.
        smooth: Whether a level is smoothed over similar coverages. Out-of-fold levels are few in small tables, and
            their conformal quantile is noisy; with fresh rows it stays as it is, for its guarantee.
        single: As `interval` and then `region`, under each of two members by itself, `(targets, 2, dim + 1)`.
        members: Of the mixture that levels are for; with `single` they are carried over to it from those of two.
    """

    interval: Array
    region: Array
    weights: Array
    groups: NDArray[Any] | None = None
    smooth: bool = False
    single: Array | None = None
    members: int = 2

    def interval_levels(self, coverage: float, groups: Any, rows: int) -> Array:
        """The level of the central interval that holds `coverage`, `(rows, dim)`; infinite with too few targets."""
        columns = range(self.interval.shape[1])
        return np.stack([self._levels(column, coverage, groups, rows) for column in columns], axis=1)

    def region_levels(self, coverage: float, groups: Any, rows: int) -> Array:
        """The probability of the highest-density region that holds `coverage`, `(rows,)`."""
        return self._levels(self.interval.shape[1], coverage, groups, rows)

    def _levels(self, column: int, coverage: float, groups: Any, rows: int) -> Array:
        """Of one coordinate, or of the region as the last column."""
        if groups is None or self.groups is None:
            if groups is not None:
                raise ValueError(
                    "groups need a model that was calibrated by group: calibrate(X, y, groups=...)"
                )
            return np.full(rows, self._level(column, coverage, slice(None)))
        wanted = np.asarray(groups).astype(str)
        if wanted.shape != (rows,):
            raise ValueError(f"groups must be {(rows,)}, one for each row, got {wanted.shape}")
        levels = np.empty(rows)
        for group in np.unique(wanted):
            own = self.groups == group
            if not own.any():
                raise ValueError(f"groups holds {str(group)!r}, which calibration had no row of")
            levels[wanted == group] = self._level(column, coverage, own, f" in group {group!s}")
        return levels

    def _level(self, column: int, coverage: float, own: Any, where: str = "") -> float:
        scores = np.column_stack([self.interval, self.region])[own, column]
        quantile = _smooth_quantile if self.smooth else _quantile
        level = quantile(scores, self.weights[own], coverage, where)
        if self.single is None or np.isinf(level):
            return level
        alone = [
            _normal(_smooth_quantile(each, self.weights[own], coverage))
            for each in self.single[own, :, column].T
        ]
        needed = carry_over(float(np.mean(alone)), _normal(level), _normal(coverage), self.members)
        return float(2 * ndtr(needed) - 1)


def carry_over(one: float, two: float, nominal: float, members: int) -> float:
    """How many standard deviations an interval needs with so many members, from what it needs with one and with two.

    The error of a member has a part that all members share, of variance a, and one of its own, of variance b, in units
    of its width. Averaged over m members, the error has variance a + b / m, and the variance of the mixture is that of
    a member plus their disagreement, 1 + b (1 - 1 / m). One member and two give a and b.

    Args:
        one: Needed with a single member.
        two: Needed with two.
        nominal: Needed where the distribution is right.
        members: How many there are.
    """
    squares = (one / nominal) ** 2, (two / nominal) ** 2
    # Negative by chance only: the levels are of few rows.
    own = max(2 * (squares[0] - squares[1]) / (1 + squares[1]), -0.5)
    spread = own * (1 - 1 / members)
    return nominal * math.sqrt(max(squares[0] - spread, 0.0) / (1 + spread))


def _quantile(scores: Array, weights: Array, coverage: float, where: str = "") -> float:
    """The conformal quantile: the smallest score with `coverage` of the weight below, a new row counted as infinite."""
    order = np.argsort(scores, kind="stable")
    below = np.cumsum(weights[order])
    # The new row weighs as much as the average of the others.
    needed = coverage * (below[-1] + weights.mean())
    index = int(np.searchsorted(below, needed * (1 - 1e-12)))
    if index >= len(scores):
        least = int(np.ceil(round(coverage / (1 - coverage), 6)))
        warnings.warn(
            f"{len(scores)} rows{where} are too few to calibrate a coverage of {coverage:g}, which needs {least}: "
            "the interval is infinite",
            UserWarning,
            stacklevel=2,
        )
        return np.inf
    return float(scores[order[index]])


def _smooth_quantile(scores: Array, weights: Array, coverage: float, where: str = "") -> float:
    """The conformal quantile, smoothed: the ratio of its normal quantile to that of a calibrated model varies little.

    The geometric mean of the ratio over coverages nearby; infinite where the conformal quantile is.
    """
    if np.isinf(_quantile(scores, weights, coverage, where)):
        return np.inf
    order = np.argsort(scores, kind="stable")
    own = weights[order]
    # A new row weighs as much as the average of the others, as in the conformal quantile.
    level = np.cumsum(own) / (own.sum() + own.mean())
    width = BANDWIDTH * len(own) ** (-1 / 3)
    near = own * np.exp(-0.5 * ((level - coverage) / width) ** 2)
    ratio = np.maximum(_normal(scores[order]), LEAST) / _normal(level)
    smooth = _normal(coverage) * np.exp(np.average(np.log(ratio), weights=near))
    return float(2 * ndtr(smooth) - 1)


def _normal(level: Any) -> Any:
    """How many standard deviations a central interval of this level reaches, under a normal distribution."""
    return ndtri((1 + np.minimum(level, 1 - 1e-12)) / 2)


def calibrate(
    pooled: Hypotheses,
    units: Standard,
    targets: Targets,
    weights: Array,
    groups: NDArray[Any] | None = None,
) -> Calibration:
    """How unusual targets are under distributions that have not seen them.

    Args:
        pooled: The distribution of each row in standardized units, `(rows, hypotheses)`.
        units: Of the targets.
        targets: Of the rows.
        weights: Of the rows.
        groups: Of the rows, as text.
    """
    row, column = targets.active.nonzero()
    y = torch.from_numpy(units.apply(targets.values[row, column]))
    levels = _levels_of(pooled[torch.from_numpy(row)], y, units)
    own_groups = None if groups is None else groups[row]
    return Calibration(levels[:, :-1], levels[:, -1], weights[row], own_groups)


def _levels_of(hypotheses: Hypotheses, y: Tensor, units: Standard) -> Array:
    """The level of the interval of each coordinate that just contains a target, then that of the region."""
    parts = [
        (hypotheses[k : k + ROWS_AT_ONCE], y[k : k + ROWS_AT_ONCE]) for k in range(0, len(y), ROWS_AT_ONCE)
    ]
    interval = torch.cat([central_level(*part) for part in parts])
    region = torch.cat([density_level(*part, units) for part in parts])
    return torch.cat([interval, region[:, None]], 1).numpy()


def calibrate_out_of_fold(
    answers: Hypotheses, members: int, units: Standard, targets: Targets, weights: Array
) -> Calibration:
    """How unusual targets are under the members that have not seen them, as a guide to the mixture of all members.

    Args:
        answers: Of the one or two members that have not seen a row, `(1 or 2, rows, K)`.
        members: Of the model.
        units: Of the targets.
        targets: Of the rows.
        weights: Of the rows.
    """
    found = replace(calibrate(pool(answers), units, targets, weights), smooth=True)
    if members <= 2:
        return found
    row, column = targets.active.nonzero()
    y = torch.from_numpy(units.apply(targets.values[row, column]))
    single = [_levels_of(each[torch.from_numpy(row)], y, units) for each in answers]
    return replace(found, single=np.stack(single, 1), members=members)


def central_level(hypotheses: Hypotheses, y: Tensor) -> Tensor:
    """`|2 F(y) - 1|` for each coordinate: the probability of the central interval that y is an end of."""
    assert hypotheses.widths is not None
    below = torch.special.ndtr((y[:, None] - hypotheses.points) / hypotheses.widths[..., None])
    return (2 * (hypotheses.probs[..., None] * below).sum(1) - 1).abs()


def density_level(hypotheses: Hypotheses, y: Tensor, units: Standard) -> Tensor:
    """The probability of the region whose density is above that of y, by a quasi-random quadrature."""
    above = _densities_of_nodes(hypotheses, units) > log_density(hypotheses.mixture(), units, y)
    return (hypotheses.probs.T * above.double().mean(0)).sum(0)


def density_threshold(hypotheses: Hypotheses, levels: Tensor, units: Standard) -> Tensor:
    """The least log density whose `density_level` is at most `levels (rows,)`, by the same quadrature.

    With another one, regions would not hold the coverage that the levels were calibrated for. Minus infinity where the
    level is 1 or more.
    """
    found = _densities_of_nodes(hypotheses, units)
    mass = (hypotheses.probs.T / len(found)).expand(found.shape)
    found, order = found.flatten(0, 1).sort(0, descending=True)
    inside = mass.flatten(0, 1).gather(0, order).cumsum(0) <= levels + ROUNDING
    everything = torch.full_like(found[:1], -torch.inf)
    return torch.cat([found, everything]).gather(0, inside.sum(0, keepdim=True))[0]


def _densities_of_nodes(hypotheses: Hypotheses, units: Standard) -> Tensor:
    """Log densities at nodes around each hypothesis, `(nodes, hypotheses, rows)`."""
    assert hypotheses.widths is not None
    nodes = _normal_nodes(*hypotheses.points.shape[1:])
    points, widths = hypotheses.points.transpose(0, 1), hypotheses.widths.T[..., None]
    return log_density(hypotheses.mixture(), units, points + widths * nodes)


@cache
def _normal_nodes(hypotheses: int, dim: int) -> Tensor:
    """Standard normal nodes `(nodes, hypotheses, 1, dim)`, even for each hypothesis and for all together."""
    # Parts of a Sobol sequence are even where they are powers of two.
    shape = hypotheses, 2 ** math.ceil(math.log2(max(NODES / hypotheses, 4))), dim
    if dim > LARGEST_SEQUENCE:
        random = torch.Generator().manual_seed(0)
        nodes = torch.randn(shape, generator=random, dtype=torch.double)
    else:
        sobol = torch.quasirandom.SobolEngine(dim, scramble=True, seed=0)
        even = sobol.draw(shape[0] * shape[1], dtype=torch.double).view(shape)
        nodes = torch.special.ndtri(even.clamp(1e-9, 1 - 1e-9))
    return nodes.transpose(0, 1)[:, :, None]


def log_density(mixture: Distribution, units: Standard, standardized: Tensor) -> Tensor:
    """The log density of targets in their own units, at standardized ones `(..., dim)`."""
    return mixture.log_prob(standardized) + torch.from_numpy(units.log_slope(standardized.numpy()))
