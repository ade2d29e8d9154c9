"""Models of tables as self-contained graphs: from columns as they come to distributions in the units of the targets."""

import copy
import warnings
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.export import Dim

from torchmcl.classification import class_log_probs
from torchmcl.directions import from_vectors, to_vectors, unit_vectors
from torchmcl.export.graph import Graph, Value
from torchmcl.hypotheses import Hypotheses
from torchmcl.tabular.columns import MISSING, Columns
from torchmcl.tabular.members import pool
from torchmcl.tabular.model import TableModel
from torchmcl.tabular.recipe import with_widths
from torchmcl.tabular.scaling import LIMIT

__all__ = ["classifier_graph", "regressor_graph"]

SECTIONS, ROUNDS = 32, 6
"""A quantile is searched by dividing an interval into so many sections, so many times: to 30 bits in a small graph."""
REACH = 8.0
"""Widths around the points within which quantiles are searched."""


class ColumnsLayer(nn.Module):
    """`Columns.apply` as a layer: numbers with NaN for gaps, and codes of categories.

    Args:
        columns: What is known of the columns.
    """

    medians: Tensor
    center: Tensor
    scale: Tensor

    def __init__(self, columns: Columns) -> None:
        super().__init__()
        self.numeric = columns.numeric
        self.sizes = [len(each) for each in columns.categories]
        self.gaps = np.flatnonzero(columns.gaps).tolist()
        for name, value in (
            ("medians", columns.medians), ("center", columns.standard.center), ("scale", columns.standard.scale)
        ):  # fmt: skip
            self.register_buffer(name, torch.from_numpy(value.copy()), persistent=False)

    def forward(self, *inputs: Tensor) -> Tensor:
        """Numbers in double precision and codes, whichever there are, to `(rows, features)`."""
        parts = []
        rest = list(inputs)
        if self.numeric:
            numbers = rest.pop(0)
            absent = numbers.isnan()
            filled = torch.where(absent, self.medians, numbers)
            parts.append(_limited(filled / self.scale - self.center / self.scale))
            parts.append(absent[:, self.gaps].float())
        if self.sizes:
            codes = rest.pop(0)
            parts += [
                (codes[:, column, None] == torch.arange(size)).float()
                for column, size in enumerate(self.sizes)
            ]
        return torch.cat(parts, 1)


class RegressorGraph(nn.Module):
    """A table model in single precision, but for the units at both ends.

    Args:
        model: The trained model.
        level: Of the central interval for each coordinate, or `None` for none.
    """

    factors: Tensor
    center: Tensor
    scale: Tensor
    level: Tensor | None

    def __init__(self, model: TableModel, level: Tensor | None) -> None:
        super().__init__()
        self.columns = ColumnsLayer(model.columns)
        self.network = copy.deepcopy(model.network).float()
        self.directional, self.members = model.directional, len(model.factors)
        self.register_buffer("factors", model.factors.float(), persistent=False)
        self.register_buffer("center", torch.from_numpy(model.units.center.copy()), persistent=False)
        self.register_buffer("scale", torch.from_numpy(model.units.scale.copy()), persistent=False)
        self.register_buffer("level", level, persistent=False)

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        """Points, probabilities and, but for directions, widths, deviation and interval; the mean is third."""
        features = self.columns(*inputs)
        own = self.network(features.expand(self.members, *features.shape))
        pooled = pool(with_widths(own, self.factors))
        points, probs = self._back(pooled.points), pooled.probs
        if self.directional:
            vector = (probs[..., None] * to_vectors(points.float())).sum(-2)
            # `least`: without it `from_vectors` has a `hypot`, which ONNX has not.
            return points, probs, from_vectors(vector, least=1e-6).double()
        assert pooled.widths is not None
        widths = pooled.widths[..., None] * self.scale
        found = (points, probs, self._back(pooled.mean), widths, pooled.variance.sqrt() * self.scale)
        if self.level is None:
            return found
        return (*found, self._back(self._interval(pooled, self.level)))

    def _back(self, values: Tensor) -> Tensor:
        return values.double() * self.scale + self.center

    def _interval(self, pooled: Hypotheses, level: Tensor) -> Tensor:
        """`(rows, 2, dim)`: the quantiles at `(1 - level) / 2` and `(1 + level) / 2` of each coordinate."""
        assert pooled.widths is not None
        widths = pooled.widths[..., None]
        low = (pooled.points - REACH * widths).amin(1)[:, None]
        span = (pooled.points + REACH * widths).amax(1)[:, None] - low
        # The distribution function times two minus one, which is what `erf` gives.
        wanted = torch.stack([-level, level])[..., None]
        points = pooled.points.mT[:, None, :, None]
        scale, probs = (each[:, None, None, None] for each in (pooled.widths * 2**0.5, pooled.probs))
        for _ in range(ROUNDS):
            span = span / SECTIONS
            inside = low[..., None] + span[..., None] * torch.arange(1, SECTIONS)
            below = (probs * torch.erf((inside[..., None] - points) / scale)).sum(-1)
            low = low + span * (below < wanted).sum(-1)
        return low + span / 2


class ClassifierGraph(nn.Module):
    """A classifier with the temperature of its probabilities.

    Args:
        columns: How a row becomes numbers.
        network: The trained `ClassMembers`.
        temperature: By which logarithms of the average are divided.
    """

    def __init__(self, columns: Columns, network: nn.Module, temperature: float) -> None:
        super().__init__()
        self.columns, self.network = ColumnsLayer(columns), copy.deepcopy(network).float()
        self.temperature = temperature

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        """Probabilities, the index of the most probable class, class logits of each hypothesis and their weights."""
        found: Hypotheses = self.network(self.columns(*inputs)[None])[0]
        logs = class_log_probs(found) / self.temperature
        return logs.softmax(-1), logs.argmax(-1), found.points, found.probs


def regressor_graph(estimator: Any, coverage: float = 0.9) -> Graph:
    """A fitted `MCLRegressor` for export.

    Args:
        estimator: The fitted estimator.
        coverage: Of the interval that the file gives.

    Returns:
        Inputs `numbers` and `codes`, whichever there are; outputs `points`, `probs`, `mean`, `widths`, `std` and, where
        the model is calibrated, `interval`.
    """
    model: TableModel = estimator.model_
    level = _level(estimator, coverage)
    scale = float(model.units.scale.max())
    unit = "(azimuth, elevation), radians" if model.directional else "in the unit of the target"
    view = unit_vectors if model.directional else np.asarray
    axes = ("rows", "hypotheses")
    outputs = [
        Value("points", (*axes, "dim"), f"the hypotheses of all members, {unit}", scale, view),
        Value("probs", axes, "probabilities of the hypotheses"),
        Value("mean", ("rows", "dim"), f"mean of the distribution, {unit}", scale, view),
    ]
    if not model.directional:
        outputs += [
            Value("widths", (*axes, "dim"), f"standard deviation around each point, {unit}", scale),
            Value("std", ("rows", "dim"), f"standard deviation of the distribution, {unit}", scale),
        ]
    details = _column_details(estimator, model.columns)
    if level is not None:
        about = f"lower and upper end with coverage {coverage:g}, {unit}; each coordinate by itself"
        outputs.append(Value("interval", ("rows", "ends", "dim"), about, None))
        details["coverage"] = coverage
    return Graph(
        "MCLRegressor",
        RegressorGraph(model, level),
        _inputs(model.columns),
        tuple(outputs),
        {"rows": Dim("rows")},
        _examples(model.columns),
        details,
    )


def classifier_graph(estimator: Any) -> Graph:
    """A fitted `MCLClassifier` for export.

    Args:
        estimator: The fitted estimator.

    Returns:
        Inputs `numbers` and `codes`, whichever there are; outputs `probs`, `label`, `logits` and `weights`.
    """
    columns = estimator.columns_
    outputs = (
        Value("probs", ("rows", "classes"), "probability of each class"),
        Value("label", ("rows",), "the most probable class, an index into `classes`"),
        Value("logits", ("rows", "hypotheses", "classes"), "class logits of each hypothesis"),
        Value("weights", ("rows", "hypotheses"), "probability that a hypothesis is the one to believe"),
    )
    details = _column_details(estimator, columns)
    details["classes"] = [
        each.item() if isinstance(each, np.generic) else each for each in estimator.classes_
    ]
    network = ClassifierGraph(columns, estimator.network_, estimator.temperature_)
    return Graph(
        "MCLClassifier",
        network,
        _inputs(columns),
        outputs,
        {"rows": Dim("rows")},
        _examples(columns),
        details,
    )


def _level(estimator: Any, coverage: float) -> Tensor | None:
    if estimator.calibration_ is None or estimator.model_.directional:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # too few rows: there is no finite interval, and none in the file
        level = estimator.calibration_.interval_levels(coverage, None, 1)[0]
    return torch.from_numpy(level).float() if (level < 1).all() else None


def _inputs(columns: Columns) -> tuple[Value, ...]:
    numbers = Value("numbers", ("rows", "number_columns"), "the columns of numbers in order; NaN for a gap")
    codes = Value(
        "codes",
        ("rows", "category_columns"),
        "the columns of categories in order: the index of the label in `categories`, whose null is a gap; "
        "-1 for any other label",
    )
    return tuple(value for value, there in ((numbers, columns.numeric), (codes, columns.categories)) if there)


def _column_details(estimator: Any, columns: Columns) -> dict[str, Any]:
    count = len(columns.categorical)
    names = [str(name) for name in getattr(estimator, "feature_names_in_", range(count))]
    kinds = list(zip(names, columns.categorical, strict=True))
    labels = ([None if each == MISSING else each for each in known] for known in columns.categories)
    return {
        "numbers": [name for name, text in kinds if not text],
        "codes": [name for name, text in kinds if text],
        "categories": dict(zip((name for name, text in kinds if text), labels, strict=True)),
    }


def _examples(columns: Columns) -> tuple[tuple[Tensor, ...], ...]:
    """Rows around the center of the training rows, with gaps and categories known and unknown."""
    random = np.random.default_rng(0)
    found = []
    for rows in (5, 2, 11):
        parts = []
        if columns.numeric:
            drawn = random.normal(size=(rows, columns.numeric)) * columns.standard.scale
            drawn = np.where(random.random(drawn.shape) < 0.1, np.nan, drawn + columns.standard.center)
            parts.append(torch.from_numpy(drawn))
        if columns.categories:
            sizes = [len(each) for each in columns.categories]
            parts.append(torch.from_numpy(random.integers(-1, sizes, (rows, len(sizes)))))
        found.append(tuple(parts))
    return tuple(found)


def _limited(values: Tensor) -> Tensor:
    """`scaling.limit` for tensors, in single precision afterwards."""
    size = values.abs()
    beyond = LIMIT + torch.log1p((size - LIMIT).clamp(min=0))
    return torch.where(size > LIMIT, values.sign() * beyond, values).float()
