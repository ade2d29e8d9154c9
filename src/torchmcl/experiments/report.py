"""The results of a run as a table."""

from pathlib import Path

from lightning.pytorch.utilities import rank_zero_only
from rich.console import Console

from torchmcl.experiments.saved import read_metrics
from torchmcl.runs.tables import Column, Row, Table

__all__ = ["print_metrics"]


@rank_zero_only
def print_metrics(folder: str | Path, name: str = "metrics.json") -> None:
    """Print the test results of a run.

    Args:
        folder: Of a finished run.
        name: Of the file with its metrics.
    """
    metrics = read_metrics(folder, name)
    columns = [Column("EMD [°]"), Column("oracle error [°]"), Column("chunks")]
    rows = [
        Row(
            group,
            [
                (each["emd"].mean, each["emd"].std),
                (each["oracle"].mean, each["oracle"].std),
                each["emd"].chunks,
            ],
        )
        for group, each in metrics.test.groups.items()
    ]
    console = Console()
    console.print(Table(f"{metrics.method}, {folder}", columns, rows).terminal())
    if metrics.test.frame_recall is not None:
        console.print(f"frame recall {metrics.test.frame_recall:.1%}")
    if metrics.test.frames_without_active_slot:
        console.print(f"frames without an active slot: {metrics.test.frames_without_active_slot}")
    if metrics.collapse:
        console.print(f"collapse: {metrics.collapse}", soft_wrap=True, markup=False)
