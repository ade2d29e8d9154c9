"""How the members of an `MCLRegressor` are trained: network, objective, epochs, and the factor of their widths."""

import copy
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from torchmcl.hypotheses import Hypotheses
from torchmcl.likelihood import log_likelihood
from torchmcl.tabular.members import SCORED_AT_ONCE, Folds, KeepBestMembers, MemberBatches
from torchmcl.tabular.network import Readout, SeparateMembers, StackedMembers, start_points
from torchmcl.tabular.objectives import Objective, energy, winner
from torchmcl.training import Hardware, Optimization, cosine, fit

__all__ = ["MEMBERS", "Problem", "Trained", "batch_size_for", "epochs_for", "own_networks", "train_members"]

MEMBERS = 5
LARGEST_BLOCK = 64
"""Steps between two updates of the progress bar."""
DECAY = 0.99
"""Of the moving average of the weights."""
SMALLEST_BATCH, LARGEST_BATCH, STEPS = 32, 256, 20
EPOCHS, FULL_EPOCHS_UP_TO, POWER = 100, 2500, 0.4
FACTORS = torch.logspace(np.log10(0.5), np.log10(3.0), 40, dtype=torch.float32)
"""Candidates for the factor of the widths of a member."""
KERNELS = torch.logspace(-3, 1, 81, dtype=torch.float32)
"""Candidates for the width of hypotheses that have none of their own."""


@dataclass(frozen=True, eq=False)
class Problem:
    """Standardized rows.

    Args:
        inputs: `(rows, features)`.
        targets: `(rows, targets, dim)`, zeros where absent.
        active: `(rows, targets)`.
        weights: `(rows,)`, or `None` where all rows weigh the same.
        numeric: How many of the features are numbers; the others are indicators and categories.
    """

    inputs: Tensor
    targets: Tensor
    active: Tensor
    weights: Tensor | None
    numeric: int

    def tensors(self, weighted: bool) -> tuple[Tensor, Tensor, Tensor]:
        """What a batch holds; the weight of a row is a last coordinate of its targets, where it is wanted."""
        if not weighted:
            return self.inputs, self.targets, self.active
        own = self.targets.new_ones(len(self.targets)) if self.weights is None else self.weights
        weights = own[:, None, None].expand(*self.targets.shape[:2], 1)
        return self.inputs, torch.cat([self.targets, weights], -1), self.active


@dataclass(frozen=True, eq=False)
class Trained:
    """The members after training.

    Args:
        network: Maps `(members, rows, features)` to hypotheses.
        factors: Of the widths of each member; where the hypotheses have none, the width of all of them.
        epochs: How many were trained.
        best: The validation score of each member; empty without validation.
        held_out: Hypotheses for the validation rows, of members whose epoch the other half of these rows has chosen;
            `None` without validation.
        likelihood: The mean log-likelihood of the validation rows, standardized; minus infinity without validation.
    """

    network: nn.Module
    factors: Tensor
    epochs: int
    best: tuple[float, ...]
    held_out: Hypotheses | None
    likelihood: float


def batch_size_for(rows: int) -> int:
    """Rows of a batch: a twentieth of the table, but never many. Large batches learn less from the same rows."""
    return int(np.clip(rows // STEPS, SMALLEST_BATCH, LARGEST_BATCH))


def epochs_for(rows: int) -> int:
    """Epochs at most: 100 for small tables, fewer for large ones, in which an epoch has more steps.

    >>> [epochs_for(rows) for rows in (300, 10_000, 100_000, 1_000_000)]
    [100, 57, 23, 9]
    """
    return max(1, round(EPOCHS * min(1.0, (FULL_EPOCHS_UP_TO / rows) ** POWER)))


def train_members(
    settings: Any,
    problem: Problem,
    folds: Folds,
    seed: int,
    validation: Problem | None = None,
    **options: Any,
) -> Trained:
    """Train all members in one pass, keep the best epoch of each, and fit the factor of its widths.

    Args:
        settings: The estimator, for its parameters.
        problem: All rows.
        folds: Which of them each member trains and validates on.
        seed: Of everything that is drawn.
        validation: Rows to validate on, in place of those of the folds.
        options: For `training.fit`: checkpoint and progress.
    """
    weighted = any(each is not None and each.weights is not None for each in (problem, validation))
    objective = _objective(settings, weighted)
    readout = _readout(settings, problem.targets.shape[-1])
    held = _held_out(problem, folds, validation)
    batches = _batches(problem, folds, objective, settings.batch_size, seed)
    checks = None if held is None else held.batches(objective.weighted)
    keep = [] if checks is None else [KeepBestMembers(objective.score, settings.patience)]
    fitted = fit(
        lambda: _network(settings, problem, folds.members, readout),
        objective.loss,
        batches,
        checks,
        seed=seed,
        optimization=Optimization(
            epochs=int(settings.max_epochs or epochs_for(folds.train.shape[1])),
            learning_rate=settings.learning_rate,
            weight_decay=settings.weight_decay,
            schedule=cosine,
            keep="last",
            ema=DECAY,
            block=min(len(batches), LARGEST_BLOCK),
        ),
        hardware=Hardware(accelerator=settings.device),
        callbacks=keep,
        **options,
    )
    network = fitted.network
    if held is None:
        factors = _no_factors(settings, problem, folds.members)
        return Trained(network, factors, fitted.epochs, (), None, -math.inf)
    factors, likelihood = _factors(held.answers(network), held, settings.loss == "energy")
    unseen = with_widths(_unseen_answers(network, keep[0].kept, held), factors)
    assert keep[0].best is not None
    return Trained(network, factors, fitted.epochs, tuple(keep[0].best[0].tolist()), unseen, likelihood)


def _unseen_answers(network: nn.Module, kept: list[dict[str, Tensor]], held: "_HeldOut") -> Hypotheses:
    """Answers for the validation rows, of members whose epoch the other half of these rows has chosen.

    The epoch that a row has chosen itself answers it better than it answers new rows.

    Args:
        network: Left with the first of the weights.
        kept: Weights that all rows have chosen, their first half, and their second half.
        held: The validation rows.
    """
    middle = held.rows.shape[1] // 2
    parts = []
    for rows, weights in ((held.rows[:, :middle], kept[2]), (held.rows[:, middle:], kept[1])):
        network.load_state_dict(weights)
        if rows.numel():
            parts.append(_HeldOut(held.problem, rows).answers(network))
    network.load_state_dict(kept[0])
    return _beside(parts)


def with_widths(hypotheses: Hypotheses, factors: Tensor) -> Hypotheses:
    """Widths of each member times its factor; one width for all hypotheses where they have none."""
    factors = factors.to(hypotheses.points)[:, None, None]
    widths = factors.expand(hypotheses.points.shape[:-1])
    if hypotheses.widths is not None:
        widths = widths * hypotheses.widths
    return Hypotheses(hypotheses.points, hypotheses.logits, hypotheses.link, widths)


@dataclass(frozen=True, eq=False)
class _HeldOut:
    """The validation rows of each member, `(members, held)`."""

    problem: Problem
    rows: Tensor

    def batches(self, weighted: bool) -> MemberBatches:
        tensors: tuple[Tensor, ...] = self.problem.tensors(weighted)
        if not weighted and self.problem.weights is not None:
            tensors = (*tensors, self.problem.weights)
        return MemberBatches(*tensors, rows=self.rows, batch_size=SCORED_AT_ONCE)

    def answers(self, network: nn.Module) -> Hypotheses:
        with torch.no_grad():
            parts = [
                network(self.problem.inputs[part]).to(torch.double)
                for part in self.rows.split(SCORED_AT_ONCE, 1)
            ]
        return _beside(parts)


def _beside(parts: list[Hypotheses]) -> Hypotheses:
    """Batches `(members, rows)` joined along the rows."""
    return Hypotheses.stack([Hypotheses.cat([p[m] for p in parts]) for m in range(len(parts[0]))])


def _held_out(problem: Problem, folds: Folds, validation: Problem | None) -> _HeldOut | None:
    if validation is not None:
        return _HeldOut(validation, torch.arange(len(validation.inputs)).expand(folds.members, -1))
    return _HeldOut(problem, folds.validation) if folds.validation.numel() else None


def _batches(
    problem: Problem, folds: Folds, objective: Objective, batch_size: int | None, seed: int
) -> MemberBatches:
    size = int(batch_size or batch_size_for(folds.train.shape[1]))
    drawn = None if objective.weighted else problem.weights
    return MemberBatches(
        *problem.tensors(objective.weighted), rows=folds.train, batch_size=size, seed=seed, weights=drawn
    )


def _objective(settings: Any, weighted: bool) -> Objective:
    if settings.loss == "energy":
        return energy(weighted)
    return winner(
        settings.loss,
        distance=settings.distance,
        assign=settings.assign,
        beta=settings.beta,
        negatives=settings.negatives,
        scored=settings.scores is not None,
    )


def _readout(settings: Any, dim: int) -> Readout:
    return Readout(settings.n_hypotheses, dim, settings.scores, settings.loss == "energy")


def _network(settings: Any, problem: Problem, members: int, readout: Readout) -> nn.Module:
    features = problem.inputs.shape[1]
    if settings.network is not None:
        return SeparateMembers(own_networks(settings.network, features, readout.outputs, members), readout)
    start = start_points(problem.targets[problem.active], members, readout.hypotheses)
    plain = features - problem.numeric
    return StackedMembers(
        members, problem.numeric, plain, tuple(settings.hidden), settings.activation, readout, start
    )


def own_networks(network: Any, features: int, outputs: int, members: int) -> list[nn.Module]:
    """The networks of a user, one for each member.

    Args:
        network: A module, which is copied, or a function from features and outputs to one.
        features: Numbers of an encoded row.
        outputs: Numbers that the network must give.
        members: How many.
    """
    module = isinstance(network, nn.Module)
    made = [network if module else network(features, outputs) for _ in range(members)]
    for each in made:
        if not isinstance(each, nn.Module):
            raise TypeError(f"network must make a torch.nn.Module, got {type(each).__name__}")
    if not module and len(set(map(id, made))) < members:
        raise ValueError(
            "network must make a new module each time that it is called, it gave the same one twice"
        )
    # Copies, so that no two share weights and training does not change what the user has; in single precision, as the
    # rows are.
    return [copy.deepcopy(each).float() for each in made]


def _no_factors(settings: Any, problem: Problem, members: int) -> Tensor:
    if settings.loss == "energy":
        return torch.ones(members)
    spread = problem.targets[problem.active].std(0, correction=0).mean().clamp(min=1e-3)
    return (spread / settings.n_hypotheses).expand(members).clone()


def _factors(hypotheses: Hypotheses, held: _HeldOut, own_widths: bool) -> tuple[Tensor, float]:
    """For each member the candidate with the best likelihood of its validation rows, and the mean of that."""
    rows = held.rows
    targets, active = held.problem.targets[rows].double(), held.problem.active[rows]
    weights = active.sum(-1) * (1.0 if held.problem.weights is None else held.problem.weights[rows])
    totals = []
    for factor in FACTORS if own_widths else KERNELS:
        scaled = with_widths(hypotheses, factor.expand(len(rows)))
        each = log_likelihood(scaled, targets, active)
        totals.append(torch.where(active.any(-1), weights * each, 0.0).sum(1))
    candidates = FACTORS if own_widths else KERNELS
    best = torch.stack(totals).max(0)
    return candidates[best.indices], float(best.values.sum() / weights.sum())
