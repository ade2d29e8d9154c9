"""A residual perceptron over one walk, with attention to the neighbors."""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from torchmcl.hypotheses import Hypotheses
from torchmcl.trajectories.windows import OBSERVED, PREDICTED

__all__ = ["Architecture", "FutureNetwork", "Seen", "speed_unit"]

NEIGHBOR_FEATURES = 20


@dataclass(frozen=True)
class Architecture:
    """The size of a network and what it looks at.

    Args:
        hypotheses: K.
        width: Of the residual blocks.
        blocks: Their number.
        dropout: Within a block.
        neighbors: Whether there is attention to other pedestrians.
        attention: The width of the attention, a multiple of the number of heads.
        heads: Of the attention.
        roughness: Whether the jitter of the observed track is an input.
    """

    hypotheses: int = 20
    width: int = 128
    blocks: int = 3
    dropout: float = 0.1
    neighbors: bool = True
    attention: int = 64
    heads: int = 4
    roughness: bool = True


class Seen(NamedTuple):
    """What a network is told, in the pose of the walk.

    Args:
        observed: `(batch, 8, 2)` positions relative to the last one, meters, all known.
        missing: `(batch,)` how many of the first ones were extrapolated.
        neighbors: `(batch, neighbors, 6)`, NaN where there is none.
    """

    observed: Float[Tensor, "batch 8 2"]
    missing: Float[Tensor, "batch"]
    neighbors: Float[Tensor, "batch neighbors 6"]


def speed_unit(observed: Float[Tensor, "batch steps 2"]) -> Float[Tensor, "batch"]:
    """The unit of length of a walk: the root of the mean squared step plus (0.1 m)^2.

    Args:
        observed: Positions, meters.

    Returns:
        Meters, at least 0.1.
    """
    return (observed.diff(dim=1).square().sum(-1).mean(1) + 0.01).sqrt()


class FutureNetwork(nn.Module):
    """K futures of 12 steps with logits, from 8 positions and the neighbors.

    Lengths are in units of the walker's own speed. Futures are accumulated corrections to a constant velocity.

    Args:
        architecture: Sizes and inputs.
    """

    def __init__(self, architecture: Architecture | None = None) -> None:
        super().__init__()
        self.architecture = a = architecture or Architecture()
        inputs = 4 * OBSERVED + 3 * a.roughness
        if a.neighbors:
            self.attention = NeighborAttention(inputs, a.attention, a.heads)
            inputs += a.attention
        self.enter = nn.Linear(inputs, a.width)
        self.blocks = nn.Sequential(*(Block(a.width, a.dropout) for _ in range(a.blocks)))
        self.norm = nn.LayerNorm(a.width)
        self.steps = nn.Linear(a.width, a.hypotheses * PREDICTED * 2)
        self.logits = nn.Linear(a.width, a.hypotheses)
        with torch.no_grad():
            self.steps.weight.mul_(0.5)

    def forward(self, seen: Seen) -> Hypotheses:
        """Futures in the pose of the walk.

        Args:
            seen: The walk and its neighbors.

        Returns:
            Points `(batch, K, 24)`, meters relative to the last position; one distribution over the K.
        """
        unit = speed_unit(seen.observed)
        scaled = seen.observed / unit[:, None, None]
        velocity = scaled.diff(dim=1)
        features = [scaled.flatten(1), velocity.flatten(1), unit.log()[:, None], seen.missing[:, None] / 6]
        if self.architecture.roughness:
            features.append(_roughness(seen, unit))
        known = torch.cat(features, 1)
        if self.architecture.neighbors:
            known = torch.cat([known, self.attention(known, seen, unit)], 1)
        hidden = self.norm(self.blocks(self.enter(known)))
        steps = self.steps(hidden).unflatten(-1, (-1, PREDICTED, 2)) + velocity[:, -1][:, None, None]
        points = steps.cumsum(2) * unit[:, None, None, None]
        return Hypotheses(points.flatten(2), self.logits(hidden), "softmax")


class Block(nn.Module):
    """A residual perceptron: layer norm, linear, GELU, linear, dropout."""

    def __init__(self, width: int, dropout: float) -> None:
        super().__init__()
        self.change = nn.Sequential(
            nn.LayerNorm(width),
            nn.Linear(width, width),
            nn.GELU(),
            nn.Linear(width, width),
            nn.Dropout(dropout),
        )

    def forward(self, hidden: Float[Tensor, "batch width"]) -> Float[Tensor, "batch width"]:
        """The input plus its correction."""
        return hidden + self.change(hidden)


class NeighborAttention(nn.Module):
    """Attention of a walk to its neighbors, with one slot for "nobody"."""

    def __init__(self, inputs: int, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.embed = nn.Sequential(nn.Linear(NEIGHBOR_FEATURES, width), nn.GELU(), nn.Linear(width, width))
        self.query = nn.Linear(inputs, width)
        self.key = nn.Linear(width, width)

    def forward(
        self, known: Float[Tensor, "batch features"], seen: Seen, unit: Float[Tensor, "batch"]
    ) -> Float[Tensor, "batch width"]:
        """The attended embeddings; zeros where there is no neighbor.

        Only the neighbors that exist are embedded: in training most slots are empty.
        """
        present = seen.neighbors[..., 0].isfinite()
        walk = present.nonzero()[:, 0]
        own = (seen.observed[:, -1] - seen.observed[:, -4]) / 3
        embedded = self.embed(_neighbor_features(seen.neighbors[present], own[walk], unit[walk]))
        match = (self.query(known)[walk] * self.key(embedded)).unflatten(-1, (self.heads, -1)).sum(-1)
        score = match.new_full((*present.shape, self.heads), -torch.inf)
        score[present] = match / (embedded.shape[-1] // self.heads) ** 0.5
        nobody = score.new_zeros(len(score), 1, self.heads)
        weight = torch.cat([nobody, score], 1).softmax(1)[:, 1:][present]
        parts = (weight[..., None] * embedded.unflatten(-1, (self.heads, -1))).flatten(1)
        return parts.new_zeros(len(known), parts.shape[1]).index_add(0, walk, parts)


def _roughness(seen: Seen, unit: Tensor) -> Tensor:
    """How jittery the track is: RMS second and third differences of the positions that are known."""
    second = _mean_square(seen.observed.diff(n=2, dim=1), seen.missing).sqrt()
    third = _mean_square(seen.observed.diff(n=3, dim=1), seen.missing).sqrt()
    return torch.stack([third.log() + 3, 2 * (third / second).log(), third / unit], -1)


def _mean_square(differences: Tensor, missing: Tensor) -> Tensor:
    known = torch.arange(differences.shape[1], device=missing.device) >= missing[:, None]
    total = (differences.square().sum(-1) * known).sum(1)
    return total / known.sum(1).clamp_min(1) + 1e-5


def _neighbor_features(neighbors: Tensor, own: Tensor, unit: Tensor) -> Tensor:
    """Where the others are and will be at constant velocity, and how near they come."""
    place, last, mean = neighbors.split(2, -1)
    relative = mean - own
    approach = -(place * relative).sum(-1, keepdim=True) / (relative.square().sum(-1, keepdim=True) + 0.01)
    approach = approach.clamp(0, PREDICTED)
    closest, sixth, twelfth = (place + relative * steps for steps in (approach, 6, 12))
    distance, least = place.norm(dim=-1, keepdim=True), closest.norm(dim=-1, keepdim=True)
    scale = unit[:, None]
    return torch.cat(
        [
            _squashed(place), mean / scale, relative / scale, (-distance).exp(), (-distance / 4).exp(),
            _squashed(closest), (-least).exp(), approach / PREDICTED, _squashed(sixth), _squashed(twelfth),
            (last - mean) / scale, distance / (4 + distance), mean.norm(dim=-1, keepdim=True),
        ],
        -1,
    )  # fmt: skip


def _squashed(vector: Tensor) -> Tensor:
    return vector / (1 + vector.norm(dim=-1, keepdim=True))
