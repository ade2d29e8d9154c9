"""A scikit-learn classifier: K answers for each row, and which of them to believe."""

from collections.abc import Callable, Sequence
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils import assert_all_finite
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d
from torch import Tensor, nn

from torchmcl.classification import class_log_probs, class_targets, cmcl_loss
from torchmcl.distances import cross_entropy
from torchmcl.ensemble import members_loss
from torchmcl.errors import check_choice, check_number
from torchmcl.hypotheses import Hypotheses, Link
from torchmcl.losses import mcl_loss, rmcl_loss
from torchmcl.runs.weights import single_precision
from torchmcl.tabular.columns import Columns
from torchmcl.tabular.given import as_numpy, naming
from torchmcl.tabular.members import SCORED_AT_ONCE, MemberBatches, ring
from torchmcl.tabular.network import Readout, SeparateMembers, StackedMembers
from torchmcl.tabular.preparation import validated_table
from torchmcl.tabular.recipe import DECAY, batch_size_for, epochs_for, own_networks
from torchmcl.tabular.regressor import _unchanged_on_failure
from torchmcl.tabular.rows import Rows, merge, read_weights
from torchmcl.tabular.settings import check_size, check_training, read_seed
from torchmcl.tabular.stored import Stored
from torchmcl.tabular.targets import Targets
from torchmcl.training import Fitted, Hardware, Loss, Optimization, cosine, fit

__all__ = ["ClassMembers", "MCLClassifier"]

CHUNK = 8192
"""Rows predicted at once, so that memory stays bounded."""
BETAS = {"cmcl": 0.75, "rmcl": 1.0}
SHARPNESS = torch.logspace(-1, 1.5, 101, dtype=torch.float64)
"""Candidates for the inverse temperature of the predicted probabilities."""


class ClassMembers(nn.Module):
    """K networks that answer with class logits, and a choice network that scores them.

    Args:
        members: Maps `(K, rows, features)` to one point of class logits for each member.
        choice: Maps `(1, rows, features)` to one point of K scores; `None` for no scores.
        link: What the scores mean.
    """

    def __init__(self, members: nn.Module, choice: nn.Module | None, link: Link) -> None:
        super().__init__()
        self.members, self.choice, self.link = members, choice, link

    def forward(self, x: Float[Tensor, "1 rows features"]) -> Hypotheses:
        """Hypotheses `(1, rows, K, classes)`."""
        count = int(self.members.members)  # type: ignore[arg-type]
        points = self.members(x.expand(count, -1, -1)).points.movedim(0, -2).squeeze(-3)[None]
        logits = None if self.choice is None else self.choice(x).points.squeeze(-2)
        return Hypotheses(points, logits, self.link)


class MCLClassifier(Stored, ClassifierMixin, BaseEstimator):
    """Classification with K answers for each row, each of them a distribution over the classes.

    K small networks are trained together, and each becomes a specialist of some of the classes. Their average, weighted
    by scores where there are some, predicts the class; one temperature, fitted on held-out rows, makes its
    probabilities as certain as they are right. Columns may have gaps, categories and strings.

    Equal rows count as one row with more weight, and the order of rows does not matter.

    Args:
        n_hypotheses: K.
        loss: `"cmcl"`, confident MCL: specialists that are uncertain of other classes; `"rmcl"`, specialists with
            scores (with `scores="softmax"`, versatile MCL); `"mcl"`, stochastic MCL, whose average means little;
            `"ensemble"`, K networks that learn independently.
        hidden: Units of each hidden layer.
        activation: `"relu"`, `"silu"`, `"gelu"` or `"tanh"`.
        network: Your own network in place of the perceptrons: a function from the number of features and the number of
            outputs to a new `torch.nn.Module`. It is called once for each of the K networks, with the number of
            classes, and with `loss="rmcl"` once for the choice network, with K outputs.
        scores: `"softmax"` or `"sigmoid"`, as in `rmcl_loss`; other losses have no scores.
        beta: The weight of the divergence in `cmcl_loss` (`None` for 0.75), or of the scores in `rmcl_loss` (1).
        learning_rate: Of AdamW, at the start of a cosine schedule.
        weight_decay: Of AdamW.
        batch_size: Rows of a step; `None` for a twentieth of the rows, between 32 and 256.
        max_epochs: `None` for 100 with up to 2,500 rows and fewer with more.
        patience: Epochs without a better validation loss after which training stops; `None` never stops early.
        validation_fraction: The part of the rows that is held out for early stopping and the temperature; 0 for none.
        device: Where to train: `"auto"`, `"cpu"`, `"cuda"` or another name that Lightning knows.
        random_state: Seed, generator or `None`, as everywhere in scikit-learn.
        progress: Whether to show a progress bar.

    Attributes:
        classes_: The labels, sorted.
        network_: The trained `ClassMembers`.
        n_iter_: Epochs of training.
        temperature_: By which the logarithms of the average are divided.

    Example:
        >>> x = np.linspace(0, 1, 200)[:, None]
        >>> y = np.where(x[:, 0] > 0.5, "high", "low")
        >>> model = MCLClassifier(n_hypotheses=3, max_epochs=20, random_state=0, progress=False).fit(x, y)
        >>> model.predict([[0.1], [0.9]]), model.predict_hypotheses([[0.1]]).points.shape
        (array(['low', 'high'], dtype='<U4'), torch.Size([1, 3, 2]))
    """

    def __init__(
        self,
        n_hypotheses: int = 5,
        *,
        loss: str = "cmcl",
        hidden: Sequence[int] = (128, 128),
        activation: str = "relu",
        network: Callable[[int, int], nn.Module] | None = None,
        scores: Link = "softmax",
        beta: float | None = None,
        learning_rate: float = 5e-3,
        weight_decay: float = 0.01,
        batch_size: int | None = None,
        max_epochs: int | None = None,
        patience: int | None = 20,
        validation_fraction: float = 0.1,
        device: str = "auto",
        random_state: Any = None,
        progress: bool = True,
    ) -> None:
        self.n_hypotheses = n_hypotheses
        self.loss = loss
        self.hidden = hidden
        self.activation = activation
        self.network = network
        self.scores = scores
        self.beta = beta
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.batch_size = batch_size
        self.max_epochs = max_epochs
        self.patience = patience
        self.validation_fraction = validation_fraction
        self.device = device
        self.random_state = random_state
        self.progress = progress

    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> "MCLClassifier":
        """Learn from a table and its labels. A fit that fails leaves the estimator as it was.

        Args:
            X: `(n, features)`, an array or a DataFrame; gaps, categories, strings and booleans are fine, dates are not.
            y: `(n,)` labels: whole numbers, strings or booleans.
            sample_weight: `(n,)`; a weight of two acts as a row that is there twice.

        Returns:
            The estimator itself.
        """
        self.check_settings()
        with _unchanged_on_failure(self), single_precision():
            rows = self._read(X, y, sample_weight)
            self.columns_ = Columns.fit(rows.table, rows.weights)
            seed = read_seed(self.random_state)
            inputs = torch.from_numpy(self.columns_.apply(rows.table))
            labels = torch.from_numpy(rows.targets.values[:, 0, 0]).long()
            weights = None if (rows.weights == rows.weights[0]).all() else torch.from_numpy(rows.weights)
            folds = ring(len(rows), 1, self.validation_fraction, seed)
            fitted = self._train(inputs, labels, weights, folds.train, folds.validation, seed)
            self.network_, self.n_iter_ = fitted.network, fitted.epochs
            held = folds.validation[0]
            self.temperature_ = self._temperature(
                inputs[held], labels[held], None if weights is None else weights[held]
            )
        return self

    def predict_hypotheses(self, X: Any) -> Hypotheses:
        """K vectors of class logits for each row, in the order of `classes_`, with scores if `loss="rmcl"`.

        Args:
            X: `(n, features)`.

        Returns:
            Hypotheses `(n, K, classes)`.
        """
        check_is_fitted(self)
        table = validated_table(self, X, self.columns_.categorical)
        return self._hypotheses(torch.from_numpy(self.columns_.apply(table)))

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """The probability of each class.

        Args:
            X: `(n, features)`.

        Returns:
            `(n, classes)`, in the order of `classes_`.
        """
        return np.exp(self.predict_log_proba(X))

    def predict_log_proba(self, X: Any) -> NDArray[np.float64]:
        """The logarithm of `predict_proba`.

        Args:
            X: `(n, features)`.
        """
        average = class_log_probs(self.predict_hypotheses(X))
        return (average / self.temperature_).log_softmax(-1).numpy()

    def predict(self, X: Any) -> NDArray[Any]:
        """The most probable class.

        Args:
            X: `(n, features)`.

        Returns:
            `(n,)`, labels as in `y`.
        """
        best = self.predict_log_proba(X).argmax(-1)
        return self.classes_[best]

    def score(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> float:
        """The share of labels that `predict` names.

        Args:
            X: `(n, features)`.
            y: Their labels.
            sample_weight: `(n,)`.
        """
        found = self.predict(X)
        return float(accuracy_score(y, found, sample_weight=read_weights(sample_weight, len(found))))

    @staticmethod
    def _storage() -> ModuleType:
        from torchmcl.tabular import class_storage

        return class_storage

    def _read(self, X: Any, y: Any, sample_weight: Any) -> Rows:
        if y is None:
            raise ValueError("MCLClassifier requires y to be passed, but the target y is None")
        table = validated_table(self, X)
        with naming("y"):
            y = column_or_1d(as_numpy(y), warn=True)
            assert_all_finite(y, input_name="y")
            check_classification_targets(y)
        if len(y) != len(table.numbers):
            raise ValueError(f"y has {len(y)} labels, X has {len(table.numbers)} rows")
        weights = read_weights(sample_weight, len(y))
        self.classes_ = np.unique(y[weights > 0])
        if len(self.classes_) < 2:
            raise ValueError(
                f"y holds one class only ({self.classes_.tolist()[0]!r}): there must be at least two classes"
            )
        # A label whose rows all weigh nothing is no class; its rows are left out below.
        codes = np.searchsorted(self.classes_, y).clip(max=len(self.classes_) - 1).astype(np.float64)
        active = np.ones((len(y), 1), dtype=bool)
        return merge(table, Targets(codes[:, None, None], active, True), weights, keep_empty=False)

    def _train(
        self, inputs: Tensor, labels: Tensor, weights: Tensor | None, train: Tensor, held: Tensor, seed: int
    ) -> Fitted:
        active = torch.ones_like(labels, dtype=torch.bool)
        tensors = (inputs, labels, active)
        size = int(self.batch_size or batch_size_for(train.shape[1]))
        batches = MemberBatches(*tensors, rows=train, batch_size=size, seed=seed, weights=weights)
        validation = MemberBatches(*tensors, rows=held, batch_size=SCORED_AT_ONCE) if held.numel() else None
        return fit(
            partial(self.build_network, inputs.shape[1]),
            self._loss(),
            batches,
            validation,
            seed=seed,
            optimization=Optimization(
                epochs=int(self.max_epochs or epochs_for(train.shape[1])),
                learning_rate=self.learning_rate,
                weight_decay=self.weight_decay,
                schedule=cosine,
                patience=int(self.patience) if self.patience and held.numel() else None,
                ema=DECAY,
            ),
            hardware=Hardware(accelerator=self.device),
            progress=self.progress,
        )

    def build_network(self, features: int) -> nn.Module:
        """The untrained network for `classes_` and `columns_`.

        Args:
            features: Numbers of an encoded row.
        """
        link = self.scores if self.loss == "rmcl" else None
        members = self._members(features, self.n_hypotheses, len(self.classes_))
        choice = None if link is None else self._members(features, 1, self.n_hypotheses)
        return ClassMembers(members, choice, link or "sigmoid")

    def _members(self, features: int, count: int, outputs: int) -> nn.Module:
        readout = Readout(1, outputs, None, False)
        if self.network is not None:
            return SeparateMembers(own_networks(self.network, features, outputs, count), readout)
        numeric = self.columns_.numeric
        start = torch.zeros(count, 1, outputs)
        return StackedMembers(
            count, numeric, features - numeric, tuple(self.hidden), self.activation, readout, start
        )

    def _loss(self) -> Loss:
        beta = BETAS.get(self.loss, 0.0) if self.beta is None else self.beta
        losses: dict[str, Loss] = {
            "cmcl": partial(cmcl_loss, beta=beta),
            "rmcl": partial(rmcl_loss, distance=cross_entropy, beta=beta),
            "mcl": partial(mcl_loss, distance=cross_entropy),
            "ensemble": partial(members_loss, distance=cross_entropy),
        }
        return partial(_on_labels, losses[self.loss])

    def _hypotheses(self, inputs: Tensor) -> Hypotheses:
        with torch.no_grad():
            parts = [self.network_(part[None])[0] for part in inputs.split(CHUNK)]
        return Hypotheses.cat(parts).to(torch.double)

    def _temperature(self, inputs: Tensor, labels: Tensor, weights: Tensor | None) -> float:
        """The temperature with the best likelihood of the held-out rows; 1 without such rows."""
        if not len(inputs):
            return 1.0
        average = class_log_probs(self._hypotheses(inputs))
        own = torch.ones(len(labels)).double() if weights is None else weights
        totals = [
            (own * (average * sharpness).log_softmax(-1).gather(-1, labels[:, None])[:, 0]).sum()
            for sharpness in SHARPNESS
        ]
        return 1 / float(SHARPNESS[int(torch.stack(totals).argmax())])

    def check_settings(self) -> None:
        """Raise a `ValueError` or `TypeError` that names a setting that is wrong."""
        check_training(self)
        check_size(self.n_hypotheses, (*self.hidden, 1))
        check_choice("loss", self.loss, ("cmcl", "rmcl", "mcl", "ensemble"))
        check_choice("scores", self.scores, ("sigmoid", "softmax"))
        if self.beta is not None:
            check_number("beta", self.beta, 0)
            if self.loss not in BETAS:
                raise ValueError(f"beta must be None with loss={self.loss!r}, which has no use for it")
        if self.scores != "softmax" and self.loss != "rmcl":
            raise ValueError(f"scores must be left as it is with loss={self.loss!r}, which has no scores")
        if not (self.network is None or callable(self.network)) or isinstance(self.network, nn.Module):
            raise TypeError(f"network must be None or a function that makes a module, got {self.network!r}")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


def _on_labels(loss: Loss, hypotheses: Hypotheses, labels: Tensor, active: Tensor | None) -> Tensor:
    return loss(hypotheses, *class_targets(hypotheses, labels, active))
