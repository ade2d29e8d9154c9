"""A client without manners: it sends what it likes, and reads what it can get."""

import http.client
import json
import socket
import time
import urllib.parse
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from benchmarks.uploads.files import Body

__all__ = ["Client", "Ending"]


@dataclass(frozen=True)
class Ending:
    """How an upload ended.

    Args:
        how: `refused` with a status of 4xx, `failed`, `cancelled` or `done` after an analysis, `lost` without an
            answer, or `broken` with a status of 5xx.
        sentence: What the server said.
        identifier: Of the analysis, if one was begun.
    """

    how: str
    sentence: str
    identifier: str = ""


class Client:
    """Talks to a server on this machine.

    Args:
        port: Of the server.
    """

    def __init__(self, port: int) -> None:
        self.port = port

    def ask(self, path: str, method: str = "GET") -> tuple[int, Any]:
        """Status and JSON of an answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(method, path)
            answer = connection.getresponse()
            content = answer.read()
            return answer.status, json.loads(content) if content[:1] in b"[{" and content else content
        finally:
            connection.close()

    def upload(self, kind: str, name: str, body: Body, query: str = "", *, seconds: float = 1900) -> Ending:
        """Send a file and follow its analysis to the end."""
        words = urllib.parse.urlencode({"name": name}) + query
        pieces = body() if callable(body) else body
        status, said = self.post(f"/api/{kind}?{words}", pieces)
        if status != 202:
            return _refusal(status, said)
        return self.follow(said["id"], seconds)

    def follow(self, identifier: str, seconds: float = 1900) -> Ending:
        """Ask for an analysis until it has ended."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            _, status = self.ask(f"/api/analyses/{identifier}")
            if status["state"] in ("done", "failed", "cancelled"):
                return Ending(status["state"], status["message"], identifier)
            time.sleep(0.1)
        return Ending("lost", f"no end within {seconds:g} s", identifier)

    def raw(self, *pieces: bytes | float) -> Ending:
        """Send bytes as they are; numbers are seconds to wait."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=60) as connection:
            with suppress(OSError):
                for piece in pieces:
                    if isinstance(piece, bytes):
                        connection.sendall(piece)
                    else:
                        time.sleep(piece)
            answer = http.client.HTTPResponse(connection)
            try:
                answer.begin()
                return _refusal(answer.status, _json(answer.read()))
            except (OSError, http.client.HTTPException) as error:
                return Ending("lost", repr(error))

    def post(self, path: str, body: bytes | Iterable[bytes]) -> tuple[int, Any]:
        """Status and JSON of the answer to an upload; 0 where there is none."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            # The server may answer and close before everything was sent.
            with suppress(BrokenPipeError, ConnectionResetError):
                connection.request("POST", path, body, encode_chunked=not isinstance(body, bytes))
            answer = connection.response_class(connection.sock, method="POST")
            answer.begin()
            return answer.status, _json(answer.read())
        except (OSError, http.client.HTTPException) as error:
            return 0, {"error": repr(error)}
        finally:
            connection.close()


def _json(content: bytes) -> Any:
    try:
        return json.loads(content)
    except ValueError:
        return {"error": content.decode(errors="replace")}


def _refusal(status: int, said: Any) -> Ending:
    sentence = said.get("error") or said.get("detail") or ""
    if isinstance(sentence, list):
        sentence = "; ".join(each["msg"] for each in sentence)
    how = "refused" if 400 <= status < 500 else "lost" if status == 0 else "broken"
    return Ending(how, str(sentence))
