"""Commands for tables: `fit`, `predict` and `tables`."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from torchmcl.cli.options import Overwrite, Seed, place, say

__all__ = ["COMMANDS", "fit", "predict", "tables"]


def fit(
    data: Annotated[Path, typer.Argument(help="A table: CSV with a header, or Parquet.")],
    target: Annotated[list[str], typer.Option(help="The column to predict; may be given several times.")],
    out: Annotated[Path, typer.Option(help="Folder of the model and the report.")] = Path("runs/table"),
    group: Annotated[
        str | None, typer.Option(help="A column: intervals hold their coverage in each of its groups.")
    ] = None,
    test_fraction: Annotated[float, typer.Option(help="The part of the rows held out for the report.")] = 0.2,
    hypotheses: Annotated[int, typer.Option(help="K, of each member.", min=1)] = 10,
    members: Annotated[int, typer.Option(help="Networks whose distributions are averaged.", min=1)] = 5,
    epochs: Annotated[
        int | None, typer.Option(help="At most; otherwise chosen by the number of rows.", min=1)
    ] = None,
    target_transform: Annotated[
        str | None,
        typer.Option(
            help="For a skewed target: `yeo-johnson`, or `auto`, which trains twice and keeps the better."
        ),
    ] = None,
    seed: Seed = 0,
) -> None:
    """Train on a table: a distribution for each row, with intervals that hold their coverage.

    Example: `torchmcl fit houses.csv --target price --out runs/houses`

    Writes the model (config.json, model.safetensors), metrics.json and report.html: errors, coverage and calibration on
    held-out rows. An interrupted run continues.

    Read more: docs/tutorials/tables.md
    """
    from rich.console import Console

    from torchmcl.tabular.command import FitSettings, fit_table
    from torchmcl.tabular.report import terminal_table

    settings = FitSettings(
        str(data), tuple(target), group, test_fraction, members, hypotheses, epochs, target_transform, seed
    )
    found = fit_table(settings, out)
    for table in terminal_table(found):
        Console().print(table.terminal())
    say(out / "report.html")


def predict(
    run: Annotated[Path, typer.Argument(help="The folder that `torchmcl fit` wrote.")],
    data: Annotated[Path, typer.Argument(help="A table with the columns of the training.")],
    out: Annotated[Path, typer.Option(help="The CSV file to write.")] = Path("predictions.csv"),
    coverage: Annotated[float, typer.Option(help="Of the intervals.")] = 0.9,
    overwrite: Overwrite = False,
) -> None:
    """Predict the rows of a table: mean, deviation, median, interval, and the most probable answers.

    Example: `torchmcl predict runs/houses new.csv --coverage 0.9 --out prices.csv`

    Writes one line for each row. Files of any length are read piece by piece.

    Read more: docs/tutorials/tables.md
    """
    from torchmcl.tabular.command import predict_table

    rows = predict_table(run, data, out, coverage, partial(say, error=True), overwrite)
    say(f"{out}: {rows} rows")


def tables(
    data: Annotated[Path, typer.Argument(help="Folder of the sets: NAME/data/data.txt and index files.")],
    sets: Annotated[list[str] | None, typer.Option(help="Names of sets; otherwise all.")] = None,
    splits: Annotated[
        int,
        typer.Option(help="The first so many of each set; three of sets with more than 5,000 rows.", min=1),
    ] = 5,
    peers: Annotated[
        list[str] | None,
        typer.Option(help="`mdn`, `control`, `gaussian`, `ngboost`, `flow`, `quantiles`; otherwise all."),
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder of records, tables and figure.")] = Path("runs/tables"),
    seed: Seed = 0,
    workers: Annotated[int | None, typer.Option(help="Runs at a time (one for each core).", min=1)] = None,
    on: Annotated[str, typer.Option(help="`local`, processes of this machine, or `ray`.")] = "local",
    address: Annotated[str | None, typer.Option(help="Of a Ray cluster, HOST:PORT.")] = None,
) -> None:
    """Compare `MCLRegressor` with what else there is, on real tables with their published splits.

    Example: `torchmcl tables uci --sets yacht --sets concrete --splits 3`

    Writes tables.md, results.json and study.png. Finished runs are reused. The peers are in the extra `bench`.

    Read more: docs/tables.md
    """
    from torchmcl.tabular.peers import OURS, PEERS
    from torchmcl.tabular.study import Study, study

    methods = tuple(PEERS) if not peers else (OURS, *(name for name in peers if name != OURS))
    settings = Study(str(data), tuple(sets or ()), splits, methods, seed)
    for written in study(settings, out, place(on, address, workers)):
        if written.suffix == ".md":
            for line in written.read_text(encoding="utf-8").splitlines():
                say(line)
        say(written)


COMMANDS = (fit, predict, tables)
