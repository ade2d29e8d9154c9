"""Torchmetrics classes of the measures of forecasts: each accumulates a function of `measures` over batches."""

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torchmetrics import Metric

from torchmcl.hypotheses import Hypotheses
from torchmcl.trajectories.measures import (
    binned_error,
    brier_min_fde,
    collisions,
    energy_displacement,
    kernel_nll,
    min_ade,
    min_fde,
    misses,
    nearest,
)

__all__ = [
    "BrierMinFDE",
    "Calibration",
    "CollisionRate",
    "EnergyDisplacement",
    "KernelNLL",
    "MinADE",
    "MinFDE",
    "MissRate",
]


class _Total(Metric):
    """A mean over pedestrians of what a class adds."""

    higher_is_better = False
    is_differentiable = False
    full_state_update = False
    total: Tensor
    count: Tensor

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.add_state("total", torch.tensor(0.0, dtype=torch.float64), dist_reduce_fx="sum")
        self.add_state("count", torch.tensor(0), dist_reduce_fx="sum")

    def _add(self, values: Tensor) -> None:
        self.total = self.total + values.double().sum()
        self.count = self.count + values.numel()

    def compute(self) -> Float[Tensor, ""]:
        """The mean; NaN before the first pedestrian."""
        return self.total / self.count


class _Mean(_Total):
    """The mean of a function of hypotheses and futures."""

    def __init__(self, function: Callable[..., Tensor], settings: dict[str, Any], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.function = function
        self.settings = settings

    def update(self, hypotheses: Hypotheses, future: Float[Tensor, "*batch steps 2"]) -> None:
        """Add the pedestrians of a batch."""
        self._add(self.function(hypotheses, future, **self.settings))


class MinADE(_Mean):
    """The mean of `min_ade`.

    Args:
        k: How many of the most probable hypotheses count; all by default.
        kwargs: Of `torchmetrics.Metric`.

    Example:
        >>> metric = MinADE()
        >>> metric.update(Hypotheses(torch.zeros(1, 3, 4)), torch.tensor([[[1.0, 0.0], [3.0, 0.0]]]))
        >>> metric.compute()
        tensor(2., dtype=torch.float64)
    """

    def __init__(self, k: int | None = None, **kwargs: Any) -> None:
        super().__init__(min_ade, {"k": k}, **kwargs)


class MinFDE(_Mean):
    """The mean of `min_fde`.

    Args:
        k: How many of the most probable hypotheses count; all by default.
        kwargs: Of `torchmetrics.Metric`.
    """

    def __init__(self, k: int | None = None, **kwargs: Any) -> None:
        super().__init__(min_fde, {"k": k}, **kwargs)


class MissRate(_Mean):
    """The share of `misses`.

    Args:
        k: How many of the most probable hypotheses count; all by default.
        threshold: Meters.
        kwargs: Of `torchmetrics.Metric`.
    """

    def __init__(self, k: int | None = None, threshold: float = 2.0, **kwargs: Any) -> None:
        super().__init__(misses, {"k": k, "threshold": threshold}, **kwargs)


class BrierMinFDE(_Mean):
    """The mean of `brier_min_fde`.

    Args:
        kwargs: Of `torchmetrics.Metric`.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(brier_min_fde, {}, **kwargs)


class EnergyDisplacement(_Mean):
    """The mean of `energy_displacement`.

    Args:
        kwargs: Of `torchmetrics.Metric`.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(energy_displacement, {}, **kwargs)


class KernelNLL(_Total):
    """The mean of `kernel_nll`: the negative log-likelihood of the kernel mixture.

    Args:
        kwargs: Of `torchmetrics.Metric`.
    """

    def update(
        self,
        hypotheses: Hypotheses,
        future: Float[Tensor, "*batch steps 2"],
        widths: Float[Tensor, "*batch steps"],
    ) -> None:
        """Add the pedestrians of a batch; the widths are those of `Forecaster.widths`."""
        self._add(kernel_nll(hypotheses, future, widths))


class CollisionRate(_Total):
    """The share of single answers that are in `collisions`; each update holds whole instants.

    Args:
        distance: Meters.
        kwargs: Of `torchmetrics.Metric`.
    """

    def __init__(self, distance: float = 0.2, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.distance = distance

    def update(self, futures: Float[Tensor, "agents steps 2"], instants: Int[Tensor, "agents"]) -> None:
        """Add the pedestrians of some instants."""
        self._add(collisions(futures, instants, self.distance))


class Calibration(Metric):
    """`calibration_error` over all pedestrians.

    Args:
        bins: Of equal size.
        kwargs: Of `torchmetrics.Metric`.
    """

    higher_is_better = False
    is_differentiable = False
    full_state_update = False
    stated: list[Tensor]
    right: list[Tensor]

    def __init__(self, bins: int = 20, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.bins = bins
        self.add_state("stated", [], dist_reduce_fx="cat")
        self.add_state("right", [], dist_reduce_fx="cat")

    def update(self, hypotheses: Hypotheses, future: Float[Tensor, "*batch steps 2"]) -> None:
        """Add the pedestrians of a batch."""
        probs = hypotheses.probs.reshape(-1, hypotheses.n_hypotheses)
        right = torch.zeros_like(probs).scatter_(1, nearest(hypotheses, future).reshape(-1, 1), 1.0)
        self.stated.append(probs.flatten())
        self.right.append(right.flatten())

    def compute(self) -> Float[Tensor, ""]:
        """The error of all of them together."""
        return binned_error(_joined(self.stated), _joined(self.right), self.bins)


def _joined(state: list[Tensor] | Tensor) -> Tensor:
    """torchmetrics gives the parts on one process and their concatenation on several."""
    return state if isinstance(state, Tensor) else torch.cat(state)
