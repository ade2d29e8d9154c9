"""Commands of the toy experiment: `toy` and `toy-outliers`."""

from pathlib import Path
from typing import Annotated

import typer

from torchmcl.cli.options import Preset, Seed

__all__ = ["COMMANDS", "toy", "toy_outliers"]


def toy(
    preset: Preset = "paper",
    seed: Seed = 0,
    seeds: Annotated[
        int, typer.Option(help="How many seeds, from --seed on; the results are their means.")
    ] = 1,
    out: Annotated[Path, typer.Option(help="Folder of models, results, figure and report.")] = Path(
        "runs/toy"
    ),
    animate: Annotated[
        bool, typer.Option("--animate", help="Write animation.gif as well: rMCL during training.")
    ] = False,
    ensembles: Annotated[bool, typer.Option(help="Train the ensembles, which take most of the time.")] = True,
) -> None:
    """Reproduce Figure 1: sMCL, rMCL, rMCL* and ensembles on a distribution that changes with time.

    Example: `torchmcl toy --preset tuned --seeds 3`

    Writes figure1.png and .pdf, results.json, report.html and the trained models. Finished models are reused, and an
    interrupted run continues with the next model.

    Read more: docs/toy.md
    """
    from rich.console import Console

    from torchmcl.toy.experiment import toy as go
    from torchmcl.toy.presets import preset as settings_named

    go(
        settings_named(preset),
        seed=seed,
        seeds=seeds,
        out=out,
        animate=animate,
        ensembles=ensembles,
        console=Console(),
    )


def toy_outliers(
    preset: Preset = "paper",
    seed: Seed = 0,
    out: Annotated[Path, typer.Option(help="Folder of models, results and figure.")] = Path(
        "runs/toy-outliers"
    ),
) -> None:
    """Show the effect of outliers among the training targets on rMCL and sMCL.

    Example: `torchmcl toy-outliers --preset tuned`

    Writes outliers.png and .pdf, results.json and the trained models; finished models are reused.

    Read more: docs/toy.md
    """
    from rich.console import Console

    from torchmcl.toy.outliers import toy_outliers as go
    from torchmcl.toy.presets import preset as settings_named

    go(settings_named(preset), seed=seed, out=out, console=Console())


COMMANDS = (toy, toy_outliers)
