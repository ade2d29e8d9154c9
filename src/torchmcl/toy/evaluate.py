"""How close a model's hypotheses come to the exact p(y | t)."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from torchmcl.distances import cost_matrix
from torchmcl.hypotheses import Hypotheses
from torchmcl.toy.data import Samples, grid, sample
from torchmcl.toy.semidiscrete import dual_emd
from torchmcl.toy.truth import cell_truth
from torchmcl.transport import emd

__all__ = ["Evaluation", "evaluate", "exact_emd", "predict", "sampled_emd", "winner_entropy"]

SMALLEST_MASS = 0.005
"""Cells below it are left out of the centroid error: almost no target ever falls into them."""


@dataclass(frozen=True)
class Evaluation:
    """Means over times and hypotheses; `emd` holds the noise-free value at each time.

    `emd_mean` is noise-free, against p(y | t) on a grid; `emd_mean_sampled` is against samples, as in the paper.
    `oracle_mean` is the mean distance to the nearest hypothesis. `centroid_error` is the distance of hypotheses
    to the exact mean of p(y | t) in their cells, over cells with a mass above 0.5 %, `score_error` the absolute
    difference between normalized score and exact mass of a cell. `winner_entropy` is that of the histogram of
    winners over the validation set, in nats.
    """

    emd_mean: float
    emd_mean_sampled: float
    emd: list[tuple[float, float]]
    oracle_mean: float
    centroid_error: float
    score_error: float
    winner_entropy: float


def predict(network: nn.Module, t: Float[Tensor, "*batch"]) -> Hypotheses:
    """The hypotheses at the times `t`, in double precision.

    Args:
        network: From times to hypotheses.
        t: Times, `(*batch,)`.

    Returns:
        Hypotheses `(*batch, hypotheses, 2)`.
    """
    with torch.no_grad():
        return network(t[..., None].float()).to(torch.float64)


def evaluate(
    hypotheses: Hypotheses,
    t: Float[Tensor, "times"],
    entropy: float,
    *,
    size: int = 100,
    samples: int = 1000,
    seed: int = 0,
    advance: Callable[[], None] = lambda: None,
) -> Evaluation:
    """Compare the hypotheses at each time with p(y | t), on a grid of `size x size` and by `samples` draws.

    Args:
        hypotheses: Of each time.
        t: Times, `(times,)`.
        entropy: Of the winners.
        size: Cells a side of the grid.
        samples: Draws for each time.
        seed: Of the draws.
        advance: Called after each time.

    Returns:
        The numbers.
    """
    exact = exact_emd(hypotheses, t, size=size, advance=advance)
    drawn = sampled_emd(hypotheses, t, samples=samples, seed=seed)
    places, mass = grid(t, size)
    oracle = (torch.cdist(places.expand(len(t), -1, -1), hypotheses.points).amin(-1) * mass).sum(-1)
    truth = cell_truth(hypotheses.points, t)
    away = (hypotheses.points - truth.mean).norm(dim=-1)
    return Evaluation(
        emd_mean=exact.mean().item(),
        emd_mean_sampled=drawn.mean().item(),
        emd=list(zip(t.tolist(), exact.tolist(), strict=True)),
        oracle_mean=oracle.mean().item(),
        centroid_error=away[truth.mass > SMALLEST_MASS].mean().item(),
        score_error=(hypotheses.probs - truth.mass).abs().mean().item(),
        winner_entropy=entropy,
    )


def exact_emd(
    hypotheses: Hypotheses,
    t: Float[Tensor, "times"],
    *,
    size: int = 100,
    advance: Callable[[], None] = lambda: None,
) -> Float[Tensor, "times"]:
    """The EMD between the hypotheses and p(y | t) on a grid: no sampling, so no noise.

    Args:
        hypotheses: Of each time.
        t: Times, `(times,)`.
        size: Cells a side of the grid.
        advance: Called after each time.

    Returns:
        One value for each time.
    """
    places, masses = grid(t, size)
    values = []
    for points, probs, mass in zip(hypotheses.points, hypotheses.probs, masses, strict=True):
        values.append(dual_emd(torch.cdist(places, points), mass, probs))
        advance()
    return torch.stack(values)


def sampled_emd(
    hypotheses: Hypotheses, t: Float[Tensor, "times"], *, samples: int = 1000, seed: int = 0
) -> Float[Tensor, "times"]:
    """The EMD to equally weighted draws from p(y | t), as in the paper; the draws are the same for all models.

    Args:
        hypotheses: Of each time.
        t: Times, `(times,)`.
        samples: Draws for each time.
        seed: Of the draws.

    Returns:
        One value for each time.
    """
    random = torch.Generator().manual_seed(seed)
    return emd(hypotheses, sample(t, (samples,), random).movedim(0, 1))


def winner_entropy(network: nn.Module, data: Samples, chunk: int = 5000) -> float:
    """The entropy, in nats, of how often each hypothesis wins a target; `log K` when all do equally often.

    A sample counts once for each hypothesis that wins any of its targets.

    Args:
        network: From times to hypotheses.
        data: Times and targets.
        chunk: Samples predicted at once.

    Returns:
        The entropy in nats.
    """
    counts = []
    for t, targets, active in zip(*(part.split(chunk) for part in data), strict=True):
        with torch.no_grad():
            points = network(t).points
        cost, active = cost_matrix(points, targets, active)
        wins = torch.nn.functional.one_hot(cost.argmin(-1), points.shape[-2]) * active[..., None]
        counts.append(wins.amax(-2).sum(0))
    share = torch.stack(counts).sum(0).double()
    return torch.special.entr(share / share.sum()).sum().item()
