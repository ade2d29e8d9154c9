"""The probabilistic reading of scored hypotheses (Proposition 1): a law in each Voronoi cell."""

from collections.abc import Callable
from functools import cached_property
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.distributions import Distribution, constraints

from torchmcl.errors import (
    check_broadcast,
    check_callable,
    check_coordinates,
    check_generator,
    check_integer,
    check_sizes,
)
from torchmcl.hypotheses import Hypotheses, check_hypotheses
from torchmcl.voronoi._cells import Cells
from torchmcl.voronoi.estimates import Estimate
from torchmcl.voronoi.laws import Dirac, Law, Uniform  # noqa: F401

__all__ = ["VoronoiMixture"]


class VoronoiMixture(Distribution):
    """`p(y) = sum_k probs_k π_k(y)`, with the law `π_k` inside the cell of hypothesis k.

    Where a cell with positive probability is empty (its hypothesis coincides with one of lower index, or lies
    so far outside of the support that others are nearer to all of it), the
    distribution is the one given that y is in another cell, with probabilities renormalized (`cell_probs`).
    If no cell remains, or a hypothesis is NaN, everything about that batch item is NaN. The density is
    differentiable in the scores; the cells are constants to it.

    `batch_shape` is that of the hypotheses and `event_shape` is `(dim,)`: an outcome is `(*sample, *batch, dim)`.

    Args:
        hypotheses: K points, scored or not; widths play no part.
        law: `Dirac`, `Uniform` or `Gaussian`.

    Example:
        >>> from torchmcl import Box
        >>> h = Hypotheses(torch.tensor([[-0.5], [0.5]]), torch.tensor([0.75, 0.25]).log(), link="softmax")
        >>> mixture = h.density(Uniform(Box(-1, 1)))
        >>> mixture.log_prob(torch.tensor([[-0.9], [0.1], [3.0]])).exp()
        tensor([0.7500, 0.2500, 0.0000])
        >>> mixture.mean
        tensor([-0.2500])
        >>> h.density(Dirac()).prob(lambda y: y[..., 0] > 0).value
        tensor(0.2500)
    """

    arg_constraints: dict[str, constraints.Constraint] = {}  # noqa: RUF012  (as the base class has it)

    def __init__(self, hypotheses: Hypotheses, law: Law) -> None:
        check_hypotheses(hypotheses)
        if not isinstance(law, Law):
            raise TypeError(f"law must be Dirac(), Uniform(support) or Gaussian(scale), got {law!r}")
        self.hypotheses, self.law = hypotheses, law
        super().__init__(hypotheses.batch_shape, torch.Size([hypotheses.dim]), validate_args=False)

    @property
    def support(self) -> constraints.Constraint:
        """The points that the law allows."""
        return _Allowed(self.law)

    def expand(self, batch_shape: Any, _instance: Any = None) -> "VoronoiMixture":
        """The same distribution for a larger batch; the cells of each copy are computed anew.

        Args:
            batch_shape: The new batch axes, to which the old ones broadcast.

        Returns:
            A mixture with that `batch_shape`.
        """
        check_sizes("batch_shape", batch_shape)
        h, shape = self.hypotheses, torch.Size(batch_shape)
        try:
            fits = torch.broadcast_shapes(shape, self.batch_shape) == shape
        except RuntimeError:
            fits = False
        if not fits:
            raise ValueError(f"batch_shape must extend {tuple(self.batch_shape)}, got {tuple(shape)}")
        logits = None if h.logits is None else h.logits.expand(*shape, -1)
        return VoronoiMixture(Hypotheses(h.points.expand(*shape, -1, -1), logits, h.link), self.law)

    @cached_property
    def cells(self) -> Cells:
        """The cells of the hypotheses under the law."""
        return self.law.cells(self.hypotheses.points)

    @property
    def cell_log_probs(self) -> Float[Tensor, "*batch hypotheses"]:
        """The logarithm of `cell_probs`."""
        mass = self.cells.masses.value
        kept = self.hypotheses.log_probs.double().masked_fill(mass == 0, -torch.inf)
        return kept + 0 * mass - kept.logsumexp(-1, keepdim=True)

    @property
    def cell_probs(self) -> Float[Tensor, "*batch hypotheses"]:
        """The probability of each cell: that of its hypothesis, renormalized where cells are empty."""
        return self.cell_log_probs.exp().to(self.hypotheses.points.dtype)

    @property
    def log_prob_error(self) -> Float[Tensor, "*batch hypotheses"]:
        """The standard error of `log_prob` in each cell, that of its normalization; 0 where exact."""
        mass, error = self.cells.masses
        return (error / torch.where(mass == 0, 1, mass)).to(self.hypotheses.points.dtype)

    def log_prob(self, value: Float[Tensor, "*sample dim"]) -> Float[Tensor, "*sample_batch"]:
        """The logarithm of the density.

        Args:
            value: Outcomes `(*sample, *batch, dim)`.

        Returns:
            Log densities `(*sample, *batch)`: -inf outside of the support, NaN where the outcome is NaN.
        """
        points = self.hypotheses.points.detach()
        check_coordinates("value", value, self.hypotheses.dim, "hypotheses have")
        check_broadcast("value", value, self.batch_shape, "hypotheses have")
        cell = self.hypotheses.cells(value, self.law.distance)
        y = value.expand(*cell.shape, value.shape[-1])
        center = (
            points.expand(*cell.shape, *points.shape[-2:])
            .take_along_dim(cell[..., None, None], -2)
            .squeeze(-2)
        )
        mass = self.cells.masses.value
        log_scale = self.cell_log_probs - torch.where(mass == 0, 1, mass).log()
        log_scale = log_scale.expand(*cell.shape, -1).take_along_dim(cell[..., None], -1).squeeze(-1)
        density = log_scale + self.law.log_kernel(y, center)
        density = density.masked_fill(~self.law.contains(y), -torch.inf)
        return density.masked_fill(y.isnan().any(-1), torch.nan).to(points.dtype)

    def sample(
        self, sample_shape: Any = (), generator: torch.Generator | None = None
    ) -> Float[Tensor, "*sample_batch dim"]:
        """Draws: a cell by its probability, then a point in it by the law.

        Draws are exact, but for those in more than two dimensions that rejection has missed 64 times: they
        come from a random walk inside their cell, which has the law as its limit.

        Args:
            sample_shape: How many draws of each item.
            generator: The source of randomness; torch's default one if `None`.

        Returns:
            Outcomes `(*sample_shape, *batch, dim)`.
        """
        check_sizes("sample_shape", sample_shape)
        check_generator(generator)
        shape = tuple(sample_shape)
        points = self.hypotheses.points
        probs = self.cell_log_probs.detach().exp().reshape(-1, points.shape[-2])
        valid = probs.isfinite().all(-1, keepdim=True)
        count = torch.Size(shape).numel()
        drawn = torch.multinomial(torch.where(valid, probs, 1), max(1, count), True, generator=generator)[
            :, :count
        ]
        cell = drawn.T.reshape(*shape, *points.shape[:-2])
        y = self.cells.sample(cell, generator)
        return torch.where(valid.reshape(*points.shape[:-2], 1), y, torch.nan).to(points.dtype)

    @property
    def mean(self) -> Float[Tensor, "*batch dim"]:
        """The mean of this distribution; on the sphere the direction of the mean vector.

        It is that of the hypotheses, `sum_k probs_k f_k`, under `Dirac`, and under another law where each
        hypothesis is the mean of the law in its cell: the constraint of Proposition 1, which a trained model
        satisfies only nearly.
        """
        return self.cells.mean(self.cell_log_probs.detach().exp()).to(self.hypotheses.points.dtype)

    def prob(
        self,
        region: Callable[[Tensor], Tensor],
        samples: int = 10_000,
        generator: torch.Generator | None = None,
    ) -> Estimate:
        """P(y in the region): exact under `Dirac`, which draws nothing; otherwise the share of draws.

        Args:
            region: A function from points `(n, *batch, dim)` to booleans `(n, *batch)`.
            samples: The number of draws.
            generator: The source of randomness; torch's default one if `None`.

        Returns:
            Probabilities and their standard errors, `(*batch)` each.
        """
        points = self.hypotheses.points.detach()
        if isinstance(self.law, Dirac):
            inside = _inside(region, points.movedim(-2, 0)).movedim(0, -1)
            value = (self.cell_probs * inside).sum(-1)
            return Estimate(value, torch.zeros_like(value))
        check_integer("samples", samples)
        y = self.sample((samples,), generator)
        inside = _inside(region, y).to(y.dtype).masked_fill(y.isnan().any(-1), torch.nan)
        # Two draws more, one inside and one outside: a share of exactly 0 or 1 is not known without error.
        share = (inside.sum(0) + 1) / (samples + 2)
        return Estimate(inside.mean(0), (share * (1 - share) / samples).sqrt())


class _Allowed(constraints.Constraint):
    """Outcomes that a law allows."""

    event_dim = 1

    def __init__(self, law: Law) -> None:
        self.law = law

    def check(self, value: Tensor) -> Tensor:
        return self.law.contains(value)


def _inside(region: Callable[[Tensor], Tensor], y: Tensor) -> Tensor:
    check_callable("region", region, "a function of points")
    inside = region(y)
    if inside.dtype != torch.bool or inside.shape != y.shape[:-1]:
        got = f"{inside.dtype} {tuple(inside.shape)}"
        raise ValueError(f"region must return booleans of shape {tuple(y.shape[:-1])}, it returned {got}")
    return inside
