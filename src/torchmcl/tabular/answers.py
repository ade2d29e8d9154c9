"""The answer of a table's networks on some rows, and what can be read from it."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.distributions import AffineTransform, Distribution, TransformedDistribution

from torchmcl.directions import from_vectors, to_vectors
from torchmcl.hypotheses import Hypotheses
from torchmcl.tabular.members import pool
from torchmcl.tabular.merging import merge_hypotheses
from torchmcl.tabular.recipe import with_widths
from torchmcl.tabular.scaling import Standard
from torchmcl.tabular.warping import Warped, WarpedMixture, moments

__all__ = ["Answer"]

Array = NDArray[np.float64]
QUADRATURE = 512
"""Rows at once where each hypothesis has the nodes of a quadrature."""


@dataclass(frozen=True, eq=False)
class Answer:
    """The hypotheses of all members on some rows. The methods answer in the units of the targets.

    Args:
        members: `(members, rows, K)`, standardized.
        factors: Of the widths of each member; where hypotheses have none, the width of all of them.
        units: Center and scale of the targets.
        directional: Whether targets are directions (azimuth, elevation).
    """

    members: Hypotheses
    factors: Tensor
    units: Standard
    directional: bool

    def __len__(self) -> int:
        return self.members.points.shape[1]

    @cached_property
    def pooled(self) -> Hypotheses:
        """The hypotheses of all members as one distribution, `(rows, members x K)`, standardized."""
        return pool(with_widths(self.members, self.factors))

    def mean(self) -> Array:
        """`(rows, dim)`; for directions, the direction of the mean vector."""
        if self.directional:
            vectors = self.pooled.probs[..., None] * to_vectors(self.pooled.points)
            return from_vectors(vectors.sum(-2)).numpy()
        if isinstance(self.units, Warped):
            return self._moments(self.units)[0]
        return self.units.invert(self.pooled.mean.numpy())

    def std(self) -> Array:
        """`(rows, dim)`."""
        if isinstance(self.units, Warped):
            _, variance, unit = self._moments(self.units)
            return np.sqrt(variance) * unit
        return self.pooled.std.numpy() * self.units.scale

    def merged(self, count: int) -> Hypotheses:
        """`count` hypotheses for each row; those of one member without widths are left as they are."""
        own = self.members
        found = own[0] if own.widths is None else merge_hypotheses(self.pooled, count)
        if isinstance(self.units, Warped):
            assert found.widths is not None
            bent = found.points.numpy()
            # The slope at the point itself turns a width into the units of the targets.
            stretch = torch.from_numpy(np.exp(-self.units.log_slope(bent)))
            points = torch.from_numpy(self.units.invert(bent))
            return Hypotheses(points, found.logits, found.link, found.widths * stretch)
        scale = torch.from_numpy(self.units.scale)
        # One width for all coordinates: that with the same volume.
        widths = None if found.widths is None else found.widths * scale.log().mean().exp()
        points = found.points * scale + torch.from_numpy(self.units.center)
        return Hypotheses(points, found.logits, found.link, widths)

    def quantiles(self, levels: Array) -> Array:
        """`(rows, levels, dim)` at levels of that shape; infinite at 0 and 1."""
        wanted = torch.from_numpy(levels).transpose(0, 1)
        axes = [
            marginal(self.pooled, axis).mixture().icdf(wanted[..., axis]) for axis in range(levels.shape[-1])
        ]
        return self.units.invert(torch.cat(axes, -1).transpose(0, 1).numpy())

    def sample(self, n: int) -> Array:
        """`(rows, n, dim)`, by PyTorch's generator."""
        return self.units.invert(self.pooled.mixture().sample((n,)).movedim(0, 1).numpy())

    def log_prob(self, y: Array) -> Array:
        """`(rows,)` at `y (rows, dim)`."""
        scaled = self.units.apply(y)
        found = self.pooled.mixture().log_prob(torch.from_numpy(scaled))
        return found.numpy() + self.units.log_slope(scaled)

    def _moments(self, units: Warped) -> tuple[Array, ...]:
        """Mean, variance in a unit, and the unit, `(rows, dim)`."""
        rows = range(0, len(self), QUADRATURE)
        parts = [moments(self.pooled[start : start + QUADRATURE], units) for start in rows]
        return tuple(torch.cat(part).numpy() for part in zip(*parts, strict=True))


def distribution(pooled: Hypotheses, units: Standard) -> Distribution:
    """Hypotheses in standardized units as a distribution of targets.

    Args:
        pooled: `(rows, hypotheses)`, with widths.
        units: Center and scale of the targets.

    Returns:
        Batch shape `(rows,)`, event shape `(dim,)`.
    """
    if isinstance(units, Warped):
        return WarpedMixture(pooled, units)
    center, scale = torch.from_numpy(units.center), torch.from_numpy(units.scale)
    if len(center) == 1:
        assert pooled.widths is not None
        return Hypotheses(
            pooled.points * scale + center, pooled.logits, "softmax", pooled.widths * scale
        ).mixture()
    return ScaledMixture(pooled.mixture(), [AffineTransform(center, scale, event_dim=1)])


class ScaledMixture(TransformedDistribution):
    """A standardized mixture of several outputs in the units of the targets."""

    @property
    def mean(self) -> Tensor:
        """`(*batch, dim)`."""
        transform: Any = self.transforms[0]
        return transform(self.base_dist.mean)

    @property
    def variance(self) -> Tensor:
        """`(*batch, dim)`."""
        transform: Any = self.transforms[0]
        return self.base_dist.variance * transform.scale.square()


def marginal(hypotheses: Hypotheses, axis: int) -> Hypotheses:
    """One coordinate of the hypotheses."""
    return Hypotheses(
        hypotheses.points[..., axis : axis + 1], hypotheses.logits, hypotheses.link, hypotheses.widths
    )
