"""Many runs at a time: in processes of this machine, or on a Ray cluster."""

import contextlib
import logging
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from torchmcl.errors import UserError

__all__ = ["Job", "check_place", "run_jobs"]

RETRIES = 3
"""How often a run is begun again whose Ray worker was lost; it goes on from its last checkpoint."""


@dataclass(frozen=True)
class Job:
    """A run as `torchmcl train` takes it: its folder and its settings."""

    run: Path
    settings: tuple[str, ...]

    @property
    def done(self) -> bool:
        """Whether it was trained and evaluated."""
        return (self.run / "metrics.json").exists()

    @property
    def words(self) -> list[str]:
        """All settings, with one thread: two runs of one thread are faster than one run of two threads."""
        return [*self.settings, f"run={self.run}", "trainer.threads=1"]

    @property
    def log(self) -> Path:
        """What it printed."""
        return self.run / "train.log"

    def work(self) -> None:
        """Train in a process of its own."""
        with _opened(self.log) as stream:
            ended = subprocess.run(
                [sys.executable, "-m", "torchmcl", "train", *self.words],
                stdout=stream, stderr=subprocess.STDOUT, check=False, env={**os.environ, "OMP_NUM_THREADS": "1"},
            )  # fmt: skip
        if ended.returncode:
            raise UserError(f"{self.run}: training failed, see {self.log}")

    def work_here(self, folder: str) -> None:
        """Train in this process, which is a worker's: where that is killed, nothing of the run is left behind.

        `folder` is what relative paths are relative to.
        """
        from torchmcl.experiments.compose import compose_config
        from torchmcl.experiments.train import train

        os.chdir(folder)
        with (
            _opened(self.log) as stream,
            contextlib.redirect_stdout(stream),
            contextlib.redirect_stderr(stream),
        ):
            train(compose_config(self.words), progress=False)


def check_place(on: str, address: str | None) -> None:
    """Refuse what `run_jobs` could not do."""
    if on not in ("local", "ray"):
        raise UserError(f"--on is {on!r}, must be local or ray")
    if address is not None and on != "ray":
        raise UserError("--address is of a Ray cluster: say --on ray as well")


def run_jobs(
    jobs: Sequence[Job], *, workers: int | None = None, on: str = "local", address: str | None = None
) -> None:
    """Do what is not done yet, `workers` at a time (one for each core); the first failure ends it.

    On `"ray"` the workers are those of a Ray of its own or, with `address`, of a cluster whose machines share the
    folders; the cluster then knows how many. A worker that is lost is replaced, and its run goes on.
    """
    check_place(on, address)
    missing = [job for job in jobs if not job.done]
    if not missing:
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("runs", total=len(missing))
        count = workers or os.cpu_count() or 1
        if on == "ray":
            _in_ray(missing, count, address, lambda: bar.advance(task))
        else:
            _in_processes(missing, count, lambda: bar.advance(task))


def _in_processes(jobs: Sequence[Job], workers: int, advance: Callable[[], None]) -> None:
    with ThreadPoolExecutor(workers) as pool:
        pending = [pool.submit(job.work) for job in jobs]
        try:
            for future in as_completed(pending):
                future.result()
                advance()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _in_ray(jobs: Sequence[Job], workers: int, address: str | None, advance: Callable[[], None]) -> None:
    with _cluster(workers, address) as ray:
        remote = ray.remote(num_cpus=1, max_calls=1, max_retries=RETRIES)(Job.work_here)
        pending = {remote.remote(job, os.getcwd()): job for job in jobs}
        while pending:
            [finished], _ = ray.wait(list(pending))
            job = pending.pop(finished)
            try:
                ray.get(finished)
            except ray.exceptions.RayTaskError as error:
                raise UserError(f"{job.run}: training failed, {error.cause}") from None
            except ray.exceptions.RayError:
                raise UserError(
                    f"{job.run}: training failed, its worker was lost {RETRIES + 1} times"
                ) from None
            advance()


@contextlib.contextmanager
def _cluster(workers: int, address: str | None) -> Iterator[Any]:
    """The module `ray`, connected to a cluster or to a Ray of its own with so many workers."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
    except ImportError:
        raise UserError("--on ray needs Ray: pip install 'torchmcl[cluster]'") from None
    own: dict[str, Any] = {"num_cpus": workers, "include_dashboard": False} if address is None else {}
    try:
        ray.init(address or "local", log_to_driver=False, logging_level=logging.ERROR, **own)
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise UserError(f"--address {address}: no Ray cluster there ({str(error).splitlines()[0]})") from None
    try:
        yield ray
    finally:
        ray.shutdown()


@contextlib.contextmanager
def _opened(log: Path) -> Iterator[Any]:
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("a") as stream:
        yield stream
