"""Runs in processes of their own, several at a time."""

import os
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from torchmcl.errors import UserError

__all__ = ["Job", "run_jobs"]


@dataclass(frozen=True)
class Job:
    """A run as `torchmcl train` takes it: its folder and its settings."""

    run: Path
    settings: tuple[str, ...]

    @property
    def done(self) -> bool:
        """Whether it was trained and evaluated."""
        return (self.run / "metrics.json").exists()

    def work(self) -> None:
        """Train in a process with one thread: two such are faster than one with two threads."""
        log = self.run / "train.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("w") as stream:
            ended = subprocess.run(
                [sys.executable, "-m", "torchmcl", "train", *self.settings, f"run={self.run}", "trainer.threads=1"],
                stdout=stream, stderr=subprocess.STDOUT, check=False, env={**os.environ, "OMP_NUM_THREADS": "1"},
            )  # fmt: skip
        if ended.returncode:
            raise UserError(f"{self.run}: training failed, see {log}")


def run_jobs(jobs: Sequence[Job], *, workers: int) -> None:
    """Do what is not done yet, `workers` at a time; the first failure ends it."""
    missing = [job for job in jobs if not job.done]
    if not missing:
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with (
        ThreadPoolExecutor(workers) as pool,
        Progress(*columns, console=Console(stderr=True)) as bar,
    ):
        task = bar.add_task("runs", total=len(missing))
        pending = [pool.submit(job.work) for job in missing]
        try:
            for future in as_completed(pending):
                future.result()
                bar.advance(task)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
