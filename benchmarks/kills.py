"""`kill -9` at random moments: `python -m benchmarks kills --runs 100`.

Each command is run once undisturbed. Then it is killed after a random part of that time and called again, until it ends
by itself; what it wrote must be the same, byte for byte, and nothing half written may be left.
"""

import argparse
import contextlib
import hashlib
import math
import os
import random
import re
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import commandline

SETTINGS = ("scale=smoke", "data=simulated", "trainer.threads=1")
COMMANDS: dict[str, tuple[str, ...]] = {
    "toy": ("toy", "--no-ensembles", "--out", "out"),
    "train": ("train", *SETTINGS, "run=out"),
    "fit": (
        "fit", "table.csv", "--target", "y", "--members", "2", "--hypotheses", "4", "--epochs", "60", "--out", "out",
    ),
    "trajectories": (
        "trajectories", "tracks", "--scene", "none", "--seeds", "1", "--steps", "60", "--out", "out",
    ),
    "simulate": ("simulate", "out", "--recordings", "2", "--duration", "1", "--workers", "1"),
    "classify": ("classify", "--task", "few", "--seeds", "1", "--images", "50", "--out", "out"),
}  # fmt: skip
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
    commandline.ready()
    commandline.small_toy()
    wanted, times, wrong = {}, {}, 0
    runs: Counter[str] = Counter()
    kills: Counter[str] = Counter()
    for number in range(chosen.runs):
        name = names[number % len(names)]
        if name not in wanted:
            wanted[name], times[name] = _undisturbed(name)
            print(f"{name}: {times[name]:.1f} s, {len(wanted[name])} files", flush=True)
        found, count = _disturbed(name, times[name], draw)
        runs[name] += 1
        kills[name] += count
        differing = sorted(
            key for key in wanted[name].keys() | found if wanted[name].get(key) != found.get(key)
        )
        wrong += bool(differing)
        print(f"{number}: {name} killed {count} times, {differing or 'equal'}", flush=True)
    print(", ".join(f"{name}: {runs[name]} runs with {kills[name]} kills" for name in runs))
    print(f"{chosen.runs} runs, {kills.total()} kills: {wrong} differ")
    return int(bool(wrong))


def _prepared() -> Path:
    """A folder with the data that commands read."""
    folder = Path(tempfile.mkdtemp())
    draw = random.Random(0)
    rows = [(draw.gauss(0, 1), draw.choice("abc")) for _ in range(300)]
    lines = [f"{x:.6f},{kind},{x * x + draw.gauss(0, 0.3):.6f}" for x, kind in rows]
    (folder / "table.csv").write_text("\n".join(["x,kind,y", *lines]) + "\n")
    for scene in ("eth", "hotel", "univ", "zara1", "zara2"):
        for part in ("train", "val", "test"):
            (folder / "tracks" / scene / part).mkdir(parents=True)
            (folder / "tracks" / scene / part / f"{scene}_{part}.txt").write_text(_walk(draw))
    return folder


def _walk(draw: random.Random) -> str:
    """Six pedestrians for forty steps of 0.4 s, as the ETH/UCY benchmark has them: frame, number, x, y."""
    lines = []
    people = [(draw.uniform(-5, 5), draw.uniform(-5, 5), draw.uniform(0, 6)) for _ in range(6)]
    for step in range(40):
        for agent, (x, y, heading) in enumerate(people):
            turned = heading + draw.gauss(0, 0.1)
            x, y = x + 0.4 * math.cos(turned), y + 0.4 * math.sin(turned)
            people[agent] = (x, y, turned)
            lines.append(f"{10 * step}\t{agent + 1}\t{x:.4f}\t{y:.4f}")
    return "\n".join(lines) + "\n"


def _start(name: str, folder: Path) -> int:
    """The number of a child that runs the command in a group of its own."""
    child = os.fork()
    if child:
        return child
    code = 99
    try:
        os.setsid()
        os.chdir(folder)
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for handle in (1, 2):
            os.dup2(nowhere, handle)
        sys.argv = ["torchmcl", *COMMANDS[name]]
        from torchmcl.cli import main

        main()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    finally:
        os._exit(code)


def _ended(child: int, seconds: float) -> int | None:
    """The exit code; `None` where it was killed after so many seconds."""
    started = time.monotonic()
    while time.monotonic() - started < seconds:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.002)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)  # the group: workers of a command end with it
    with contextlib.suppress(ProcessLookupError):
        os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


def _undisturbed(name: str) -> tuple[dict[str, str], float]:
    folder = _prepared()
    started = time.monotonic()
    code = _ended(_start(name, folder), math.inf)
    seconds = time.monotonic() - started
    assert code == 0, f"{name} ended with {code}"
    return _digests(folder), seconds


def _disturbed(name: str, seconds: float, draw: random.Random) -> tuple[dict[str, str], int]:
    folder = _prepared()
    for count in range(MOST_KILLS + 1):
        limit = math.inf if count == MOST_KILLS else draw.uniform(0, 1.2) * seconds
        code = _ended(_start(name, folder), limit)
        if code is not None:
            break
    assert code == 0, f"{name} ended with {code} after {count} kills"
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
    if path.suffix == ".html":
        # The last column of the table of `toy` is the duration.
        return re.sub(rb"<td>[0-9.]+</td></tr>", b"", path.read_bytes())
    if path.suffix != ".json":
        return path.read_bytes()
    lines = path.read_bytes().splitlines()
    return b"\n".join(line for line in lines if b"seconds" not in line and b'"commit"' not in line)
