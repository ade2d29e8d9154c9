"""`MCLRegressor` with its default settings, judged as the peers are."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from torchmcl.tabular.peers.answers import Fitted, GaussianMixture
from torchmcl.tabular.regressor import MCLRegressor

__all__ = ["default"]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Predicted(GaussianMixture):
    """The predicted mixture, with the calibrated intervals of the estimator."""

    model: MCLRegressor
    inputs: Array

    def interval(self, coverage: float) -> tuple[Array, Array]:
        """As `predict_interval` has it."""
        ends = self.model.predict_interval(self.inputs, coverage)
        return ends[:, 0], ends[:, 1]


def default(X: Array, y: Array, seed: int) -> Fitted:
    """The estimator as a user gets it who sets nothing."""
    model = MCLRegressor(random_state=seed, progress=False).fit(X, y)

    def answer(new: Array) -> Predicted:
        mixture: Any = model.predict_dist(new)
        parts = mixture.hypotheses
        weights, points, widths = parts.probs.numpy(), parts.points[..., 0].numpy(), parts.widths.numpy()
        return Predicted(weights, points, widths, model, new)

    return answer
