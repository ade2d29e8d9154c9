"""A trained model of a table: from encoded rows to distributions in the units of the targets."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.distributions import AffineTransform, Distribution, TransformedDistribution

from torchmcl.directions import from_vectors, to_vectors
from torchmcl.hypotheses import Hypotheses
from torchmcl.tabular.columns import Columns
from torchmcl.tabular.members import pool
from torchmcl.tabular.merging import merge_hypotheses
from torchmcl.tabular.recipe import with_widths
from torchmcl.tabular.scaling import Standard
from torchmcl.tabular.warping import Warped, WarpedMixture, moments

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
        own_widths: Whether hypotheses have widths of their own.
        directional: Whether targets are directions (azimuth, elevation).
        scalar: Whether `y` was `(rows,)`.
    """

    columns: Columns
    units: Standard
    network: nn.Module
    factors: Tensor
    hypotheses: int
    own_widths: bool
    directional: bool
    scalar: bool

    @property
    def dim(self) -> int:
        """Coordinates of a target."""
        return len(self.units.center)

    def pooled(self, inputs: Tensor) -> Hypotheses:
        """The hypotheses of all members as one distribution, `(rows, members x K)`, in standardized units."""
        with torch.no_grad():
            own = self.network(inputs.double().expand(len(self.factors), *inputs.shape))
            return pool(with_widths(own, self.factors))

    def mean(self, inputs: Tensor) -> Array:
        """`(rows, dim)`."""
        if self.directional:
            return self._joined(from_vectors(_mean_vector(part)) for part in self._parts(inputs))
        if isinstance(self.units, Warped):
            return self._moments(inputs, self.units)[0]
        return self.units.invert(self._joined(part.mean for part in self._parts(inputs)))

    def std(self, inputs: Tensor) -> Array:
        """`(rows, dim)`."""
        self._refuse_directions("predict_std")
        if isinstance(self.units, Warped):
            return np.sqrt(self._moments(inputs, self.units)[1])
        return self._joined(part.std for part in self._parts(inputs)) * self.units.scale

    def answers(self, inputs: Tensor, count: int | None = None) -> Hypotheses:
        """`count` hypotheses, K if it is `None`, for each row in the units of the targets."""
        found = Hypotheses.cat([self._merged(part, count or self.hypotheses) for part in inputs.split(CHUNK)])
        if isinstance(self.units, Warped):
            assert found.widths is not None
            bent = found.points.numpy()
            # The slope at the point itself turns a width into the units of the targets.
            stretch = torch.from_numpy(np.exp(-self.units.log_slope(bent)))
            own = torch.from_numpy(self.units.invert(bent))
            return Hypotheses(own, found.logits, found.link, found.widths * stretch)
        scale = torch.from_numpy(self.units.scale)
        # One width for all coordinates: that with the same volume.
        widths = None if found.widths is None else found.widths * scale.log().mean().exp()
        points = found.points * scale + torch.from_numpy(self.units.center)
        return Hypotheses(points, found.logits, found.link, widths)

    def distribution(self, inputs: Tensor) -> Distribution:
        """Batch shape `(rows,)`, event shape `(dim,)`."""
        self._refuse_directions("predict_dist")
        pooled = Hypotheses.cat(list(self._parts(inputs)))
        if isinstance(self.units, Warped):
            return WarpedMixture(pooled, self.units)
        center, scale = torch.from_numpy(self.units.center), torch.from_numpy(self.units.scale)
        if self.dim == 1:
            assert pooled.widths is not None
            return Hypotheses(
                pooled.points * scale + center, pooled.logits, "softmax", pooled.widths * scale
            ).mixture()
        return TransformedDistribution(pooled.mixture(), [AffineTransform(center, scale, event_dim=1)])

    def quantiles(self, inputs: Tensor, levels: Array) -> Array:
        """`(rows, levels, dim)` at levels that broadcast to that shape; infinite at 0 and 1."""
        self._refuse_directions("predict_quantiles")
        wanted = torch.from_numpy(np.broadcast_to(levels, (len(inputs), levels.shape[-2], self.dim)).copy())
        found = []
        for start, part in self._numbered(inputs):
            own = wanted[start : start + len(part)].transpose(0, 1)
            axes = [marginal(part, axis).mixture().icdf(own[..., axis]) for axis in range(self.dim)]
            found.append(torch.cat(axes, -1).transpose(0, 1))
        return self.units.invert(self._joined(found))

    def interval(self, inputs: Tensor, levels: Array) -> Array:
        """Central intervals `(rows, 2, dim)` of probability `levels (rows, dim)`; infinite where a level is."""
        half = np.minimum(levels, 1.0) / 2
        return self.quantiles(inputs, np.stack([0.5 - half, 0.5 + half], axis=1))

    def sample(self, inputs: Tensor, n: int, seed: int) -> Array:
        """`(rows, n, dim)`."""
        self._refuse_directions("sample")
        with torch.random.fork_rng([]):
            torch.manual_seed(seed)
            drawn = [part.mixture().sample((n,)).movedim(0, 1) for part in self._parts(inputs)]
        return self.units.invert(torch.cat(drawn).numpy())

    def log_prob(self, inputs: Tensor, y: Array) -> Array:
        """`(rows,)` at `y (rows, dim)`."""
        self._refuse_directions("log_prob")
        scaled = torch.from_numpy(self.units.apply(y))
        found = [
            part.mixture().log_prob(scaled[start : start + len(part)])
            for start, part in self._numbered(inputs)
        ]
        return torch.cat(found).numpy() + self.units.log_slope(scaled.numpy())

    def _parts(self, inputs: Tensor) -> Iterator[Hypotheses]:
        for part in inputs.split(CHUNK):
            yield self.pooled(part)

    def _numbered(self, inputs: Tensor) -> Iterator[tuple[int, Hypotheses]]:
        yield from zip(range(0, len(inputs), CHUNK), self._parts(inputs), strict=True)

    def _moments(self, inputs: Tensor, units: Warped) -> tuple[Array, Array]:
        """Mean and variance, `(rows, dim)`, in smaller parts: each hypothesis has the nodes of a quadrature."""
        parts = [moments(self.pooled(part), units) for part in inputs.split(CHUNK // 16)]
        mean, variance = zip(*parts, strict=True)
        return self._joined(mean), self._joined(variance)

    def _merged(self, inputs: Tensor, count: int) -> Hypotheses:
        if self.own_widths:
            return merge_hypotheses(self.pooled(inputs), count)
        with torch.no_grad():
            return self.network(inputs.double()[None])[0]

    def _joined(self, parts: Iterable[Tensor]) -> Array:
        return torch.cat(list(parts)).numpy()

    def _refuse_directions(self, what: str) -> None:
        if self.directional:
            raise ValueError(f"{what} is not for directions: use predict or predict_hypotheses")


def marginal(hypotheses: Hypotheses, axis: int) -> Hypotheses:
    """One coordinate of the hypotheses."""
    return Hypotheses(
        hypotheses.points[..., axis : axis + 1], hypotheses.logits, hypotheses.link, hypotheses.widths
    )


def _mean_vector(hypotheses: Hypotheses) -> Tensor:
    return (hypotheses.probs[..., None] * to_vectors(hypotheses.points)).sum(-2)
