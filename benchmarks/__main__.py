"""Run all benchmarks, or those named: `python -m benchmarks training transport`.

`fuzz --cases N`, `kills --runs N`, `live --minutes N` and `uploads --cases N` are long tests with arguments of
their own; `coverage` prints the table that the calibration of intervals is chosen by, `settings NAME=VALUE` what a
setting of `MCLRegressor` changes, `rooms SOUNDS` the table of the bundled localizer's card, `crossings SOUNDS` how
often sources that meet keep their tracks.
"""

import importlib
import pkgutil
import sys

import torch

import benchmarks
from benchmarks import Row, show

LONG_TESTS = ("coverage", "crossings", "fuzz", "kills", "live", "rooms", "settings", "uploads")


def main(names: list[str]) -> int:
    if names and names[0] in LONG_TESTS:
        return importlib.import_module(f"benchmarks.{names[0]}").main(names[1:])
    found = [
        module.name
        for module in pkgutil.iter_modules(benchmarks.__path__)
        if not module.name.startswith("_") and module.name not in LONG_TESTS
    ]
    unknown = [name for name in names if name not in found]
    if unknown:
        print(f"no benchmark {unknown[0]}; there are {', '.join(found)}", file=sys.stderr)
        return 2
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads")
    rows: list[Row] = []
    for name in names or found:
        rows += importlib.import_module(f"benchmarks.{name}").rows()
    show(rows)
    return int(any(row.kept is False for row in rows))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
