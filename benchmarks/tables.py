"""`MCLRegressor` on synthetic tables: its cost beside a mixture density network x 5, and how it grows with rows.

`python -m benchmarks.tables 10000 100000` prints seconds and memory of tables of these sizes; `--epochs 1` trains less.
"""

import argparse
import resource
import time

import numpy as np
from numpy.typing import NDArray

from benchmarks import Row
from torchmcl import MCLRegressor
from torchmcl.tabular.peers import PEERS

__all__ = ["rows"]

COLUMNS = 20
LIMIT = 1.3


def table(count: int, columns: int = COLUMNS) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Inputs and targets whose noise depends on the input."""
    random = np.random.default_rng(0)
    X = random.normal(size=(count, columns))
    middle = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + np.abs(X[:, 3])
    return X, middle + (0.2 + 0.3 * (X[:, 4] > 0)) * random.normal(size=count)


def rows() -> list[Row]:
    """CPU seconds of training, ours and MDN x 5 one after another, for 500 and 5,000 rows of 8 columns."""
    found = []
    MCLRegressor(max_epochs=1, progress=False).fit(*table(100, 8))
    for count in (500, 5000):
        X, y = table(count, 8)
        ours = _cpu(lambda X=X, y=y: MCLRegressor(random_state=0, progress=False).fit(X, y))
        other = _cpu(lambda X=X, y=y: PEERS["mdn"].fit(X, y, 0))
        found.append(Row(f"training on {count} rows over MDN x 5", ours, other, ours / other, LIMIT))
    return found


def growth(sizes: list[int], epochs: int | None) -> None:
    """Print seconds and memory of training and prediction for tables of several sizes, in ascending order."""
    print(
        f"{'rows':>9} {'fit, CPU s':>11} {'epochs':>7} {'peak memory, MB':>16} {'predict, CPU s':>15} {'peak, MB':>9}"
    )
    for count in sorted(sizes):
        X, y = table(count)
        start = time.process_time()
        model = MCLRegressor(random_state=0, max_epochs=epochs, progress=False).fit(X, y)
        trained = time.process_time() - start
        print(f"{count:>9} {trained:>11.1f} {model.n_iter_:>7} {_peak():>16.0f}", end="", flush=True)
        start = time.process_time()
        model.predict(X)
        print(f" {time.process_time() - start:>15.1f} {_peak():>9.0f}", flush=True)


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _cpu(call: object) -> float:
    start = time.process_time()
    call()  # type: ignore[operator]
    return time.process_time() - start


if __name__ == "__main__":
    import torch

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sizes", nargs="+", type=int, help="Rows of the tables.")
    parser.add_argument("--epochs", type=int, help="At most; otherwise chosen by the number of rows.")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    growth(arguments.sizes, arguments.epochs)
