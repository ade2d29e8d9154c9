"""Random problems, and every loss under one signature."""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from torchmcl.assignment import annealed, relaxed, top_n
from torchmcl.classification import cmcl_loss
from torchmcl.crps import mixture_energy_loss
from torchmcl.distances import chordal, cross_entropy, great_circle
from torchmcl.energy import energy_loss
from torchmcl.hypotheses import Hypotheses
from torchmcl.likelihood import likelihood_loss
from torchmcl.losses import mcl_loss, pit_loss, rmcl_loss, transport_loss

Loss = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]


def problem(batch: int, targets: int, hypotheses: int, dim: int, seed: int, keep: float = 0.6):
    """Random hypotheses and targets in float64; what is inactive holds NaN."""
    random = torch.Generator().manual_seed(seed)
    points = torch.rand(batch, hypotheses, dim, generator=random, dtype=torch.float64) * 2 - 1
    logits = torch.randn(batch, hypotheses, generator=random, dtype=torch.float64)
    where = torch.rand(batch, targets, dim, generator=random, dtype=torch.float64) * 2 - 1
    active = torch.rand(batch, targets, generator=random) < keep
    where = where.masked_fill(~active[..., None], torch.nan)
    return points.requires_grad_(), logits.requires_grad_(), where, active


def _widths(logits: Tensor) -> Tensor:
    return 0.5 + logits.square() / 4


def losses() -> dict[str, Loss]:
    """Each as a function of points, logits, targets and active."""
    return {
        "mcl": lambda p, _, t, a: mcl_loss(Hypotheses(p), t, a),
        "best": lambda p, _, t, a: mcl_loss(Hypotheses(p), t, a, best_target_only=True),
        "top": lambda p, q, t, a: rmcl_loss(Hypotheses(p, q), t, a, assign=partial(top_n, n=2)),
        "relaxed": lambda p, q, t, a: rmcl_loss(Hypotheses(p, q), t, a, assign=partial(relaxed, epsilon=0.2)),
        "annealed": lambda p, q, t, a: rmcl_loss(
            Hypotheses(p, q), t, a, assign=partial(annealed, temperature=0.2)
        ),
        "rmcl": lambda p, q, t, a: rmcl_loss(Hypotheses(p, q), t, a),
        "sampled": lambda p, q, t, a: rmcl_loss(Hypotheses(p, q), t, a, negatives=2),
        "softmax": lambda p, q, t, a: rmcl_loss(Hypotheses(p, q, "softmax"), t, a),
        "sphere": lambda p, q, t, a: rmcl_loss(Hypotheses(p, q), t, a, distance=great_circle),
        "transport": lambda p, q, t, a: transport_loss(Hypotheses(p, q), t, a),
        "classes": lambda p, q, t, a: rmcl_loss(Hypotheses(p, q), t.softmax(-1), a, distance=cross_entropy),
        "cmcl": lambda p, _, t, a: cmcl_loss(Hypotheses(p), t.softmax(-1), a, beta=0.75),
        "energy": lambda p, q, t, a: energy_loss(Hypotheses(p, q), t, a),
        "energy on a line": lambda p, q, t, a: energy_loss(
            Hypotheses(p.sum(-1, keepdim=True), q), t.sum(-1, keepdim=True), a
        ),
        "energy on the sphere": lambda p, q, t, a: energy_loss(Hypotheses(p, q), t, a, distance=chordal),
        "mixture energy": lambda p, q, t, a: mixture_energy_loss(
            Hypotheses(p.sum(-1, keepdim=True), q, widths=_widths(q)), t.sum(-1, keepdim=True), a
        ),
        "laplace energy": lambda p, q, t, a: mixture_energy_loss(
            Hypotheses(p.sum(-1, keepdim=True), q, widths=_widths(q)),
            t.sum(-1, keepdim=True),
            a,
            kernel="laplace",
        ),
        "drawn energy": lambda p, q, t, a: mixture_energy_loss(Hypotheses(p, q, widths=_widths(q)), t, a),
        "likelihood": lambda p, q, t, a: likelihood_loss(Hypotheses(p, q, widths=_widths(q)), t, a),
        "pit": lambda p, q, t, a: pit_loss(p[..., :3, :], q[..., :3], t, a),
    }
