"""Many jobs: in processes of this machine, or on a Ray cluster."""

import contextlib
import importlib
import json
import logging
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from torchmcl.errors import UserError
from torchmcl.runs.progress import is_watched

__all__ = ["Job", "Local", "Ray", "check_address", "check_sockets", "check_workers", "execute"]

RETRIES = 3
"""How often a job is begun again whose Ray worker was lost; it goes on from its last checkpoint."""

CONNECT_SECONDS = 5.0
"""After which nobody listens at the address of a cluster."""

LONGEST_TEMPORARY = 75
"""Bytes of the temporary folder: a socket has a path of 107, and Python adds `/pymp-xxxxxxxx/listener-xxxxxxxx`."""

ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
"""Two jobs of one thread are faster than one job of two."""


@dataclass(frozen=True)
class Job:
    """A call of a function in a process of its own.

    Args:
        name: Shown to the user; different for each job.
        function: `module:function`, importable in the process.
        arguments: Keyword arguments, of plain values.
        done: A file whose presence says that the job was finished.
        log: Where the process prints to; it is appended to.
        needs: Jobs that must be done before.
    """

    name: str
    function: str
    arguments: Mapping[str, Any]
    done: Path
    log: Path
    needs: tuple["Job", ...] = ()

    @property
    def is_done(self) -> bool:
        """Whether it was finished."""
        return self.done.exists()


@dataclass(frozen=True)
class Local:
    """Processes of this machine.

    Args:
        workers: At a time; one for each core by default.
    """

    workers: int = field(default_factory=lambda: os.cpu_count() or 1)

    def __post_init__(self) -> None:
        check_workers(self.workers)


@dataclass(frozen=True)
class Ray:
    """Workers of a Ray cluster whose machines share the folders.

    Args:
        address: HOST:PORT of a cluster; without it, Ray starts here.
        workers: Of a Ray that starts here; a cluster knows how many it has.
    """

    address: str | None = None
    workers: int = field(default_factory=lambda: os.cpu_count() or 1)

    def __post_init__(self) -> None:
        check_workers(self.workers)


def check_workers(workers: int) -> None:
    """Refuse numbers of processes that would fill the memory.

    Args:
        workers: At a time; at most eight for each core.
    """
    most = 8 * (os.cpu_count() or 1)
    if workers < 1:
        raise UserError(f"workers is {workers}, must be at least 1")
    if workers > most:
        raise UserError(f"workers is {workers}, must be at most {most}, eight for each core")


def check_sockets() -> None:
    """Refuse a temporary folder whose name leaves no room for the sockets of processes."""
    folder = tempfile.gettempdir()
    if len(os.fsencode(folder)) > LONGEST_TEMPORARY:
        raise UserError(
            f"TMPDIR is {folder}, must have at most {LONGEST_TEMPORARY} bytes: sockets of processes are made there"
        )


def execute(jobs: Sequence[Job], on: Local | Ray | None = None) -> None:
    """Do what is not done yet, in the order that `needs` asks for; the first failure ends it with a `UserError`.

    Interrupted, it ends the processes that it started; the same call goes on.

    Args:
        jobs: Jobs, with those that they need or without.
        on: Where; `Local()` by default.
    """
    missing = _missing(jobs)
    if not missing:
        return
    on = on or Local()
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not is_watched(console)) as bar:
        task = bar.add_task("runs", total=len(missing))
        run = _in_processes if isinstance(on, Local) else _in_ray
        run(missing, on, lambda: bar.advance(task))  # type: ignore[arg-type]


def _missing(jobs: Sequence[Job]) -> list[Job]:
    """What has to be done, each once, after what it needs."""
    found: dict[str, Job] = {}

    def visit(job: Job, above: tuple[str, ...]) -> None:
        if job.name in above:
            raise ValueError(f"job {job.name} needs itself")
        if job.is_done or job.name in found:
            return
        for each in job.needs:
            visit(each, (*above, job.name))
        found[job.name] = job

    for job in jobs:
        visit(job, ())
    return list(found.values())


def _ready(waiting: Sequence[Job], unfinished: set[str]) -> list[Job]:
    return [job for job in waiting if not any(each.name in unfinished for each in job.needs)]


def _in_processes(jobs: Sequence[Job], on: Local, advance: Callable[[], None]) -> None:
    waiting, unfinished = list(jobs), {job.name for job in jobs}
    running: dict[str, tuple[Job, subprocess.Popen[bytes]]] = {}
    try:
        while unfinished:
            for job in _ready(waiting, unfinished)[: on.workers - len(running)]:
                waiting.remove(job)
                running[job.name] = (job, _start(job))
            time.sleep(0.05)
            for name, (job, process) in list(running.items()):
                if process.poll() is None:
                    continue
                del running[name]
                if process.returncode:
                    raise UserError(f"{name}: failed, {_last_line(job.log)}; see {job.log}")
                unfinished.remove(name)
                advance()
    finally:
        _end([process for _, process in running.values()])


def _start(job: Job) -> "subprocess.Popen[bytes]":
    with _opened(job.log) as stream:
        process = subprocess.Popen(
            [sys.executable, "-m", "torchmcl.runs.jobs"],
            stdin=subprocess.PIPE, stdout=stream, stderr=subprocess.STDOUT, env={**os.environ, **ONE_THREAD},
        )  # fmt: skip
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError), process.stdin as pipe:
        pipe.write(json.dumps({"function": job.function, "arguments": dict(job.arguments)}).encode())
    return process


def _end(processes: Sequence["subprocess.Popen[bytes]"]) -> None:
    for process in processes:
        process.terminate()
    for process in processes:
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _in_ray(jobs: Sequence[Job], on: Ray, advance: Callable[[], None]) -> None:
    with _cluster(on) as ray:
        remote = ray.remote(num_cpus=1, max_calls=1, max_retries=RETRIES)(_in_worker)
        waiting, unfinished = list(jobs), {job.name for job in jobs}
        running: dict[Any, Job] = {}
        while unfinished:
            for job in _ready(waiting, unfinished):
                waiting.remove(job)
                call = remote.remote(job.function, dict(job.arguments), str(job.log), os.getcwd())
                running[call] = job
            [finished], _ = ray.wait(list(running))
            job = running.pop(finished)
            try:
                ray.get(finished)
            except ray.exceptions.RayTaskError as error:
                raise UserError(f"{job.name}: failed, {error.cause}; see {job.log}") from None
            except ray.exceptions.RayError:
                raise UserError(f"{job.name}: failed, its worker was lost {RETRIES + 1} times") from None
            unfinished.remove(job.name)
            advance()


def _in_worker(function: str, arguments: dict[str, Any], log: str, folder: str) -> None:
    """In the process of a Ray worker: where that is killed, nothing of the job is left running."""
    os.chdir(folder)
    os.environ.update(ONE_THREAD)
    with (
        _opened(Path(log)) as stream,
        contextlib.redirect_stdout(stream),
        contextlib.redirect_stderr(stream),
    ):
        _call(function, arguments)


@contextlib.contextmanager
def _cluster(on: Ray) -> Iterator[Any]:
    """The module `ray`, connected to a cluster or to a Ray of its own."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
    except ImportError:
        raise UserError("--on ray needs Ray: pip install 'torchmcl[cluster]'") from None
    if on.address is not None:
        check_address(on.address)
    own: dict[str, Any] = {"num_cpus": on.workers, "include_dashboard": False} if on.address is None else {}
    try:
        ray.init(on.address or "local", log_to_driver=False, logging_level=logging.ERROR, **own)
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise UserError(
            f"--address {on.address}: no Ray cluster there ({str(error).splitlines()[0]})"
        ) from None
    try:
        yield ray
    finally:
        ray.shutdown()


def check_address(address: str) -> None:
    """Find out at once whether somebody listens; Ray itself would try for minutes.

    Args:
        address: HOST:PORT of a cluster.
    """
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise UserError(f"--address is {address!r}, must be HOST:PORT")
    try:
        socket.create_connection((host, int(port)), CONNECT_SECONDS).close()
    except UnicodeError:
        raise UserError(f"--address is {address!r}, must be HOST:PORT") from None
    except OSError as error:
        raise UserError(f"--address {address}: no Ray cluster there ({error.strerror or error})") from None


def _call(function: str, arguments: Mapping[str, Any]) -> None:
    module, _, name = function.partition(":")
    getattr(importlib.import_module(module), name)(**arguments)


def _last_line(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").split("\n") if log.exists() else []
    return next((line.strip() for line in reversed(lines) if line.strip()), "it printed nothing")


@contextlib.contextmanager
def _opened(log: Path) -> Iterator[Any]:
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("a", encoding="utf-8") as stream:
        yield stream


def _main() -> int:
    """The process of a job: reads what to call from its input."""
    job = json.load(sys.stdin)
    try:
        _call(job["function"], job["arguments"])
    except UserError as error:
        print(error, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(_main())
