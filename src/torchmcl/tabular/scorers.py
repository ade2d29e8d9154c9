"""Scorers of distributions for `GridSearchCV` and `cross_val_score`: R² cannot tell how many hypotheses are right.

    GridSearchCV(MCLRegressor(), {"n_hypotheses": [2, 5, 10]}, scoring=torchmcl.tabular.scorers.crps)

Each is called with a fitted estimator, `X` and `y`. Greater is better, as everywhere in scikit-learn, so losses have a
minus sign.
"""

from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike

from torchmcl.crps import mixture_energy_score
from torchmcl.tabular.predictions import Predictions
from torchmcl.tabular.rows import read_weights

QUANTILES = 200
"""That stand for a distribution without a closed form of its CRPS."""

__all__ = ["IntervalScore", "crps", "interval_score", "log_likelihood"]


def crps(estimator: Any, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> float:
    """Minus the mean CRPS; for several outputs minus the mean energy score, in standardized units.

    Args:
        estimator: A fitted `MCLRegressor`, or a pipeline that ends with one.
        X: `(n, features)`.
        y: Their targets, in any form that `fit` takes.
        sample_weight: `(n,)`.
    """
    regressor, inputs = _unwrapped(estimator, X)
    regressor._refuse_directions("crps")
    encoded = regressor._inputs(inputs)
    targets = regressor._targets(y, len(encoded))
    model = regressor.model_
    if not model.units.linear:
        return -_average(_crps_by_quantiles(model, encoded, targets), targets.active, sample_weight)
    scaled = torch.from_numpy(np.where(targets.active[..., None], model.units.apply(targets.values), 0.0))
    active = torch.from_numpy(targets.active)
    parts = []
    random = torch.random.get_rng_state()
    torch.manual_seed(0)
    for start in range(0, len(encoded), 1024):
        rows = slice(start, start + 1024)
        parts.append(mixture_energy_score(model.pooled(encoded[rows]), scaled[rows], active[rows]))
    torch.random.set_rng_state(random)
    unit = float(model.units.scale[0]) if model.dim == 1 else 1.0
    return -_average(torch.cat(parts).numpy() * unit, targets.active, sample_weight)


def log_likelihood(estimator: Any, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> float:
    """The mean log-likelihood, one target for each row.

    Args:
        estimator: A fitted `MCLRegressor`, or a pipeline that ends with one.
        X: `(n, features)`.
        y: Their targets.
        sample_weight: `(n,)`.
    """
    regressor, inputs = _unwrapped(estimator, X)
    values = regressor.log_prob(inputs, y)
    return float(np.average(values, weights=read_weights(sample_weight, len(values))))


class IntervalScore:
    """Minus the mean interval score: the width, plus what targets outside are away, times 2 / (1 - coverage).

    Args:
        coverage: Of the intervals.
    """

    def __init__(self, coverage: float = 0.9) -> None:
        self.coverage = coverage

    def __call__(self, estimator: Any, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> float:
        """Of a fitted `MCLRegressor` or a pipeline that ends with one, for targets of one output."""
        regressor, inputs = _unwrapped(estimator, X)
        ends = np.asarray(regressor.predict_interval(inputs, self.coverage))
        targets = regressor._targets(y, len(ends)).values
        if targets.shape[1:] != (1, 1):
            raise ValueError("y must hold one target of one output for each row")
        values = targets[:, 0, 0]
        outside = np.maximum(ends[:, 0] - values, 0) + np.maximum(values - ends[:, 1], 0)
        each = ends[:, 1] - ends[:, 0] + 2 / (1 - self.coverage) * outside
        return -float(np.average(each, weights=read_weights(sample_weight, len(each))))


interval_score = IntervalScore()
"""At a coverage of 0.9."""


def _crps_by_quantiles(model: Any, encoded: Any, targets: Any) -> Any:
    """Of each row with transformed targets, for which there is no closed form: by equally probable quantiles."""
    levels = (np.arange(QUANTILES) + 0.5) / QUANTILES
    values = model.quantiles(encoded, levels[:, None])[..., 0]
    apart = values @ (2 * np.arange(1, QUANTILES + 1) - QUANTILES - 1) / QUANTILES**2
    near = np.abs(values[:, None, :] - targets.values).mean(-1)
    count = np.maximum(targets.active.sum(1), 1)
    return np.where(targets.active, near, 0.0).sum(1) / count - apart


def _unwrapped(estimator: Any, X: Any) -> tuple[Any, Any]:
    """The regressor itself and what reaches it."""
    if hasattr(estimator, "best_estimator_"):
        return _unwrapped(estimator.best_estimator_, X)
    if hasattr(estimator, "steps"):
        for _, step in estimator.steps[:-1]:
            if step is not None and step != "passthrough":
                X = step.transform(X)
        return _unwrapped(estimator.steps[-1][1], X)
    if not isinstance(estimator, Predictions):
        raise TypeError(
            "estimator must be an MCLRegressor, or a pipeline or search that ends with one, got "
            f"{type(estimator).__name__}"
        )
    return estimator, X


def _average(each: Any, active: Any, sample_weight: ArrayLike | None) -> float:
    weights = read_weights(sample_weight, len(each), active) * active.sum(1)
    return float(np.average(np.where(weights > 0, each, 0.0), weights=weights))
