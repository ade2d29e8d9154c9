"""Hostile arguments, command lines and files: `python -m benchmarks fuzz --cases 20000`."""

import argparse
import random
import shutil
import sys
import tempfile
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import commandline
import foreign
import surface
import worlds


class Tally:
    """What happened to the cases of one kind."""

    def __init__(self) -> None:
        self.codes: Counter[int] = Counter()
        self.slowest, self.largest = 0.0, 0
        self.complaints: list[str] = []

    def add(self, ending: commandline.Ending, complaint: str | None) -> None:
        """Count an ending, and print what is wrong with it."""
        self.codes[ending.code] += 1
        self.slowest, self.largest = max(self.slowest, ending.seconds), max(self.largest, ending.memory)
        if complaint:
            self.complaints.append(complaint)
            print(complaint, flush=True)

    def __str__(self) -> str:
        return (
            f"exit codes {dict(sorted(self.codes.items()))}, slowest {self.slowest:.1f} s, "
            f"largest {self.largest / 2**20:.0f} MB, {len(self.complaints)} end badly"
        )


def main(words: list[str]) -> int:
    """Run so many cases, of all three kinds; 1 if anything ends badly."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks fuzz")
    parser.add_argument("--cases", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args(words)
    draw = random.Random(chosen.seed)
    everything = list(surface.cases())
    some = everything if len(everything) <= chosen.cases // 2 else draw.sample(everything, chosen.cases // 3)
    wrong = [found for case in some if (found := surface.complaint(case))]
    print(
        "\n".join([*wrong, f"{len(some)} arguments of {len(everything)}: {len(wrong)} end badly"]), flush=True
    )
    commandline.ready()
    commandline.small_toy()
    lines = (chosen.cases - len(some)) // 2
    files = chosen.cases - len(some) - lines
    with tempfile.TemporaryDirectory() as place:
        spoken = _lines(draw, lines, Path(place))
        print(f"{lines} command lines, seed {chosen.seed}: {spoken}", flush=True)
        read = _files(draw, files, Path(place))
        print(f"{files} files, seed {chosen.seed}: {read}")
    return int(bool(wrong or spoken.complaints or read.complaints))


def _lines(draw: random.Random, cases: int, place: Path) -> Tally:
    tally, names = Tally(), sorted(commandline.commands())
    for number in range(cases):
        folder = place / f"line{number}"
        commandline.prepare(folder)
        ending = commandline.run(commandline.line(draw, names[number % len(names)]), folder)
        shutil.rmtree(folder, ignore_errors=True)
        tally.add(ending, ending.complaint)
    return tally


def _files(draw: random.Random, cases: int, place: Path) -> Tally:
    tally, valid = Tally(), place / "worlds"
    readers = worlds.make_worlds(valid) if cases else ()
    for number in range(cases):
        case = foreign.draw_case(draw, readers, valid)
        tally.add(*foreign.complaint(case, valid, place / f"file{number}"))
    return tally
