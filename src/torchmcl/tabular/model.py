"""A trained model of a table: from encoded rows to distributions in the units of the targets."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.distributions import Distribution

from torchmcl.hypotheses import Hypotheses
from torchmcl.tabular.answers import Answer, distribution
from torchmcl.tabular.columns import Columns
from torchmcl.tabular.scaling import Standard

__all__ = ["TableModel"]

Array = NDArray[np.float64]
CHUNK = 8192
"""Rows predicted at once, so that memory stays bounded."""


@dataclass(frozen=True, eq=False)
class TableModel:
    """Everything that a prediction needs.

    Args:
        columns: How a row becomes numbers.
        units: Center and scale of the targets.
        network: Maps `(members, rows, features)` to hypotheses in standardized units; in double precision, so that
            the answer for a row does not depend on the rows beside it.
        factors: Of the widths of each member; where hypotheses have none, the width of all of them.
        hypotheses: K.
        directional: Whether targets are directions (azimuth, elevation).
        scalar: Whether `y` was `(rows,)`.
    """

    columns: Columns
    units: Standard
    network: nn.Module
    factors: Tensor
    hypotheses: int
    directional: bool
    scalar: bool

    @property
    def dim(self) -> int:
        """Coordinates of a target."""
        return len(self.units.center)

    def answer(self, inputs: Tensor) -> Answer:
        """What the networks say on all rows at once."""
        with torch.no_grad():
            members = self.network(inputs.double().expand(len(self.factors), *inputs.shape))
        return Answer(members, self.factors, self.units, self.directional)

    def parts(self, inputs: Tensor) -> Iterator[tuple[slice, Answer]]:
        """What the networks say on successive rows, so many at once that memory stays bounded."""
        for start in range(0, len(inputs), CHUNK):
            rows = slice(start, start + CHUNK)
            yield rows, self.answer(inputs[rows])

    def pooled(self, inputs: Tensor) -> Hypotheses:
        """The hypotheses of all members as one distribution, `(rows, members x K)`, in standardized units."""
        return Hypotheses.cat([part.pooled for _, part in self.parts(inputs)])

    def mean(self, inputs: Tensor) -> Array:
        """`(rows, dim)`."""
        return np.concatenate([part.mean() for _, part in self.parts(inputs)])

    def std(self, inputs: Tensor) -> Array:
        """`(rows, dim)`."""
        self._refuse_directions("predict_std")
        return np.concatenate([part.std() for _, part in self.parts(inputs)])

    def merged(self, inputs: Tensor) -> Hypotheses:
        """K hypotheses for each row in the units of the targets."""
        return Hypotheses.cat([part.merged(self.hypotheses) for _, part in self.parts(inputs)])

    def distribution(self, inputs: Tensor) -> Distribution:
        """Batch shape `(rows,)`, event shape `(dim,)`."""
        self._refuse_directions("predict_dist")
        return distribution(self.pooled(inputs), self.units)

    def quantiles(self, inputs: Tensor, levels: Array) -> Array:
        """`(rows, levels, dim)` at levels that broadcast to that shape; infinite at 0 and 1."""
        self._refuse_directions("predict_quantiles")
        wanted = np.broadcast_to(levels, (len(inputs), levels.shape[-2], self.dim)).copy()
        return np.concatenate([part.quantiles(wanted[rows]) for rows, part in self.parts(inputs)])

    def sample(self, inputs: Tensor, n: int, seed: int) -> Array:
        """`(rows, n, dim)`."""
        self._refuse_directions("sample")
        with torch.random.fork_rng([]):
            torch.manual_seed(seed)
            return np.concatenate([part.sample(n) for _, part in self.parts(inputs)])

    def log_prob(self, inputs: Tensor, y: Array) -> Array:
        """`(rows,)` at `y (rows, dim)`."""
        self._refuse_directions("log_prob")
        return np.concatenate([part.log_prob(y[rows]) for rows, part in self.parts(inputs)])

    def _refuse_directions(self, what: str) -> None:
        if self.directional:
            raise ValueError(f"{what} is not for directions: use predict or predict_hypotheses")
