"""The command of image classification: `classify`."""

from pathlib import Path
from typing import Annotated

import typer

from torchmcl.cli.options import Seed

__all__ = ["COMMANDS", "classify"]


def classify(
    data: Annotated[
        Path | None,
        typer.Argument(
            help="Folder with the four IDX files of MNIST, compressed or not (scikit-learn's digits)."
        ),
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder of runs, results and pictures.")] = Path("runs/classify"),
    task: Annotated[
        list[str] | None,
        typer.Option(help="`few` images, `ambiguous` or `noisy` labels; repeatable (few and ambiguous)."),
    ] = None,
    seeds: Annotated[
        int, typer.Option(help="How many seeds, from --seed on; the results are their means.")
    ] = 5,
    seed: Seed = 0,
    images: Annotated[
        int | None, typer.Option(help="Training images (300 or 500 digits, 2000 of MNIST).")
    ] = None,
    scaling: Annotated[
        str,
        typer.Option(
            help="Pixels that share a mean and a deviation: `none`, all of an `image`, or each `pixel`."
        ),
    ] = "image",
    choose: Annotated[
        bool,
        typer.Option(
            "--choose", help="Compare settings of the networks on training images that no run learns from."
        ),
    ] = False,
) -> None:
    """Compare an independent ensemble, sMCL, CMCL, vMCL and rMCL in classification, with five hypotheses.

    Example: `torchmcl classify --out runs/classify --seeds 3`

    Writes results.json, table.md and a picture for each task. Finished runs are reused, and an interrupted study
    continues with the next run. With --choose: choice.json and choice.md.

    Read more: docs/classification.md
    """
    from rich.console import Console

    from torchmcl.errors import UserError
    from torchmcl.images.choice import choose as go_choose
    from torchmcl.images.command import classify as go

    if choose:
        if task or seed:
            raise UserError(
                "--choose is by the task few and the seeds from 0 on: leave --task and --seed out"
            )
        go_choose(data, out=out, seeds=seeds, images=images, console=Console())
        print((out / "choice.md").read_text(encoding="utf-8"))
        return
    go(
        data,
        out=out,
        tasks=tuple(task or ("few", "ambiguous")),
        seed=seed,
        seeds=seeds,
        images=images,
        console=Console(),
        scaling=scaling,
    )


COMMANDS = (classify,)
