"""What a fitted estimator can be asked."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted
from torch import Tensor
from torch.distributions import Distribution

from torchmcl.errors import check_integer, check_number
from torchmcl.hypotheses import Hypotheses
from torchmcl.tabular.calibration import Calibration
from torchmcl.tabular.columns import group_labels, is_frame
from torchmcl.tabular.given import naming, read_floats
from torchmcl.tabular.model import TableModel
from torchmcl.tabular.preparation import validated_table
from torchmcl.tabular.regions import Regions, regions
from torchmcl.tabular.settings import read_seed
from torchmcl.tabular.targets import Targets, read_targets

__all__ = ["Predictions"]

Array = NDArray[np.float64]
MOST_DRAWS = 250_000_000
"""Numbers that `sample` gives at once."""
ROUNDING = 1e-9
"""The part of each tail that an interval takes in, so that rounding cannot exclude the row that its end belongs to."""


class Predictions:
    """The methods of an estimator that has `model_` and `calibration_`."""

    model_: TableModel
    calibration_: Calibration | None

    def predict(self, X: Any) -> Array:
        """The mean of the predicted distribution.

        Args:
            X: `(n, features)`.

        Returns:
            `(n,)` or `(n, dim)`, as `y` was. For directions, the direction of the mean vector.
        """
        inputs = self._inputs(X)
        return self._as_y(self.model_.mean(inputs))

    def predict_std(self, X: Any) -> Array:
        """The standard deviation of the predicted distribution.

        Args:
            X: `(n, features)`.

        Returns:
            `(n,)` or `(n, dim)`, as `y` was.
        """
        inputs = self._inputs(X)
        return self._as_y(self.model_.std(inputs))

    def predict_mode(self, X: Any) -> Array:
        """The most probable of the K hypotheses.

        Args:
            X: `(n, features)`.

        Returns:
            `(n,)` or `(n, dim)`, as `y` was.
        """
        hypotheses = self.predict_hypotheses(X)
        return self._as_y(hypotheses.mode.numpy())

    def predict_hypotheses(self, X: Any) -> Hypotheses:
        """K hypotheses for each row, in the units of `y`.

        The hypotheses of several members are merged, the closest ones first, until K are left. Merging keeps the mean
        and the variance; `predict_dist` has the distribution before merging.

        Args:
            X: `(n, features)`.

        Returns:
            Hypotheses `(n, K, dim)`; of several members, the most probable first.
        """
        inputs = self._inputs(X)
        return self.model_.merged(inputs)

    def predict_dist(self, X: Any) -> Distribution:
        """The predicted distribution of each row.

        Args:
            X: `(n, features)`.

        Returns:
            A `torch.distributions.Distribution` of batch shape `(n,)` and event shape `(dim,)` with `log_prob`,
            `sample`, `mean` and `variance`; in one dimension also `cdf` and `icdf`.
        """
        inputs = self._inputs(X)
        return self.model_.distribution(inputs)

    def predict_quantiles(self, X: Any, alpha: float | Sequence[float]) -> Any:
        """Quantiles of the predicted distribution. They never cross, as they come from one distribution.

        For ends of an interval whose coverage is calibrated, use `predict_interval`.

        Args:
            X: `(n, features)`.
            alpha: One level or several, between 0 and 1.

        Returns:
            `(n, levels)`, or `(n, levels, dim)` for several outputs, each coordinate by itself. A DataFrame with the
            index of `X` where that is one and there is one output.
        """
        inputs = self._inputs(X)
        levels = np.atleast_1d(read_floats("alpha", alpha))
        if levels.ndim != 1 or not ((levels > 0) & (levels < 1)).all():
            raise ValueError(f"alpha must hold levels between 0 and 1, got {alpha}")
        values = self.model_.quantiles(inputs, levels[:, None])
        return self._framed(X, values, [f"{level:.12g}" for level in levels])

    def predict_interval(self, X: Any, coverage: float = 0.9, groups: Any = None) -> Any:
        """Central intervals that contain the targets of new rows with probability `coverage`.

        Calibrated by rows that were held out, or by those given to `calibrate`. For several outputs each coordinate
        has an interval of its own; `predict_region` has joint regions.

        Args:
            X: `(n, features)`.
            coverage: Between 0 and 1.
            groups: The group of each row, if the model was calibrated by group.

        Returns:
            `(n, 2)` with lower and upper ends, or `(n, 2, dim)`. A DataFrame with the index of `X` where that is one
            and there is one output.
        """
        inputs = self._inputs(X)
        levels = self._interval_levels(coverage, groups, len(inputs))
        return self._framed(X, self.model_.quantiles(inputs, levels), ["lower", "upper"])

    def predict_region(self, X: Any, coverage: float = 0.9, groups: Any = None) -> Regions:
        """Highest-density regions that contain the targets of new rows with probability `coverage`.

        With one output a region is a union of intervals; with several it is a joint region.

        Args:
            X: `(n, features)`.
            coverage: Between 0 and 1.
            groups: The group of each row, if the model was calibrated by group.

        Returns:
            The regions of the rows.
        """
        inputs = self._inputs(X)
        calibration, level = self._calibrated(), _checked(coverage)
        with naming("groups"):
            levels = calibration.region_levels(level, _labels(groups), len(inputs))
        return regions(self.model_, inputs, levels)

    def sample(self, X: Any, n: int = 1, random_state: Any = None) -> Array:
        """Draws from the predicted distribution.

        Args:
            X: `(rows, features)`.
            n: Draws of each row.
            random_state: Seed, generator or `None`.

        Returns:
            `(rows, n)` or `(rows, n, dim)`, as `y` was.
        """
        inputs = self._inputs(X)
        check_integer("n", n)
        if n * len(inputs) * self.model_.dim > MOST_DRAWS:
            raise ValueError(
                f"n must be at most {MOST_DRAWS // len(inputs) // self.model_.dim} for X, got {n}"
            )
        seed = read_seed(random_state)
        values = self.model_.sample(inputs, n, seed)
        return values[..., 0] if self.model_.scalar else values

    def log_prob(self, X: Any, y: Any) -> Array:
        """The logarithm of the predicted density at `y`.

        Args:
            X: `(n, features)`.
            y: One target for each row, `(n,)` or `(n, dim)`.

        Returns:
            `(n,)`.
        """
        inputs = self._inputs(X)
        targets = self._targets(y, len(inputs))
        if targets.active.shape[1] != 1 or not targets.active.all():
            raise ValueError("y must hold one target for each row")
        return self.model_.log_prob(inputs, targets.values[:, 0])

    def _inputs(self, X: Any) -> Tensor:
        check_is_fitted(self)
        columns = self.model_.columns
        return torch.from_numpy(columns.apply(validated_table(self, X, columns.categorical)))

    def _targets(self, y: Any, rows: int) -> Targets:
        targets = read_targets(y)
        if len(targets.values) != rows:
            raise ValueError(f"X has {rows} rows and y has {len(targets.values)}: there must be as many")
        if targets.dim != self.model_.dim:
            raise ValueError(f"y has {targets.dim} coordinates, the model was fitted with {self.model_.dim}")
        return targets

    def _interval_levels(self, coverage: float, groups: Any, rows: int) -> Array:
        """The levels `(rows, 2, dim)` of the quantiles that are the ends of calibrated intervals."""
        calibration, level = self._calibrated(), _checked(coverage)
        with naming("groups"):
            levels = calibration.interval_levels(level, _labels(groups), rows)
        tail = (1 - np.minimum(levels, 1.0)) / 2 * (1 - ROUNDING)
        return np.stack([tail, 1 - tail], axis=1)

    def _calibrated(self) -> Calibration:
        self._refuse_directions("predict_interval and predict_region")
        if self.calibration_ is None:
            raise ValueError(
                "no row was held out to calibrate intervals: call calibrate(X, y) with fresh rows"
            )
        return self.calibration_

    def _refuse_directions(self, what: str) -> None:
        check_is_fitted(self)
        if self.model_.directional:
            raise ValueError(f"not for directions: {what}; use predict or predict_hypotheses")

    def _as_y(self, values: Array) -> Array:
        return values[:, 0] if self.model_.scalar else values

    def _framed(self, X: Any, values: Array, names: list[str]) -> Any:
        if values.shape[-1] > 1:
            return values
        return type(X)(values[..., 0], index=X.index, columns=names) if is_frame(X) else values[..., 0]


def _labels(groups: Any) -> Any:
    return None if groups is None else group_labels(groups)


def _checked(coverage: Any) -> float:
    check_number("coverage", coverage, 0, 1, open_low=True)
    if coverage == 1:
        raise ValueError("coverage must be below 1: only an infinite interval is always right")
    return float(coverage)
