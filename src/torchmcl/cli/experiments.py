"""Commands of the paper's experiments with sound: `train`, `evaluate` and `study`."""

from pathlib import Path
from typing import Annotated

import typer

from torchmcl.cli.options import Settings, say

__all__ = ["COMMANDS", "evaluate", "study", "train"]


def train(settings: Settings = None) -> None:
    """Train one method on one data set and evaluate it; the same command continues where it stopped.

    Example: `torchmcl train method=rmcl data=simulated scale=smoke run=runs/first`

    Writes the run folder: settings.json, model.safetensors, metrics.json and logs.

    Read more: docs/howto/own-rooms.md
    """
    from torchmcl.experiments.compose import compose_config
    from torchmcl.experiments.report import print_metrics
    from torchmcl.experiments.train import train as go

    print_metrics(go(compose_config(settings or [])))


def evaluate(
    run: Annotated[Path, typer.Argument(help="Folder of a finished run.")],
    swapped_angles: Annotated[
        bool, typer.Option("--swapped-angles", help="Use the published formula for angles, for comparison.")
    ] = False,
) -> None:
    """Evaluate a trained model: EMD and oracle error for one, two and three sources, and frame recall.

    Example: `torchmcl evaluate runs/first`

    Writes metrics.json (metrics-swapped.json with --swapped-angles) into the run folder.

    Read more: docs/howto/own-rooms.md
    """
    from torchmcl.experiments.report import print_metrics
    from torchmcl.experiments.train import evaluate_run

    evaluate_run(run, swapped=swapped_angles)
    print_metrics(run, "metrics-swapped.json" if swapped_angles else "metrics.json")


def study(
    name: Annotated[
        str,
        typer.Argument(
            help="`table1` to `table4`, `figure-statistics`, `figure-hypotheses`, `figure-winners`, "
            "`figure-scenes`, or `all`."
        ),
    ],
    settings: Settings = None,
    out: Annotated[Path, typer.Option(help="Folder of runs and tables.")] = Path("runs/study"),
    workers: Annotated[
        int | None, typer.Option(help="Runs at a time (one for each core).", min=1, max=1000)
    ] = None,
    seeds: Annotated[
        int, typer.Option(help="Runs of each row in figures with error bars.", min=1, max=100)
    ] = 3,
    on: Annotated[str, typer.Option(help="`local`, processes of this machine, or `ray`.")] = "local",
    address: Annotated[
        str | None, typer.Option(help="Of a Ray cluster, HOST:PORT; otherwise Ray starts here.")
    ] = None,
) -> None:
    """Reproduce a table or figure of the paper: missing runs are trained, finished ones reused.

    Example: `torchmcl study table1 scale=smoke`

    Example: `torchmcl study table1 scale=paper data=ansyn data.folder=ANSYN`

    Example: `torchmcl study table3 scale=paper data=ansyn,resyn data.folder=ANSYN,RESYN`

    Writes the runs; a table as Markdown, LaTeX and HTML with the paper's numbers beside ours, a figure as PNG
    and PDF.

    Read more: docs/howto/tables.md
    """
    from torchmcl.cli.options import place
    from torchmcl.experiments.study import run_study

    where = place(on, address, workers)
    for written in run_study(name, settings or [], out=out, where=where, seeds=seeds):
        if written.suffix == ".md":
            print(written.read_text())
        say(written)


COMMANDS = (train, evaluate, study)
