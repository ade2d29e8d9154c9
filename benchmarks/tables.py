"""`MCLRegressor` on synthetic tables: its cost beside a mixture density network x 5, and how it grows with rows.

Rows of the last part are 10,000 and 100,000 by default; `python -m benchmarks.tables 1000000` adds a size.
"""

import resource
import sys
import time

import numpy as np
from numpy.typing import NDArray

from benchmarks import Row, show
from torchmcl import MCLRegressor
from torchmcl.tabular.peers import PEERS

__all__ = ["rows"]

COLUMNS = 20
LIMIT = 1.3
SIZES = (10_000, 100_000)


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


def growth(sizes: tuple[int, ...]) -> None:
    """Print seconds and memory of training and prediction for tables of several sizes."""
    print(f"{'rows':>9} {'fit, CPU s':>11} {'epochs':>7} {'predict, CPU s':>15} {'peak memory, MB':>16}")
    for count in sizes:
        X, y = table(count)
        start = time.process_time()
        model = MCLRegressor(random_state=0, progress=False).fit(X, y)
        trained = time.process_time()
        model.predict(X)
        done = time.process_time()
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(
            f"{count:>9} {trained - start:>11.1f} {model.n_iter_:>7} {done - trained:>15.1f} {peak:>16.0f}",
            flush=True,
        )


def _cpu(call: object) -> float:
    start = time.process_time()
    call()  # type: ignore[operator]
    return time.process_time() - start


if __name__ == "__main__":
    import torch

    torch.set_num_threads(1)
    show(rows())
    growth((*SIZES, *map(int, sys.argv[1:])))
