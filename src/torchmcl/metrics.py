"""Metrics over a whole data set: each accumulates a function of one batch, and adds up over processes."""

from abc import abstractmethod
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torchmetrics import Metric

from torchmcl.assignment import winner_takes_all
from torchmcl.distances import Distance, cost_matrix, euclidean
from torchmcl.hypotheses import Hypotheses
from torchmcl.transport import emd, oracle_error

__all__ = ["CountRecall", "EarthMoversDistance", "OracleError", "WinnerHistogram", "emd", "oracle_error"]


class _Quiet(Metric):
    """A metric with a stated value before the first update: torchmetrics has nothing to warn about."""

    full_state_update = False

    @property
    def update_called(self) -> bool:
        """Always true."""
        return True


class _ItemMean(_Quiet):
    """Mean and standard deviation of a value per item, over the items that have an active target.

    The state is the number of items, the sum of their values and that of the squared deviations from their
    mean, in float64. Both `compute()` and `std` are NaN as long as there is no such item.
    """

    higher_is_better = False
    is_differentiable = False
    moments: Tensor

    def __init__(self, distance: Distance = euclidean, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.distance = distance
        self.add_state("moments", torch.zeros(3, dtype=torch.float64), dist_reduce_fx=_merge)

    @abstractmethod
    def values(self, hypotheses: Hypotheses, targets: Tensor, active: Tensor | None) -> Tensor:
        """One value per item of the batch."""

    def update(
        self,
        hypotheses: Hypotheses,
        targets: Float[Tensor, "*batch targets dim"],
        active: Bool[Tensor, "*batch targets"] | None = None,
    ) -> None:
        """Add the items of a batch; those without an active target are left out."""
        with torch.no_grad():
            value = self.values(hypotheses, targets, active).flatten().double()
        present = targets.new_ones(targets.shape[:-1], dtype=torch.bool) if active is None else active
        value = value[present.any(-1).flatten()]
        items = torch.stack([torch.ones_like(value), value, torch.zeros_like(value)], -1)
        self.moments = _merge(torch.cat([self.moments[None], items]))

    def compute(self) -> Float[Tensor, ""]:
        """The mean over items."""
        return self.moments[1] / self.moments[0]

    @property
    def std(self) -> Float[Tensor, ""]:
        """The standard deviation over items, `sqrt(sum_i (x_i - mean)^2 / n)`, on all processes together."""
        with self.sync_context(
            self.dist_sync_fn, should_sync=self._to_sync, should_unsync=self._should_unsync
        ):
            return (self.moments[2] / self.moments[0]).sqrt()


class EarthMoversDistance(_ItemMean):
    """The mean of `emd` over items.

    >>> metric = EarthMoversDistance()
    >>> metric.update(Hypotheses(torch.tensor([[[0.0], [2.0]]])), torch.tensor([[[0.0]]]))
    >>> metric.compute()
    tensor(1., dtype=torch.float64)
    """

    def values(self, hypotheses: Hypotheses, targets: Tensor, active: Tensor | None) -> Tensor:
        """`emd` of each item."""
        return emd(hypotheses, targets, active, distance=self.distance)


class OracleError(_ItemMean):
    """The mean of `oracle_error` over items.

    >>> metric = OracleError()
    >>> metric.update(Hypotheses(torch.tensor([[[0.0], [2.0]]])), torch.tensor([[[0.5]]]))
    >>> metric.compute()
    tensor(0.5000, dtype=torch.float64)
    """

    def values(self, hypotheses: Hypotheses, targets: Tensor, active: Tensor | None) -> Tensor:
        """`oracle_error` of each item."""
        return oracle_error(hypotheses, targets, active, distance=self.distance)


class CountRecall(_Quiet):
    """The share of items in which the rounded `count` of the hypotheses is the number of active targets.

    The frame recall of the paper; items without an active target count as well. NaN before the first item.

    >>> metric = CountRecall()
    >>> metric.update(Hypotheses(torch.zeros(1, 2, 1), torch.tensor([[9.0, -9.0]])), torch.zeros(1, 1, 1))
    >>> metric.compute()
    tensor(1., dtype=torch.float64)
    """

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
        """Add the items of a batch."""
        present = targets.new_ones(targets.shape[:-1], dtype=torch.bool) if active is None else active
        count = hypotheses.count.round()
        if count.shape != present.shape[:-1]:
            raise ValueError(
                f"targets has batch axes {tuple(present.shape[:-1])}, hypotheses have {tuple(count.shape)}"
            )
        self.right = self.right + (count == present.sum(-1)).sum()
        self.total = self.total + count.numel()

    def compute(self) -> Float[Tensor, ""]:
        """The share of items that are right."""
        return self.right.double() / self.total


class WinnerHistogram(_Quiet):
    """In how many items each hypothesis is the nearest to at least one active target.

    Shows collapse: hypotheses that `never` win have stopped learning. All zeros before the first item.

    >>> metric = WinnerHistogram(3)
    >>> metric.update(Hypotheses(torch.tensor([[[0.0], [1.0], [2.0]]])), torch.tensor([[[0.1], [1.9]]]))
    >>> metric.compute(), metric.never
    (tensor([1, 0, 1]), tensor(1))
    >>> metric.entropy
    tensor(0.6931, dtype=torch.float64)
    """

    is_differentiable = False
    counts: Tensor

    def __init__(self, n_hypotheses: int, distance: Distance = euclidean, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.n_hypotheses = n_hypotheses
        self.distance = distance
        self.add_state("counts", torch.zeros(n_hypotheses, dtype=torch.long), dist_reduce_fx="sum")

    def update(
        self,
        hypotheses: Hypotheses,
        targets: Float[Tensor, "*batch targets dim"],
        active: Bool[Tensor, "*batch targets"] | None = None,
    ) -> None:
        """Add the items of a batch."""
        if hypotheses.n_hypotheses != self.n_hypotheses:
            raise ValueError(f"there are {hypotheses.n_hypotheses} hypotheses, not {self.n_hypotheses}")
        cost, active = cost_matrix(hypotheses.points.detach(), targets, active, distance=self.distance)
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


def _merge(moments: Tensor) -> Tensor:
    """The moments of all parts `(parts, 3)` together, without the cancellation of a sum of squares."""
    count, total = moments[:, 0].sum(), moments[:, 1].sum()
    own = moments[:, 1] / moments[:, 0].clamp(min=1)
    between = moments[:, 0] * (own - total / count.clamp(min=1)).square()
    return torch.stack([count, total, (moments[:, 2] + between).sum()])
