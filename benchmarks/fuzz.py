"""Hostile arguments, command lines and files: `python -m benchmarks fuzz --cases 20000`.

`--kind files --all` walks all damages of files in place of drawing some, `--all 1/4` the first of four parts.
"""

import argparse
import random
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import commandline
import foreign
import surface
import worlds

KINDS = ("arguments", "lines", "files")


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
        if self.codes.total() % 500 == 0:
            print(f"{self.codes.total()}: {self}", flush=True)

    def __str__(self) -> str:
        return (
            f"exit codes {dict(sorted(self.codes.items()))}, slowest {self.slowest:.1f} s, "
            f"largest {self.largest / 2**20:.0f} MB, {len(self.complaints)} end badly"
        )


def main(words: list[str]) -> int:
    """Run so many cases, of all three kinds or of some; 1 if anything ends badly."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks fuzz")
    parser.add_argument("--cases", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kind", choices=KINDS, action="append")
    parser.add_argument("--all", metavar="K/N", nargs="?", const="1/1", help="all files, or part K of N")
    chosen = parser.parse_args(words)
    kinds = chosen.kind or list(KINDS)
    draw = random.Random(chosen.seed)
    left, bad = chosen.cases, 0
    if "arguments" in kinds:
        count, bad = _arguments(draw, left if kinds == ["arguments"] else left // 2)
        left -= count
    commandline.ready()
    commandline.small_toy()
    lines = 0 if "lines" not in kinds else left // 2 if "files" in kinds else left
    files = left - lines if "files" in kinds else 0
    with tempfile.TemporaryDirectory() as place:
        for name, cases, run in (("command lines", lines, _lines), ("files", files, _files)):
            if cases:
                tally = (
                    _all_files(chosen.all, Path(place))
                    if run is _files and chosen.all
                    else run(draw, cases, Path(place))
                )
                bad += len(tally.complaints)
                print(f"{tally.codes.total()} {name}, seed {chosen.seed}: {tally}", flush=True)
    return int(bool(bad))


def _arguments(draw: random.Random, most: int) -> tuple[int, int]:
    """All arguments where there may be so many, otherwise a part; how many were tried, and how many end badly."""
    everything = list(surface.cases())
    some = everything if len(everything) <= most else draw.sample(everything, most * 2 // 3)
    wrong = [found for case in some if (found := surface.complaint(case))]
    print(
        "\n".join([*wrong, f"{len(some)} arguments of {len(everything)}: {len(wrong)} end badly"]), flush=True
    )
    return len(some), len(wrong)


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
    readers = worlds.make_worlds(place / "worlds")
    return _run_files((foreign.draw_case(draw, readers, place / "worlds") for _ in range(cases)), place)


def _all_files(part: str, place: Path) -> Tally:
    """Part K of N: every Nth case, so that each key is in each part with other values."""
    readers = worlds.make_worlds(place / "worlds")
    first, parts = map(int, part.split("/"))
    count = sum(1 for _ in foreign.all_cases(readers, place / "worlds"))
    print(f"{count} files in all, part {first} of {parts}", flush=True)
    return _run_files(islice(foreign.all_cases(readers, place / "worlds"), first - 1, None, parts), place)


def _run_files(cases: Iterator[foreign.Case], place: Path) -> Tally:
    tally = Tally()
    for number, case in enumerate(cases):
        tally.add(*foreign.complaint(case, place / "worlds", place / f"file{number}"))
    return tally
