"""Options and arguments that several commands share."""

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from torchmcl.errors import UserError, printable

if TYPE_CHECKING:
    from torchmcl.runs.jobs import Local, Ray

__all__ = ["Convention", "Overwrite", "Preset", "Seed", "Settings", "place", "say"]

Convention = Annotated[str, typer.Option(help="`acn-n3d`, `acn-sn3d` or `fuma`.")]
Overwrite = Annotated[
    bool, typer.Option("--overwrite", help="Replace files that this program did not write as well.")
]
Preset = Annotated[str, typer.Option(help="`paper`, as published, or `tuned`, as recommended.")]
Seed = Annotated[int, typer.Option(help="The same seed gives the same results.")]
Settings = Annotated[
    list[str] | None, typer.Argument(help="key=value, for example `scale=smoke` or `training.epochs=10`.")
]


def place(on: str, address: str | None, workers: int | None) -> "Local | Ray":
    """Where many runs are done, from `--on`, `--address` and `--workers`."""
    from torchmcl.runs.jobs import Local, Ray, check_address

    if on not in ("local", "ray"):
        raise UserError(f"--on is {on!r}, must be local or ray")
    if address is not None and on != "ray":
        raise UserError("--address is of a Ray cluster: say --on ray as well")
    if address is not None:
        check_address(address)
    many = {} if workers is None else {"workers": workers}
    return Local(**many) if on == "local" else Ray(address, **many)


def say(value: Any, *, error: bool = False) -> None:
    """Print one line; nothing in a name or a path is a command for the terminal."""
    print(printable(str(value)), file=sys.stderr if error else sys.stdout)
