"""The command `torchmcl`. Its imports take seconds, and Ctrl-C meanwhile must not end with a traceback."""

import os
import signal
import sys
from typing import Any

__all__ = ["main"]


def main() -> None:
    """Import the command line, then run it."""
    _check_place()
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    for number, handler in before.items():
        if handler in (signal.default_int_handler, signal.SIG_DFL):
            signal.signal(number, _end)
    from torchmcl.cli import main as run

    for number, handler in before.items():
        signal.signal(number, handler)
    run(ends=True)


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
