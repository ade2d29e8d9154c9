"""The tables and figures of the paper: which methods on which data, and what is made of their results."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torchmcl.experiments import figures
from torchmcl.experiments.figures import Result
from torchmcl.experiments.published import PUBLISHED
from torchmcl.runs.tables import Column, Table, write_tables
from torchmcl.runs.tables import Row as TableRow

__all__ = ["STUDIES", "Row", "Study", "write_table"]


COLUMNS = ("EMD D1", "EMD D2", "EMD D3", "Oracle D1", "Oracle D2", "Oracle D3")


TABLE, PICTURE = (".md", ".tex", ".html"), (".png", ".pdf")


@dataclass(frozen=True)
class Row:
    """A method of a table or figure.

    Args:
        label: In the table or figure.
        changes: What it changes in the settings; `method` is the name of a method.
        published: Its key in the published tables, and in the names of its run folders.
        members: For an ensemble, the row whose runs are its members.
    """

    label: str
    changes: dict[str, Any] = field(hash=False)
    published: str
    members: "Row | None" = None


@dataclass(frozen=True)
class Study:
    """Methods on one or several data sets, and what is made of their results.

    Args:
        data: Names of data sets; each is a panel of the table or figure.
        rows: The methods, on each data set.
        write: Writes the results to a path without ending, and returns the file to show.
        several_seeds: Whether there are error bars over seeds.
    """

    data: tuple[str, ...]
    rows: tuple[Row, ...]
    write: Callable[[Path, Sequence[Result]], Path]
    several_seeds: bool = False

    def files(self, name: str) -> list[str]:
        """The names of the files that `write` makes.

        Args:
            name: The path without ending that it is given.
        """
        return [name + suffix for suffix in (TABLE if self.write is write_table else PICTURE)]


def write_table(path: Path, results: Sequence[Result]) -> Path:
    """A table for each data set, with the published rows beside ours.

    Args:
        path: Without ending; its folder is named after the scale.
        results: Of several methods.

    Returns:
        The Markdown file; LaTeX and HTML are beside it.
    """
    columns = [Column(heading, best="min") for heading in COLUMNS]
    columns += [Column(f"{heading} (paper)") for heading in COLUMNS]
    tables = [
        Table(f"{data}, scale {path.parent.name}", columns, [_table_row(result) for result in rows])
        for data, rows in figures.by_data(results).items()
    ]
    return write_tables(path, path.name, tables)[0]


def _table_row(result: Result) -> TableRow:
    published = PUBLISHED.get(result.data, {}).get(result.published)
    known = [None] * len(COLUMNS) if published is None else [mean for mean, _ in published]
    cells = [None if math.isnan(mean) else (mean, std) for mean, std in result.cells[0]]
    return TableRow(result.label, [*cells, *known])


def _row(label: str, method: str) -> Row:
    return Row(label, {"method": method}, method)


def _sizes(sizes: Sequence[int]) -> tuple[Row, ...]:
    return tuple(
        Row(f"rMCL, {k} hyp.", {"method": "rmcl", "method.hypotheses": k}, "rmcl" if k == 5 else f"rmcl-{k}")
        for k in sizes
    )


PIT = _row("PIT", "pit")
PIT_IN_ORDER = _row("PIT in start order", "pit_in_order")
WTA1 = _row("WTA, 1 hyp.", "wta1")
RMCL = _row("rMCL, 5 hyp.", "rmcl")
SOFTMAX = _row("rMCL, softmax scores, 5 hyp.", "rmcl_softmax")
OURS = _row("transport-rMCL, 5 hyp.", "transport_rmcl")
BASELINES = (
    PIT,
    PIT_IN_ORDER,
    Row("IE (5 members)", {"method": "ie"}, "ie", members=WTA1),
    WTA1,
    _row("WTA, 5 hyp.", "wta"),
    _row("top-n-WTA, 5 hyp.", "top_n_wta"),
    _row("ε-WTA, 5 hyp.", "eps_wta"),
    RMCL,
    OURS,
)
VARIANTS = (RMCL, SOFTMAX, _row("top-n-rMCL, 5 hyp.", "top_n_rmcl"), _row("ε-rMCL, 5 hyp.", "eps_rmcl"), OURS)
SIZES = _sizes((3, 5, 10, 20))
BOTH = ("simulated", "reverberant")

STUDIES: dict[str, Study] = {
    "table1": Study(("simulated",), BASELINES, write_table),
    "table2": Study(("reverberant",), BASELINES, write_table),
    "table3": Study(BOTH, VARIANTS, write_table),
    "table4": Study(("simulated",), (PIT, PIT_IN_ORDER, WTA1, *SIZES, OURS), write_table),
    "figure-statistics": Study(BOTH, (PIT, RMCL, OURS), figures.statistics, several_seeds=True),
    "figure-hypotheses": Study(("simulated",), SIZES, figures.sizes, several_seeds=True),
    "figure-winners": Study(("simulated",), _sizes((20,)), figures.winners),
    "figure-scenes": Study(("simulated",), (RMCL, PIT), figures.scenes),
}
"""Each table and figure of the paper."""
