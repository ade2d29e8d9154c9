"""The mixture of kernels around the hypotheses, as a distribution of torch."""

import math
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.distributions import Distribution, constraints

from torchmcl.errors import (
    check_broadcast,
    check_coordinates,
    check_floats,
    check_generator,
    check_integer,
    check_number,
    check_positive,
    check_sizes,
)
from torchmcl.hypotheses import Hypotheses, check_hypotheses
from torchmcl.mixtures._quantiles import line_quantiles
from torchmcl.mixtures.kernels import Kernel, LineKernel, kernel_named
from torchmcl.voronoi.estimates import Estimate

__all__ = ["KernelMixture"]


class KernelMixture(Distribution):
    r"""A density around each hypothesis, with its width, and together with their probabilities.

    .. math:: p(y) = \sum_k \text{probs}_k\, K(y;\, \text{points}_k, \text{widths}_k)

    `batch_shape` is that of the hypotheses and `event_shape` is `(dim,)`: an outcome is `(*sample, *batch, dim)`.

    Args:
        hypotheses: K points with widths, scored or not.
        kernel: `"gaussian"`, `"laplace"`, `"student"` (heavy tails), `"vmf"` (von Mises-Fisher, for angles) or a
            `Kernel` such as `StudentKernel(df=3)`.

    Example:
        >>> h = Hypotheses(torch.tensor([[0.0], [4.0]]), widths=torch.tensor([1.0, 1.0]))
        >>> mixture = KernelMixture(h)
        >>> mixture.mean, mixture.stddev
        (tensor([2.]), tensor([2.2361]))
        >>> mixture.cdf(torch.tensor([2.0])), mixture.icdf(torch.tensor(0.5))
        (tensor(0.5000), tensor([2.]))
    """

    arg_constraints: dict[str, constraints.Constraint] = {}  # noqa: RUF012  (as the base class has it)

    def __init__(self, hypotheses: Hypotheses, kernel: str | Kernel = "gaussian") -> None:
        check_hypotheses(hypotheses, widths=True)
        assert hypotheses.widths is not None
        check_positive("widths", hypotheses.widths)
        self.kernel = kernel_named(kernel)
        self.kernel.check_dim(hypotheses.dim)
        self.hypotheses = hypotheses
        self.widths = hypotheses.widths
        self.has_rsample = hypotheses.dim == 1
        super().__init__(hypotheses.batch_shape, torch.Size([hypotheses.dim]), validate_args=False)

    @property
    def support(self) -> constraints.Constraint:
        """All vectors; angles are periodic."""
        return constraints.real_vector

    @property
    def mean(self) -> Float[Tensor, "*batch dim"]:
        """The mean; of directions, the direction of the mean unit vector. NaN where it does not exist."""
        return self.kernel.mean(self.hypotheses.points, self.widths, self.hypotheses.probs)

    @property
    def variance(self) -> Float[Tensor, "*batch dim"]:
        """The variance of each coordinate; infinite or NaN where it does not exist."""
        factor = self.kernel.variance(self.hypotheses.dim)
        points, probs = self.hypotheses.points, self.hypotheses.probs
        spread = (points - self.hypotheses.mean[..., None, :]).square() + factor * self.widths[
            ..., None
        ].square()
        return (probs[..., None] * spread).sum(-2)

    def expand(self, batch_shape: Any, _instance: Any = None) -> "KernelMixture":
        """The same distribution for a larger batch, without copies.

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
        expanded = Hypotheses(h.points.expand(*shape, -1, -1), logits, h.link, self.widths.expand(*shape, -1))
        return KernelMixture(expanded, self.kernel)

    def log_prob(self, value: Float[Tensor, "*sample_batch dim"]) -> Float[Tensor, "*value"]:
        """The logarithm of the density.

        Args:
            value: Outcomes `(*sample, *batch, dim)`.

        Returns:
            Log densities `(*sample, *batch)`.
        """
        self._check("value", value)
        each = self.kernel.log_density(value[..., None, :], self.hypotheses.points, self.widths)
        return torch.logsumexp(self.hypotheses.log_probs + each, dim=-1)

    def sample(
        self, sample_shape: Any = (), generator: torch.Generator | None = None
    ) -> Float[Tensor, "*sample_batch dim"]:
        """Draws outside of the graph.

        Args:
            sample_shape: How many draws of each item.
            generator: The source of randomness; torch's default one if `None`.

        Returns:
            Outcomes `(*sample_shape, *batch, dim)`.
        """
        check_sizes("sample_shape", sample_shape)
        with torch.no_grad():
            points, widths = self.hypotheses.points, self.widths[..., None]
            chosen = Hypotheses(torch.cat([points, widths], -1), self.hypotheses.log_probs, "softmax")
            drawn = chosen.sample(tuple(sample_shape), generator)
            return self.kernel.rsample(drawn[..., :-1], drawn[..., -1], generator)

    def rsample(
        self, sample_shape: Any = (), generator: torch.Generator | None = None
    ) -> Float[Tensor, "*sample_batch dim"]:
        """Draws in one dimension, differentiable in points, scores and widths (implicit reparameterization).

        In more dimensions the choice of the hypothesis is not differentiable: weight `rsample_components` by
        the probabilities instead.

        Args:
            sample_shape: How many draws of each item.
            generator: The source of randomness; torch's default one if `None`.

        Returns:
            Outcomes `(*sample_shape, *batch, 1)`.
        """
        self._line("rsample")
        drawn = self.sample(sample_shape, generator)
        return self._attached(drawn[..., 0], torch.zeros_like(drawn[..., 0]))[..., None]

    def rsample_components(
        self, sample_shape: Any = (), generator: torch.Generator | None = None
    ) -> Float[Tensor, "*sample_batch hypotheses dim"]:
        """Draws from the kernel of each hypothesis, differentiable in points and widths.

        The mean of any function over the mixture is the mean over draws of `sum_k probs_k f(draw_k)`, without bias.

        Args:
            sample_shape: How many draws of each hypothesis.
            generator: The source of randomness; torch's default one if `None`.

        Returns:
            Outcomes `(*sample_shape, *batch, hypotheses, dim)`.
        """
        check_sizes("sample_shape", sample_shape)
        check_generator(generator)
        points, widths = self.hypotheses.points, self.widths
        shape = tuple(sample_shape)
        return self.kernel.rsample(
            points.expand(*shape, *points.shape), widths.expand(*shape, *widths.shape), generator
        )

    def cdf(self, value: Float[Tensor, "*sample_batch 1"]) -> Float[Tensor, "*value"]:
        """P(Y <= value), in one dimension.

        Args:
            value: Outcomes `(*sample, *batch, 1)`.

        Returns:
            Probabilities `(*sample, *batch)`.
        """
        self._line("cdf")
        self._check("value", value)
        lower, upper = self._tails(value[..., 0])
        return torch.where(lower < 0.5, lower, 1 - upper)

    def icdf(self, value: Float[Tensor, "*sample_batch"] | float) -> Float[Tensor, "*value 1"]:
        """The quantile function, in one dimension: the inverse of `cdf`, differentiable as it is.

        Bracketed between the least and the greatest quantile of the kernels, and found to the resolution of double
        precision.

        Args:
            value: Probabilities `(*sample, *batch)`, or one number.

        Returns:
            Outcomes `(*sample, *batch, 1)`; infinite for 0 and 1.
        """
        kernel = self._line("icdf")
        points = self.hypotheses.points
        if not isinstance(value, Tensor):
            check_number("value", value)
            value = torch.tensor(value, dtype=points.dtype, device=points.device)
        check_floats("value", value)
        self._check("value", value[..., None])
        if not torch.compiler.is_compiling() and not bool(((value >= 0) & (value <= 1)).all()):
            raise ValueError(f"value must hold probabilities between 0 and 1, got {value.detach()}")
        dtype = torch.promote_types(value.dtype, points.dtype)
        with torch.no_grad():
            found = self._quantile(kernel, value)
        inner = found.isfinite()
        return torch.where(inner, self._attached(found.where(inner, 0.0), value), found).to(dtype)[..., None]

    def _quantile(self, kernel: LineKernel, value: Float[Tensor, "*sample_batch"]) -> Float[Tensor, "*value"]:
        shape = torch.broadcast_shapes(value.shape, self.batch_shape)
        precise = torch.float32 if value.device.type == "mps" else torch.float64
        flat = value.to(precise).expand(shape).reshape(-1)
        items = torch.arange(self.batch_shape.numel(), device=value.device).reshape(self.batch_shape)
        items = items.expand(shape).reshape(-1)
        h = self.hypotheses.to(precise)
        points, widths, probs = (
            part.reshape(-1, h.n_hypotheses) for part in (h.points[..., 0], self.widths.to(precise), h.probs)
        )
        found = torch.empty_like(flat)
        for some in torch.arange(len(flat), device=flat.device).split(max(1, 2**22 // h.n_hypotheses)):
            at = items[some]
            found[some] = line_quantiles(kernel, points[at], widths[at], probs[at], flat[some])
        return found.reshape(shape)

    def _tails(self, x: Float[Tensor, "*value"]) -> tuple[Float[Tensor, "*value"], Float[Tensor, "*value"]]:
        """P(Y <= x) and P(Y >= x)."""
        kernel = self._line("cdf")
        z = (x[..., None] - self.hypotheses.points[..., 0]) / self.widths
        probs = self.hypotheses.probs
        return (probs * kernel.cdf(z)).sum(-1), (probs * kernel.cdf(-z)).sum(-1)

    def _attached(self, x: Tensor, probability: Tensor) -> Tensor:
        """Outcomes with the gradient that keeps their probability, `(d probability - d cdf) / density`."""
        inputs = self.hypotheses.points, self.hypotheses.logits, self.widths, probability
        if not torch.is_grad_enabled() or not any(part is not None and part.requires_grad for part in inputs):
            return x
        x = x.detach().to(torch.promote_types(x.dtype, self.widths.dtype))
        lower, upper = self._tails(x)
        # The smaller tail, in which no digits are lost.
        surplus = probability + torch.where(lower < 0.5, -lower, upper)
        density = self.log_prob(x[..., None]).exp().detach()
        tiny = torch.finfo(density.dtype).tiny
        slope = torch.where(density > tiny, 1 / density.clamp(min=tiny), 0)
        return x + slope * (surplus - surplus.detach())

    def entropy(
        self, samples: int = 4096, generator: torch.Generator | None = None
    ) -> Float[Tensor, "*batch"]:
        """The differential entropy in nats, by Monte Carlo: the value of `entropy_estimate`.

        Args:
            samples: The number of draws for each item.
            generator: The source of randomness; torch's default one if `None`.

        Returns:
            Entropies `(*batch)`.
        """
        return self.entropy_estimate(samples, generator).value

    def entropy_estimate(self, samples: int = 4096, generator: torch.Generator | None = None) -> Estimate:
        """The differential entropy in nats with its standard error, by draws that are stratified over hypotheses.

        Args:
            samples: The number of draws for each item, divided evenly among the hypotheses, two at least.
            generator: The source of randomness; torch's default one if `None`.

        Returns:
            Entropies and standard errors, `(*batch)` each.
        """
        check_integer("samples", samples, least=2)
        draws = max(2, math.ceil(samples / self.hypotheses.n_hypotheses))
        drawn = self.rsample_components((draws,), generator).movedim(-2, 0)
        surprise = torch.stack([-self.log_prob(part) for part in drawn], -1)
        probs = self.hypotheses.probs
        error = (probs.square() * surprise.var(0) / draws).sum(-1).sqrt()
        return Estimate((probs * surprise.mean(0)).sum(-1), error.detach())

    def _check(self, name: str, value: Any) -> None:
        check_coordinates(name, value, self.hypotheses.dim, "hypotheses have")
        check_broadcast(name, value, self.batch_shape, "hypotheses have")

    def _line(self, what: str) -> LineKernel:
        if self.hypotheses.dim != 1 or not isinstance(self.kernel, LineKernel):
            raise NotImplementedError(
                f"{what} exists in one dimension only; hypotheses have {self.hypotheses.dim} coordinates"
            )
        return self.kernel

    def __repr__(self) -> str:
        return f"KernelMixture({self.hypotheses!r}, {self.kernel!r})"
