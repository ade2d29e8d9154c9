"""What every model returns: K points with scores, read as a conditional distribution."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import logsigmoid

from torchmcl.distances import Distance, euclidean

if TYPE_CHECKING:
    from torchmcl.voronoi.laws import Law
    from torchmcl.voronoi.mixture import VoronoiMixture

__all__ = ["Hypotheses", "Link"]

Link = Literal["sigmoid", "softmax"]


@dataclass(frozen=True, eq=False)
class Hypotheses:
    """K points and, unless unscored, K logits, for each item of a batch.

    `link` says what the logits mean: under `"sigmoid"` (the paper) each score is the probability that a target
    falls into that hypothesis' Voronoi cell, so several may be near 1; under `"softmax"` the scores are one
    distribution over the cells. Indexing selects along the batch axes.

    >>> h = Hypotheses(torch.tensor([[0.0], [1.0], [5.0]]), torch.tensor([2.0, 2.0, -9.0]))
    >>> h.probs.round(decimals=2), h.count.round()
    (tensor([0.5000, 0.5000, 0.0000]), tensor(2.))
    >>> h.cells(torch.tensor([0.8]))
    tensor(1)
    """

    points: Float[Tensor, "*batch hypotheses dim"]
    logits: Float[Tensor, "*batch hypotheses"] | None = None
    link: Link = "sigmoid"

    def __post_init__(self) -> None:
        if self.points.ndim < 2:
            raise ValueError(f"points must be (*batch, hypotheses, dim), got {tuple(self.points.shape)}")
        if self.points.shape[-2] == 0:
            raise ValueError("points holds no hypothesis: its axis -2 has length 0")
        if self.logits is not None and self.logits.shape != self.points.shape[:-1]:
            raise ValueError(
                f"logits must be {tuple(self.points.shape[:-1])}, got {tuple(self.logits.shape)}"
            )
        if self.link not in ("sigmoid", "softmax"):
            raise ValueError(f"link must be 'sigmoid' or 'softmax', got {self.link!r}")

    @classmethod
    def cat(cls, parts: Sequence["Hypotheses"]) -> "Hypotheses":
        """Batches one after another, along the first axis.

        >>> Hypotheses.cat([Hypotheses(torch.zeros(3, 5, 2)), Hypotheses(torch.zeros(4, 5, 2))]).batch_shape
        torch.Size([7])
        """
        logits = [part.logits for part in parts if part.logits is not None]
        if len(logits) not in (0, len(parts)) or len({part.link for part in parts}) != 1:
            raise ValueError("parts must all be scored by the same link, or all be unscored")
        points = torch.cat([part.points for part in parts])
        return cls(points, torch.cat(logits) if logits else None, parts[0].link)

    @property
    def batch_shape(self) -> torch.Size:
        """The leading axes: everything before hypotheses and dim."""
        return self.points.shape[:-2]

    @property
    def n_hypotheses(self) -> int:
        """K."""
        return self.points.shape[-2]

    @property
    def dim(self) -> int:
        """The number of coordinates of a point."""
        return self.points.shape[-1]

    @property
    def scores(self) -> Float[Tensor, "*batch hypotheses"]:
        """The link applied to the logits: P(a target falls into cell k) under `"sigmoid"`; ones when unscored."""
        if self.logits is None:
            return self.points.new_ones(self.points.shape[:-1])
        return self.logits.sigmoid() if self.link == "sigmoid" else self.logits.softmax(-1)

    @property
    def log_probs(self) -> Float[Tensor, "*batch hypotheses"]:
        """The logarithm of `probs`, without underflow."""
        if self.logits is None:
            return self.points.new_zeros(self.points.shape[:-1]).log_softmax(-1)
        logits = logsigmoid(self.logits) if self.link == "sigmoid" else self.logits
        return logits.log_softmax(-1)

    @property
    def probs(self) -> Float[Tensor, "*batch hypotheses"]:
        """The scores normalised over hypotheses (Algorithm 1, line 3); uniform when unscored."""
        return self.log_probs.exp()

    @property
    def mean(self) -> Float[Tensor, "*batch dim"]:
        """`sum_k probs_k points_k`, the law of total expectation (eq. 8); for angles it has no meaning."""
        return (self.probs[..., None] * self.points).sum(-2)

    @property
    def count(self) -> Float[Tensor, "*batch"]:
        """`sum_k scores_k`, the expected number of targets: known to the `"sigmoid"` link only."""
        if self.logits is None or self.link != "sigmoid":
            kind = "unscored hypotheses" if self.logits is None else f"link {self.link!r}"
            raise ValueError(
                f"count needs scores with link 'sigmoid'; {kind} cannot tell how many targets there are"
            )
        return self.scores.sum(-1)

    def prune(self, threshold: float) -> "Hypotheses":
        """Give probability 0 to the hypotheses whose probability is below `threshold`.

        The most probable one always stays. Points are left as they are.
        """
        if not 0 <= threshold <= 1:
            raise ValueError(f"threshold must be between 0 and 1, got {threshold}")
        if self.logits is None:
            return self
        probs = self.probs
        low = (probs < threshold) & (probs < probs.amax(-1, keepdim=True))
        return replace(self, logits=self.logits.masked_fill(low, -torch.inf))

    def cells(
        self, y: Float[Tensor, "*sample dim"], distance: Distance = euclidean
    ) -> Int[Tensor, "*sample_batch"]:
        """The index of the Voronoi cell (eq. 3) in which `y (*sample, *batch, dim)` lies; ties go to the lowest."""
        if y.shape[-1] != self.dim:
            raise ValueError(f"y has {y.shape[-1]} coordinates, hypotheses have {self.dim}")
        return distance(y[..., None, :], self.points).argmin(-1)

    def sample(
        self, shape: tuple[int, ...] = (), generator: torch.Generator | None = None
    ) -> Float[Tensor, "*sample_batch dim"]:
        """Draws `(*shape, *batch, dim)` from the mixture of Diracs (eq. 12)."""
        count = torch.Size(shape).numel()
        probs = self.probs.reshape(-1, self.n_hypotheses)
        drawn = (
            torch.multinomial(probs, count, replacement=True, generator=generator)
            if count
            else probs[:, :0].long()
        )
        index = drawn.T.reshape(*shape, *self.batch_shape, 1, 1)
        points = self.points.expand(*shape, *self.points.shape)
        return points.take_along_dim(index, dim=-2).squeeze(-2)

    def density(self, law: "Law") -> "VoronoiMixture":
        """The distribution of Proposition 1 with `law` inside the cells."""
        from torchmcl.voronoi.mixture import VoronoiMixture

        return VoronoiMixture(self, law)

    def to(self, *args: Any, **kwargs: Any) -> "Hypotheses":
        """A copy on another device or in another dtype, as `Tensor.to`."""
        logits = None if self.logits is None else self.logits.to(*args, **kwargs)
        return replace(self, points=self.points.to(*args, **kwargs), logits=logits)

    def detach(self) -> "Hypotheses":
        """A view outside of the graph."""
        return replace(
            self, points=self.points.detach(), logits=None if self.logits is None else self.logits.detach()
        )

    def __getitem__(self, index: Any) -> "Hypotheses":
        index = index if isinstance(index, tuple) else (index,)
        rest = () if any(part is Ellipsis for part in index) else (...,)
        logits = None if self.logits is None else self.logits[(*index, *rest, slice(None))]
        return replace(self, points=self.points[(*index, *rest, slice(None), slice(None))], logits=logits)
