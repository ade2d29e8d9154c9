"""What a run found, as a table."""

import json
from pathlib import Path

from lightning.pytorch.utilities import rank_zero_only
from rich.console import Console
from rich.table import Table

__all__ = ["print_metrics"]


@rank_zero_only
def print_metrics(folder: str | Path, name: str = "metrics.json") -> None:
    """Print the test results of a run."""
    metrics = json.loads((Path(folder) / name).read_text())
    table = Table("", "EMD [°]", "oracle error [°]", "chunks", title=f"{metrics['method']}, {folder}")
    for group, values in metrics["test"]["groups"].items():
        cells = [f"{values[key]['mean']:.2f} ± {values[key]['std']:.2f}" for key in ("emd", "oracle")]
        table.add_row(group, *cells, str(values["emd"]["chunks"]))
    console = Console()
    console.print(table)
    recall = metrics["test"]["frame_recall"]
    if recall is not None:
        console.print(f"frame recall {recall:.1%}")
    if metrics["test"]["frames_without_active_slot"]:
        console.print(f"frames without an active slot: {metrics['test']['frames_without_active_slot']}")
    if metrics.get("collapse"):
        console.print(f"collapse: {metrics['collapse']}", soft_wrap=True)
