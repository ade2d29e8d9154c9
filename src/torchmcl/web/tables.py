"""A table as the page shows it: a model with its report, and predictions of new rows."""

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from torchmcl.errors import UserError
from torchmcl.tabular.command import FitSettings, fit_table, predict_table

__all__ = ["analyze_table", "predict_rows"]

CELLS = 50_000_000
"""Of a table at most: a Parquet file of some kilobytes can hold billions."""


def analyze_table(
    source: Path,
    results: Path,
    targets: Sequence[str],
    progress: Callable[[float], None] = lambda share: None,
) -> None:
    """Train on a table and write the report; the model stays beside it.

    Args:
        source: CSV or Parquet.
        results: The folder of the outputs.
        targets: The columns to predict.
        progress: Called with the share that is done.
    """
    if not any(targets):
        raise UserError("target is missing: name the column to predict")
    _check_cells(source)
    progress(0.05)
    model = results / "model"
    fit_table(FitSettings(str(source), tuple(targets)), model, progress=False)
    for name in ("report.html", "metrics.json"):
        shutil.copyfile(model / name, results / name)
    progress(1.0)


def predict_rows(
    source: Path, results: Path, model: Path, progress: Callable[[float], None] = lambda share: None
) -> None:
    """Predict the rows of a table with a model that was trained before.

    Args:
        source: CSV or Parquet with the columns of the training.
        results: The folder of `predictions.csv`.
        model: The folder of the model.
        progress: Called with the share that is done.
    """
    _check_cells(source)
    predict_table(model, source, results / "predictions.csv", 0.9, lambda remark: None)
    progress(1.0)


def _check_cells(source: Path) -> None:
    """Refuse a Parquet file by what it announces, before anything of it is unpacked."""
    if source.suffix != ".parquet":
        return
    import pyarrow.parquet
    from pyarrow.lib import ArrowException

    try:
        about = pyarrow.parquet.read_metadata(source)
    except ArrowException:
        return  # broken in another way, which reading it tells
    if about.num_rows * about.num_columns > CELLS:
        raise UserError(
            f"{source}: has {about.num_rows:,} rows of {about.num_columns:,} columns; "
            f"at most {CELLS:,} cells are accepted"
        )
