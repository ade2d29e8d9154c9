"""How a network learns: data augmentation, loss, and length of the training."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.functional import cross_entropy

from torchmcl.hypotheses import Hypotheses
from torchmcl.trajectories.features import Seen, features
from torchmcl.trajectories.network import Architecture
from torchmcl.trajectories.pose import Pose, completed, pose_of
from torchmcl.trajectories.windows import OBSERVED, PREDICTED, Windows

__all__ = [
    "Augmentation",
    "AugmentedBatches",
    "Recipe",
    "augment",
    "displacements",
    "forecasting_loss",
    "look",
    "one_cycle",
]

CHUNK = 64
"""Batches that are augmented at once: the operations are small, and one call for many is faster."""


@dataclass(frozen=True)
class Augmentation:
    """What happens to a window before the network sees it in training; half of them are reflected as well.

    Args:
        scale: Standard deviation of the logarithm of a factor on all lengths.
        noise: The largest standard deviation, in meters, of noise on the observed positions but the last one; each
            window has its own, uniform from 0. The velocities of the neighbors have noise of the same size.
        noisy: The share of windows with noise.
        neighbor_dropout: The probability that a neighbor is left out.
        alone: The probability that all neighbors of a window are left out.
        shorten: The probability that only the last 2 to 7 positions are seen.
    """

    scale: float = 0.2
    noise: float = 0.06
    noisy: float = 0.6
    neighbor_dropout: float = 0.3
    alone: float = 0.2
    shorten: float = 0.1


@dataclass(frozen=True)
class Recipe:
    """Everything that decides what a network becomes, except for the data and the seed.

    Args:
        architecture: Of the network.
        augmentation: Of the training windows.
        end: The weight of the error at the last step beside the mean error.
        scores: The weight of the cross-entropy of the scores.
        steps: Of the optimizer, rounded to whole passes over the data.
        batch_size: Windows a step.
        learning_rate: The greatest one of the cycle.
        weight_decay: Of the matrices; biases and gains have none.
    """

    architecture: Architecture = field(default_factory=Architecture)
    augmentation: Augmentation = field(default_factory=Augmentation)
    end: float = 0.5
    scores: float = 0.1
    steps: int = 5200
    batch_size: int = 256
    learning_rate: float = 3e-3
    weight_decay: float = 0.01


def look(
    observed: Float[Tensor, "batch 8 2"], neighbors: Float[Tensor, "batch neighbors 6"]
) -> tuple[Seen, Pose]:
    """What the network is told of walks, and how to turn its answer back.

    Args:
        observed: Positions relative to the last one; NaN where unknown.
        neighbors: NaN where there are none.

    Returns:
        The inputs of the network in the pose of each walk, and the poses.
    """
    full, missing, pose = posed(observed, neighbors)
    return features(pose.turn(full), missing, pose.turn(neighbors)), pose


def posed(
    observed: Float[Tensor, "batch 8 2"], neighbors: Float[Tensor, "batch neighbors 6"]
) -> tuple[Float[Tensor, "batch 8 2"], Float[Tensor, "batch"], Pose]:
    """Complete histories, how many positions of each were missing, and the poses.

    Args:
        observed: Positions relative to the last one; NaN where unknown.
        neighbors: NaN where there are none.

    Returns:
        All in the directions of the world.
    """
    missing = observed[..., 0].isnan().sum(-1).to(observed.dtype)
    full = completed(observed)
    return full, missing, pose_of(full, neighbors)


class AugmentedBatches:
    """Training batches `(seen, targets, None)`, augmented anew in each epoch.

    Args:
        windows: What to learn from.
        recipe: The augmentation and the size of a batch; the last windows of an epoch that fill no batch are left out.
        seed: With the number of the epoch it decides order and augmentation.
    """

    def __init__(self, windows: Windows, recipe: Recipe, seed: int) -> None:
        self.windows = windows
        self.recipe = recipe
        self.seed = seed
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Choose the random numbers of the next pass."""
        self.epoch = epoch

    def __len__(self) -> int:
        return max(len(self.windows) // self.recipe.batch_size, 1)

    @property
    def epochs(self) -> int:
        """The number of passes that comes nearest to the steps of the recipe."""
        return max(round(self.recipe.steps / len(self)), 1)

    def __iter__(self) -> Iterator[tuple[Seen, Tensor, None]]:
        state = np.random.SeedSequence([self.seed, self.epoch]).generate_state(1)
        self.epoch += 1
        random = torch.Generator().manual_seed(int(state[0]))
        size = self.recipe.batch_size
        order = torch.randperm(len(self.windows), generator=random)[: len(self) * size]
        for chunk in order.split(CHUNK * size):
            seen, future = augment(self.windows[chunk], self.recipe.augmentation, random)
            for *parts, target in zip(*(tensor.split(size) for tensor in (*seen, future)), strict=True):
                yield Seen(*parts), target.flatten(1)[:, None], None


def augment(
    windows: Windows, settings: Augmentation, random: torch.Generator
) -> tuple[Seen, Float[Tensor, "windows 12 2"]]:
    """Windows as the network sees them in training, and their futures in the same pose.

    Args:
        windows: Some windows.
        settings: What may happen to them.
        random: Decides what does.

    Returns:
        Inputs and futures.
    """
    count = len(windows)

    def uniform(*shape: int) -> Tensor:
        return torch.rand(*shape, generator=random)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=random)

    observed, neighbors = windows.observed, windows.neighbors
    if settings.noise:
        sigma = uniform(count, 1, 1) * settings.noise * (uniform(count, 1, 1) < settings.noisy)
        observed = observed + sigma * normal(count, OBSERVED, 2) * _all_but_last()
        # The noise of a difference of two positions, over one step and over three.
        spread = torch.tensor([0.0, 0.0, math.sqrt(2), math.sqrt(2), math.sqrt(2) / 3, math.sqrt(2) / 3])
        neighbors = neighbors + sigma * normal(*neighbors.shape) * spread
    if settings.shorten:
        kept = torch.randint(2, OBSERVED, (count, 1), generator=random)
        cut = (torch.arange(OBSERVED) < OBSERVED - kept) & (uniform(count, 1) < settings.shorten)
        observed = observed.masked_fill(cut[..., None], torch.nan)
    dropped = uniform(count, neighbors.shape[1]) < settings.neighbor_dropout
    dropped |= uniform(count, 1) < settings.alone
    neighbors = neighbors.masked_fill(dropped[..., None], torch.nan)
    full, missing, pose = posed(observed, neighbors)
    mirror = torch.stack([torch.ones(count, 1), (uniform(count, 1) < 0.5) * 2.0 - 1], -1)
    factor = (normal(count, 1, 1) * settings.scale).exp() * mirror
    around = pose.turn(neighbors) * factor.repeat(1, 1, 3)
    return features(pose.turn(full) * factor, missing, around), pose.turn(windows.future) * factor


def _all_but_last() -> Tensor:
    return (torch.arange(OBSERVED) < OBSERVED - 1).float()[:, None]


def displacements(
    points: Float[Tensor, "*#batch 24"], future: Float[Tensor, "*#batch 24"]
) -> Float[Tensor, "*#batch 12"]:
    """The distance between two futures at each step.

    Args:
        points: x and y of 12 steps in turn.
        future: The same, of a shape that broadcasts.

    Returns:
        In the unit of the inputs.
    """
    return (points - future).unflatten(-1, (PREDICTED, 2)).norm(dim=-1)


def forecasting_loss(
    hypotheses: Hypotheses,
    targets: Float[Tensor, "*batch targets 24"],
    active: Bool[Tensor, "*batch targets"] | None = None,
    *,
    end: float = 0.5,
    scores: float = 0.1,
) -> Float[Tensor, ""]:
    r"""Winner-takes-all for futures, with separate winners for the whole way and for its end.

    .. math:: \min_k \mathrm{ADE}_k + \lambda \min_k \mathrm{FDE}_k - \mu \log p_{k^*}, \qquad
        k^* = \arg\min_k \mathrm{ADE}_k

    Args:
        hypotheses: K futures with logits.
        targets: True futures.
        active: Which of them exist; all if `None`.
        end: The weight of the error at the last step.
        scores: The weight of the cross-entropy of the scores.

    Returns:
        The average over active targets; 0 where there are none.
    """
    active = targets.new_ones(targets.shape[:-1], dtype=torch.bool) if active is None else active
    clean = targets.masked_fill(~active[..., None], 0.0)
    with torch.no_grad():
        error = displacements(hypotheses.points.detach()[..., None, :, :], clean[..., None, :])
        nearest, at_end = error.mean(-1).argmin(-1), error[..., -1].argmin(-1)
    points = hypotheses.points
    loss = displacements(points.take_along_dim(nearest[..., None], -2), clean).mean(-1)
    if end:
        final = points[..., -2:].take_along_dim(at_end[..., None], -2) - clean[..., -2:]
        loss = loss + end * final.norm(dim=-1)
    logits = hypotheses.log_probs[..., None, :].expand(*nearest.shape, -1)
    loss = loss + scores * cross_entropy(
        logits.reshape(-1, hypotheses.n_hypotheses), nearest.flatten(), reduction="none"
    ).view(nearest.shape)
    return (loss * active).sum() / active.sum().clamp_min(1)


def one_cycle(epoch: float, epochs: float) -> float:
    """The factor of the learning rate: from 1/25 to 1 in the first 30 % of the training, then to 0, along cosines.

    Args:
        epoch: Passes that are done, fractional.
        epochs: Of the whole training.

    Returns:
        Between 0 and 1.
    """
    done = min(epoch / epochs, 1.0)
    if done < 0.3:
        return 1 / 25 + (1 - 1 / 25) * 0.5 * (1 - math.cos(math.pi * done / 0.3))
    return 0.5 * (1 + math.cos(math.pi * (done - 0.3) / 0.7))
