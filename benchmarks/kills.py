"""`kill -9` at random moments: `python -m benchmarks kills --runs 100`.

Each command is run once undisturbed. Then it is killed after a random part of that time and called again, until it ends
by itself; what it wrote must be the same, byte for byte, and nothing half written may be left.
"""

import argparse
import hashlib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SETTINGS = ("scale=smoke", "data=simulated", "trainer.threads=1")
COMMANDS: dict[str, tuple[str, ...]] = {
    "classify": ("classify", "--task", "few", "--seeds", "1", "--images", "50", "--out", "out"),
    "simulate": ("simulate", "out", "--recordings", "2", "--duration", "1", "--workers", "1"),
    "train": ("train", *SETTINGS, "run=out"),
}
VARYING = (".log", ".pdf")
"""Files that hold a date or a time; those of TensorBoard have them in their names."""
MOST_KILLS = 20


def main(words: list[str]) -> int:
    """So many disturbed runs, the commands in turn; 1 if one of them differs from the undisturbed one."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks kills")
    parser.add_argument("--runs", type=int, default=6)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--command", choices=COMMANDS, action="append")
    chosen = parser.parse_args(words)
    draw = random.Random(chosen.seed)
    names = chosen.command or list(COMMANDS)
    wanted, times, wrong, kills = {}, {}, 0, 0
    for number in range(chosen.runs):
        name = names[number % len(names)]
        if name not in wanted:
            wanted[name], times[name] = _undisturbed(name)
            print(f"{name}: {times[name]:.1f} s, {len(wanted[name])} files", flush=True)
        found, count = _disturbed(name, times[name], draw)
        kills += count
        differing = sorted(
            key for key in wanted[name].keys() | found if wanted[name].get(key) != found.get(key)
        )
        wrong += bool(differing)
        print(f"{number}: {name} killed {count} times, {differing or 'equal'}", flush=True)
    print(f"{chosen.runs} runs, {kills} kills: {wrong} differ")
    return int(bool(wrong))


def _start(name: str, folder: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "torchmcl", *COMMANDS[name]],
        cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip


def _undisturbed(name: str) -> tuple[dict[str, str], float]:
    folder = Path(tempfile.mkdtemp())
    started = time.monotonic()
    code = _start(name, folder).wait()
    seconds = time.monotonic() - started
    assert code == 0, f"{name} ended with {code}"
    return _digests(folder), seconds


def _disturbed(name: str, seconds: float, draw: random.Random) -> tuple[dict[str, str], int]:
    folder = Path(tempfile.mkdtemp())
    for count in range(MOST_KILLS + 1):
        process = _start(name, folder)
        try:
            code = process.wait(None if count == MOST_KILLS else draw.uniform(0.2, 1.2) * seconds)
        except subprocess.TimeoutExpired:
            # The group: workers of a command end with it.
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            continue
        assert code == 0, f"{name} ended with {code} after {count} kills"
        break
    return _digests(folder), count


def _digests(folder: Path) -> dict[str, str]:
    found = {
        str(path.relative_to(folder)): hashlib.sha256(_content(path)).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.suffix not in VARYING and "tfevents" not in path.name
    }
    shutil.rmtree(folder)
    return found


def _content(path: Path) -> bytes:
    """Without the lines that tell how long something took, and the commit of the program."""
    if path.suffix != ".json":
        return path.read_bytes()
    lines = path.read_bytes().splitlines()
    return b"\n".join(line for line in lines if b"seconds" not in line and b'"commit"' not in line)
