"""Intervals and regions that hold their coverage: split conformal prediction with out-of-fold or fresh rows."""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri
from torch import Tensor

from torchmcl.hypotheses import Hypotheses
from torchmcl.tabular.scaling import Standard
from torchmcl.tabular.targets import Targets

__all__ = ["Calibration", "calibrate"]

Array = NDArray[np.float64]
PART = 0.5
"""The part of the extrapolation from pairs to all members that is made."""
DRAWS, ROWS_AT_ONCE = 512, 32
"""Draws that tell the probability of a region, and rows whose draws are in memory at once."""


@dataclass(frozen=True, eq=False)
class Calibration:
    """How unusual the targets of rows were that the model had not seen, as levels between 0 and 1.

    Args:
        interval: For each target and coordinate the level of the central interval that just contains it,
            `|2 F(y) - 1|`, `(targets, dim)`.
        region: For each target the probability of the highest-density region that just contains it, `(targets,)`.
        weights: Of the targets.
        groups: The group of each target as text, or `None`.
        single: As `interval`, for single members where `interval` is of pairs of members, `(2 x targets, dim)`: the
            first members, then the second ones. `None` where `interval` is of all members.
        members: Of the model whose intervals are calibrated by pairs.
    """

    interval: Array
    region: Array
    weights: Array
    groups: NDArray[Any] | None = None
    single: Array | None = None
    members: int = 2

    def interval_levels(self, coverage: float, groups: Any, rows: int) -> Array:
        """The level of the central interval that holds `coverage`, `(rows, dim)`; infinite with too few targets."""
        columns = [self._levels(column, coverage, groups, rows) for column in self.interval.T]
        levels = np.stack(columns, axis=1)
        return levels if self.single is None else self._extrapolated(levels, coverage)

    def _extrapolated(self, levels: Array, coverage: float) -> Array:
        """From pairs to all members: their disagreement widens a mixture by a part that is linear in 1 / members.

        On normal quantiles, and half of the way: the whole way was measured to be too far.
        """
        assert self.single is not None
        weights = np.tile(self.weights, 2)
        alone = np.array([_quantile(column, weights, coverage) for column in self.single.T])
        z, one = (ndtri((1 + np.minimum(each, 1 - 1e-12)) / 2) for each in (levels, alone))
        step = (1 / 2 - 1 / self.members) / (1 - 1 / 2)
        moved = np.maximum(z + PART * step * np.minimum(z - one, 0.0), 0.0)
        return np.where(levels < 1, 2 * ndtr(moved) - 1, levels)

    def region_levels(self, coverage: float, groups: Any, rows: int) -> Array:
        """The probability of the highest-density region that holds `coverage`, `(rows,)`."""
        return self._levels(self.region, coverage, groups, rows)

    def _levels(self, scores: Array, coverage: float, groups: Any, rows: int) -> Array:
        if groups is None or self.groups is None:
            if groups is not None:
                raise ValueError(
                    "groups need a model that was calibrated by group: calibrate(X, y, groups=...)"
                )
            return np.full(rows, _quantile(scores, self.weights, coverage))
        wanted = np.asarray(groups).astype(str)
        if wanted.shape != (rows,):
            raise ValueError(f"groups must be {(rows,)}, one for each row, got {wanted.shape}")
        levels = np.empty(rows)
        for group in np.unique(wanted):
            own = self.groups == group
            if not own.any():
                raise ValueError(f"groups holds {str(group)!r}, which calibration had no row of")
            levels[wanted == group] = _quantile(
                scores[own], self.weights[own], coverage, f" in group {group!s}"
            )
        return levels


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


def calibrate(
    pooled: Hypotheses,
    units: Standard,
    targets: Targets,
    weights: Array,
    groups: NDArray[Any] | None = None,
    members: int | None = None,
) -> Calibration:
    """How unusual targets are under distributions that have not seen them.

    Args:
        pooled: The distribution of each row in standardized units, `(rows, hypotheses)`.
        units: Of the targets.
        targets: Of the rows.
        weights: Of the rows.
        groups: Of the rows, as text.
        members: Of the model, where `pooled` is of pairs of them.
    """
    row, column = targets.active.nonzero()
    y = torch.from_numpy(units.apply(targets.values[row, column]))
    index = torch.from_numpy(row)
    own = pooled[index]
    parts = [(own[k : k + ROWS_AT_ONCE], y[k : k + ROWS_AT_ONCE]) for k in range(0, len(y), ROWS_AT_ONCE)]
    random = torch.Generator().manual_seed(0)
    interval = torch.cat([central_level(*part) for part in parts]).numpy()
    region = torch.cat([density_level(*part, random) for part in parts]).numpy()
    own_groups = None if groups is None else groups[row]
    if members is None or members < 3:
        return Calibration(interval, region, weights[row], own_groups)
    single = torch.cat([central_level(_half(own, half), y) for half in (0, 1)]).numpy()
    return Calibration(interval, region, weights[row], own_groups, single, members)


def _half(pairs: Hypotheses, half: int) -> Hypotheses:
    """One of the two members of pooled pairs."""
    assert pairs.widths is not None
    count = pairs.n_hypotheses // 2
    part = slice(half * count, (half + 1) * count)
    return Hypotheses(pairs.points[:, part], pairs.log_probs[:, part], "softmax", pairs.widths[:, part])


def central_level(hypotheses: Hypotheses, y: Tensor) -> Tensor:
    """`|2 F(y) - 1|` for each coordinate: the probability of the central interval that y is an end of."""
    assert hypotheses.widths is not None
    below = torch.special.ndtr((y[:, None] - hypotheses.points) / hypotheses.widths[..., None])
    return (2 * (hypotheses.probs[..., None] * below).sum(1) - 1).abs()


def density_level(hypotheses: Hypotheses, y: Tensor, random: torch.Generator) -> Tensor:
    """The probability of the region whose density is above that of y, by draws."""
    mixture = hypotheses.mixture()
    own = mixture.log_prob(y)
    drawn = mixture.log_prob(mixture.sample((DRAWS,), random))
    return (drawn > own).double().mean(0)
