"""Connections that never ask for anything, and how the server begins and ends."""

import asyncio
import logging
import signal
import socket
import tempfile
from contextlib import suppress

import pytest
import uvicorn
from starlette.responses import PlainTextResponse
from starlette.websockets import WebSocket
from uvicorn.server import ServerState
from websockets.asyncio.client import connect

from torchmcl.errors import UserError
from torchmcl.web import connections
from torchmcl.web.server import create_app, serve

REQUEST = b"GET / HTTP/1.1\r\nHost: here\r\n"


async def app(scope, receive, send):
    """Answers after a while."""
    if scope["type"] == "websocket":
        page = WebSocket(scope, receive, send)
        await page.accept()
        await asyncio.sleep(0.3)
        await page.send_text("late")
        return
    await asyncio.sleep(0.3)
    await PlainTextResponse("late")(scope, receive, send)


async def with_server(ask):
    """What a client is given by a server that waits for a tenth of a second."""
    config, state = uvicorn.Config(app, log_level="critical"), ServerState()
    config.load()
    loop = asyncio.get_running_loop()
    async with await loop.create_server(
        lambda: connections.Connection(config, state, {}), "127.0.0.1", 0
    ) as server:
        return await asyncio.wait_for(ask(server.sockets[0].getsockname()[1]), 5)


@pytest.mark.parametrize(
    "sent", [[], [b"GET"], [REQUEST, *[b"X: 1\r\n"] * 1000], [REQUEST + b"\r\n", b"GET"]]
)
def test_a_connection_that_keeps_the_server_waiting_is_closed(sent, monkeypatch):
    monkeypatch.setattr(connections, "PATIENCE", 0.1)

    async def ask(port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)

        async def trickle():
            with suppress(ConnectionError):
                for part in sent:
                    writer.write(part)
                    await writer.drain()
                    await asyncio.sleep(0.02)

        trickling = asyncio.create_task(trickle())
        with suppress(ConnectionError):
            await reader.read()
        trickling.cancel()
        writer.close()

    asyncio.run(with_server(ask))


def test_slow_answers_and_web_sockets_are_waited_for(monkeypatch):
    monkeypatch.setattr(connections, "PATIENCE", 0.1)

    async def ask(port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(REQUEST + b"\r\n")
        answer = await reader.readuntil(b"late")
        writer.close()
        async with connect(f"ws://127.0.0.1:{port}") as page:
            return answer, await page.recv()

    answer, message = asyncio.run(with_server(ask))
    assert answer.startswith(b"HTTP/1.1 200")
    assert message == "late"


def test_a_second_interruption_does_not_disturb_the_end():
    server = connections.Server(uvicorn.Config(app))
    for _ in range(2):
        server.handle_exit(signal.SIGINT, None)
    assert server.should_exit
    assert not server.force_exit


def test_a_request_that_the_end_of_the_server_ends_is_no_error(monkeypatch, capsys):
    def run(self):
        log = logging.getLogger("uvicorn.error")
        for error in (asyncio.CancelledError("cut"), ValueError("real")):
            log.error("a request failed", exc_info=error)
        self.started = True

    monkeypatch.setattr(connections.Server, "run", run)
    connections.run(create_app(), "127.0.0.1", 0)
    said = capsys.readouterr().err
    assert "real" in said
    assert "cut" not in said


def test_an_address_that_is_taken_in_between_is_one_sentence():
    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        pytest.raises(UserError, match="cannot listen there"),
    ):
        connections.run(create_app(), "127.0.0.1", taken.getsockname()[1])


def test_a_server_without_a_temporary_folder_does_not_begin(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "removed"))
    with pytest.raises(FileNotFoundError):
        serve("127.0.0.1", 0)


def test_the_address_that_is_printed_is_the_one_that_is_served(monkeypatch, capsys):
    served = []
    monkeypatch.setattr(connections, "run", lambda app, host, port: served.append(port))
    serve("127.0.0.1", 0)
    assert served[0] > 0
    assert capsys.readouterr().out.startswith(f"http://127.0.0.1:{served[0]} ")
