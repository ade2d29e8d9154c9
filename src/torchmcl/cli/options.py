"""Options and arguments that several commands share."""

from typing import Annotated

import typer

__all__ = ["Convention", "Preset", "Seed", "Settings"]

Convention = Annotated[str, typer.Option(help="`acn-n3d`, `acn-sn3d` or `fuma`.")]
Preset = Annotated[str, typer.Option(help="`paper`, as published, or `tuned`, as recommended.")]
Seed = Annotated[int, typer.Option(help="The same seed gives the same results.")]
Settings = Annotated[
    list[str] | None, typer.Argument(help="key=value, for example `scale=smoke` or `training.epochs=10`.")
]
