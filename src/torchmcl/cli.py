"""The command `torchmcl`: thin commands whose work is done elsewhere, imported when called."""

import sys
from typing import Annotated

import typer

from torchmcl.errors import UserError

__all__ = ["app", "main"]

app = typer.Typer(
    help="Multiple Choice Learning for PyTorch.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)


def _version(show: bool) -> None:
    if show:
        import torchmcl

        print(f"torchmcl {torchmcl.__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """K scored hypotheses in place of one averaged answer."""


def main() -> None:
    """Run the command line; mistakes of the caller end with one sentence and exit code 2."""
    try:
        app()
    except UserError as error:
        sys.exit(_complain(str(error)))
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        sys.exit(_complain(f"{where}{error.strerror or error}"))
    except KeyboardInterrupt:
        print("torchmcl: interrupted; the same command goes on where it stopped", file=sys.stderr)
        sys.exit(130)


def _complain(sentence: str) -> int:
    print(f"torchmcl: {sentence}", file=sys.stderr)
    return 2
