"""The energy score of hypotheses with widths: the CRPS in closed form in one dimension, draws in more."""

import math
from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from torchmcl.directions import to_vectors
from torchmcl.distances import euclidean, pairwise
from torchmcl.energy import (
    ScoreFunction,
    active_mean,
    batch_first,
    blocks,
    in_blocks,
    item_mean,
    known_targets,
)
from torchmcl.errors import check_integer
from torchmcl.hypotheses import Hypotheses, check_hypotheses
from torchmcl.mixtures.kernels import (
    GaussianKernel,
    Kernel,
    LaplaceKernel,
    VonMisesFisherKernel,
    kernel_named,
)

__all__ = ["mixture_crps", "mixture_energy_loss", "mixture_energy_score"]

_CLOSED = (GaussianKernel, LaplaceKernel)

LARGE = 2**19
"""Above so many pairs of hypotheses, the graph of a whole batch would take too much memory."""


def mixture_energy_loss(
    hypotheses: Hypotheses,
    targets: Float[Tensor, "*batch targets dim"],
    active: Bool[Tensor, "*batch targets"] | None = None,
    *,
    kernel: str | Kernel = "gaussian",
    draws: int = 2,
) -> Float[Tensor, ""]:
    r"""Mean energy score of the smooth mixture, a strictly proper score of points, scores and widths together.

    .. math:: \mathbb{E}\, |X - y| - \tfrac12\, \mathbb{E}\, |X - X'|, \qquad X, X' \sim \sum_k p_k\, \kappa_{f_k, s_k}

    In one dimension it is the CRPS of the mixture, in closed form for the Gaussian and the Laplace kernel. Otherwise
    it is estimated without bias from `draws` reparameterized draws of each kernel, so that gradients reach points,
    scores and widths. On the sphere (kernel `"vmf"`) distances are chordal. Plus half of `likelihood_loss` it is the
    loss for tables.

    Args:
        hypotheses: K points with scores and widths, `(*batch, hypotheses, dim)`.
        targets: Samples of the outcome, `(*batch, targets, dim)`.
        active: Which targets exist, `(*batch, targets)`; all of them if `None`.
        kernel: The density around each hypothesis: `"gaussian"`, `"laplace"`, `"student"`, `"vmf"` or a `Kernel`.
        draws: How many draws of each kernel, at least 2; the closed forms need none.

    Returns:
        The average over active targets; 0 where there are none.

    Example:
        >>> h = Hypotheses(torch.tensor([[0.0], [1.0]]), widths=torch.tensor([0.1, 0.5]))
        >>> mixture_energy_loss(h, torch.tensor([[1.0]]))
        tensor(0.3624)
    """
    density = kernel_named(kernel)
    check_hypotheses(hypotheses)
    if hypotheses.dim == 1 and isinstance(density, _CLOSED):
        return active_mean(_crps(hypotheses, targets, active, density), active)
    return active_mean(_drawn(hypotheses, targets, active, density, draws), active)


def mixture_crps(
    hypotheses: Hypotheses,
    targets: Float[Tensor, "*batch targets 1"],
    active: Bool[Tensor, "*batch targets"] | None = None,
    *,
    kernel: str | Kernel = "gaussian",
) -> Float[Tensor, "*batch"]:
    """The CRPS of the smooth mixture of each item in closed form, averaged over its active targets.

    Args:
        hypotheses: K points on a line with scores and widths, `(*batch, hypotheses, 1)`.
        targets: Samples of the outcome, `(*batch, targets, 1)`.
        active: Which targets exist, `(*batch, targets)`; all of them if `None`.
        kernel: The density around each hypothesis, `"gaussian"` or `"laplace"`, whose scale is the width.

    Returns:
        One value for each item; NaN for an item with no active target.

    Example:
        >>> h = Hypotheses(torch.zeros(2, 1, 1), widths=torch.tensor([[1.0], [2.0]]))
        >>> mixture_crps(h, torch.zeros(2, 1, 1))
        tensor([0.2337, 0.4674])
    """
    check_hypotheses(hypotheses)
    if hypotheses.dim != 1:
        raise ValueError(f"hypotheses have {hypotheses.dim} coordinates, the CRPS is for 1")
    density = kernel_named(kernel)
    if not isinstance(density, _CLOSED):
        raise ValueError(f"kernel must be 'gaussian' or 'laplace' for a closed form, got {kernel!r}")
    return item_mean(_crps(hypotheses, targets, active, density), active)


def mixture_energy_score(
    hypotheses: Hypotheses,
    targets: Float[Tensor, "*batch targets dim"],
    active: Bool[Tensor, "*batch targets"] | None = None,
    *,
    kernel: str | Kernel = "gaussian",
    draws: int = 2,
) -> Float[Tensor, "*batch"]:
    """The energy score of the smooth mixture of each item, averaged over its active targets.

    Args:
        hypotheses: K points with scores and widths, `(*batch, hypotheses, dim)`.
        targets: Samples of the outcome, `(*batch, targets, dim)`.
        active: Which targets exist, `(*batch, targets)`; all of them if `None`.
        kernel: As for `mixture_energy_loss`.
        draws: As for `mixture_energy_loss`.

    Returns:
        One value for each item; NaN for an item with no active target.

    Example:
        >>> h = Hypotheses(torch.zeros(2, 1, 3), widths=torch.full((2, 1), 1e-6))
        >>> mixture_energy_score(h, torch.ones(2, 1, 3)).round(decimals=3)
        tensor([1.7320, 1.7320])
    """
    density = kernel_named(kernel)
    check_hypotheses(hypotheses)
    if hypotheses.dim == 1 and isinstance(density, _CLOSED):
        return item_mean(_crps(hypotheses, targets, active, density), active)
    return item_mean(_drawn(hypotheses, targets, active, density, draws), active)


def _crps(hypotheses: Hypotheses, targets: Tensor, active: Tensor | None, kernel: Kernel) -> Tensor:
    """The CRPS of each target, `(*batch, targets)`."""
    widths, targets = _widths_and_targets(hypotheses, targets, active)
    x, y, probs = hypotheses.points.squeeze(-1), targets.squeeze(-1), hypotheses.probs
    gaussian = isinstance(kernel, GaussianKernel)
    if gaussian and not torch.compiler.is_compiling():
        return _GaussianCRPS.apply(x, widths, probs, y)[0]
    score = _gaussian_scores if gaussian else _laplace_scores
    return _by_blocks(score, (x, widths, probs, y), hypotheses.batch_shape, x.shape[-1] ** 2)


def _drawn(
    hypotheses: Hypotheses, targets: Tensor, active: Tensor | None, kernel: Kernel, draws: int
) -> Tensor:
    """The energy score of each target, `(*batch, targets)`, estimated from `draws` of each kernel."""
    check_integer("draws", draws, least=2)
    kernel.check_dim(hypotheses.dim)
    widths, targets = _widths_and_targets(hypotheses, targets, active)
    batch, n = hypotheses.batch_shape, hypotheses.n_hypotheses
    drawn = kernel.rsample(
        hypotheses.points[..., None, :, :].expand(*batch, draws, n, hypotheses.dim),
        widths[..., None, :].expand(*batch, draws, n),
    )
    if isinstance(kernel, VonMisesFisherKernel):
        drawn, targets = to_vectors(drawn), to_vectors(targets)
    return _by_blocks(_draw_scores, (drawn, hypotheses.probs, targets), batch, draws * n**2)


def _widths_and_targets(
    hypotheses: Hypotheses, targets: Tensor, active: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Widths, and targets without inactive ones, or an error that names what does not fit."""
    if hypotheses.widths is None:
        raise ValueError("hypotheses have no widths: a mixture needs them, energy_loss works without")
    return hypotheses.widths, known_targets(hypotheses.points, targets, active)


def _by_blocks(
    score: Callable[..., Tensor], tensors: tuple[Tensor, ...], batch: torch.Size, pairs: int
) -> Tensor:
    """`score`, in parts that are computed again for the gradient where the whole batch would take much memory."""
    n = batch.numel()
    if n * pairs <= LARGE or torch.compiler.is_compiling():
        return score(*tensors)
    flat = tuple(tensor.reshape(n, *tensor.shape[len(batch) :]) for tensor in tensors)
    parts = [checkpoint(score, *part, use_reentrant=False) for part in blocks(flat, pairs, LARGE)]
    return torch.cat(parts).reshape(*batch, -1)


def _gaussian_scores(x: Tensor, widths: Tensor, probs: Tensor, y: Tensor) -> Tensor:
    """The CRPS of each target as plain operations: what a compiler fuses by itself."""
    square = widths.square()
    reach = _gaussian_gap(y[..., :, None] - x[..., None, :], square[..., None, :])
    apart = _gaussian_gap(x[..., :, None] - x[..., None, :], square[..., :, None] + square[..., None, :])
    return _score(reach, apart, probs)


def _laplace_scores(x: Tensor, widths: Tensor, probs: Tensor, y: Tensor) -> Tensor:
    gap, rows, columns = (y[..., :, None] - x[..., None, :]).abs(), widths[..., :, None], widths[..., None, :]
    reach = gap + columns * torch.exp(-gap / columns)
    between = (x[..., :, None] - x[..., None, :]).abs()
    apart = _laplace_gap(between, torch.maximum(rows, columns), torch.minimum(rows, columns))
    return _score(reach, apart, probs)


def _draw_scores(drawn: Tensor, probs: Tensor, targets: Tensor) -> Tensor:
    """Draws `(*batch, draws, hypotheses, dim)`: each is compared with the next one, which is independent of it."""
    draws = drawn.shape[-3]
    reach = pairwise(drawn.flatten(-3, -2), targets, euclidean).unflatten(-1, drawn.shape[-3:-1]).mean(-2)
    # With two draws, the second comparison is the transpose of the first.
    first = drawn if draws > 2 else drawn[..., :1, :, :]
    apart = pairwise(drawn.roll(-1, -3)[..., : first.shape[-3], :, :], first, euclidean).mean(-3)
    return _score(reach, apart, probs)


def _score(reach: Tensor, apart: Tensor, probs: Tensor) -> Tensor:
    """`E|X - y| - E|X - X'| / 2` from those of single kernels, `(*batch, targets)`."""
    spread = (probs[..., :, None] * probs[..., None, :] * apart).sum((-2, -1))
    return (probs[..., None, :] * reach).sum(-1) - spread[..., None] / 2


def _gaussian_gap(gap: Tensor, variance: Tensor) -> Tensor:
    """`E|X|` of normal X with mean `gap`: `gap erf(z / sqrt 2) + 2 variance φ(z) / sqrt(variance)`."""
    rate = variance.clamp(min=torch.finfo(variance.dtype).tiny).rsqrt()
    z = gap * rate
    return gap * torch.erf(z * math.sqrt(0.5)) + math.sqrt(2 / math.pi) * variance * rate * torch.exp(
        -z * z / 2
    )


def _laplace_gap(gap: Tensor, wide: Tensor, narrow: Tensor) -> Tensor:
    """`E|gap + wide L - narrow L'|` of two independent standard Laplace variables, `wide >= narrow`.

    `gap + (wide^3 exp(-gap / wide) - narrow^3 exp(-gap / narrow)) / (wide^2 - narrow^2)`, written in
    `shrink = 1 - narrow / wide`; a series replaces the fraction where it is 0 over 0.
    """
    shrink, z = (wide - narrow) / wide, gap / wide
    close = shrink < torch.finfo(gap.dtype).eps ** (1 / 3)
    apart = shrink.masked_fill(close, 0.5).clamp(max=1 - torch.finfo(gap.dtype).eps)
    exponent = 3 * torch.log1p(-apart) - z * apart / (1 - apart)
    exact = -torch.expm1(exponent) / (apart * (2 - apart))
    near = shrink.masked_fill(~close, 0)
    rate = 3 + z + near * (1.5 + z + near * (1 + z))
    series = rate * (1 - near * rate / 2 * (1 - near * rate / 3)) / (2 - near)
    return gap + wide * torch.exp(-z) * torch.where(close, series, exact)


class _GaussianCRPS(ScoreFunction):
    """`_gaussian_scores` with its gradients: a third of the operations that autograd would take."""

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *inputs: Tensor) -> tuple[Any, tuple[int, ...]]:
        return _GaussianCRPS.apply(*batch_first(info, in_dims, inputs)), (0,) * 4

    @staticmethod
    def forward(x: Tensor, widths: Tensor, probs: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        pairs = x.shape[-1] * (x.shape[-1] + y.shape[-1])
        return in_blocks(_gaussian_block, (x, widths, probs, y), x.shape[:-1], pairs)


def _gaussian_block(x: Tensor, widths: Tensor, probs: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    """The scores of a block `(hypotheses, n)`, and their derivatives in points, widths and probabilities.

    Targets are hypotheses of width 0: one pass over `(hypotheses + targets) x hypotheses` pairs is enough. With
    `A(d, v) = d A_d + 2 v A_v`, both derivatives of `E|N(d, v)|` come with its value.
    """
    p, k, square = probs, len(x), widths.square()
    gap = torch.cat([x, y])[:, None] - x
    variance = torch.cat([square, torch.zeros_like(y)])[:, None] + square
    rate = variance.clamp(min=torch.finfo(variance.dtype).tiny).rsqrt()
    z = (gap * rate).mul_(math.sqrt(0.5))
    by_gap = torch.erf(z)
    by_variance = z.square_().neg_().exp_().mul_(rate).mul_(math.sqrt(0.5 / math.pi))
    value = torch.addcmul(gap.mul_(by_gap), variance, by_variance, value=2)
    reach = (value[:k] * p).sum(1)
    score = (value[k:] * p).sum(1) - (p * reach).sum(0) / 2
    in_x = -p * (by_gap[k:] + (by_gap[:k] * p).sum(1))
    in_widths = 2 * widths * p * (by_variance[k:] - (by_variance[:k] * p).sum(1))
    in_probs = value[k:] - reach
    return score, in_x, in_widths, in_probs
