"""Hostile command lines, built from the signatures of the commands, each run in a process of its own."""

import contextlib
import importlib
import inspect
import os
import pkgutil
import random
import resource
import signal
import sys
import time
import traceback
import types
import typing
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

import torchmcl

WORDS: dict[type, list[str]] = {
    int: ["-1", "0", "1", "x", "1e9", "99999999999999999999999", "2.5", ""],
    float: ["nan", "inf", "-1", "0", "0.5", "x", "1e308", "1e-308", ""],
    str: ["", "nothing", "../..", "\x1b[31mred", "[bold]x", "a" * 5000, "${oc.env:HOME}", "scale=nothing",
          "method.n=99", "few", "cpu", "seed=99999999999999999999999", "a=b=c", "=", "\udc80"],
    Path: ["missing", "file", "folder", "empty.json", "deep.json", "broken.wav", "broken.csv", "link", "missing/x/y",
           "/dev/full", "/proc/none", "file/x", "a" * 300, "\udc80", "[bold]x", ".", ""],
}  # fmt: skip
GOOD = (0, 2, 130, 143)
WORK, IDLE = 1.0, 2.0
"""Seconds of computing after which a command that works is interrupted, and of waiting beyond them."""
SECRET = "value-of-the-secret"
"""Of an environment variable, which no command may write or print."""
MEMORY = 2 * 2**30
LONGEST = 6000
"""Characters of a sentence: that of a word or a name which it repeats."""


@dataclass(frozen=True)
class Ending:
    """How a command line ended."""

    words: tuple[str, ...]
    code: int
    seconds: float
    computed: float
    memory: int
    printed: str

    @property
    def complaint(self) -> str | None:
        """What is wrong with it; `None` where it is right."""
        what = " ".join(word[:60] for word in self.words).encode("ascii", "backslashreplace").decode()
        if "Traceback" in self.printed:
            return f"{what}: a traceback, {self.printed.strip().splitlines()[-1][:200]}"
        if self.code not in GOOD:
            return f"{what}: ended with {self.code}, {self.printed.strip()[-200:]}"
        if self.code == 2:
            *_, last = self.printed.strip().splitlines() or [""]
            if not last.startswith("torchmcl: ") or self.printed.count("torchmcl: ") != 1:
                return (
                    f"{what}: ended with 2 and other words than one sentence, {self.printed.strip()[-200:]}"
                )
            if len(last) > LONGEST or not last.isprintable():
                return f"{what}: its sentence has {len(last)} characters or unprintable ones, {last[:200]!r}"
        if SECRET in self.printed:
            return f"{what}: printed a variable of the environment"
        if self.memory > MEMORY:
            return f"{what}: took {self.memory / 2**20:.0f} MB"
        return None


def commands() -> dict[str, Any]:
    """All commands by their names."""
    from torchmcl.cli import GROUPS

    return {each.__name__.replace("_", "-"): each for group in GROUPS for each in group.COMMANDS}


def kinds(function: Any) -> Iterator[tuple[str, type, bool, bool]]:
    """Of each parameter: its name, the type of one word, whether it is an option, whether it may be left out."""
    hints = typing.get_type_hints(function, include_extras=True)
    for name, parameter in inspect.signature(function).parameters.items():
        hint, *marks = typing.get_args(hints[name])
        option = any("Option" in type(mark).__name__ for mark in marks)
        yield name, _kind(hint), option, parameter.default is not inspect.Parameter.empty


def _kind(hint: Any) -> type:
    while isinstance(hint, types.UnionType) or typing.get_origin(hint) is not None:
        hint = next(each for each in typing.get_args(hint) if each is not type(None))
    return hint if hint in (*WORDS, bool) else str


def line(draw: random.Random, name: str) -> tuple[str, ...]:
    """A command with hostile words: all arguments that it needs, and one to three of the others."""
    parameters = list(kinds(commands()[name]))
    words = [name]
    wanted = [each for each in parameters if not each[3]]
    rest = [each for each in parameters if each[3]]
    for parameter, kind, option, _ in [*wanted, *draw.sample(rest, min(len(rest), draw.randint(1, 3)))]:
        if kind is bool:
            words.append(f"--{parameter.replace('_', '-')}")
            continue
        values = [draw.choice(WORDS[kind])]
        words += [f"--{parameter.replace('_', '-')}", *values] if option else values
    return tuple(words)


def ready() -> None:
    """Import what commands need, once for all children."""
    torch.set_num_threads(1)
    for module in pkgutil.walk_packages(torchmcl.__path__, "torchmcl."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)


def small_toy() -> None:
    """Make the data of `toy` small, in this process and its children: the command has no option for that."""
    from torchmcl.toy.presets import PRESETS, Settings

    PRESETS["paper"] = Settings("paper", training_samples=4000, validation_samples=1000, epochs=8, units=32)


def prepare(folder: Path) -> None:
    """A folder with the hostile files that words name."""
    (folder / "folder").mkdir(parents=True)
    (folder / "file").write_text("text")
    (folder / "empty.json").write_text("")
    (folder / "deep.json").write_text("[" * 10_000)
    (folder / "broken.wav").write_bytes(b"RIFF\xff\xff\xff\xffWAVEfmt \x10\x00\x00\x00" + b"\xff" * 40)
    (folder / "broken.csv").write_bytes(b"a,b\n1\n\xff,\x00\n")
    (folder / "link").symlink_to(folder / "nowhere")


def run(
    words: tuple[str, ...],
    folder: Path,
    seconds: float = 60.0,
    work: float = WORK,
    idle: float = IDLE,
    until: Callable[[], bool] = lambda: False,
) -> Ending:
    """Run a command line in a child of this process, interrupt it when it has begun to work, kill it in the end.

    Args:
        words: The command and its words.
        folder: Where it runs.
        seconds: After which it is killed.
        work: Seconds of computing after which it is interrupted.
        idle: Seconds beyond them after which it is interrupted though it has computed less.
        until: It is killed as soon as this is true.

    Returns:
        How it ended.
    """
    log = folder.parent / f"{folder.name}.log"
    started = time.monotonic()
    child = os.fork()
    if child == 0:
        _child(words, folder, log)
    sent, killed = False, False
    while True:
        done, status, usage = os.wait4(child, os.WNOHANG)
        passed = time.monotonic() - started
        if done:
            break
        if not sent and (_computed(child) > work or passed > work + idle):
            os.kill(child, signal.SIGINT)
            sent = True
        if not killed and (passed > seconds or until()):
            os.kill(child, signal.SIGKILL)
            killed = True
        time.sleep(0.005)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child, signal.SIGKILL)  # its workers, which have no more to do
    printed = log.read_text(errors="replace") if log.exists() else ""
    log.unlink(missing_ok=True)
    computed = usage.ru_utime + usage.ru_stime
    return Ending(words, os.waitstatus_to_exitcode(status), passed, computed, usage.ru_maxrss * 1024, printed)


def _computed(process: int) -> float:
    """Seconds of computing of a process."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _child(words: tuple[str, ...], folder: Path, log: Path) -> None:
    code = 99
    try:
        os.setsid()
        os.chdir(folder)
        os.environ.update(TORCHMCL_SECRET=SECRET, TORCHMCL_TRACEBACK="1")
        stream = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        for handle in (1, 2):
            os.dup2(stream, handle)
        sys.stdout, sys.stderr = (
            open(handle, "w", encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
            for handle in (1, 2)
        )
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        most = pages * resource.getpagesize() + MEMORY
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
        signal.signal(signal.SIGINT, signal.default_int_handler)
        warnings.resetwarnings()  # those of the tests are errors
        sys.argv = ["torchmcl", *words]
        from torchmcl.cli import main

        main()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        for each in (sys.stdout, sys.stderr):
            each.flush()
        os._exit(code)
