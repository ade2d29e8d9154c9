"""Analyses: each in a process of its own, so that it can be cancelled and leaves no memory behind."""

import asyncio
import json
import multiprocessing
import secrets
import shutil
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Literal

from torchmcl.errors import UserError
from torchmcl.web.limits import Limits
from torchmcl.web.work import perform, prepare

__all__ = ["Analyses", "Analysis", "State"]

State = Literal["waiting", "running", "done", "failed", "cancelled"]
POLL = 0.1
"""Seconds between two looks at a process."""


@dataclass
class Analysis:
    """One upload and what became of it.

    Args:
        id: An unguessable name.
        kind: What it is: a key of `torchmcl.web.work.KINDS`.
        name: The name of the upload, for display only.
        folder: Holds `source`, the upload, while it is needed, and `results`.
        options: Options of the analysis, as strings.
    """

    id: str
    kind: str
    name: str
    folder: Path
    options: Mapping[str, str]
    state: State = "waiting"
    progress: float = 0.0
    message: str = ""
    seen: float = field(default_factory=time.monotonic)

    @property
    def ended(self) -> bool:
        """Whether nothing more will happen to it."""
        return self.state in ("done", "failed", "cancelled")

    @property
    def results(self) -> Path:
        """The folder of the outputs."""
        return self.folder / "results"

    def status(self) -> dict[str, Any]:
        """What a client is told."""
        done = self.results.iterdir() if self.state == "done" else ()
        files = sorted(path.name for path in done if path.is_file())
        return {
            "id": self.id,
            "kind": self.kind,
            "name": self.name,
            "state": self.state,
            "progress": round(self.progress, 3),
            "message": self.message,
            "files": files,
        }


class Analyses:
    """All analyses of a server: a queue, some processes, and a janitor.

    Args:
        root: A folder that belongs to the server alone.
        limits: The bounds.
    """

    def __init__(self, root: Path, limits: Limits) -> None:
        self.root = root
        self.limits = limits
        self.known: dict[str, Analysis] = {}
        self.queue: asyncio.Queue[Analysis | None] = asyncio.Queue()
        self.processes = multiprocessing.get_context("forkserver")
        self.processes.set_forkserver_preload(["torchmcl.web.work", "matplotlib.backends.backend_agg"])

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Process the queue while the block runs; everything is removed afterwards."""
        workers = [asyncio.create_task(self._work()) for _ in range(self.limits.running)]
        others = [asyncio.create_task(each) for each in (self._clean(), asyncio.to_thread(self._prepare))]
        try:
            yield
        finally:
            for analysis in self.known.values():
                self._cancel(analysis)
            for _ in workers:
                self.queue.put_nowait(None)
            for task in others:
                task.cancel()
            # A process that still writes would miss its folder, and say so.
            await asyncio.gather(*workers, *others, return_exceptions=True)
            for identifier in list(self.known):
                self._remove(identifier)

    @property
    def busy(self) -> int:
        """Analyses that run or wait."""
        return sum(not each.ended for each in self.known.values())

    def open(self, kind: str, name: str, options: Mapping[str, str]) -> Analysis:
        """A new analysis with its folder, not yet in the queue; a `UserError` where too many wait already."""
        if self.busy >= self.limits.waiting + self.limits.running:
            raise UserError("the server is busy; try again in a minute")
        identifier = secrets.token_urlsafe(16)
        folder = self.root / identifier
        (folder / "results").mkdir(parents=True)
        analysis = Analysis(identifier, kind, name, folder, options)
        self.known[identifier] = analysis
        return analysis

    def start(self, analysis: Analysis) -> None:
        """Put it into the queue, once its upload is complete."""
        self.queue.put_nowait(analysis)

    def find(self, identifier: str) -> Analysis | None:
        """The analysis of that name; asking for it renews its lease."""
        analysis = self.known.get(identifier)
        if analysis is not None:
            analysis.seen = time.monotonic()
        return analysis

    def drop(self, identifier: str) -> None:
        """Cancel an analysis and remove all that belongs to it."""
        analysis = self.known.get(identifier)
        if analysis is None:
            return
        running = analysis.state == "running"
        self._cancel(analysis)
        if not running:  # otherwise its process is still writing: the janitor removes it
            self._remove(identifier)

    async def _work(self) -> None:
        while (analysis := await self.queue.get()) is not None:
            if analysis.state != "waiting":
                continue
            analysis.state = "running"
            try:
                await asyncio.to_thread(self._process, analysis)
            except OSError as error:
                _end(analysis, "failed", f"the server could not start the analysis ({error.strerror})")

    def _prepare(self) -> None:
        """Import what analyses need before the first one comes: it takes seconds."""
        process = self.processes.Process(target=prepare, daemon=True)
        process.start()
        process.join()

    def _process(self, analysis: Analysis) -> None:
        """Run the analysis to its end, or kill its process when it is cancelled or takes too long."""
        receiver, sender = self.processes.Pipe(duplex=False)
        process = self.processes.Process(
            target=perform,
            args=(analysis.kind, analysis.name, str(analysis.folder), dict(analysis.options), sender),
            kwargs={"most_bytes": self.limits.analysis_bytes},
            daemon=True,
        )
        process.start()
        sender.close()
        deadline = time.monotonic() + self.limits.analysis_seconds
        try:
            while analysis.state == "running" and _listen(receiver, analysis):
                if time.monotonic() > deadline:
                    _end(analysis, "failed", f"it took longer than {self.limits.analysis_seconds:g} s")
        finally:
            process.kill()
            process.join()
            process.close()
            receiver.close()
            done = analysis.state == "done"
            shutil.rmtree(analysis.folder / "source" if done else analysis.folder, ignore_errors=True)

    async def _clean(self) -> None:
        """Cancel what nobody waits for any more, and remove what nobody has asked for."""
        while True:
            await asyncio.sleep(1.0)
            now = time.monotonic()
            for identifier, analysis in list(self.known.items()):
                idle = now - analysis.seen
                if not analysis.ended and idle > self.limits.lease_seconds:
                    self._cancel(analysis)
                elif analysis.state == "cancelled" or (analysis.ended and idle > self.limits.keep_seconds):
                    await asyncio.to_thread(self._remove, identifier)

    def _cancel(self, analysis: Analysis) -> None:
        if not analysis.ended:
            _end(analysis, "cancelled", "cancelled")

    def _remove(self, identifier: str) -> None:
        analysis = self.known.pop(identifier, None)
        if analysis is not None:
            shutil.rmtree(analysis.folder, ignore_errors=True)


def _listen(receiver: Connection, analysis: Analysis) -> bool:
    """Take what the process has to say; False when it has ended."""
    with suppress(EOFError, OSError):
        if not receiver.poll(POLL):
            return True
        state, value = json.loads(receiver.recv_bytes())
        if analysis.ended:
            return False
        if state == "progress":
            analysis.progress = float(value)
            return True
        _end(analysis, state, str(value))
        return False
    if not analysis.ended:
        _end(analysis, "failed", "the analysis ended unexpectedly, perhaps for lack of memory")
    return False


def _end(analysis: Analysis, state: State, message: str) -> None:
    analysis.state, analysis.message = state, message
    if state == "done":
        analysis.progress = 1.0
