"""Hostile command lines and hostile arguments: `python -m benchmarks fuzz --cases 20000`."""

import argparse
import importlib
import pkgutil
import random
import shutil
import sys
import tempfile
from collections import Counter
from pathlib import Path

import torch

import torchmcl


def main(words: list[str]) -> int:
    """Run so many command lines and all hostile arguments; 1 if anything ends badly."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    import commandline
    import surface

    parser = argparse.ArgumentParser(prog="python -m benchmarks fuzz")
    parser.add_argument("--cases", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args(words)
    torch.set_num_threads(1)
    complaints = [found for case in surface.cases() if (found := surface.complaint(case))]
    print(f"{sum(1 for _ in surface.cases())} hostile arguments: {len(complaints)} end badly")
    # Imported before the children are made, which then need not do it.
    for module in pkgutil.walk_packages(torchmcl.__path__, "torchmcl."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    draw = random.Random(chosen.seed)
    names = sorted(commandline.commands())
    codes: Counter[int] = Counter()
    slowest, largest = 0.0, 0
    with tempfile.TemporaryDirectory() as place:
        for number in range(chosen.cases):
            folder = Path(place) / str(number)
            ending = commandline.run(commandline.line(draw, names[number % len(names)]), folder)
            shutil.rmtree(folder, ignore_errors=True)
            codes[ending.code] += 1
            slowest, largest = max(slowest, ending.seconds), max(largest, ending.memory)
            if ending.complaint:
                complaints.append(ending.complaint)
                print(ending.complaint, flush=True)
    print(f"{chosen.cases} command lines, seed {chosen.seed}: exit codes {dict(sorted(codes.items()))}")
    print(f"slowest {slowest:.1f} s, largest {largest / 2**20:.0f} MB, {len(complaints)} end badly")
    return int(bool(complaints))
