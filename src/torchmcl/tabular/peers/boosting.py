"""Boosted trees: NGBoost, and LightGBM for quantiles with conformal intervals."""

from functools import partial

import numpy as np
from numpy.typing import NDArray

from torchmcl.tabular.peers.answers import Fitted, GaussianMixture, QuantileTable

__all__ = ["natural_gradient", "quantiles"]

Array = NDArray[np.float64]
LEVELS = (np.arange(20) + 0.5) / 20
HELD_OUT = 0.2


def natural_gradient(X: Array, y: Array, seed: int) -> Fitted:
    """NGBoost with its own defaults: a normal distribution, 500 trees."""
    from ngboost import NGBRegressor

    model = NGBRegressor(n_estimators=500, random_state=seed, verbose=False).fit(X, y)

    def answer(new: Array) -> GaussianMixture:
        normal = model.pred_dist(new)
        mean, width = normal.params["loc"][:, None], normal.params["scale"][:, None]
        return GaussianMixture(np.ones_like(mean), mean, width)

    return answer


def quantiles(X: Array, y: Array, seed: int) -> Fitted:
    """One LightGBM model a quantile on 80 % of the rows; the others calibrate intervals (split conformal)."""
    from lightgbm import LGBMRegressor

    order = np.random.default_rng(seed).permutation(len(X))
    held = max(1, int(len(X) * HELD_OUT))
    calibration, training = order[:held], order[held:]
    make = partial(
        LGBMRegressor, objective="quantile", n_estimators=200, learning_rate=0.05, num_leaves=15, min_child_samples=10,
        random_state=seed, n_jobs=1, verbose=-1,
    )  # fmt: skip
    models = [make(alpha=level).fit(X[training], y[training]) for level in LEVELS]

    def predict(new: Array) -> Array:
        return np.sort(np.stack([np.asarray(model.predict(new)) for model in models], 1), 1)

    reference = predict(X[calibration])

    def answer(new: Array) -> QuantileTable:
        values = predict(new)

        def ends(coverage: float) -> tuple[Array, Array]:
            low, high = _between(reference, coverage)
            errors = np.sort(np.maximum(low - y[calibration], y[calibration] - high))
            rank = int(np.ceil((held + 1) * coverage))
            margin = np.inf if rank > held else errors[rank - 1]
            low, high = _between(values, coverage)
            return low - margin, high + margin

        return QuantileTable(LEVELS, values, ends)

    return answer


def _between(values: Array, coverage: float) -> tuple[Array, Array]:
    levels = ((1 - coverage) / 2, (1 + coverage) / 2)
    low, high = (np.array([np.interp(level, LEVELS, row) for row in values]) for level in levels)
    return low, high
