"""The command for the page: `serve`."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from torchmcl.errors import UserError

if TYPE_CHECKING:
    from torchmcl.web.live import LiveSource

__all__ = ["COMMANDS", "serve"]


def serve(
    port: Annotated[int, typer.Option(help="Port of the page.", min=0, max=65535)] = 8000,
    host: Annotated[
        str, typer.Option(help="Address to bind to; the default is reached from this machine only.")
    ] = "127.0.0.1",
    allow_host: Annotated[
        list[str] | None, typer.Option(help="A further name of the server, for a reverse proxy.")
    ] = None,
    live: Annotated[
        bool,
        typer.Option("--live", help="Show live sound: 32-bit floats of four channels from standard input."),
    ] = False,
    rate: Annotated[int, typer.Option(help="Sample rate of the live sound in hertz.")] = 48000,
    convention: Annotated[
        str, typer.Option("--format", help="Of the live sound: `acn-n3d`, `acn-sn3d` or `fuma`.")
    ] = "acn-sn3d",
    device: Annotated[
        str | None, typer.Option(help="With --live: a sound device in place of standard input.")
    ] = None,
) -> None:
    """Serve a page: drop a recording, a table or tracks, and look at the answers; or follow live sound.

    Example: `torchmcl serve --port 8000`

    Example: `arecord --channels 4 --rate 48000 --format FLOAT_LE | torchmcl serve --live`

    Writes nothing; uploads and results are kept in a temporary folder and removed. There is no authentication.

    Read more: docs/howto/serve.md
    """
    source = _live_source(rate, convention, device) if live else None
    if device is not None and source is None:
        raise UserError("--device is for live sound: say --live")
    from torchmcl.web.server import serve as go

    go(host, port, allow_hosts=allow_host or [], live=source)


def _live_source(rate: int, convention: str, device: str | None) -> "LiveSource":
    """Checked here: the analysis in its own process would complain on the page only."""
    from torchmcl.audio.foa import convention_named
    from torchmcl.audio.streaming import check_rate
    from torchmcl.web.live import LiveSource

    check_rate(rate, "--rate")
    if device is None and (sys.stdin is None or sys.stdin.isatty()):
        raise UserError("--live reads sound from the standard input: pipe it in, or name a --device")
    return LiveSource(rate, convention_named(convention), device)


COMMANDS = (serve,)
