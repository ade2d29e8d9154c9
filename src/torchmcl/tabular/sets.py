"""Real tables with their published splits, in the layout of the UCI collections of Hernandez-Lobato and Gal.

A set is a folder with `data/data.txt` (one row a line, numbers), `index_features.txt`, `index_target.txt`, and
`index_train_N.txt` and `index_test_N.txt` for each split N.
"""

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from torchmcl.errors import UserError
from torchmcl.runs.records import LARGEST

__all__ = ["Split", "find_sets", "read_split", "split_count"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Split:
    """Training and test rows of one split."""

    X: Array
    y: Array
    X_test: Array
    y_test: Array


def find_sets(root: Path) -> list[str]:
    """The names of the sets below `root`, in alphabetical order."""
    if not root.is_dir():
        raise UserError(f"{root}: there is no such folder")
    found = sorted(path.parents[1].name for path in root.glob("*/data/data.txt"))
    if not found:
        raise UserError(f"{root}: holds no table (a folder NAME with data/data.txt and its index files)")
    return found


def split_count(root: Path, name: str) -> int:
    """How many splits a set has."""
    return len(list((root / name / "data").glob("index_train_*.txt")))


def read_split(root: Path, name: str, split: int) -> Split:
    """One split of one set; what is missing or broken is named."""
    folder = root / name / "data"
    data = _numbers(folder / "data.txt", ndmin=2)
    features = _indices(folder / "index_features.txt", data.shape[1])
    target = _indices(folder / "index_target.txt", data.shape[1])
    if len(target) != 1:
        raise UserError(f"{folder / 'index_target.txt'}: names {len(target)} columns, must name one")
    if target[0] in features:
        raise UserError(f"{folder / 'index_features.txt'}: names column {target[0]}, which is the target")
    train, test = (_indices(folder / f"index_{part}_{split}.txt", len(data)) for part in ("train", "test"))
    if len(both := np.intersect1d(train, test)):
        raise UserError(f"{folder / f'index_test_{split}.txt'}: names row {both[0]}, which is a training row")
    y = data[:, target[0]]
    if np.abs(y).max() > LARGEST or np.ptp(y[train]) == 0:
        raise UserError(
            f"{folder / 'data.txt'}: the target, column {target[0]}, must be at most {LARGEST:g} and differ "
            "between the training rows"
        )
    return Split(data[train][:, features], y[train], data[test][:, features], y[test])


def _numbers(path: Path, ndmin: Literal[1, 2] = 1) -> Array:
    if not path.is_file():
        raise UserError(f"{path}: there is no such file")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of an empty file, which is refused below
            values = np.loadtxt(path, ndmin=ndmin)
    except (ValueError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: is not a table of numbers ({str(error).splitlines()[0]})") from None
    if not values.size or not np.isfinite(values).all():
        raise UserError(f"{path}: must hold finite numbers")
    return values


def _indices(path: Path, count: int) -> NDArray[np.int64]:
    values = _numbers(path)
    if not ((values >= 0) & (values < count) & (values == np.floor(values))).all():
        raise UserError(f"{path}: must hold whole numbers from 0 to {count - 1}")
    return values.astype(np.int64)
