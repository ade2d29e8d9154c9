"""Folders of simulated recordings, made in parallel, to the byte the same each time, never half written."""

import errno
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from multiprocessing.connection import wait
from multiprocessing.context import BaseContext
from multiprocessing.reduction import DupFd
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from torchmcl.audio.clips import Clip, deal, folder_clips, synthesized_clips
from torchmcl.audio.datasets import LAYOUTS, RecordingSpec
from torchmcl.audio.scenes import SceneSettings, compose, description, render
from torchmcl.errors import UserError
from torchmcl.runs.files import atomic, check_space, locked, read_json, sweep, write_json, write_text
from torchmcl.runs.jobs import check_sockets, check_workers

__all__ = ["simulate"]

SETTINGS = "simulation.json"
FORMAT = 2


def simulate(out: str | Path, settings: SceneSettings, workers: int = 1, progress: bool = False) -> int:
    """Make the recordings of a data set that are not there yet.

    The same settings give the same bytes, for any number of workers and after any interruption. A folder with fewer
    recordings of the same settings is added to; any other folder that is not empty is an error.

    Args:
        out: Folder of the data set.
        settings: What to make.
        workers: Processes.
        progress: Whether to show a progress bar.

    Returns:
        How many recordings were made.
    """
    check_workers(workers)
    if workers > 1:
        check_sockets()
    out = Path(out)
    if not (out / SETTINGS).exists():
        # Before a list of all of them is made, which takes long where they are many.
        _check_space(out, settings, settings.recordings * len(replace(settings, recordings=10).specs) // 10)
    clips = () if settings.events is None else folder_clips(settings.events)
    if settings.events is None or settings.synthesised:
        clips += synthesized_clips(settings.seed)
    layout = LAYOUTS[settings.layout]
    pools = deal(clips, layout.splits, settings.seed, layout.test_clips)
    specs = settings.specs
    with locked(out) as handle:
        _agree(out, settings, clips)
        if not (out / SETTINGS).exists():
            _check_space(out, settings, len(specs))
        _sweep(out, settings)
        missing = [spec for spec in specs if not spec.is_complete(out)]
        _check_space(out, settings, len(missing))
        write_json(out / SETTINGS, _identity(settings, clips))
        job, workers = _Job(out, settings, pools, _Lock(handle)), min(workers, len(missing))
        with _bar(len(missing), progress and len(missing) > 0) as advance:
            if workers > 1:
                _in_processes(job, missing, workers, advance)
            else:
                _in_order(job, missing, advance)
    return len(missing)


class _Lock:
    """A lock that lasts until the process that took it and all workers that were given it have ended."""

    def __init__(self, handle: int) -> None:
        self.handle = handle

    def __reduce__(self) -> tuple[Callable[[Any], "_Lock"], tuple[Any]]:
        return _received, (DupFd(self.handle),)


def _received(handle: Any) -> _Lock:
    return _Lock(handle.detach())


@dataclass(frozen=True)
class _Job:
    """What a worker needs to make any recording, and the lock that it holds until it ends."""

    out: Path
    settings: SceneSettings
    pools: dict[tuple[int, str], tuple[Clip, ...]]
    lock: _Lock

    def make(self, spec: RecordingSpec) -> None:
        split, subset = spec.pool
        words = [self.settings.seed, split, ("train", "test").index(subset), spec.overlap, spec.index]
        rng = np.random.default_rng(np.random.SeedSequence(words))
        scene = compose(self.settings, self.pools[spec.pool], spec.overlap, spec.room, rng)
        sound = render(scene, self.settings, rng)
        with atomic(self.out / spec.audio) as temporary:
            try:
                soundfile.write(temporary, sound, self.settings.sample_rate, "PCM_16")
            except soundfile.LibsndfileError as error:  # as on a full disk
                raise OSError(errno.EIO, f"cannot be written ({error.error_string})") from None
        write_text(self.out / spec.description, description(scene, self.settings.layout))


def _in_order(job: _Job, missing: Sequence[RecordingSpec], advance: Callable[[], None]) -> None:
    for spec in missing:
        job.make(spec)
        advance()


def _in_processes(
    job: _Job, missing: Sequence[RecordingSpec], workers: int, advance: Callable[[], None]
) -> None:
    with ProcessPoolExecutor(workers, _context(), initializer=_start, initargs=(job,)) as executor:
        try:
            with _undisturbed():
                futures = [executor.submit(_make, spec) for spec in missing]
            for future in as_completed(futures):
                future.result()
                advance()
        except BrokenProcessPool:
            raise UserError(
                "a worker was ended from outside; the same command continues where it stopped"
            ) from None
        except BaseException:
            executor.shutdown(wait=True, cancel_futures=True)
            raise


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Hold interruptions back until the end; processes that are started meanwhile never get them.

    A mask alone would not do: another thread, such as that of a progress bar, would take the signal.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    received: list[tuple[int, Any]] = []
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    before = {
        number: signal.signal(number, lambda *came: received.append(came))
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    }
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        for number, handler in before.items():
            signal.signal(number, handler)
    for came in received:
        os.kill(os.getpid(), came[0])


def _context() -> BaseContext:
    """Workers are forked from a server without threads that has imported this module once for all of them."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    return context


_job: _Job | None = None


def _start(job: _Job) -> None:
    """In a worker: keep the job, leave interruptions to the parent, and end when the parent does."""
    global _job
    _job = job
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent.sentinel,), daemon=True).start()


def _end_with(sentinel: int) -> None:
    wait([sentinel])
    os._exit(1)


def _make(spec: RecordingSpec) -> None:
    assert _job is not None
    _job.make(spec)


@contextmanager
def _bar(total: int, show: bool) -> Iterator[Callable[[], None]]:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), disable=not show) as bar:
        task = bar.add_task("recordings", total=total)
        yield lambda: bar.advance(task)


def _identity(settings: SceneSettings, clips: Sequence[Clip]) -> dict[str, Any]:
    """All that the bytes depend on; files of events by name and size, not by the folder they are in."""
    values = asdict(settings)
    del values["events"]
    files = {c.name: [c.path.name, c.path.stat().st_size] for c in clips if c.path is not None}
    return {"format": FORMAT, **values, "synthesised": len(files) < len(clips), "events": files}


def _agree(out: Path, settings: SceneSettings, clips: Sequence[Clip]) -> None:
    """Refuse a folder that holds something else."""
    path = out / SETTINGS
    if not path.exists():
        if any(entry.name[0] != "." for entry in out.iterdir()):
            raise UserError(f"{out}: is not empty and has no {SETTINGS}, choose another folder")
        return
    try:
        there = read_json(path)
        different = [key for key, value in _identity(settings, clips).items() if there[key] != value]
        grows = different == ["recordings"] and settings.recordings > there["recordings"]
    except (ValueError, KeyError, TypeError):
        raise UserError(f"{path}: is not a description of simulated recordings") from None
    if different and not grows:
        [key, *_] = different
        what = (
            "other sounds" if key == "events" else f"{key} {there[key]}, not {getattr(settings, key, FORMAT)}"
        )
        raise UserError(f"{out}: was made with {what}; choose another folder")


def _sweep(out: Path, settings: SceneSettings) -> None:
    """Remove what a killed run left half written."""
    folders = {path.parent for spec in settings.specs for path in (spec.audio, spec.description)}
    for folder in {Path(), *folders}:
        sweep(out / folder)


def _check_space(out: Path, settings: SceneSettings, count: int) -> None:
    check_space(out, count * settings.samples * 8)
