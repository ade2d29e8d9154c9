"""Run all benchmarks, or those named: `python -m benchmarks training transport`."""

import importlib
import pkgutil
import sys

import torch

import benchmarks
from benchmarks import Row, show


def main(names: list[str]) -> int:
    found = [module.name for module in pkgutil.iter_modules(benchmarks.__path__) if module.name != "__main__"]
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
