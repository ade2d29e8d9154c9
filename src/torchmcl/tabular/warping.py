"""Skewed targets made more symmetric before training: Yeo-Johnson's transformation, with densities corrected for it."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.distributions import (
    AffineTransform,
    ComposeTransform,
    Transform,
    TransformedDistribution,
    constraints,
)

from torchmcl.hypotheses import Hypotheses
from torchmcl.tabular.scaling import Standard, weighted_quantile

__all__ = ["Warped", "WarpedMixture", "YeoJohnson", "moments"]

Array = NDArray[np.float64]
QUANTILES = 1000
"""Of the targets, from which the power is estimated: weights count, and the time does not grow with the rows."""
NODES = 40
"""Of the quadrature of a mean or variance over each hypothesis."""


class YeoJohnson(Transform):
    """`((1 + x)^power - 1) / power` for positive numbers, and the same with `2 - power`, mirrored, for negative ones.

    Args:
        power: From 0 to 2, so that every number is the image of one. 1 changes nothing, 0 is a logarithm.

    Example:
        >>> YeoJohnson(0.0)(torch.tensor([0.0, 1.0, 3.0]))
        tensor([0.0000, 0.6931, 1.3863])
    """

    domain = constraints.real
    codomain = constraints.real
    bijective = True
    sign = 1

    def __init__(self, power: float) -> None:
        super().__init__()
        if not 0 <= power <= 2:
            raise ValueError(f"power must be from 0 to 2, got {power}")
        self.power = power

    def __eq__(self, other: object) -> bool:
        return isinstance(other, YeoJohnson) and other.power == self.power

    __hash__ = None  # type: ignore[assignment]

    def _call(self, x: Tensor) -> Tensor:
        return torch.where(
            x >= 0, _power(x.clamp(min=0), self.power), -_power(-x.clamp(max=0), 2 - self.power)
        )

    def _inverse(self, y: Tensor) -> Tensor:
        return torch.where(y >= 0, _root(y.clamp(min=0), self.power), -_root(-y.clamp(max=0), 2 - self.power))

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """`(power - 1) sign(x) log(1 + |x|)`."""
        return (self.power - 1) * x.sign() * x.abs().log1p()


@dataclass(frozen=True, eq=False)
class Warped(Standard):
    """Targets of one output, standardized, transformed by Yeo-Johnson, and standardized again.

    Args:
        center: Before the transformation.
        scale: Before the transformation.
        power: Of Yeo-Johnson.
        middle: After the transformation.
        spread: After the transformation.
    """

    power: float
    middle: float
    spread: float

    linear: ClassVar[bool] = False

    @classmethod
    def of(cls, plain: Standard, values: Array, weights: Array) -> "Warped":
        """With the power that makes the quantiles of `values (targets, 1)` most like those of a normal distribution."""
        from sklearn.preprocessing import PowerTransformer

        levels = (np.arange(QUANTILES) + 0.5) / QUANTILES
        known = weighted_quantile(plain.apply(values)[:, 0], levels, weights)[:, None]
        found = PowerTransformer(method="yeo-johnson", standardize=False).fit(known).lambdas_[0]
        power = float(np.clip(found, 0.0, 2.0))
        after = Standard.fit(YeoJohnson(power)(torch.from_numpy(known)).numpy(), np.ones(len(known)))
        return cls(plain.center, plain.scale, power, float(after.center[0]), float(after.scale[0]))

    @property
    def transform(self) -> ComposeTransform:
        """From targets to standardized numbers."""
        parts: list[Transform] = [
            AffineTransform(-float(self.center[0] / self.scale[0]), 1 / float(self.scale[0])),
            YeoJohnson(self.power),
            AffineTransform(-self.middle / self.spread, 1 / self.spread),
        ]
        return ComposeTransform(parts)

    def apply(self, values: Array) -> Array:
        """From targets to standardized numbers."""
        bent = YeoJohnson(self.power)(torch.from_numpy(Standard.apply(self, values))).numpy()
        return np.clip((bent - self.middle) / self.spread, -1e300, 1e300)

    def invert(self, values: Array) -> Array:
        """The targets that `apply` would map to `values`."""
        bent = torch.from_numpy(np.asarray(values) * self.spread + self.middle)
        return Standard.invert(self, YeoJohnson(self.power).inv(bent).numpy())

    def log_slope(self, standardized: Array) -> Array:
        """The logarithm of the derivative of `apply`, at standardized numbers `(..., 1)`."""
        transform = YeoJohnson(self.power)
        before = transform.inv(torch.from_numpy(np.asarray(standardized)[..., 0] * self.spread + self.middle))
        bent = transform.log_abs_det_jacobian(before, before).numpy()
        return bent - np.log(self.spread) - np.log(self.scale[0])


class WarpedMixture(TransformedDistribution):
    """A mixture in standardized numbers as a distribution of targets.

    Args:
        hypotheses: In standardized numbers, with widths.
        units: Of the targets.
    """

    def __init__(self, hypotheses: Hypotheses, units: Warped, validate_args: bool | None = None) -> None:
        self.hypotheses, self.units = hypotheses, units
        super().__init__(hypotheses.mixture(), [units.transform.inv], validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> "WarpedMixture":
        """With more batch axes."""
        own, shape = self.hypotheses, torch.Size(batch_shape)
        assert own.widths is not None
        more = Hypotheses(
            own.points.expand(*shape, *own.points.shape[-2:]),
            own.log_probs.expand(*shape, own.n_hypotheses),
            "softmax",
            own.widths.expand(*shape, own.n_hypotheses),
        )
        return WarpedMixture(more, self.units)

    @property
    def mean(self) -> Tensor:
        """By quadrature."""
        return moments(self.hypotheses, self.units)[0]

    @property
    def variance(self) -> Tensor:
        """By quadrature."""
        _, variance, unit = moments(self.hypotheses, self.units)
        return variance * unit.square()


def moments(hypotheses: Hypotheses, units: Warped) -> tuple[Tensor, Tensor, Tensor]:
    """Mean of the targets `(*batch, 1)`, variance in a unit, and the unit, by Gauss-Hermite quadrature.

    The unit is a power of two, so that nothing is rounded, and squares of large targets are not infinite in it.
    """
    assert hypotheses.widths is not None
    nodes, weights = (torch.from_numpy(each) for each in np.polynomial.hermite_e.hermegauss(NODES))
    places = hypotheses.points + hypotheses.widths[..., None] * nodes
    values = torch.from_numpy(units.invert(places.numpy()))
    mass = hypotheses.probs[..., None] * (weights / weights.sum())
    mean = (mass * values).sum((-2, -1), keepdim=True)
    away = values - mean
    unit = torch.ldexp(torch.ones_like(mean), away.abs().amax((-2, -1), keepdim=True).frexp().exponent)
    return mean[..., 0], (mass * (away / unit).square()).sum((-2, -1))[..., None], unit[..., 0]


def _power(x: Tensor, power: float) -> Tensor:
    return x.log1p() if power == 0 else torch.expm1(power * x.log1p()) / power


def _root(y: Tensor, power: float) -> Tensor:
    return y.expm1() if power == 0 else torch.expm1((power * y).log1p() / power)
