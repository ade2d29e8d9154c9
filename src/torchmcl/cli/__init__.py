"""The command `torchmcl`: one file for each group of commands; the work is done elsewhere and imported when called.

A group is a module with a tuple `COMMANDS` of functions. To add one, add its module to `GROUPS`.
"""

import sys
from typing import Annotated, Any

import typer

from torchmcl.cli import audio, classify, doctor, experiments, toy, trajectories, web
from torchmcl.errors import UserError

__all__ = ["GROUPS", "app", "main"]

GROUPS = (
    toy,
    classify,
    audio,
    experiments,
    trajectories,
    web,
    doctor,
)

app = typer.Typer(
    help="Multiple Choice Learning for PyTorch.",
    epilog="`torchmcl COMMAND --help` gives an example and lists the files that are written. "
    "`torchmcl --install-completion` installs completion for your shell. Read more: docs/tutorials/start.md",
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)
for _group in GROUPS:
    for _function in _group.COMMANDS:
        app.command(_function.__name__.replace("_", "-"))(_function)

# Recent versions of typer no longer depend on click, whose exceptions older ones raise.
UsageError: Any = getattr(typer, "TyperException", None)
if UsageError is None:
    from click import ClickException as UsageError


def _version(show: bool) -> bool:
    if show:
        import torchmcl

        print(f"torchmcl {torchmcl.__version__}")
        raise typer.Exit
    return show


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """K scored hypotheses in place of one averaged answer."""


def main() -> None:
    """Run the command line; wrong input ends with one sentence and exit code 2."""
    try:
        code = app(sys.argv[1:] or ["--help"], standalone_mode=False)
        if code == 130:  # typer returns this code after Ctrl-C
            raise KeyboardInterrupt
        sys.exit(code)
    except UsageError as error:
        sys.exit(_refuse(" ".join(error.format_message().split())))
    except UserError as error:
        sys.exit(_refuse(str(error)))
    except ModuleNotFoundError as error:
        sentence = doctor.explain_missing(error)
        if sentence is None:
            raise
        sys.exit(_refuse(sentence))
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        sys.exit(_refuse(f"{where}{error.strerror or error}"))
    except (typer.Abort, KeyboardInterrupt):
        print("torchmcl: interrupted; the same command continues where it stopped", file=sys.stderr)
        sys.exit(130)


def _refuse(sentence: str) -> int:
    print(f"torchmcl: {sentence}", file=sys.stderr)
    return 2
