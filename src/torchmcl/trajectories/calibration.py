"""Scores and widths that mean what they say, fitted on windows that the network has not learned from."""

from dataclasses import dataclass
from math import exp

from jaxtyping import Float
from scipy.optimize import minimize_scalar
from torch import Tensor

from torchmcl.errors import check_number
from torchmcl.hypotheses import Hypotheses
from torchmcl.trajectories.measures import kernel_nll, nearest
from torchmcl.trajectories.windows import PREDICTED

__all__ = ["Adjustment", "adjustment_of"]


LEAST = 1e-6
"""Of temperature and widths, and of their reciprocals: fitted ones are far from it."""


@dataclass(frozen=True)
class Adjustment:
    """What is known of a network's uncertainty from held-out windows.

    Args:
        temperature: By which logits are divided.
        widths: The standard deviation of the kernel around a hypothesis at each step, in units of the walker's speed
            (see `speed_unit`).
    """

    temperature: float = 1.0
    widths: tuple[float, ...] = tuple(0.1 * step for step in range(1, PREDICTED + 1))

    def __post_init__(self) -> None:
        check_number("temperature", self.temperature, LEAST, 1 / LEAST)
        if len(self.widths) != PREDICTED:
            raise ValueError(f"widths has {len(self.widths)} numbers, must have {PREDICTED}")
        for width in self.widths:
            check_number("each of widths", width, LEAST, 1 / LEAST)


def adjustment_of(
    hypotheses: Hypotheses, future: Float[Tensor, "windows 12 2"], unit: Float[Tensor, "windows"]
) -> Adjustment:
    """The temperature and the widths with the greatest likelihood.

    Args:
        hypotheses: The answers of the network to held-out windows.
        future: What happened.
        unit: The unit of length of each walk.

    Returns:
        The temperature of "this is the nearest of the K", and the widths of the kernel mixture at each step.
    """
    winner, logits = nearest(hypotheses, future), hypotheses.log_probs

    def surprise(log_temperature: float) -> float:
        scaled = (logits / exp(log_temperature)).log_softmax(-1)
        return -float(scaled.take_along_dim(winner[:, None], -1).mean())

    temperature = exp(minimize_scalar(surprise, bounds=(-2.0, 2.0), method="bounded").x)
    adjusted = Hypotheses(hypotheses.points, logits / temperature, "softmax")
    return Adjustment(temperature, tuple(_width(adjusted, future, unit, step) for step in range(PREDICTED)))


def _width(hypotheses: Hypotheses, future: Tensor, unit: Tensor, step: int) -> float:
    points = hypotheses.points.unflatten(-1, (PREDICTED, 2))[..., step, :]
    there = Hypotheses(points, hypotheses.logits, "softmax")
    truth = future[:, step : step + 1]

    def surprise(log_width: float) -> float:
        return float(kernel_nll(there, truth, exp(log_width) * unit[:, None]).mean())

    return exp(minimize_scalar(surprise, bounds=(-7.0, 3.0), method="bounded").x)
