"""The command for the page: `serve`."""

from typing import Annotated

import typer

__all__ = ["COMMANDS", "serve"]


def serve(
    port: Annotated[int, typer.Option(help="Port of the page.", min=0, max=65535)] = 8000,
    host: Annotated[
        str, typer.Option(help="Address to bind to; the default is reached from this machine only.")
    ] = "127.0.0.1",
    allow_host: Annotated[
        list[str] | None, typer.Option(help="A further name of the server, for a reverse proxy.")
    ] = None,
) -> None:
    """Serve a page: drop a recording, a table or tracks, and look at the answers.

    Example: `torchmcl serve --port 8000`

    Writes nothing; uploads and results are kept in a temporary folder and removed. There is no authentication.

    Read more: docs/howto/serve.md
    """
    from torchmcl.web.server import serve as go

    print(f"http://{'[' + host + ']' if ':' in host else host}:{port} (Ctrl-C ends it)", flush=True)
    go(host, port, allow_hosts=allow_host or [])


COMMANDS = (serve,)
