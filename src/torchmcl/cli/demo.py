"""The command for a first look: `demo`."""

from pathlib import Path
from typing import Annotated

import typer

from torchmcl.cli.options import say

__all__ = ["COMMANDS", "demo"]


def demo(
    out: Annotated[Path, typer.Option(help="Folder of everything.")] = Path("runs/demo"),
) -> None:
    """Show all doors on small data: the toy experiment, a table, pedestrians and a recording.

    Example: `torchmcl demo`

    Writes index.html, which shows everything with the command behind it. Finished parts are reused.

    Read more: docs/tutorials/start.md
    """
    from rich.console import Console

    from torchmcl.demo.run import demo as go

    say(f"open {go(out, Console())}")


COMMANDS = (demo,)
