"""What is minimized: a loss for training, and a score that chooses the epoch of each member."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from torchmcl.assignment import Assign
from torchmcl.crps import mixture_energy_loss, mixture_energy_score
from torchmcl.distances import Distance
from torchmcl.energy import energy_score
from torchmcl.hypotheses import Hypotheses
from torchmcl.likelihood import likelihood_loss, log_likelihood
from torchmcl.losses import mcl_loss, rmcl_loss, transport_loss
from torchmcl.tabular.mixture_loss import gaussian_mixture_loss
from torchmcl.transport import emd, oracle_error

__all__ = ["LOSSES", "Objective", "energy", "winner"]

LOSSES = ("energy", "rmcl", "mcl", "transport")
IN_LOSS, IN_SCORE = 0.5, 0.1
"""The weight of the negative log-likelihood beside the energy score, in training and in the choice of the epoch."""


@dataclass(frozen=True)
class Objective:
    """A loss of a whole batch, and a score of each item of a batch.

    Args:
        loss: Of hypotheses, targets and active.
        score: One number for each item, and the weight of that item; lower is better.
        weighted: Whether the targets carry the weight of their row as a last coordinate.
    """

    loss: Callable[[Hypotheses, Tensor, Tensor | None], Tensor]
    score: Callable[[Hypotheses, Tensor, Tensor], tuple[Tensor, Tensor]]
    weighted: bool


def energy(weighted: bool) -> Objective:
    """The energy score of the mixture plus half its negative log-likelihood: for samples of what may happen.

    Args:
        weighted: Whether rows have weights.
    """
    if weighted:
        return Objective(_weighted_energy_loss, _weighted_energy_score, True)
    return Objective(_energy_loss, _energy_score, False)


def winner(
    name: str, *, distance: Distance, assign: Assign, beta: float, negatives: int | None, scored: bool
) -> Objective:
    """The losses in which hypotheses compete: `rmcl`, `mcl` and `transport`."""
    loss: Callable[..., Tensor]
    if name == "mcl":
        loss = partial(mcl_loss, distance=distance, assign=assign)
    else:
        loss = partial(rmcl_loss, distance=distance, assign=assign, beta=beta, negatives=negatives)
    if name == "transport":
        loss = _Transport(distance, loss)
    score: Callable[..., Tensor] = partial(oracle_error, distance=distance)
    if scored:
        score = partial(emd if name == "transport" else energy_score, distance=distance)
    return Objective(loss, _Items(score), False)


@dataclass(frozen=True)
class _Transport:
    distance: Distance
    competition: Callable[..., Tensor]

    def __call__(self, hypotheses: Hypotheses, targets: Tensor, active: Tensor | None) -> Tensor:
        whole = transport_loss(hypotheses, targets, active, distance=self.distance)
        return whole + 0.5 * self.competition(hypotheses, targets, active)


@dataclass(frozen=True)
class _Items:
    """A measure of items, in which those without a target have no weight."""

    measure: Callable[..., Tensor]

    def __call__(self, hypotheses: Hypotheses, targets: Tensor, active: Tensor) -> tuple[Tensor, Tensor]:
        count = active.sum(-1)
        return torch.where(count > 0, self.measure(hypotheses, targets, active), 0.0), count


def _energy_loss(hypotheses: Hypotheses, targets: Tensor, active: Tensor | None) -> Tensor:
    if hypotheses.dim == 1:
        assert active is not None
        return gaussian_mixture_loss(hypotheses, targets, active.to(targets), IN_LOSS)
    likelihood = likelihood_loss(hypotheses, targets, active)
    return mixture_energy_loss(hypotheses, targets, active) + IN_LOSS * likelihood


def _energy_score(hypotheses: Hypotheses, targets: Tensor, active: Tensor) -> tuple[Tensor, Tensor]:
    return _item_scores(hypotheses, targets, active, IN_SCORE), active.sum(-1)


def _weighted_energy_loss(hypotheses: Hypotheses, targets: Tensor, active: Tensor | None) -> Tensor:
    assert active is not None
    if hypotheses.dim == 1:
        return gaussian_mixture_loss(hypotheses, targets[..., :1], active * targets[..., -1], IN_LOSS)
    weight = targets[..., 0, -1] * active.sum(-1)
    return (weight * _item_scores(hypotheses, targets[..., :-1], active, IN_LOSS)).sum() / weight.sum()


def _weighted_energy_score(hypotheses: Hypotheses, targets: Tensor, active: Tensor) -> tuple[Tensor, Tensor]:
    weight = targets[..., 0, -1] * active.sum(-1)
    return _item_scores(hypotheses, targets[..., :-1], active, IN_SCORE), weight


def _item_scores(hypotheses: Hypotheses, targets: Tensor, active: Tensor, part: float) -> Tensor:
    score = mixture_energy_score(hypotheses, targets, active)
    return score - part * log_likelihood(hypotheses, targets, active)
