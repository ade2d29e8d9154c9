"""Counting over a whole data set: how many targets there are, and which hypotheses win."""

from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torchmetrics import Metric

from torchmcl.assignment import winner_takes_all
from torchmcl.distances import Distance, cost_matrix, euclidean
from torchmcl.distances import present as active_targets
from torchmcl.errors import check_callable, check_integer
from torchmcl.hypotheses import Hypotheses, check_hypotheses

__all__ = ["CountRecall", "WinnerHistogram"]


class CountRecall(Metric):
    """The share of items in which the rounded `count` of the hypotheses is the number of active targets.

    The frame recall of the paper; items without an active target count as well. NaN before the first item.

    >>> metric = CountRecall()
    >>> metric.update(Hypotheses(torch.zeros(1, 2, 1), torch.tensor([[9.0, -9.0]])), torch.zeros(1, 1, 1))
    >>> metric.compute()
    tensor(1., dtype=torch.float64)
    """

    full_state_update = False
    higher_is_better = True
    is_differentiable = False
    right: Tensor
    total: Tensor

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.add_state("right", torch.tensor(0), dist_reduce_fx="sum")
        self.add_state("total", torch.tensor(0), dist_reduce_fx="sum")

    def update(
        self,
        hypotheses: Hypotheses,
        targets: Float[Tensor, "*batch targets dim"],
        active: Bool[Tensor, "*batch targets"] | None = None,
    ) -> None:
        """Add the items of a batch.

        Args:
            hypotheses: K points with sigmoid scores.
            targets: `(*batch, targets, dim)`.
            active: Which targets exist, `(*batch, targets)`; all of them if `None`.
        """
        check_hypotheses(hypotheses)
        _, present = active_targets(hypotheses.points, targets, active)
        count = hypotheses.count.round()
        if count.isnan().any():
            raise ValueError("hypotheses have scores that are NaN")
        self.right = self.right + (count == present.sum(-1)).sum()
        self.total = self.total + count.numel()

    def compute(self) -> Float[Tensor, ""]:
        """The share of items that are right."""
        return self.right.double() / self.total


class WinnerHistogram(Metric):
    """In how many items each hypothesis is the nearest to at least one active target.

    Shows collapse: hypotheses that `never` win have stopped learning. All zeros before the first item.

    Args:
        n_hypotheses: K.
        distance: Between points.

    >>> metric = WinnerHistogram(3)
    >>> metric.update(Hypotheses(torch.tensor([[[0.0], [1.0], [2.0]]])), torch.tensor([[[0.1], [1.9]]]))
    >>> metric.compute(), metric.never
    (tensor([1, 0, 1]), tensor(1))
    >>> metric.entropy
    tensor(0.6931, dtype=torch.float64)
    """

    full_state_update = False
    is_differentiable = False
    counts: Tensor

    def __init__(self, n_hypotheses: int, distance: Distance = euclidean, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        check_integer("n_hypotheses", n_hypotheses)
        self.n_hypotheses = n_hypotheses
        check_callable("distance", distance, "a function of two tensors of points")
        self.distance = distance
        self.add_state("counts", torch.zeros(n_hypotheses, dtype=torch.long), dist_reduce_fx="sum")

    def update(
        self,
        hypotheses: Hypotheses,
        targets: Float[Tensor, "*batch targets dim"],
        active: Bool[Tensor, "*batch targets"] | None = None,
    ) -> None:
        """Add the items of a batch.

        Args:
            hypotheses: K points.
            targets: `(*batch, targets, dim)`.
            active: Which targets exist, `(*batch, targets)`; all of them if `None`.
        """
        check_hypotheses(hypotheses)
        if hypotheses.n_hypotheses != self.n_hypotheses:
            raise ValueError(f"there are {hypotheses.n_hypotheses} hypotheses, not {self.n_hypotheses}")
        cost, active = cost_matrix(hypotheses.points.detach(), targets, active, distance=self.distance)
        if (cost.isnan() & active[..., None]).any():
            raise ValueError("hypotheses or active targets are NaN: nobody knows which hypothesis wins")
        winners = winner_takes_all(cost).winners & active[..., None]
        self.counts = self.counts + winners.any(-2).flatten(end_dim=-2).sum(0)

    def compute(self) -> Int[Tensor, "hypotheses"]:
        """The number of items won by each hypothesis."""
        return self.counts

    @property
    def entropy(self) -> Float[Tensor, ""]:
        """`-sum_k q_k log q_k` in nats, `q` being the shares of the counts: `log K` when all win equally.

        0 before the first item.
        """
        counts = self.compute().double()
        return torch.special.entr(counts / counts.sum().clamp(min=1)).sum()

    @property
    def never(self) -> Int[Tensor, ""]:
        """The number of hypotheses that have not won in any item."""
        return (self.compute() == 0).sum()
