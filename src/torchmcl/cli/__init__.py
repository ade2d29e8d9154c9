"""The command `torchmcl`: one file for each group of commands; the work is done elsewhere and imported when called.

A group is a module with a tuple `COMMANDS` of functions. To add one, add its module to `GROUPS`.
"""

import atexit
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from io import TextIOWrapper
from typing import Annotated, Any

import typer

from torchmcl.cli import audio, classify, demo, doctor, experiments, export, tabular, toy, trajectories, web
from torchmcl.errors import UserError, printable

__all__ = ["GROUPS", "app", "main"]

GROUPS = (
    demo,
    tabular,
    trajectories,
    audio,
    web,
    classify,
    toy,
    experiments,
    export,
    doctor,
)

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""That interrupt a command."""

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


def main(*, ends: bool = False) -> None:
    """Run the command line; wrong input ends with one sentence and exit code 2, a signal with 128 and its number.

    Args:
        ends: Whether the process ends with it: signals are ignored from then on.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    os.environ["MPLBACKEND"] = (
        "agg"  # figures are only written to files, wherever the variable wants to show them
    )
    with _terminable(ends) as received, warnings.catch_warnings():
        warnings.showwarning = _remark
        # A name in another script is a row of boxes in a picture; nobody can do anything about it here.
        warnings.filterwarnings("ignore", message=r"Glyph \d+ .* missing from font")
        code = _run(received)
        # All is said and done: another signal would only change the code while the interpreter ends.
        atexit.register(_ignore_signals)
        sys.exit(code)


def _remark(message: Warning | str, *about: Any, **more: Any) -> None:
    """A warning as one sentence, without the line of the program that it comes from."""
    _say(str(message))


@contextmanager
def _terminable(ends: bool) -> Iterator[list[int]]:
    """SIGTERM and SIGHUP are handled as Ctrl-C is; yields the signals that came."""
    received: list[int] = []

    def terminate(number: int, frame: Any) -> None:
        received.append(number)
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield received
        return
    before, hook = {number: signal.getsignal(number) for number in SIGNALS}, sys.unraisablehook
    signal.signal(signal.SIGTERM, terminate)
    if before[signal.SIGHUP] is not signal.SIG_IGN:  # as nohup has it
        signal.signal(signal.SIGHUP, terminate)
    sys.unraisablehook = partial(_interrupt_again, hook)
    try:
        yield received
    finally:
        if ends:
            _ignore_signals()
        else:
            for number, handler in before.items():
                signal.signal(number, handler)
        sys.unraisablehook = hook


def _ignore_signals() -> None:
    if threading.current_thread() is threading.main_thread():
        for number in SIGNALS:
            signal.signal(number, signal.SIG_IGN)


def _interrupt_again(hook: Callable[[Any], Any], ignored: Any) -> None:
    """An interruption that came in a finalizer, where Python drops exceptions, comes again a moment later."""
    if isinstance(ignored.exc_value, KeyboardInterrupt):
        to_main = threading.main_thread().ident, signal.SIGINT
        later = threading.Timer(0.05, signal.pthread_kill, to_main)
        later.daemon = True
        later.start()
    else:
        hook(ignored)


def _run(received: list[int]) -> int:
    """The exit code of the command; whatever else is raised is a defect, which ends with one sentence as well."""
    try:
        return _ended(received)
    except Exception as error:
        if os.environ.get("TORCHMCL_TRACEBACK") == "1":
            raise
        return _refuse(_defect(error))


def _defect(error: Exception) -> str:
    """One sentence for an exception that nothing else handles."""
    where = "TORCHMCL_TRACEBACK=1 shows where"
    if isinstance(error, MemoryError):
        return f"the memory of this machine is not enough for this; {where}"
    if isinstance(error, RecursionError):
        return f"something is nested too deeply, in a file or in a setting; {where}"
    said = " ".join(f"{type(error).__name__}: {error}".split())
    return (
        f"this is a defect of torchmcl, or a file that it does not expect: {said}; please report it, {where}"
    )


def _ended(received: list[int]) -> int:
    try:
        for word in sys.argv[1:]:
            word.encode()
        return _command(sys.argv[1:] or ["--help"])
    except UsageError as error:
        return _refuse(" ".join(error.format_message().split()))
    except UserError as error:
        return _refuse(str(error))
    except ModuleNotFoundError as error:
        sentence = doctor.explain_missing(error)
        if sentence is None:
            raise
        return _refuse(sentence)
    except SystemExit as end:
        if not isinstance(end.__context__, BrokenPipeError):
            raise
        return _refuse("the standard output was closed")
    except UnicodeEncodeError as error:
        return _refuse(
            f"{error.object[max(error.start - 100, 0) : error.end + 100]}: is no name in UTF-8, rename it"
        )
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        return _refuse(f"{where}{error.strerror or error}")
    except (typer.Abort, KeyboardInterrupt):
        _ignore_signals()
        _say("interrupted; the same command continues where it stopped")
        return 128 + (received or [signal.SIGINT])[0]


def _command(words: list[str]) -> int:
    """The exit code; an error of the cleaning up that follows an interruption is that interruption."""
    try:
        code = app(words, standalone_mode=False)
    except Exception as error:
        above = error.__context__
        while above is not None:
            if isinstance(above, KeyboardInterrupt):
                raise above from None
            above = above.__context__
        raise
    if code == 130:  # typer returns this code after Ctrl-C
        raise KeyboardInterrupt
    return int(code or 0)


LONGEST = 2000
"""Characters of a sentence: whatever a file or a name holds, a person must be able to read it."""


def _refuse(sentence: str) -> int:
    _say(sentence)
    return 2


def _say(sentence: str) -> None:
    """Print a sentence; that nobody can read it any more, as the output is closed or full, changes no exit code."""
    shown = printable(sentence)
    if len(shown) > LONGEST:
        shown = f"{shown[: LONGEST // 2]} ... {shown[-LONGEST // 2 :]}"
    with suppress(OSError):
        print(f"torchmcl: {shown}", file=sys.stderr)
