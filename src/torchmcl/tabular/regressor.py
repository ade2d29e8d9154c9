"""A scikit-learn estimator: `fit` on ambiguous data, get a distribution for each new input."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from operator import itemgetter
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from torch import nn

from torchmcl.assignment import Assign, winner_takes_all
from torchmcl.directions import to_vectors
from torchmcl.distances import Distance, euclidean
from torchmcl.heads import Scores
from torchmcl.runs.weights import single_precision
from torchmcl.tabular.calibration import Calibration, calibrate, calibrate_out_of_fold
from torchmcl.tabular.columns import group_labels
from torchmcl.tabular.given import naming
from torchmcl.tabular.members import Folds, pool, ring
from torchmcl.tabular.model import TableModel
from torchmcl.tabular.predictions import Predictions
from torchmcl.tabular.preparation import Preparation, prepare
from torchmcl.tabular.recipe import MEMBERS, Trained, train_members
from torchmcl.tabular.rows import read_weights
from torchmcl.tabular.settings import check_settings, check_size, is_directional, read_seed
from torchmcl.tabular.stored import Stored

__all__ = ["MCLRegressor"]

Array = NDArray[np.float64]


class MCLRegressor(Predictions, Stored, RegressorMixin, BaseEstimator):
    """Regression with a distribution for each input: K scored hypotheses with widths in place of one average.

    Several small networks are trained in one pass on a proper score of their mixture, each with its own rows for
    early stopping. Rows that a network has not seen calibrate the intervals. Columns may have gaps, categories and
    strings; inputs and targets are standardized inside.

    A weight of two is exactly a row that is there twice, and the order of rows does not matter. In training, targets
    more than 30 standard deviations away count as if they were that far.

    Args:
        n_hypotheses: K, of each member.
        loss: `"energy"`, the energy score of the mixture plus half its negative log-likelihood, for targets that are
            samples of what may happen; `"rmcl"`, the paper's, for the best of K answers with scores; `"mcl"`, without
            scores; `"transport"`, where the targets of an input are the whole answer.
        members: Networks whose mixtures are averaged; `None` for 5 with `loss="energy"` and 1 otherwise. Ten hold out
            twice as many rows for calibration, which helps tables of a few hundred rows, in up to twice the time.
        hidden: Units of each hidden layer.
        activation: `"relu"`, `"silu"`, `"gelu"` or `"tanh"`.
        network: Your own network in place of the perceptron: a function from the number of features and the number of
            outputs to a new `torch.nn.Module`, or a module, which each member copies. It maps `(batch, features)` to
            `(batch, outputs)`; the outputs are K points, then K logits, then K widths before a softplus.
        scores: `"softmax"`, one distribution over the hypotheses. With `loss="rmcl"` also `"sigmoid"`, the paper's,
            which counts targets; `None` with `loss="mcl"`.
        distance: As in `rmcl_loss`; it acts on standardized targets, except for directions, which are left as they are.
        assign: As in `rmcl_loss`.
        beta: As in `rmcl_loss`.
        negatives: As in `rmcl_loss`.
        target_transform: For skewed targets of one output: `"yeo-johnson"` transforms them to be more symmetric, and
            corrects densities for it; `"auto"` trains with and without, and keeps what has the higher likelihood on
            held-out rows, in twice the time; `None` never does. With `loss="energy"` only.
        learning_rate: Of AdamW, at the start of a cosine schedule.
        weight_decay: Of AdamW.
        batch_size: Rows of a step; `None` for a twentieth of the rows, between 32 and 256.
        max_epochs: `None` for 100 with up to 2,500 rows and fewer with more.
        patience: Epochs without a better validation score after which training stops; `None` never stops early.
        validation_fraction: The part of the rows that each member holds out, at most two divided by the members; 0 for
            none, and no calibration.
        device: Where to train: `"auto"`, `"cpu"`, `"cuda"` or another name that Lightning knows.
        random_state: Seed, generator or `None`, as everywhere in scikit-learn.
        progress: Whether to show a progress bar.

    Attributes:
        model_: The trained `TableModel`.
        n_iter_: Epochs of training.
        validation_score_: Of each member, in standardized units; empty if no row was held out.
        calibration_: What intervals and regions are read from; `None` if no row was held out.
        target_transform_: `"yeo-johnson"` if the targets were transformed, otherwise `None`.

    Example:
        >>> x = np.linspace(0, 1, 400)[:, None]
        >>> y = np.where(np.arange(400) % 2, x[:, 0], -x[:, 0])
        >>> model = MCLRegressor(n_hypotheses=2, members=2, max_epochs=60, random_state=0, progress=False).fit(x, y)
        >>> hypotheses = model.predict_hypotheses([[1.0]])
        >>> sorted(round(point, 1) + 0.0 for point in hypotheses.points.flatten().tolist())
        [-1.0, 1.0]
    """

    def __init__(
        self,
        n_hypotheses: int = 10,
        *,
        loss: str = "energy",
        members: int | None = None,
        hidden: Sequence[int] = (128, 128),
        activation: str = "relu",
        network: nn.Module | Callable[[int, int], nn.Module] | None = None,
        scores: Scores = "softmax",
        distance: Distance = euclidean,
        assign: Assign = winner_takes_all,
        beta: float = 1.0,
        negatives: int | None = None,
        target_transform: str | None = None,
        learning_rate: float = 5e-3,
        weight_decay: float = 0.01,
        batch_size: int | None = None,
        max_epochs: int | None = None,
        patience: int | None = 10,
        validation_fraction: float = 0.1,
        device: str = "auto",
        random_state: Any = None,
        progress: bool = True,
    ) -> None:
        self.n_hypotheses = n_hypotheses
        self.loss = loss
        self.members = members
        self.hidden = hidden
        self.activation = activation
        self.network = network
        self.scores = scores
        self.distance = distance
        self.assign = assign
        self.beta = beta
        self.negatives = negatives
        self.target_transform = target_transform
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.batch_size = batch_size
        self.max_epochs = max_epochs
        self.patience = patience
        self.validation_fraction = validation_fraction
        self.device = device
        self.random_state = random_state
        self.progress = progress

    def fit(
        self, X: Any, y: Any, sample_weight: ArrayLike | None = None, eval_set: tuple[Any, Any] | None = None
    ) -> "MCLRegressor":
        """Learn from a table and its targets. A fit that fails leaves the estimator as it was.

        Args:
            X: `(n, features)`, an array or a DataFrame; gaps, categories, strings and booleans are fine, dates are not.
            y: `(n,)`, `(n, dim)`, `(n, targets, dim)` with rows of NaN for absent targets, or a list of arrays
                `(targets, dim)`, one for each input, with different numbers of targets.
            sample_weight: `(n,)`; a weight of two acts as a row that is there twice.
            eval_set: A pair like `(X, y)` on which all members choose their epoch, in place of held-out rows of `X`.

        Returns:
            The estimator itself.
        """
        return self.train(X, y, sample_weight, eval_set)

    def train(
        self,
        X: Any,
        y: Any,
        sample_weight: ArrayLike | None = None,
        eval_set: tuple[Any, Any] | None = None,
        *,
        checkpoint: Path | None = None,
        progress: bool | Callable[[float], None] | None = None,
    ) -> "MCLRegressor":
        """`fit` that can be resumed.

        Args:
            X: As for `fit`.
            y: As for `fit`.
            sample_weight: As for `fit`.
            eval_set: As for `fit`.
            checkpoint: A file that is written after each epoch, from which an interrupted training goes on; the same
                data, settings and seed are needed. The caller removes it.
            progress: As for `training.fit`; `None` for the setting of the estimator.

        Returns:
            The estimator itself.
        """
        check_settings(self)
        with _unchanged_on_failure(self), single_precision():
            prepared = prepare(self, X, y, sample_weight, eval_set)
            seed = read_seed(self.random_state)
            fraction = self.validation_fraction if prepared.validation is None else 0.0
            members = int(self.members or (MEMBERS if self.loss == "energy" else 1))
            check_size(members, (*self.hidden, self.n_hypotheses))
            folds = ring(len(prepared.rows), members, fraction, seed)
            shown = self.progress if progress is None else progress
            options = {"checkpoint": checkpoint, "progress": shown}
            prepared, trained = self._best_of(prepared, folds, seed, options)
            self.model_ = self._model(prepared, trained)
            self.calibration_ = self._calibration_of(prepared, trained, folds)
            self.n_iter_, self.validation_score_ = trained.epochs, np.array(trained.best)
            self.target_transform_ = None if prepared.units.linear else "yeo-johnson"
        return self

    def calibrate(
        self, X: Any, y: Any, groups: Any = None, sample_weight: ArrayLike | None = None
    ) -> "MCLRegressor":
        """Calibrate intervals and regions on fresh rows (split conformal prediction): their coverage is then exact.

        Args:
            X: `(n, features)`, rows that `fit` has not seen.
            y: Their targets.
            groups: `(n,)`; coverage then holds in each group.
            sample_weight: `(n,)`, of which only the proportions count: a new row weighs as much as the average of them.

        Returns:
            The estimator itself.
        """
        self._refuse_directions("calibrate")
        inputs = self._inputs(X)
        targets = self._targets(y, len(inputs))
        weights = read_weights(sample_weight, len(inputs), targets.active)
        labels = _read_groups(groups, len(inputs))
        used = np.flatnonzero((weights > 0) & targets.active.any(1))
        pooled = self.model_.pooled(inputs[used])
        own = None if labels is None else labels[used]
        self.calibration_ = calibrate(pooled, self.model_.units, targets.take(used), weights[used], own)
        return self

    def score(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> float:
        """R² of the mean, each active target counting as one observation; for directions, of their unit vectors.

        It tells how good the mean is, not how good the distribution is: `torchmcl.tabular.scorers` do that.

        Args:
            X: `(n, features)`.
            y: Their targets.
            sample_weight: `(n,)`.
        """
        mean = np.reshape(self.predict(X), (-1, self.model_.dim))
        targets = self._targets(y, len(mean))
        row, _ = targets.active.nonzero()
        weights = read_weights(sample_weight, len(mean), targets.active)[row]
        true, expected = targets.values[targets.active], mean[row]
        if self.model_.directional:
            true, expected = (to_vectors(torch.from_numpy(each)).numpy() for each in (true, expected))
        # Squares of very large numbers are infinite, so all are divided by the largest first.
        largest = np.maximum(np.abs(true).max(axis=0), np.abs(expected).max(axis=0))
        largest = np.where((largest > 0) & (not self.model_.directional), largest, 1.0)
        true, expected = true / largest, expected / largest
        residual = np.average((true - expected) ** 2, axis=0, weights=weights)
        total = np.average((true - np.average(true, axis=0, weights=weights)) ** 2, axis=0, weights=weights)
        # Equal numbers have an average that may differ from them by rounding.
        total = np.where(np.ptp(true[weights > 0], axis=0) > 0, total, 0.0)
        if self.model_.directional:
            # The coordinates of one vector, not several outputs.
            residual, total = residual.sum(), total.sum()
        explained = 1 - residual / np.where(total > 0, total, 1.0)
        return float(np.where(total > 0, explained, np.where(residual > 0, 0.0, 1.0)).mean())

    @staticmethod
    def _storage() -> ModuleType:
        from torchmcl.tabular import storage

        return storage

    def _best_of(
        self, prepared: Preparation, folds: Folds, seed: int, options: dict[str, Any]
    ) -> tuple[Preparation, Trained]:
        """Trained with the targets as they are, transformed, or both: then the better of them."""
        forms = [prepared] if self.target_transform != "yeo-johnson" else [prepared.warped()]
        if self.target_transform == "auto":
            forms.append(prepared.warped())
        found = []
        for form in forms:
            trained = train_members(self, form.problem, folds, seed, form.validation_problem, **options)
            likelihood = trained.likelihood + form.log_slope(folds.validation.flatten().numpy())
            found.append((likelihood, form, trained))
            # The checkpoint is of the first training.
            options = {**options, "checkpoint": None}
        return max(found, key=itemgetter(0))[1:]

    def _model(self, prepared: Preparation, trained: Trained) -> TableModel:
        return TableModel(
            prepared.columns,
            prepared.units,
            trained.network.double(),
            trained.factors,
            self.n_hypotheses,
            is_directional(self),
            prepared.rows.targets.scalar,
        )

    def _calibration_of(self, prepared: Preparation, trained: Trained, folds: Any) -> Calibration | None:
        if trained.held_out is None or is_directional(self):
            return None
        units = prepared.units
        if prepared.validation is not None:
            rows = prepared.validation
            return calibrate(pool(trained.held_out), units, rows.targets, rows.weights)
        rows, index = prepared.rows, folds.blocks.flatten().numpy()
        answers, targets = folds.out_of_fold(trained.held_out), rows.targets.take(index)
        return calibrate_out_of_fold(answers, folds.members, units, targets, rows.weights[index])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        tags.input_tags.allow_nan = True
        return tags


@contextmanager
def _unchanged_on_failure(estimator: Any) -> Iterator[None]:
    before = dict(estimator.__dict__)
    try:
        yield
    except BaseException:
        estimator.__dict__.clear()
        estimator.__dict__.update(before)
        raise


def _read_groups(groups: Any, rows: int) -> NDArray[Any] | None:
    if groups is None:
        return None
    with naming("groups"):
        labels = np.asarray(groups)
    if labels.shape != (rows,):
        raise ValueError(f"groups must be {(rows,)}, one for each row, got {labels.shape}")
    labels = group_labels(labels)
    if len(np.unique(labels)) < 2:
        raise ValueError(f"groups holds one group only ({str(labels[0])!r}): leave groups out")
    return labels
