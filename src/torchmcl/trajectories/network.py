"""A residual perceptron over one walk, with attention to the neighbors."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import linear

from torchmcl.errors import check_integer, check_number
from torchmcl.hypotheses import Hypotheses
from torchmcl.trajectories.features import NEIGHBOR_FEATURES, ROUGHNESS_FEATURES, WALK_FEATURES, Seen
from torchmcl.trajectories.windows import PREDICTED

__all__ = ["Architecture", "FutureNetwork"]


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

    def __post_init__(self) -> None:
        for name, least, most in (
            ("hypotheses", 1, 10_000),
            ("width", 1, 10_000),
            ("blocks", 0, 100),
            ("attention", 1, 10_000),
            ("heads", 1, 100),
        ):
            check_integer(name, getattr(self, name), least, most)
        check_number("dropout", self.dropout, 0, 1)
        if self.attention % self.heads:
            raise ValueError(f"attention is {self.attention}, must be a multiple of heads, {self.heads}")


class FutureNetwork(nn.Module):
    """K futures of 12 steps with logits, from 8 positions and the neighbors.

    Lengths are in units of the walker's own speed. Futures are accumulated corrections to a constant velocity.

    Args:
        architecture: Sizes and inputs.
    """

    def __init__(self, architecture: Architecture | None = None) -> None:
        super().__init__()
        self.architecture = a = architecture or Architecture()
        inputs = WALK_FEATURES + ROUGHNESS_FEATURES * a.roughness
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
        walk = seen.walk if self.architecture.roughness else seen.walk[:, :WALK_FEATURES]
        known = torch.cat([walk, self.attention(walk, seen)], 1) if self.architecture.neighbors else walk
        hidden = self.norm(self.blocks(self.enter(known)))
        points = linear(hidden, _accumulated(self.steps.weight), _accumulated(self.steps.bias))
        time = torch.arange(1, PREDICTED + 1, device=hidden.device)[:, None]
        straight = (seen.velocity[:, None] * time).flatten(1)
        points = (points.unflatten(-1, (-1, 2 * PREDICTED)) + straight[:, None]) * seen.unit[:, None, None]
        return Hypotheses(points, self.logits(hidden), "softmax")


def _accumulated(parameter: Tensor) -> Tensor:
    """Sums over the steps so far: summed in the weights, which are fewer than the outputs of a batch."""
    return parameter.unflatten(0, (-1, PREDICTED, 2)).cumsum(1).flatten(0, 2)


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

    def forward(self, known: Float[Tensor, "batch features"], seen: Seen) -> Float[Tensor, "batch width"]:
        """The attended embeddings; zeros where there is no neighbor.

        Only the neighbors that exist are embedded: in training most slots are empty.
        """
        walk = seen.present.nonzero()[:, 0]
        embedded = self.embed(seen.around[seen.present])
        match = (self.query(known)[walk] * self.key(embedded)).unflatten(-1, (self.heads, -1)).sum(-1)
        score = match.new_full((*seen.present.shape, self.heads), -torch.inf)
        score[seen.present] = match / (embedded.shape[-1] // self.heads) ** 0.5
        nobody = score.new_zeros(len(score), 1, self.heads)
        weight = torch.cat([nobody, score], 1).softmax(1)[:, 1:][seen.present]
        parts = (weight[..., None] * embedded.unflatten(-1, (self.heads, -1))).flatten(1)
        return parts.new_zeros(len(known), parts.shape[1]).index_add(0, walk, parts)
