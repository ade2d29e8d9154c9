"""The server: uploads become analyses, analyses become files and a page that shows them."""

import asyncio
import socket
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import FastAPI, HTTPException, Query, Request, WebSocket
from fastapi.responses import FileResponse, HTMLResponse, JSONResponse, Response
from starlette.requests import ClientDisconnect

import torchmcl
from torchmcl.errors import UserError
from torchmcl.runs.jobs import check_sockets
from torchmcl.web.analyses import Analyses, Analysis
from torchmcl.web.guard import LOCAL_HOSTS, Guard
from torchmcl.web.limits import Limits, media_type
from torchmcl.web.live import Live, LiveSource
from torchmcl.web.uploads import check_length, disk_name, display_name, receive
from torchmcl.web.work import KINDS, example_recording

__all__ = ["create_app", "serve"]

Kind = Literal["recordings", "tables", "predictions", "tracks"]

CONFINED = (
    "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
    "img-src data:; media-src data:"
)
"""The policy of files that analyses wrote: pages among them may run their own script, and reach nothing."""

DESCRIPTION = """Upload a recording, a table or tracks, follow its progress, fetch the result.

1. `POST /api/recordings?name=concert.wav` with the file as the body answers with an `id`.
2. `GET /api/analyses/{id}` tells state and progress. Ask at least every 20 seconds, or the analysis is cancelled.
3. `GET /api/analyses/{id}/files/{name}` gives each of the `files` that it lists.
4. `DELETE /api/analyses/{id}` removes everything.

Where the server was started with `--live`, the WebSocket `/api/live` sends the last minute in one message and then a
line of JSON for each 100 ms: time, probabilities of the number of sources, and sources with their tracks.
"""


def create_app(
    limits: Limits | None = None, hosts: Sequence[str] = LOCAL_HOSTS, live: LiveSource | None = None
) -> FastAPI:
    """The application, without a port.

    Args:
        limits: Bounds on what it accepts; the defaults if `None`.
        hosts: Names under which it may be called.
        live: Live sound to show, if any.

    Returns:
        A FastAPI application, with its documentation at `/docs`.
    """
    check_sockets()
    bounds = limits or Limits()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        with tempfile.TemporaryDirectory(prefix="torchmcl-serve-") as root:
            app.state.analyses = Analyses(Path(root), bounds)
            app.state.uploads = asyncio.Semaphore(bounds.uploads)
            async with app.state.analyses.running(), _running(app.state.live):
                yield

    app = FastAPI(
        title="torchmcl", version=torchmcl.__version__, description=DESCRIPTION, lifespan=lifespan,
        docs_url=None, redoc_url=None,
    )  # fmt: skip
    app.state.live = None if live is None else Live(live.command, bounds.live)
    app.add_middleware(Guard, hosts=hosts)
    app.add_exception_handler(UserError, _refuse)
    app.add_exception_handler(ClientDisconnect, _part)
    app.add_exception_handler(OSError, _fail)
    _add_pages(app)
    _add_api(app, bounds)
    if live is not None:
        _add_live(app)
    return app


def serve(
    host: str,
    port: int,
    *,
    allow_hosts: Sequence[str] = (),
    limits: Limits | None = None,
    live: LiveSource | None = None,
) -> None:
    """Serve until interrupted.

    Args:
        host: The address to bind to.
        port: The port; 0 for any that is free.
        allow_hosts: Further names of the server, as a reverse proxy passes them on.
        limits: Bounds on what it accepts.
        live: Live sound to show, if any.
    """
    from torchmcl.web.connections import run

    with tempfile.TemporaryDirectory():  # fails here in a sentence, and later in a log
        pass
    port = _free_port(host, port)
    print(f"http://{'[' + host + ']' if ':' in host else host}:{port} (Ctrl-C ends it)", flush=True)
    run(create_app(limits, (*LOCAL_HOSTS, host, *allow_hosts), live), host, port)


def _free_port(host: str, port: int) -> int:
    """The port, or a free one in place of 0; a `UserError` where the server could not listen there."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as trial:
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            trial.bind(address)
            return int(trial.getsockname()[1])
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "is no name of a host"
        raise UserError(f"--host {host} --port {port}: cannot listen there ({reason})") from None


async def _refuse(request: Request, error: Exception) -> Response:
    return JSONResponse({"error": str(error)}, status_code=400)


async def _part(request: Request, error: Exception) -> Response:
    """Nobody is there to read it: a sender that hangs up is no error of the server."""
    return Response(status_code=400)


async def _fail(request: Request, error: Exception) -> Response:
    """The disk is full, or the temporary folder of the server was removed."""
    reason = getattr(error, "strerror", None) or str(error)
    return JSONResponse({"error": f"the server could not keep its files ({reason})"}, status_code=507)


def _add_pages(app: FastAPI) -> None:
    static = files("torchmcl.web") / "static"

    @app.get("/", include_in_schema=False)
    async def index() -> Response:
        return HTMLResponse((static / "index.html").read_text(encoding="utf-8"))

    @app.get("/docs", include_in_schema=False)
    async def docs() -> Response:
        return HTMLResponse((static / "docs.html").read_text(encoding="utf-8"))

    @app.get("/static/{name}", include_in_schema=False)
    async def asset(
        name: Literal["style.css", "viewer.js", "app.js", "live.js", "docs.js", "recorder.js"],
    ) -> Response:
        kind = "text/css" if name.endswith(".css") else "text/javascript"
        return Response((static / name).read_bytes(), media_type=kind)


def _add_api(app: FastAPI, limits: Limits) -> None:
    @app.get("/api/limits")
    async def show_limits(request: Request) -> dict[str, Any]:
        """What the server accepts, and how many analyses run or wait."""
        return {
            "doors": [*KINDS, *(["live"] if app.state.live else [])],
            "upload_bytes": limits.upload_bytes,
            "lease_seconds": limits.lease_seconds,
            "busy": _analyses(request).busy,
        }

    @app.post("/api/example", status_code=202)
    async def example(request: Request) -> dict[str, Any]:
        """Analyze the bundled recording."""
        source = example_recording()
        with _opened(_analyses(request), "recordings", source.name, {}) as analysis:
            _source(analysis).write_bytes(source.read_bytes())
        return analysis.status()

    @app.post("/api/{kind}", status_code=202)
    async def upload(
        request: Request,
        kind: Kind,
        name: Annotated[str, Query(max_length=300)] = "upload",
        target: Annotated[list[str] | None, Query(max_length=20)] = None,
        model: Annotated[str, Query(max_length=64)] = "",
        format: Annotated[str, Query(max_length=20)] = "",
    ) -> dict[str, Any]:
        """Upload a file as the body of the request and start its analysis.

        `name` is for display. `target` names the columns to predict (tables), `model` the analysis whose model
        predicts (predictions), `format` the convention of the channels (recordings).
        """
        analyses: Analyses = _analyses(request)
        check_length(request.headers.get("content-length"), limits, analyses.root)
        options = {"targets": "\n".join(target or []), "format": format}
        if kind == "predictions":
            options["model"] = str(_found(request, model).results / "model")
        if request.app.state.uploads.locked():
            raise UserError("the server is busy; try again in a minute")
        async with request.app.state.uploads:
            with _opened(analyses, kind, display_name(name), options) as analysis:
                await receive(_body(request, analyses, analysis), _source(analysis), limits)
        return analysis.status()

    @app.get("/api/analyses/{id}")
    async def status(request: Request, id: str) -> dict[str, Any]:
        """State (waiting, running, done, failed, cancelled), progress from 0 to 1, and the files of a result."""
        return _found(request, id).status()

    @app.get("/api/analyses/{id}/files/{name}")
    async def result(request: Request, id: str, name: str) -> Response:
        """One file of a result."""
        analysis = _found(request, id)
        if name not in analysis.status()["files"]:
            raise HTTPException(404, "no such file")
        path = analysis.results / name
        return FileResponse(path, media_type=media_type(path), headers={"Content-Security-Policy": CONFINED})

    @app.delete("/api/analyses/{id}", status_code=204)
    async def remove(request: Request, id: str) -> None:
        """Cancel an analysis and remove all that belongs to it."""
        _analyses(request).drop(id)


def _add_live(app: FastAPI) -> None:
    @app.websocket("/api/live")
    async def follow(socket: WebSocket) -> None:
        await app.state.live.follow(socket)


@asynccontextmanager
async def _running(live: Live | None) -> AsyncIterator[None]:
    if live is None:
        yield
        return
    async with live.running():
        yield


@contextmanager
def _opened(analyses: Analyses, kind: Kind, name: str, options: Mapping[str, str]) -> Iterator[Analysis]:
    """A new analysis that starts when the block ends; nothing of it is left where the block fails."""
    analysis = analyses.open(kind, name, options)
    try:
        yield analysis
    except BaseException:
        analyses.drop(analysis.id)
        raise
    analyses.start(analysis)


def _analyses(request: Request) -> Analyses:
    return request.app.state.analyses


def _found(request: Request, identifier: str) -> Analysis:
    analysis = _analyses(request).find(identifier)
    if analysis is None:
        raise HTTPException(
            404, "no such analysis: results are removed some time after they were last looked at"
        )
    return analysis


async def _body(request: Request, analyses: Analyses, analysis: Analysis) -> AsyncIterator[bytes]:
    """The body of the request; each part of it renews the lease."""
    async for part in request.stream():
        analyses.find(analysis.id)
        yield part


def _source(analysis: Analysis) -> Path:
    """Where the upload goes."""
    folder = analysis.folder / "source"
    folder.mkdir()
    return folder / disk_name(analysis.name)
