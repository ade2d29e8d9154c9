"""Live sound on the page: one analysis in a process of its own, its lines sent to every page that follows."""

import asyncio
import json
import os
import sys
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Literal

import anyio
from starlette.websockets import WebSocket, WebSocketDisconnect

__all__ = ["Live", "LiveSource"]

HISTORY = 600
"""Lines that a page is given when it opens: a minute."""

BACKLOG = 100
"""Lines that may wait for one page: ten seconds. A page that is further behind is let go, and connects again."""

KILLED = "the analysis ended unexpectedly, perhaps for lack of memory"

TRY_AGAIN = 1013
"""The code that closes a WebSocket for now."""


@dataclass(frozen=True)
class LiveSource:
    """Where live sound comes from: a device, or the standard input of the server.

    Args:
        rate: Of the sound, in hertz.
        convention: Of its four channels.
        device: Name or number of a device; the standard input if `None`.
    """

    rate: int = 48000
    convention: str = "acn-sn3d"
    device: str | None = None

    @property
    def command(self) -> list[str]:
        """The command that prints a line of JSON for each output frame."""
        words = ["localize", "--live", "--rate", str(self.rate), "--format", self.convention]
        device = [] if self.device is None else ["--device", self.device]
        return [sys.executable, "-m", "torchmcl", *words, *device]


class _Follower:
    """One page, and the lines that wait for it."""

    def __init__(self, socket: WebSocket) -> None:
        self.socket = socket
        self.waiting: asyncio.Queue[str] = asyncio.Queue(BACKLOG)
        self.scope = anyio.CancelScope()
        self.slow = False

    def take(self, line: str) -> None:
        """Keep a line for the page, or give the page up where too many wait."""
        try:
            self.waiting.put_nowait(line)
        except asyncio.QueueFull:
            self.slow = True
            self.scope.cancel()

    async def run(self) -> None:
        """Send what waits until the page goes or is given up."""
        with self.scope:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._send)
                await self._until_gone()
                tasks.cancel_scope.cancel()

    async def _send(self) -> None:
        with suppress(WebSocketDisconnect):
            while True:
                await self.socket.send_text(await self.waiting.get())

    async def _until_gone(self) -> None:
        """A page has nothing to say but that it leaves."""
        while (await self.socket.receive())["type"] != "websocket.disconnect":
            pass


class Live:
    """A live analysis and the pages that follow it; no page can delay it.

    Args:
        command: Prints lines of JSON; it inherits the standard input.
        pages: Pages that may follow at the same time.
    """

    def __init__(self, command: Sequence[str], pages: int) -> None:
        self.command = list(command)
        self.pages = pages
        self.lines: deque[str] = deque(maxlen=HISTORY)
        self.followers: set[_Follower] = set()
        self.state: Literal["starting", "running", "ended"] = "starting"
        self.message = ""

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Analyze while the block runs."""
        task = asyncio.create_task(self._follow_command())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def publish(self, line: str) -> None:
        """Hand a line to every page, without waiting for any of them."""
        for follower in self.followers:
            follower.take(line)

    async def follow(self, socket: WebSocket) -> None:
        """Send a page the last minute and then every line, until it goes or is too slow.

        Args:
            socket: Of the page, not yet accepted.
        """
        await socket.accept()
        if len(self.followers) >= self.pages:
            await socket.close(TRY_AGAIN, f"{self.pages} pages follow the live sound already")
            return
        follower = _Follower(socket)
        follower.take(self._greeting())
        self.followers.add(follower)
        try:
            await follower.run()
        finally:
            self.followers.discard(follower)
        if follower.slow:
            with suppress(RuntimeError, WebSocketDisconnect):
                await socket.close(TRY_AGAIN, "the page was too slow")

    def _greeting(self) -> str:
        """The state and the last minute; the page forgets what it had."""
        lines = ",".join(self.lines)
        state = json.dumps({"state": self.state, "message": self.message})
        return f'{state[:-1]}, "history": [{lines}]}}'

    def _tell(self, state: Literal["running", "ended"], message: str = "") -> None:
        self.state, self.message = state, message
        self.publish(json.dumps({"state": state, "message": message}))

    async def _follow_command(self) -> None:
        """Pages are told of an analysis that does not start, or that prints what is no line."""
        try:
            await self._analyze()
        except (OSError, ValueError) as error:
            self._tell("ended", f"the analysis cannot be followed ({error})")

    async def _analyze(self) -> None:
        """Run the command to its end and publish what it prints."""
        process = await asyncio.create_subprocess_exec(
            *self.command,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            start_new_session=True,  # Ctrl-C ends the server, and the server ends the analysis
        )
        assert process.stdout is not None
        assert process.stderr is not None
        complaints = asyncio.create_task(_last_line(process.stderr))
        try:
            async for line in process.stdout:
                if self.state == "starting":
                    self._tell("running")
                text = line.decode().strip()
                self.lines.append(text)
                self.publish(text)
            said, code = await complaints, await process.wait()
            self._tell(
                "ended", (said.removeprefix("torchmcl: ") or KILLED) if code else "the sound has ended"
            )
        finally:
            complaints.cancel()
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()


async def _last_line(stream: asyncio.StreamReader) -> str:
    """What was said last before the end; the server's own standard error has it as well."""
    said = ""
    async for line in stream:
        sys.stderr.buffer.write(line)
        sys.stderr.flush()
        said = line.decode(errors="replace").strip() or said
    return said
