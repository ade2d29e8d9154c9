"""Columns as they come: numbers with gaps, categories, strings and booleans become one matrix of numbers."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, time
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import OneHotEncoder

from torchmcl.tabular.scaling import Standard, limit

__all__ = [
    "Columns",
    "Table",
    "as_labels",
    "first_text",
    "group_labels",
    "is_frame",
    "is_text",
    "read_numbers",
    "read_table",
]

Array = NDArray[np.float64]
MOST_CATEGORIES = 50
"""The categories of a column that are told apart: the most frequent ones."""
MISSING = "\0missing"
"""The label of a gap in a column of categories; no text of a table begins with this character."""
NO_CELLS = (bytes, list, tuple, dict, set, frozenset, np.ndarray, np.void, complex, np.complexfloating)
"""What a cell cannot be: no text, number or truth value."""
DATE = re.compile(
    r"\d{4}-\d{1,2}-\d{1,2}([ T]\d{1,2}:\d{2}.*)?|\d{1,2}[./]\d{1,2}[./]\d{2,4}([ T]\d{1,2}:\d{2}.*)?"
)


@dataclass(frozen=True, eq=False)
class Table:
    """A table in two parts.

    Args:
        names: Of all columns, for messages.
        categorical: Which of the columns are categories.
        numbers: The other columns, `(rows, columns)` with NaN for gaps.
        labels: The categories as text, `(rows, columns)`.
    """

    names: tuple[str, ...]
    categorical: tuple[bool, ...]
    numbers: Array
    labels: NDArray[np.object_]

    def take(self, rows: NDArray[np.int64]) -> "Table":
        """Some of the rows."""
        return Table(self.names, self.categorical, self.numbers[rows], self.labels[rows])


def is_frame(X: Any) -> bool:
    """Whether `X` is a DataFrame of pandas, or looks like one."""
    return hasattr(X, "iloc") and hasattr(X, "columns") and hasattr(X, "dtypes")


def read_table(X: Any, categorical: Sequence[bool] | None = None) -> Table:
    """A DataFrame or an array `(rows, columns)` as a `Table`.

    Args:
        X: What the user gave.
        categorical: Which columns are categories; `None` decides by what they hold.

    Raises:
        ValueError: If a column holds dates, infinity, or text where there must be numbers.
    """
    if is_frame(X):
        names = tuple(str(name) for name in X.columns)
        if not any(categorical or ()) and all(map(_is_plain, X.dtypes)):
            return _numeric(names, X.to_numpy(dtype=np.float64))
        columns = [X.iloc[:, index] for index in range(X.shape[1])]
    else:
        names = tuple(f"column {index}" for index in range(X.shape[1]))
        if X.dtype.kind in "buif" and not any(categorical or ()):
            return _numeric(names, np.asarray(X, dtype=np.float64))
        columns = [X[:, index] for index in range(X.shape[1])]
    for name, column in zip(names, columns, strict=True):
        _refuse_dates(name, column)
        _refuse_cells(name, column)
    if categorical is None:
        categorical = [is_text(column) for column in columns]
    kinds = tuple(zip(names, columns, categorical, strict=True))
    floats = [read_numbers(name, column) for name, column, text in kinds if not text]
    labels = [_labels(column) for _, column, text in kinds if text]
    table = Table(
        names, tuple(categorical), _stack(floats, len(X), np.float64), _stack(labels, len(X), object)
    )
    _check_finite(table.numbers, [name for name, _, text in kinds if not text])
    return table


def _numeric(names: tuple[str, ...], numbers: Array) -> Table:
    _check_finite(numbers, names)
    return Table(names, (False,) * len(names), numbers, np.empty((len(numbers), 0), dtype=object))


def _is_plain(kind: Any) -> bool:
    """Whether a column has numbers or booleans of NumPy, which cannot be anything else."""
    return isinstance(kind, np.dtype) and kind.kind in "buif"


@dataclass(frozen=True, eq=False)
class Columns:
    """What is known of the columns after training: how each of them becomes numbers.

    Numbers are standardized, gaps in them take the median and, where there were gaps in training, an indicator
    tells so. The most frequent categories of a column are one-hot; a gap is a category of its own, and a category
    that is rare or was never seen has zeros. scikit-learn's imputer and encoder do the work.

    Args:
        categorical: Which columns are categories.
        medians: Of the number columns.
        gaps: Which number columns had gaps.
        standard: Center and scale of the number columns.
        categories: The labels that are told apart, for each column of categories.
    """

    categorical: tuple[bool, ...]
    medians: Array
    gaps: NDArray[np.bool_]
    standard: Standard
    categories: tuple[tuple[str, ...], ...]

    @classmethod
    def fit(cls, table: Table, weights: Array) -> "Columns":
        """Learn from the training rows and their weights."""
        imputer = SimpleImputer(strategy="median", keep_empty_features=True)
        medians = imputer.fit(table.numbers).statistics_ if table.numbers.shape[1] else np.empty(0)
        categories = tuple(_frequent(column, weights) for column in table.labels.T)
        gaps = np.atleast_1d(np.isnan(table.numbers).any(0))
        return cls(table.categorical, medians, gaps, Standard.fit(table.numbers, weights), categories)

    @property
    def numeric(self) -> int:
        """How many numbers come first, one for each number column."""
        return len(self.medians)

    @property
    def plain(self) -> int:
        """How many zeros and ones follow."""
        return int(self.gaps.sum()) + sum(len(each) for each in self.categories)

    @property
    def places(self) -> list[list[int]]:
        """Of each column of the table, where `apply` puts it."""
        number, gap, plain = 0, self.numeric, self.numeric + int(self.gaps.sum())
        found, sizes = [], iter(map(len, self.categories))
        for text in self.categorical:
            if text:
                size = next(sizes)
                found.append(list(range(plain, plain + size)))
                plain += size
                continue
            found.append([number, gap] if self.gaps[number] else [number])
            gap += bool(self.gaps[number])
            number += 1
        return found

    def apply(self, table: Table) -> NDArray[np.float32]:
        """`(rows, numeric + plain)`, all finite."""
        parts = []
        if self.numeric:
            # Fitted on a table of one row, which holds the medians, it has these medians.
            imputer = SimpleImputer(strategy="median", keep_empty_features=True).fit(self.medians[None])
            parts.append(limit(self.standard.apply(imputer.transform(table.numbers))))
            parts.append(np.isnan(table.numbers[:, self.gaps]).astype(np.float64))
        if self.categories:
            longest = max(len(each) for each in self.categories)
            rows = [[each[i % len(each)] for each in self.categories] for i in range(longest)]
            known = [np.array(each, dtype=object) for each in self.categories]
            encoder = OneHotEncoder(categories=known, handle_unknown="ignore", sparse_output=False)
            parts.append(encoder.fit(np.array(rows, dtype=object)).transform(table.labels))
        return np.concatenate(parts, axis=1).astype(np.float32)

    def to_json(self) -> dict[str, Any]:
        """Plain values, from which `from_json` makes an equal object."""
        return {
            "categorical": list(self.categorical),
            "medians": self.medians.tolist(),
            "gaps": self.gaps.tolist(),
            "centers": self.standard.center.tolist(),
            "scales": self.standard.scale.tolist(),
            "categories": [list(each) for each in self.categories],
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> "Columns":
        """What `to_json` gave."""
        standard = Standard(_vector(value["centers"]), _vector(value["scales"]))
        categories = tuple(tuple(str(label) for label in each) for each in value["categories"])
        gaps = np.array(value["gaps"], dtype=bool).reshape(-1)
        categorical = tuple(bool(each) for each in value["categorical"])
        made = cls(categorical, _vector(value["medians"]), gaps, standard, categories)
        numeric = len(categorical) - sum(categorical)
        lengths = {len(made.medians), len(gaps), len(standard.center), len(standard.scale)}
        if lengths != {numeric} or len(categories) != sum(categorical) or not (standard.scale > 0).all():
            raise ValueError("the columns do not fit together")
        if any(len(set(each)) < len(each) for each in categories):
            raise ValueError("the columns have a category twice")
        return made


def _vector(values: Any) -> Array:
    vector = np.array(values, dtype=np.float64).reshape(-1)
    if not np.isfinite(vector).all():
        raise ValueError("the columns hold numbers that are not finite")
    return vector


def _stack(columns: list[Any], rows: int, dtype: Any) -> Any:
    return np.stack(columns, axis=1) if columns else np.empty((rows, 0), dtype=dtype)


def as_labels(cells: Any, known: Sequence[str]) -> Any:
    """Cells of a CSV file as the categories of a table that had numbers where the file has their text.

    Args:
        cells: A column of text of a DataFrame, with gaps.
        known: The categories.

    Example:
        >>> import pandas as pd
        >>> as_labels(pd.Series(["01", "2.0"]), ["01", "2"]).tolist()
        ['01', '2']
    """
    found = {}
    for cell in {cell for cell in cells.dropna() if isinstance(cell, str)} - set(known):
        try:
            found[cell] = _label(_number(cell))
        except ValueError:
            continue
    return cells.replace({cell: label for cell, label in found.items() if label in known})


def group_labels(groups: Any) -> NDArray[Any]:
    """Groups as text; a whole number is the same group with and without a decimal point, and all gaps are one.

    Args:
        groups: One for each row.

    Example:
        >>> group_labels([1.0, 2, None]).tolist()
        ['1', '2', 'nan']
    """
    values = np.asarray(groups)
    if values.dtype.kind in "fO":
        labels = _labels(values)
        values = np.where(labels == MISSING, "nan", labels)
    return values.astype(str)


def is_text(column: Any) -> bool:
    """Whether the cells of a column are categories: a category of pandas, or text that is not a number in each cell.

    Args:
        column: Of a table.
    """
    if getattr(column.dtype, "name", "") == "category":
        return True
    if column.dtype.kind in "buif" and not _is_extension(column):
        return False
    try:
        _to_floats(column)
    except (ValueError, TypeError):
        return True
    return False


def _is_extension(column: Any) -> bool:
    return not isinstance(column.dtype, np.dtype)


def read_numbers(name: str, column: Any) -> Array:
    """A column as numbers, with NaN for gaps.

    Args:
        name: Of the column.
        column: Of a table.
    """
    try:
        return _to_floats(column)
    except (ValueError, TypeError):
        text = first_text(column)
        shown = "" if text is None else f" ({text[:40]!r})"
        raise ValueError(f"X holds text{shown} in {name}, which held numbers in training") from None


def first_text(column: Any) -> str | None:
    """The first text of a column that is not a number, or `None`.

    Args:
        column: Of a table.
    """
    for each in column:
        try:
            _number(each if isinstance(each, str) else "0")
        except ValueError:
            return str(each)
    return None


def _number(text: str) -> float:
    """Without the underscores that Python allows in numbers: `1_12` and `11_2` are two names."""
    if "_" in text:
        raise ValueError(f"{text!r} is no number")
    return float(text)


def _to_floats(column: Any) -> Array:
    if getattr(column.dtype, "kind", "O") in "OUT":
        for each in column:
            if isinstance(each, str) and "_" in each:
                raise ValueError(f"{each!r} is no number")
    if is_series := hasattr(column, "to_numpy"):
        kind = getattr(column.dtype, "kind", "O")
        if kind in "buif" or column.dtype == object:
            return column.to_numpy(dtype=np.float64, na_value=np.nan)
    values = np.asarray(column, dtype=object) if is_series else column
    if values.dtype == object:
        values = np.array([np.nan if each is None or _is_na(each) else each for each in values], dtype=object)
    return values.astype(np.float64)


def _labels(column: Any) -> NDArray[np.object_]:
    values = np.asarray(column, dtype=object)
    found: dict[Any, str] = {}
    try:
        # 1, 1.0 and True are the same key.
        for kind, each in {(type(each), each) for each in values.tolist()}:
            found[kind, each] = _label(each)
        return np.array(
            [
                MISSING if _is_na(each) or each != each else found[type(each), each]
                for each in values.tolist()
            ],
            dtype=object,
        )
    except TypeError:
        # Something that cannot be a key of a dictionary.
        return np.array([_label(each) for each in values.tolist()], dtype=object)


def _label(value: Any) -> str:
    if value is None or _is_na(value) or value != value:
        return MISSING
    if isinstance(value, float | np.floating) and value.is_integer():
        # A column of whole numbers is read as decimal ones where a gap is among them.
        return str(int(value))
    return str(value)


def _is_na(value: Any) -> bool:
    """Whether it is a gap of pandas, which cannot be compared."""
    return type(value).__name__ in ("NAType", "NaTType")


def _frequent(labels: NDArray[np.object_], weights: Array) -> tuple[str, ...]:
    names, index = np.unique(labels, return_inverse=True)
    order = np.argsort(-np.bincount(index, weights=weights), kind="stable")[:MOST_CATEGORIES]
    return tuple(sorted(str(names[each]) for each in order))


def _refuse_dates(name: str, column: Any) -> None:
    kind = getattr(column.dtype, "kind", "O")
    first = next((each for each in column if isinstance(each, str)), None) if kind not in "buif" else None
    if (
        kind in "mM"
        or (first is not None and DATE.fullmatch(first.strip()))
        or (
            kind == "O"
            and any(isinstance(each, date | time) or type(each).__name__ == "Period" for each in column)
        )
    ):
        raise ValueError(
            f"X holds dates in {name}: replace them by numbers, such as the year, the weekday or the days since a date"
        )


def _refuse_cells(name: str, column: Any) -> None:
    """Refuse what is neither a number nor a text: its text would be taken for a category."""
    if getattr(column.dtype, "kind", "O") in "buifUST" or getattr(column.dtype, "name", "") == "category":
        return
    for kind in set(map(type, column)):
        nameless = all(getattr(kind, method) is getattr(object, method) for method in ("__str__", "__repr__"))
        if nameless or issubclass(kind, NO_CELLS):
            raise TypeError(
                f"X holds {kind.__name__} in {name}: the argument must be a string, a number or a boolean in each cell"
            )


def _check_finite(numbers: Array, names: Sequence[str]) -> None:
    if numbers.shape[1] and np.isinf(numbers).any():
        name = names[int(np.isinf(numbers).any(0).argmax())]
        raise ValueError(f"Input X contains infinity in {name}")
