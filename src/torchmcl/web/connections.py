"""How the server listens: connections that send no request are closed, and one Ctrl-C ends it in order."""

import asyncio
import logging
from contextlib import suppress
from types import FrameType
from typing import Any

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from torchmcl.errors import UserError

__all__ = ["Connection", "Server", "run"]

PATIENCE = 15.0
"""Seconds after which a connection without a request is closed; at most twice as long after an earlier one."""


class Connection(H11Protocol):
    """A connection that is closed where it keeps the server waiting: without this, some hundred of them occupy it."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request."""
        super().connection_made(transport)
        self.seen: Any = None
        self.watch = self.loop.call_later(PATIENCE, self._check)

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no longer."""
        self.watch.cancel()
        super().connection_lost(exc)

    def _check(self) -> None:
        """Close it where no request has come since the last look and none is being answered."""
        if self.transport.get_protocol() is not self:  # it became a WebSocket
            return
        waits = self.cycle is None or self.cycle.response_complete
        if waits and self.cycle is self.seen:
            self.transport.close()
        else:
            self.seen = self.cycle
            self.watch = self.loop.call_later(PATIENCE, self._check)


class Server(uvicorn.Server):
    """A server that a second Ctrl-C does not interrupt while it removes its files; that takes seconds at most."""

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to end."""
        if not self.should_exit:
            super().handle_exit(sig, frame)


def run(app: FastAPI, host: str, port: int) -> None:
    """Serve until interrupted.

    Args:
        app: The application.
        host: The address to bind to.
        port: The port.
    """
    config = uvicorn.Config(
        app,
        host=host,
        port=port,
        http=Connection,
        log_level="warning",
        limit_concurrency=200,
        timeout_keep_alive=10,
        timeout_graceful_shutdown=2,
        ws_max_size=4096,
    )
    server = Server(config)
    logging.getLogger("uvicorn.error").addFilter(_is_news)
    try:
        with suppress(KeyboardInterrupt):
            server.run()
    except SystemExit:
        raise UserError(f"--host {host} --port {port}: cannot listen there") from None
    if not server.started:
        raise UserError("the server could not begin; what it printed says why")


def _is_news(record: logging.LogRecord) -> bool:
    """Whether a record is printed: that the end of the server ended a request is no error with a traceback."""
    return not (record.exc_info and isinstance(record.exc_info[1], asyncio.CancelledError))
