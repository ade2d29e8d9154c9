"""CRPS and likelihood of Gaussian mixtures on a line in one pass, with their gradients."""

import math
from collections.abc import Iterator
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from torchmcl.hypotheses import Hypotheses

__all__ = ["gaussian_mixture_loss"]

BLOCK = 2**16
"""Pairs of hypotheses that are in memory at once: about what fits into the cache of a core."""


def gaussian_mixture_loss(
    hypotheses: Hypotheses,
    targets: Float[Tensor, "*batch targets 1"],
    weights: Float[Tensor, "*batch targets"],
    part: float,
) -> Float[Tensor, ""]:
    """Mean of the CRPS plus `part` of the negative log-likelihood, over weighted targets.

    Equal to `mixture_energy_loss + part * likelihood_loss`, in half of the time: the batch is the last axis, softmax
    included, and gradients are computed with the value.

    Args:
        hypotheses: K points on a line with softmax scores and widths, `(*batch, hypotheses, 1)`.
        targets: Samples of the outcome, finite also where they weigh nothing, `(*batch, targets, 1)`.
        weights: Of the targets, 0 for inactive ones, `(*batch, targets)`.
        part: The weight of the negative log-likelihood.

    Returns:
        The average; 0 where nothing has a weight.
    """
    assert hypotheses.widths is not None
    assert hypotheses.logits is not None
    own = hypotheses.points.squeeze(-1), hypotheses.logits, hypotheses.widths
    rows = [each.flatten(0, -2) for each in (*own, targets.squeeze(-1), weights)]
    return _Loss.apply(*rows, part) / weights.sum().clamp(min=torch.finfo(weights.dtype).tiny)


class _Loss(torch.autograd.Function):
    """The weighted sum over rows `(rows, hypotheses)` and `(rows, targets)`."""

    @staticmethod
    def forward(
        ctx: Any,
        points: Tensor,
        logits: Tensor,
        widths: Tensor,
        targets: Tensor,
        weights: Tensor,
        part: float,
    ) -> Tensor:
        found = [_block(part, *block) for block in _blocks(points, logits, widths, targets, weights)]
        totals, *gradients = zip(*found, strict=True)
        # Blocks lie side by side with the batch as last axis.
        ctx.save_for_backward(*(torch.cat(each, -1).T for each in gradients))
        return torch.stack(totals).sum()

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        return *(gradients[0] * each for each in ctx.saved_tensors), None, None, None


def _blocks(points: Tensor, *others: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """Columns `(hypotheses, rows)` and `(targets, rows)`, so many rows at once that memory stays bounded."""
    count = points.shape[1]
    size = max(1, BLOCK // (count * (count + others[-1].shape[1])))
    parts = (each.T.contiguous().split(size, 1) for each in (points, *others))
    return zip(*parts, strict=True)


def _block(
    part: float, x: Tensor, logits: Tensor, widths: Tensor, y: Tensor, weights: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The weighted sum, and its gradients in points, logits and widths, `(hypotheses, rows)`."""
    log_p = logits.log_softmax(0)
    p = log_p.exp()
    crps, *first = _crps(x, p, widths, y, weights)
    log_density, *second = _log_density(x, log_p, widths, y, weights)
    in_x, in_p, in_widths = first
    in_log_p = p * in_p - part * second[1]
    return (
        crps - part * log_density,
        in_x - part * second[0],
        in_log_p - p * in_log_p.sum(0),
        in_widths - part * second[2],
    )


def _crps(x: Tensor, p: Tensor, widths: Tensor, y: Tensor, weights: Tensor) -> tuple[Tensor, ...]:
    """`sum_k p_k A(y - x_k, s_k^2) - 1/2 sum_jk p_j p_k A(x_j - x_k, s_j^2 + s_k^2)`, weighted, and its gradients.

    `A(d, v) = E|N(d, v)| = d A_d + 2 v A_v`. A target is a hypothesis of width 0, so that one pass over
    `(hypotheses + targets) x hypotheses` pairs has both sums.
    """
    square, total = widths.square(), weights.sum(0)
    gap = torch.cat([x, y])[:, None] - x
    variance = torch.cat([square, torch.zeros_like(y)])[:, None] + square
    rate = variance.rsqrt()
    z = (gap * rate).mul_(math.sqrt(0.5))
    by_gap = torch.erf(z)
    by_variance = z.square_().neg_().exp_().mul_(rate).mul_(math.sqrt(0.5 / math.pi))
    value = torch.addcmul(gap.mul_(by_gap), variance, by_variance, value=2)
    signed = torch.cat([-p * total, weights])[:, None]
    in_p, in_gap, in_variance = ((each * signed).sum(0) for each in (value, by_gap, by_variance))
    # The gradient has the pairs of hypotheses twice, the score has them once.
    reach = (value[len(p) :] * weights[:, None]).sum(0)
    return (p * (in_p + reach)).sum() / 2, -p * in_gap, in_p, 2 * widths * p * in_variance


def _log_density(x: Tensor, log_p: Tensor, widths: Tensor, y: Tensor, weights: Tensor) -> tuple[Tensor, ...]:
    """`log sum_k p_k N(y; x_k, s_k^2)`, weighted, and its gradients in points, `log_p` and widths."""
    z = (y[:, None] - x) / widths
    square = z.square()
    each = (log_p - widths.log() - 0.5 * math.log(2 * math.pi)).sub(square, alpha=0.5)
    density = each.logsumexp(1, keepdim=True)
    share = (each - density).exp_().mul_(weights[:, None])
    in_x, in_log_p = (share * z).sum(0) / widths, share.sum(0)
    return (density[:, 0] * weights).sum(), in_x, in_log_p, ((share * square).sum(0) - in_log_p) / widths
