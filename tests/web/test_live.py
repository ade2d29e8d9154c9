"""Live sound on the page: who may follow it, what they get, and that nobody can hold it up."""

import asyncio
import json
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest
from fastapi.testclient import TestClient
from starlette.websockets import WebSocket, WebSocketDisconnect

from torchmcl.errors import UserError
from torchmcl.web.limits import Limits
from torchmcl.web.live import BACKLOG, HISTORY, Live, LiveSource
from torchmcl.web.server import create_app

COUNTING = """
import json, sys, time
for number in range(3):
    print(json.dumps({"time": number / 10, "counts": [1, 0, 0, 0], "sources": []}), flush=True)
time.sleep(60)
"""


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Iterator[TestClient]:
    """Of a server whose live source prints three lines and goes on."""
    monkeypatch.setattr(LiveSource, "command", [sys.executable, "-c", COUNTING])
    app = create_app(Limits(live=1), live=LiveSource())
    with TestClient(app, base_url="http://127.0.0.1") as made:
        yield made


def test_a_page_is_given_what_was_said_before_and_after_it_came(client):
    assert "live" in client.get("/api/limits").json()["doors"]
    heard: list[dict[str, Any]] = []
    with client.websocket_connect("ws://127.0.0.1/api/live") as socket:
        while len(heard) < 3:
            message = socket.receive_json()
            heard += message.get("history", [] if "state" in message else [message])
        with client.websocket_connect("ws://127.0.0.1/api/live") as second:
            assert second.receive()["code"] == 1013  # no more than one, as the limit says
    assert [line["time"] for line in heard] == [0.0, 0.1, 0.2]
    with client.websocket_connect("ws://127.0.0.1/api/live") as socket:
        greeting = socket.receive_json()
    assert greeting["state"] == "running"
    assert greeting["history"] == heard


@pytest.mark.parametrize(
    "headers",
    [
        {"host": "evil.example"},
        {"host": "127.0.0.1.evil.example", "origin": "http://127.0.0.1.evil.example"},
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:9"},
        {"sec-fetch-site": "cross-site"},
    ],
    ids=str,
)
def test_other_sites_and_other_names_cannot_follow(client, headers):
    with (
        pytest.raises(WebSocketDisconnect),
        client.websocket_connect("ws://127.0.0.1/api/live", headers=headers),
    ):
        pass
    assert not client.app.state.live.followers


def test_the_page_itself_may_follow(client):
    own = {"origin": "http://127.0.0.1"}
    with client.websocket_connect("ws://127.0.0.1/api/live", headers=own) as socket:
        assert "history" in socket.receive_json()


def test_without_live_sound_there_is_nothing_to_follow():
    with TestClient(create_app(), base_url="http://127.0.0.1") as made:
        assert "live" not in made.get("/api/limits").json()["doors"]
        with pytest.raises(WebSocketDisconnect), made.websocket_connect("ws://127.0.0.1/api/live"):
            pass


class Socket(WebSocket):
    """A page that takes so many messages and then no more."""

    def __init__(self, takes: float) -> None:
        super().__init__({"type": "websocket", "headers": []}, self.receive, self.send_json)
        self.takes, self.closed = takes, 0
        self.got: list[str] = []

    async def accept(self) -> None: ...

    async def send_text(self, text: str) -> None:
        if len(self.got) >= self.takes:
            await asyncio.Event().wait()
        self.got.append(text)

    async def receive(self) -> dict[str, Any]:
        await asyncio.Event().wait()
        return {}

    async def close(self, code: int, reason: str) -> None:
        self.closed = code


def test_a_slow_page_is_let_go_and_delays_nobody():
    async def scene() -> tuple[Socket, Socket, float]:
        stream = Live([], pages=5)
        slow, quick = Socket(takes=2), Socket(takes=float("inf"))
        pages = [asyncio.create_task(stream.follow(each)) for each in (slow, quick)]
        await asyncio.sleep(0)
        longest = 0.0
        for number in range(3 * BACKLOG):
            began = time.perf_counter()
            stream.publish(str(number))
            longest = max(longest, time.perf_counter() - began)
            await asyncio.sleep(0)
        await asyncio.wait(pages, timeout=1, return_when=asyncio.FIRST_COMPLETED)
        assert len(stream.followers) == 1
        for page in pages:
            page.cancel()
        await asyncio.gather(*pages, return_exceptions=True)
        return slow, quick, longest

    slow, quick, longest = asyncio.run(scene())
    assert slow.closed == 1013
    assert quick.closed == 0
    assert quick.got[1:] == [str(number) for number in range(3 * BACKLOG)]
    assert longest < 0.1


def test_history_is_bounded():
    async def scene() -> Live:
        many = f"for i in range({HISTORY + 50}): print(i)"
        stream = Live([sys.executable, "-c", many], pages=1)
        async with stream.running():
            while stream.state != "ended":
                await asyncio.sleep(0.01)
        return stream

    stream = asyncio.run(scene())
    assert list(stream.lines) == [str(number) for number in range(50, HISTORY + 50)]
    assert stream.message == "the sound has ended"


def test_a_failed_source_is_told_in_its_own_words(capfd):
    async def scene() -> Live:
        words = [sys.executable, "-c", "import sys; sys.exit('torchmcl: --rate is 3 Hz')"]
        stream = Live(words, pages=1)
        async with stream.running():
            while stream.state != "ended":
                await asyncio.sleep(0.01)
        return stream

    assert asyncio.run(scene()).message == "--rate is 3 Hz"
    assert "--rate is 3 Hz" in capfd.readouterr().err


KILLED, LONG = "import os; os.kill(os.getpid(), 9)", "print('x' * 10**6)"


@pytest.mark.parametrize(
    "command", [["/nowhere/python"], [sys.executable, "-c", LONG], [sys.executable, "-c", KILLED]]
)
def test_a_source_that_cannot_be_followed_has_ended(command):
    async def listen():
        live = Live(command, 1)
        async with live.running():
            end = time.monotonic() + 10
            while live.state != "ended" and time.monotonic() < end:
                await asyncio.sleep(0.01)
        return live.state, live.message

    state, message = asyncio.run(listen())
    assert state == "ended"
    assert message


def test_the_command_of_a_source_is_one_that_exists():
    from typer.main import get_command

    from torchmcl.cli import app as commands

    words = LiveSource(44100, "fuma", "array").command
    assert words[:3] == [sys.executable, "-m", "torchmcl"]
    localize = get_command(commands).commands["localize"]  # type: ignore[attr-defined]
    given = localize.make_context("localize", words[4:]).params
    assert (given["live"], given["rate"], given["convention"], given["device"]) == (
        True,
        44100,
        "fuma",
        "array",
    )


def test_a_terminal_is_no_source(monkeypatch):
    from torchmcl.cli.web import serve

    monkeypatch.setattr("sys.stdin", type("Terminal", (), {"isatty": lambda self: True})())
    with pytest.raises(UserError, match="pipe it in"):
        serve(live=True)
    with pytest.raises(UserError, match="say --live"):
        serve(device="array")


def test_a_greeting_is_one_message_of_json():
    stream = Live([], pages=1)
    stream.lines.extend(['{"time": 0.0}', '{"time": 0.1}'])
    said = json.loads(stream._greeting())
    assert said == {"state": "starting", "message": "", "history": [{"time": 0.0}, {"time": 0.1}]}
