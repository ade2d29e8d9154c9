"""Means over a whole data set of a value per item, which add up over processes."""

from abc import abstractmethod
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torchmetrics import Metric

from torchmcl.crps import mixture_crps
from torchmcl.distances import Distance, euclidean
from torchmcl.energy import energy_score
from torchmcl.errors import check_callable
from torchmcl.hypotheses import Hypotheses
from torchmcl.likelihood import log_likelihood
from torchmcl.mixtures import Kernel, kernel_named
from torchmcl.transport import emd, oracle_error

__all__ = ["EarthMoversDistance", "EnergyScore", "ItemMean", "NegativeLogLikelihood", "OracleError"]


class ItemMean(Metric):
    """Mean and standard deviation of a value per item, over the items that have an active target.

    The state is the number of items, the sum of their values and that of the squared deviations from their
    mean, in float64. Both `compute()` and `std` are NaN as long as there is no such item.
    """

    full_state_update = False
    higher_is_better = False
    is_differentiable = False
    moments: Tensor

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.add_state("moments", torch.zeros(3, dtype=torch.float64), dist_reduce_fx=merge)

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
            value = self.values(hypotheses, targets, active)
        self.moments = added(self.moments, value, targets, active)

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


class _DistanceMean(ItemMean):
    """A mean of something that depends on a distance."""

    def __init__(self, distance: Distance = euclidean, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        check_callable("distance", distance, "a function of two tensors of points")
        self.distance = distance


class EarthMoversDistance(_DistanceMean):
    """The mean of `emd` over items.

    >>> metric = EarthMoversDistance()
    >>> metric.update(Hypotheses(torch.tensor([[[0.0], [2.0]]])), torch.tensor([[[0.0]]]))
    >>> metric.compute()
    tensor(1., dtype=torch.float64)
    """

    def values(self, hypotheses: Hypotheses, targets: Tensor, active: Tensor | None) -> Tensor:
        """`emd` of each item."""
        return emd(hypotheses, targets, active, distance=self.distance)


class OracleError(_DistanceMean):
    """The mean of `oracle_error` over items.

    >>> metric = OracleError()
    >>> metric.update(Hypotheses(torch.tensor([[[0.0], [2.0]]])), torch.tensor([[[0.5]]]))
    >>> metric.compute()
    tensor(0.5000, dtype=torch.float64)
    """

    def values(self, hypotheses: Hypotheses, targets: Tensor, active: Tensor | None) -> Tensor:
        """`oracle_error` of each item."""
        return oracle_error(hypotheses, targets, active, distance=self.distance)


class EnergyScore(_DistanceMean):
    """The mean of `energy_score` over items: in one dimension the CRPS. Lower is better.

    Args:
        distance: As in `energy_score`, of the points.
        kernel: The kernel of hypotheses with widths, in one dimension: `"gaussian"` or `"laplace"`. The score is then
            `mixture_crps`, that of the smooth mixture. Without it, widths do not count.
        kwargs: For `torchmetrics.Metric`.

    Example:
        >>> metric = EnergyScore()
        >>> metric.update(Hypotheses(torch.tensor([[[0.0], [1.0]]])), torch.tensor([[[1.0]]]))
        >>> metric.compute()
        tensor(0.2500, dtype=torch.float64)
    """

    def __init__(
        self, distance: Distance = euclidean, *, kernel: str | Kernel | None = None, **kwargs: Any
    ) -> None:
        super().__init__(distance, **kwargs)
        if kernel is not None:
            kernel_named(kernel)
        self.kernel = kernel

    def values(self, hypotheses: Hypotheses, targets: Tensor, active: Tensor | None) -> Tensor:
        """The score of each item."""
        if self.kernel is None:
            return energy_score(hypotheses, targets, active, distance=self.distance)
        return mixture_crps(hypotheses, targets, active, kernel=self.kernel)


class NegativeLogLikelihood(ItemMean):
    """The mean over items of minus `log_likelihood`, in nats. Lower is better.

    Args:
        kernel: The kernel of hypotheses with widths, as for `Hypotheses.mixture`.
        kwargs: For `torchmetrics.Metric`.

    Example:
        >>> metric = NegativeLogLikelihood()
        >>> metric.update(Hypotheses(torch.zeros(1, 1, 1), widths=torch.ones(1, 1)), torch.zeros(1, 1, 1))
        >>> metric.compute()
        tensor(0.9189, dtype=torch.float64)
    """

    def __init__(self, kernel: str | Kernel = "gaussian", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        kernel_named(kernel)
        self.kernel = kernel

    def values(self, hypotheses: Hypotheses, targets: Tensor, active: Tensor | None) -> Tensor:
        """Minus the log-likelihood of each item."""
        return -log_likelihood(hypotheses, targets, active, kernel=self.kernel)


def added(moments: Tensor, value: Tensor, targets: Tensor, active: Tensor | None) -> Tensor:
    """The moments with the values of the items that have an active target."""
    value = value.flatten().double()
    if active is not None:
        value = value[active.any(-1).flatten()]
    elif targets.shape[-2] == 0:
        value = value[:0]
    items = torch.stack([torch.ones_like(value), value, torch.zeros_like(value)], -1)
    return merge(torch.cat([moments[None], items]))


def merge(moments: Tensor) -> Tensor:
    """The moments of all parts `(parts, 3)` together, without the cancellation of a sum of squares."""
    count, total = moments[:, 0].sum(), moments[:, 1].sum()
    own = moments[:, 1] / moments[:, 0].clamp(min=1)
    between = moments[:, 0] * (own - total / count.clamp(min=1)).square()
    return torch.stack([count, total, (moments[:, 2] + between).sum()])
