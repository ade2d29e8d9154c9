"""Who may ask: no other site through a visitor's browser, and no name that merely resolves to this machine."""

from collections.abc import Iterable
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["LOCAL_HOSTS", "Guard"]

LOCAL_HOSTS = ("127.0.0.1", "localhost", "::1")

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
        "media-src 'self' data: blob:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'self'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class Guard:
    """ASGI middleware that refuses foreign hosts and origins, and adds headers that confine the page.

    The `Host` must be one of `hosts`, which stops DNS rebinding. An `Origin`, which browsers send with every
    request that changes something and with every WebSocket, must be that host.

    Args:
        app: The application behind it.
        hosts: Names under which the server may be called, without ports.
    """

    def __init__(self, app: ASGIApp, hosts: Iterable[str] = LOCAL_HOSTS) -> None:
        self.app = app
        self.hosts = frozenset(host.strip("[]").lower() for host in hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer with a refusal, or pass the request on."""
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        refusal = self.refusal(Headers(scope=scope))
        if refusal is None:
            await self.app(scope, receive, _with_headers(send))
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008, "reason": refusal})
        else:
            await JSONResponse({"error": refusal}, status_code=403)(scope, receive, send)

    def refusal(self, headers: Headers) -> str | None:
        """Why a request with these headers is refused, in one sentence; None if it is not."""
        host = headers.get("host", "")
        if _hostname(f"//{host}") not in self.hosts:
            return "this server is not known by that name; start it with --allow-host NAME"
        origin = headers.get("origin")
        if origin is not None and _place(origin) != host.lower():
            return "requests from other sites are refused"
        if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            return "requests from other sites are refused"
        return None


def _hostname(address: str) -> str | None:
    try:
        return urlsplit(address).hostname
    except ValueError:
        return None


def _place(origin: str) -> str | None:
    """Host and port; nothing of an address that is none."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return None


def _with_headers(send: Send) -> Send:
    async def wrapped(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
        await send(message)

    return wrapped
