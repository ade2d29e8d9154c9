"""Classification metrics over a whole data set, for torchmetrics and Lightning."""

from abc import abstractmethod
from typing import Any

import torch
from jaxtyping import Bool, Float, Int, Integer
from torch import Tensor
from torchmetrics import Metric

from torchmcl.classification.labels import integer_labels
from torchmcl.classification.predictions import (
    MOST_BINS,
    class_error,
    class_owners,
    class_winners,
    entropy_histogram,
    oracle_class_error,
)
from torchmcl.errors import check_integer, check_integers
from torchmcl.hypotheses import Hypotheses, check_hypotheses

__all__ = ["ClassError", "ClassOwnership", "EntropyHistogram", "OracleClassError"]

MOST_COUNTED = 10**6


class _LabelMean(Metric):
    """The mean of a value per label over the active labels."""

    full_state_update = False
    higher_is_better = False
    is_differentiable = False
    total: Tensor
    count: Tensor

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.add_state("total", torch.tensor(0.0, dtype=torch.float64), dist_reduce_fx="sum")
        self.add_state("count", torch.tensor(0), dist_reduce_fx="sum")

    @abstractmethod
    def values(self, hypotheses: Hypotheses, labels: Tensor, active: Tensor | None) -> Tensor:
        """One value for each label, 0 where inactive."""

    def update(
        self,
        hypotheses: Hypotheses,
        labels: Integer[Tensor, "..."],
        active: Bool[Tensor, "..."] | None = None,
    ) -> None:
        """Add the labels of a batch."""
        self.total = self.total + self.values(hypotheses, labels, active).double().sum()
        self.count = self.count + integer_labels(hypotheses, labels, active)[1].sum()

    def compute(self) -> Float[Tensor, ""]:
        """The mean over labels; NaN before the first one."""
        return self.total / self.count


class ClassError(_LabelMean):
    """The top-1 error (or top-n with `top`): the mean of `class_error` over labels.

    Args:
        top: How many classes may be named.
        **kwargs: Of `torchmetrics.Metric`.

    Example:
        >>> metric = ClassError()
        >>> metric.update(Hypotheses(torch.eye(2)[:, None]), torch.tensor([0, 0]))
        >>> metric.compute()
        tensor(0.5000, dtype=torch.float64)
    """

    def __init__(self, top: int = 1, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        check_integer("top", top)
        self.top = top

    def values(self, hypotheses: Hypotheses, labels: Tensor, active: Tensor | None) -> Tensor:
        """`class_error` of each label."""
        return class_error(hypotheses, labels, active, top=self.top)


class OracleClassError(_LabelMean):
    """The share of labels that no hypothesis predicts: the mean of `oracle_class_error`.

    Example:
        >>> metric = OracleClassError()
        >>> metric.update(Hypotheses(torch.eye(3)[None, :2]), torch.tensor([[0, 1, 2]]))
        >>> metric.compute()
        tensor(0.3333, dtype=torch.float64)
    """

    def values(self, hypotheses: Hypotheses, labels: Tensor, active: Tensor | None) -> Tensor:
        """`oracle_class_error` of each label."""
        return oracle_class_error(hypotheses, labels, active)


class ClassOwnership(Metric):
    """Which hypothesis owns which class: the sum of `class_winners` over batches.

    Args:
        n_classes: C.
        n_hypotheses: K.
        **kwargs: Of `torchmetrics.Metric`.

    Example:
        >>> metric = ClassOwnership(n_classes=2, n_hypotheses=2)
        >>> metric.update(Hypotheses(torch.eye(2)[None].expand(3, -1, -1)), torch.tensor([0, 1, 1]))
        >>> metric.compute(), metric.owners
        (tensor([[1, 0],
                [0, 2]]), tensor([0, 1]))
    """

    full_state_update = False
    is_differentiable = False
    counts: Tensor

    def __init__(self, n_classes: int, n_hypotheses: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        for name, value in (("n_classes", n_classes), ("n_hypotheses", n_hypotheses)):
            check_integer(name, value, most=MOST_COUNTED)
        self.add_state("counts", torch.zeros(n_classes, n_hypotheses, dtype=torch.long), dist_reduce_fx="sum")

    def update(
        self,
        hypotheses: Hypotheses,
        labels: Integer[Tensor, "..."],
        active: Bool[Tensor, "..."] | None = None,
    ) -> None:
        """Add the labels of a batch."""
        check_hypotheses(hypotheses)
        found = (hypotheses.dim, hypotheses.n_hypotheses)
        if found != tuple(self.counts.shape):
            raise ValueError(f"hypotheses have (classes, hypotheses) {found}, not {tuple(self.counts.shape)}")
        self.counts = self.counts + class_winners(hypotheses, labels, active)

    def compute(self) -> Int[Tensor, "classes hypotheses"]:
        """For each class, how many of its labels each hypothesis wins."""
        return self.counts

    @property
    def owners(self) -> Int[Tensor, "classes"]:
        """The hypothesis that wins a class most often."""
        return class_owners(self.compute().reshape(self.counts.shape))


class EntropyHistogram(Metric):
    """How certain hypotheses are of their own and of other classes: the sum of `entropy_histogram` over batches.

    Args:
        owners: The hypothesis that owns each class, for example `ClassOwnership.owners` of the training data.
        bins: Of equal width, from 0 to log C nats.
        **kwargs: Of `torchmetrics.Metric`.

    Example:
        >>> metric = EntropyHistogram(torch.tensor([0, 1]), bins=2)
        >>> metric.update(Hypotheses(torch.tensor([[[9.0, 0.0], [0.0, 0.0]]])), torch.tensor([0]))
        >>> metric.compute()
        tensor([[1, 0],
                [0, 1]])
    """

    full_state_update = False
    is_differentiable = False
    owners: Tensor
    counts: Tensor

    def __init__(self, owners: Int[Tensor, "classes"], bins: int = 20, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        check_integers("owners", owners)
        check_integer("bins", bins, most=MOST_BINS)
        self.register_buffer("owners", owners.clone())
        self.bins = bins
        self.add_state("counts", torch.zeros(2, bins, dtype=torch.long), dist_reduce_fx="sum")

    def update(
        self,
        hypotheses: Hypotheses,
        labels: Integer[Tensor, "..."],
        active: Bool[Tensor, "..."] | None = None,
    ) -> None:
        """Add the labels of a batch."""
        self.counts = self.counts + entropy_histogram(hypotheses, labels, self.owners, active, bins=self.bins)

    def compute(self) -> Int[Tensor, "2 bins"]:
        """Counts of (label, hypothesis) pairs by entropy: of owned classes, then of the others."""
        return self.counts
