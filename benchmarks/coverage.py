"""Coverage of intervals without fresh rows, by several rules of calibration: the choice of the default.

`python -m benchmarks coverage UCI`, where UCI holds the sets of `torchmcl tables`. Only training rows of the first
split are used: the estimator is fitted on some of them, and the others tell the coverage. Synthetic tables have
3,000 rows for that.
"""

import argparse
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from torchmcl import MCLRegressor
from torchmcl.tabular.calibration import Calibration, central_level
from torchmcl.tabular.sets import find_sets, read_split

__all__ = ["main"]

LEVELS = (0.5, 0.8, 0.9, 0.95)
FRESH = 3000
"""Rows that tell the coverage, at most."""

Array = NDArray[np.float64]
Law = Callable[[Array, np.random.Generator], Array]


def _friedman(x: Array, random: np.random.Generator) -> Array:
    mean = 10 * np.sin(np.pi * x[:, 0] * x[:, 1]) + 5 * x[:, 2] ** 2 + 10 * x[:, 3] + 5 * x[:, 4]
    return mean + random.standard_normal(len(x))


def _clean(x: Array, random: np.random.Generator) -> Array:
    return np.exp(2 * x[:, 0]) * (1 + 0.3 * x[:, 1] * x[:, 2]) + 0.05 * random.standard_normal(len(x))


def _whole(x: Array, random: np.random.Generator) -> Array:
    return np.round(5 + 1.2 * x[:, 0] + x[:, 1] * x[:, 2] + 0.7 * random.standard_normal(len(x)))


def _spread(x: Array, random: np.random.Generator) -> Array:
    return np.sin(3 * x[:, 0]) + 0.4 * np.exp(x[:, 1]) * random.standard_normal(len(x))


def _fork(x: Array, random: np.random.Generator) -> Array:
    return random.choice([-1, 1], len(x)) * (x[:, 0] + 1) + 0.2 * random.standard_normal(len(x))


def _heavy(x: Array, random: np.random.Generator) -> Array:
    return x[:, 0] + x[:, 1] ** 2 + 0.3 * random.standard_t(3, len(x))


def _skewed(x: Array, random: np.random.Generator) -> Array:
    return np.exp(x[:, 0] + 0.5 * x[:, 1] + 0.5 * random.standard_normal(len(x)))


SYNTHETIC: dict[str, Law] = {
    "Friedman": _friedman, "little noise": _clean, "whole numbers": _whole, "spread that changes": _spread,
    "fork": _fork, "heavy tails": _heavy, "skewed": _skewed,
}  # fmt: skip


def main(arguments: list[str]) -> int:
    """Fit the estimator again and again, and print how far coverage is from its level."""
    parser = argparse.ArgumentParser("benchmarks coverage", description=__doc__)
    parser.add_argument("data", type=Path, help="folder of the sets of torchmcl tables")
    parser.add_argument("--repetitions", type=int, default=3, help="fits of each table and size")
    given = parser.parse_args(arguments)
    torch.set_num_threads(1)
    # By group of tables and rule, then by table: whether each fresh target is inside, over all repetitions.
    inside: defaultdict[tuple[str, str], defaultdict[str, list[Array]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for group, table, X, y, rows in _tables(given.data, given.repetitions):
        model = MCLRegressor(random_state=0).fit(X[:rows], y[:rows])
        assert model.calibration_ is not None
        needed = _fresh_levels(model, X[rows:], y[rows:])
        for name, levels in _rules(model.calibration_).items():
            inside[group, name][table].append(needed[:, None] <= levels)
        print(".", end="", flush=True)
    print("\n\n| tables | levels | mean gap | " + " | ".join(f"bias at {level:g}" for level in LEVELS) + " |")
    print("| --- | --- |" + " ---: |" * (1 + len(LEVELS)))
    for (group, name), tables in inside.items():
        gaps = np.array([np.concatenate(found).mean(0) - LEVELS for found in tables.values()])
        bias = " | ".join(f"{value:+.4f}" for value in gaps.mean(axis=0))
        print(f"| {group} | {name} | {np.abs(gaps).mean():.4f} | {bias} |")
    return 0


def _tables(root: Path, repetitions: int) -> Iterator[tuple[str, str, Array, Array, int]]:
    """Group, name, inputs, targets, and how many of the rows to fit: nine tenths of a set, a half, a quarter."""
    for repetition in range(repetitions):
        for number, name in enumerate(find_sets(root)):
            split = read_split(root, name, 0)
            random = np.random.default_rng([repetition, number])
            order = random.permutation(len(split.y))
            for group, share, most in (("whole", 0.9, 10_000), ("half", 0.5, 1000), ("quarter", 0.25, 1000)):
                rows = min(max(int(len(order) * share), 100), most)
                used = order[: rows + FRESH]
                yield f"{group} sets", name, split.X[used], split.y[used], rows
        for number, (name, law) in enumerate(SYNTHETIC.items()):
            random = np.random.default_rng([repetition, 100 + number])
            for rows in (200, 600):
                X = random.uniform(-1, 1, (rows + FRESH, 5))
                yield f"synthetic, {rows} rows", name, X, law(X, random), rows


def _fresh_levels(model: MCLRegressor, X: Array, y: Array) -> Array:
    """The level of the central interval that just contains each target."""
    pooled = model.model_.pooled(model._inputs(X))
    return central_level(pooled, torch.from_numpy(model.model_.units.apply(y[:, None]))).numpy()[:, 0]


def _rules(found: Calibration) -> dict[str, Array]:
    """The level that each rule gives to the interval of each coverage."""

    def levels(**changes: Any) -> Array:
        rule = replace(found, **changes)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            return np.array([rule.interval_levels(level, None, 1)[0, 0] for level in LEVELS])

    return {
        "of the mixture itself": np.array(LEVELS),
        "conformal quantile of pairs": levels(smooth=False, single=None),
        "smoothed": levels(single=None),
        "smoothed, extrapolated by half: the default": levels(),
        "smoothed, extrapolated": levels(extrapolation=2 * found.extrapolation),
    }
