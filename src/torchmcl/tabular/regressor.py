"""A scikit-learn estimator: `fit` on ambiguous data, get a distribution for each new input."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.metrics import r2_score
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_array, check_consistent_length, check_is_fitted, validate_data
from torch import Tensor, nn

from torchmcl.assignment import Assign, winner_takes_all
from torchmcl.distances import Distance, euclidean
from torchmcl.heads import HypothesisHead, Scores
from torchmcl.hypotheses import Hypotheses
from torchmcl.losses import mcl_loss, rmcl_loss
from torchmcl.training import Loss, Optimization, TensorBatches, cosine, fit
from torchmcl.voronoi.supports import Box

__all__ = ["MCLRegressor"]

CHUNK = 65_536
"""Rows predicted at once, so that memory stays bounded."""


class MCLRegressor(RegressorMixin, BaseEstimator):
    """Regression with K scored answers in place of their average.

    A perceptron with a `HypothesisHead`, trained by `rmcl_loss` (by `mcl_loss` when `scores` is `None`) with
    Adam, a cosine schedule and early stopping on a held-out part of the data. Inputs and targets are
    standardised inside; targets by one scale for all coordinates, so that Voronoi cells keep their shape.

    n_hypotheses
        K.
    hidden
        Units of each hidden layer.
    scores
        `"softmax"`, one distribution over the cells; `"sigmoid"`, the paper's, which also counts targets; `None`,
        no scores.
    distance, assign, beta, negatives
        As in `rmcl_loss`; the distance acts on standardised targets.
    learning_rate, batch_size, max_epochs
        Of training; `batch_size=None` chooses one from the amount of data.
    patience
        Epochs without a better validation loss after which training stops; `None` never stops early.
    validation_fraction
        The part of the data that is held out for that.
    random_state
        Seed, generator or `None`, as everywhere in scikit-learn.
    progress
        Whether to show a progress bar.

    >>> x = np.linspace(0, 1, 400)[:, None]
    >>> y = np.where(np.arange(400) % 2, x[:, 0], -x[:, 0])
    >>> model = MCLRegressor(n_hypotheses=2, max_epochs=60, random_state=0, progress=False).fit(x, y)
    >>> hypotheses = model.predict_hypotheses([[1.0]])
    >>> sorted(round(point, 1) + 0.0 for point in hypotheses.points.flatten().tolist())
    [-1.0, 1.0]
    """

    def __init__(
        self,
        n_hypotheses: int = 20,
        *,
        hidden: Sequence[int] = (128, 128),
        scores: Scores = "softmax",
        distance: Distance = euclidean,
        assign: Assign = winner_takes_all,
        beta: float = 1.0,
        negatives: int | None = None,
        learning_rate: float = 3e-3,
        batch_size: int | None = None,
        max_epochs: int = 100,
        patience: int | None = 20,
        validation_fraction: float = 0.1,
        random_state: Any = None,
        progress: bool = True,
    ) -> None:
        self.n_hypotheses = n_hypotheses
        self.hidden = hidden
        self.scores = scores
        self.distance = distance
        self.assign = assign
        self.beta = beta
        self.negatives = negatives
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.max_epochs = max_epochs
        self.patience = patience
        self.validation_fraction = validation_fraction
        self.random_state = random_state
        self.progress = progress

    def fit(self, X: ArrayLike, y: Any) -> "MCLRegressor":
        """Learn from inputs `X (n, features)` and targets `y`.

        `y` is `(n,)`, `(n, dim)`, `(n, targets, dim)` with rows of NaN for absent targets, or a list of
        arrays `(targets, dim)`, one for each input, with different numbers of targets.
        """
        self._check_settings()
        if y is None:
            raise ValueError("MCLRegressor requires y to be passed, but the target y is None")
        values: NDArray[np.float64] = validate_data(self, X, dtype=np.float64)
        targets, active, self.scalar_ = _read_targets(y)
        check_consistent_length(values, targets)
        if not active.any():
            raise ValueError("y holds no target at all: every one of its rows is NaN")
        self._standardise(values, targets[active])
        inputs = torch.from_numpy((values - self.input_mean_) / self.input_scale_).float()
        scaled = torch.from_numpy((targets - self.target_center_) / self.target_scale_).float()
        seed = int(check_random_state(self.random_state).randint(2**31))
        self._train(inputs, scaled, torch.from_numpy(active), seed)
        return self

    def predict_hypotheses(self, X: ArrayLike) -> Hypotheses:
        """K hypotheses for each row of `X`, in the units of `y`."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        inputs = torch.from_numpy((X - self.input_mean_) / self.input_scale_).float()
        with torch.no_grad():
            scaled = Hypotheses.cat([self.network_(part) for part in inputs.split(CHUNK)]).to(torch.double)
        center = torch.from_numpy(self.target_center_)
        return replace(scaled, points=scaled.points * self.target_scale_ + center)

    def predict(self, X: ArrayLike) -> NDArray[np.float64]:
        """The mean of the predicted distribution, `(n,)` or `(n, dim)` as `y` was."""
        mean = self.predict_hypotheses(X).mean.numpy()
        return mean[:, 0] if self.scalar_ else mean

    def score(self, X: ArrayLike, y: Any, sample_weight: ArrayLike | None = None) -> float:
        """R² of the mean, each active target counting as one observation.

        It tells how good the mean is, not how good the distribution is; see `torchmcl.emd` for that.
        """
        targets, active, _ = _read_targets(y)
        mean = self.predict(X)
        mean = mean[:, None] if self.scalar_ else mean
        row, _ = active.nonzero()
        weight = None if sample_weight is None else np.asarray(sample_weight)[row]
        return float(r2_score(targets[active], mean[row], sample_weight=weight))

    def _check_settings(self) -> None:
        for name in ("n_hypotheses", "max_epochs"):
            if not getattr(self, name) >= 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        for name in ("batch_size", "patience", "negatives"):
            if getattr(self, name) is not None and not getattr(self, name) >= 1:
                raise ValueError(f"{name} must be None or at least 1, got {getattr(self, name)}")
        if not 0 <= self.validation_fraction < 1:
            raise ValueError(f"validation_fraction must be in [0, 1), got {self.validation_fraction}")
        if not self.learning_rate > 0:
            raise ValueError(f"learning_rate must be positive, got {self.learning_rate}")

    def _standardise(self, X: NDArray[np.float64], present: NDArray[np.float64]) -> None:
        self.input_mean_, deviation = X.mean(0), X.std(0)
        self.input_scale_ = np.where(deviation > 0, deviation, 1.0)
        # The median and the spread around it: a few far outliers must not decide the unit.
        self.target_center_ = np.median(present, 0)
        away = np.linalg.norm(present - self.target_center_, axis=1)
        candidates = (np.median(away), away.mean(), 1.0)
        self.target_scale_ = float(next(value for value in candidates if value > 0))

    def _network(self, targets: Tensor) -> nn.Module:
        low, high = targets.quantile(0.01, dim=0), targets.quantile(0.99, dim=0)
        middle, half = (low + high) / 2, ((high - low) / 2).clamp(min=1e-3)
        layers: list[nn.Module] = []
        width = self.n_features_in_
        for units in self.hidden:
            layers += [nn.Linear(width, units), nn.ReLU()]
            width = units
        spread = Box((middle - half).tolist(), (middle + half).tolist())
        head = HypothesisHead(width, self.n_hypotheses, targets.shape[-1], self.scores, spread)
        return nn.Sequential(*layers, head)

    def _loss(self) -> Loss:
        if self.scores is None:
            return partial(mcl_loss, distance=self.distance, assign=self.assign)
        return partial(
            rmcl_loss,
            distance=self.distance,
            assign=self.assign,
            beta=self.beta,
            negatives=self.negatives,
        )

    def _train(self, inputs: Tensor, targets: Tensor, active: Tensor, seed: int) -> None:
        order = torch.randperm(len(inputs), generator=torch.Generator().manual_seed(seed))
        held = int(len(inputs) * self.validation_fraction)
        train = order[held:]
        validation = order[:held] if held else order
        size = self.batch_size or int(np.clip(len(train) // 20, 32, 1024))
        fitted = fit(
            lambda: self._network(targets[active]),
            self._loss(),
            TensorBatches(inputs[train], targets[train], active[train], batch_size=size, shuffle_seed=seed),
            TensorBatches(inputs[validation], targets[validation], active[validation], batch_size=CHUNK),
            seed=seed,
            optimization=Optimization(
                epochs=self.max_epochs,
                learning_rate=self.learning_rate,
                schedule=cosine,
                patience=self.patience,
            ),
            progress=self.progress,
        )
        self.network_ = fitted.network
        self.n_iter_ = fitted.epochs
        self.validation_loss_ = fitted.best

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


def _read_targets(y: Any) -> tuple[NDArray[np.float64], NDArray[np.bool_], bool]:
    """Targets `(n, targets, dim)` with zeros where absent, the mask of the others, and whether `y` is 1-D."""
    if isinstance(y, list | tuple) and len(y) and all(np.ndim(each) == 2 for each in y):
        return _read_ragged([np.asarray(each, dtype=np.float64) for each in y])
    if isinstance(y, list | tuple) and len({np.shape(each) for each in y}) > 1:
        raise ValueError("y holds arrays of different shapes: each of them must be (targets, dim)")
    check = partial(check_array, ensure_2d=False, input_name="y")
    values = check(y, allow_nd=True, dtype=np.float64, ensure_all_finite=False)
    if values.ndim not in (1, 2, 3):
        raise ValueError(f"y must be (n,), (n, dim) or (n, targets, dim), got {values.shape}")
    if values.ndim < 3:
        check(values)
        return values.reshape(len(values), 1, -1), np.ones((len(values), 1), dtype=bool), values.ndim == 1
    active = ~np.isnan(values).all(-1)
    if not np.isfinite(values[active]).all():
        raise ValueError("y contains infinity or a target with some but not all coordinates NaN")
    return np.where(active[..., None], values, 0.0), active, False


def _read_ragged(parts: list[NDArray[np.float64]]) -> tuple[NDArray[np.float64], NDArray[np.bool_], bool]:
    dims = {part.shape[1] for part in parts}
    if len(dims) != 1:
        raise ValueError(f"y holds targets with {sorted(dims)} coordinates: all must have the same number")
    counts = np.array([len(part) for part in parts])
    active = np.arange(max(counts.max(), 1)) < counts[:, None]
    values = np.zeros((*active.shape, dims.pop()))
    values[active] = np.concatenate(parts)
    if not np.isfinite(values).all():
        raise ValueError("y contains NaN or infinity: leave absent targets out of the list")
    return values, active, False
