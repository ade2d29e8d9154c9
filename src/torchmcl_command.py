"""The command `torchmcl`. Its imports take seconds, and Ctrl-C meanwhile must not end with a traceback."""

import os
import signal
import sys
from typing import Any

__all__ = ["main"]


def main() -> None:
    """Import the command line, then run it."""
    _check_place()
    before = signal.getsignal(signal.SIGINT)
    if before is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)
    from torchmcl.cli import main as run

    signal.signal(signal.SIGINT, before)
    run()


def _check_place() -> None:
    """Refuse a current folder that was deleted: numerical libraries cannot be loaded there."""
    try:
        os.getcwd()
    except OSError:
        print("torchmcl: the current folder does not exist any more, change to another one", file=sys.stderr)
        sys.exit(2)


def _end(number: int, frame: Any) -> None:
    os.write(2, b"torchmcl: interrupted\n")
    os._exit(128 + number)
