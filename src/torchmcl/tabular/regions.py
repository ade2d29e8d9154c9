"""Highest-density regions of the rows of a table."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from torchmcl.hypotheses import Hypotheses
from torchmcl.tabular.calibration import ROWS_AT_ONCE, density_threshold, log_density
from torchmcl.tabular.given import read_floats
from torchmcl.tabular.model import CHUNK, TableModel
from torchmcl.tabular.scaling import Standard

__all__ = ["Regions", "regions"]

Array = NDArray[np.float64]
GRID = 512
"""Points at which a density is read to find where it crosses a threshold."""


@dataclass(frozen=True, eq=False)
class Regions:
    """For each row the outcomes whose density is at least a threshold.

    Args:
        model: The model.
        inputs: Encoded rows.
        thresholds: Of the log density in the units of `y`, `(rows,)`; minus infinity where the region is everything.
    """

    model: TableModel
    inputs: Tensor
    thresholds: Array

    def __len__(self) -> int:
        return len(self.inputs)

    def contains(self, y: Any) -> NDArray[np.bool_]:
        """Whether the region of each row contains its `y`, `(rows,)` or `(rows, dim)`."""
        values = read_floats("y", y)
        wanted = (len(self), self.model.dim)
        if values.shape != wanted and not (values.ndim == 1 and wanted == (len(values), 1)):
            raise ValueError(f"y must be {wanted}, one target for each row, got {values.shape}")
        if np.isnan(values).any():
            raise ValueError("y contains NaN, which no region contains: leave such rows out")
        values = values.reshape(wanted)
        return self.model.log_prob(self.inputs, values) >= self.thresholds

    def intervals(self) -> list[Array]:
        """The region of each row as a union of intervals `(intervals, 2)`, in ascending order, for one output."""
        if self.model.dim != 1:
            raise ValueError(
                f"a region of {self.model.dim} outputs is not a union of intervals: use contains"
            )
        return list(self._intervals())

    def size(self) -> Array:
        """The total length of the intervals of each row, for one output."""
        return np.array([(each[:, 1] - each[:, 0]).sum() for each in self.intervals()])

    def _intervals(self) -> Iterator[Array]:
        thresholds = torch.from_numpy(self.thresholds)
        for start in range(0, len(self), CHUNK):
            pooled = self.model.pooled(self.inputs[start : start + CHUNK])
            for row in range(len(pooled)):
                found = _where_above(pooled[row], self.model.units, thresholds[start + row])
                yield self.model.units.invert(found.numpy())


def regions(model: TableModel, inputs: Tensor, levels: Array) -> Regions:
    """Regions of probability `levels (rows,)`; where a level is 1 or more, everything.

    Args:
        model: The model.
        inputs: Encoded rows.
        levels: The probability of each region under the predicted distribution.
    """
    thresholds = []
    for rows, part in model.parts(inputs):
        wanted = torch.from_numpy(levels[rows])
        thresholds += [
            density_threshold(part.pooled[k : k + ROWS_AT_ONCE], wanted[k : k + ROWS_AT_ONCE], model.units)
            for k in range(0, len(part), ROWS_AT_ONCE)
        ]
    return Regions(model, inputs, torch.cat(thresholds).numpy())


def _where_above(hypotheses: Hypotheses, units: Standard, threshold: Tensor) -> Tensor:
    """The intervals on which the log density of targets is at least the threshold, standardized, `(intervals, 2)`."""
    if threshold == -torch.inf:
        return torch.tensor([[-torch.inf, torch.inf]], dtype=torch.double)
    mixture = hypotheses.mixture()
    x = _grid(hypotheses)
    above = log_density(mixture, units, x[:, None]) >= threshold
    edge = (above[1:] != above[:-1]).nonzero()[:, 0]
    low, high, rising = x[edge], x[edge + 1], above[edge + 1]
    for _ in range(50):
        middle = (low + high) / 2
        inside = log_density(mixture, units, middle[:, None]) >= threshold
        low, high = torch.where(inside == rising, low, middle), torch.where(inside == rising, middle, high)
    return ((low + high) / 2).reshape(-1, 2)


def _grid(hypotheses: Hypotheses) -> Tensor:
    """Ascending points around all hypotheses, dense where one is narrow."""
    assert hypotheses.widths is not None
    steps = torch.linspace(-6, 6, 25, dtype=torch.double)
    around = hypotheses.points + hypotheses.widths[:, None] * steps
    return (
        torch.cat([around.flatten(), torch.linspace(float(around.min()), float(around.max()), GRID)])
        .sort()
        .values
    )
