"""One description of a table, shown on the terminal, as Markdown, LaTeX and HTML."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Literal

from rich.box import SIMPLE_HEAD
from rich.table import Table as RichTable
from rich.text import Text

from torchmcl.errors import printable
from torchmcl.runs.files import write_text

__all__ = ["Cell", "Column", "Row", "Table", "write_tables"]

Cell = float | int | str | tuple[float, float] | None
"""A number, a text, a mean with its deviation, or nothing."""

LATEX = {"\\": r"\textbackslash{}", "±": r"$\pm$", "ε": r"$\varepsilon$", "°": r"$^\circ$"} | {
    sign: f"\\{sign}" for sign in "&%$#_{}"
}


@dataclass(frozen=True)
class Column:
    """A column of numbers.

    Args:
        heading: Its title.
        digits: After the point.
        significant: Whether the digits are significant ones: for numbers whose unit, and so whose size, a user chooses.
        best: Whether the lowest or the highest value of the column is set in bold; `None` for neither.
        scale: The factor of the numbers, for example 100 for percentages.
        suffix: Written after each number, for example ` %`.
    """

    heading: str
    digits: int = 2
    best: Literal["min", "max"] | None = None
    scale: float = 1.0
    suffix: str = ""
    significant: bool = False

    def text(self, cell: Cell) -> str:
        """A cell as text.

        Args:
            cell: Of this column.

        Returns:
            What is shown.
        """
        if cell is None:
            return ""
        if isinstance(cell, str):
            return cell
        if isinstance(cell, tuple):
            return " ± ".join(self._number(part) for part in cell) + self.suffix
        if isinstance(cell, int):
            return f"{round(self.scale * cell)}{self.suffix}"
        return self._number(cell) + self.suffix

    def _number(self, value: float) -> str:
        value = self.scale * value
        if not self.significant:
            return f"{value:.{self.digits}f}"
        size = math.floor(math.log10(abs(value))) if value and math.isfinite(value) else 0
        if -5 < size < 9:
            return f"{value:,.{max(0, self.digits - 1 - size)}f}"
        return f"{value:.{self.digits - 1}e}"


@dataclass(frozen=True)
class Row:
    """A row: its label and a cell for each column.

    Args:
        label: What it is about.
        cells: One for each column.
        ranked: Whether it may have the best value of a column; a bound or a published row may not.
    """

    label: str
    cells: Sequence[Cell]
    ranked: bool = True


@dataclass(frozen=True)
class Table:
    """A table of numbers with a label for each row.

    Args:
        title: Above it.
        columns: Without that of the labels.
        rows: Each with as many cells as there are columns.
        labels: The heading of the labels.

    >>> table = Table("Errors", [Column("EMD", 2, "min")], [Row("ours", [1.0]), Row("other", [2.0])])
    >>> print(table.markdown())
    **Errors**
    <BLANKLINE>
    |  | EMD |
    | --- | ---: |
    | ours | **1.00** |
    | other | 2.00 |
    <BLANKLINE>
    """

    title: str
    columns: Sequence[Column]
    rows: Sequence[Row] = field(default_factory=tuple)
    labels: str = ""

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row.cells) != len(self.columns):
                raise ValueError(
                    f"row {row.label!r} has {len(row.cells)} cells, must have {len(self.columns)}"
                )

    @property
    def headings(self) -> list[str]:
        """Of all columns, the labels included."""
        return [self.labels, *(column.heading for column in self.columns)]

    def texts(self) -> list[list[tuple[str, bool]]]:
        """The cells of each row, the label first, and whether each is the best of its column."""
        best = [self._best(index) for index in range(len(self.columns))]
        return [
            [
                (row.label, False),
                *(
                    (
                        column.text(cell),
                        row.ranked and best[index] is not None and _value(cell) == best[index],
                    )
                    for index, (column, cell) in enumerate(zip(self.columns, row.cells, strict=True))
                ),
            ]
            for row in self.rows
        ]

    def terminal(self) -> RichTable:
        """For `rich.console.Console.print`; names are shown as they are, never as markup."""
        table = RichTable(
            title=Text(printable(self.title)), box=SIMPLE_HEAD, padding=(0, 0, 0, 1), pad_edge=False
        )
        for index, heading in enumerate(self.headings):
            table.add_column(Text(printable(heading)), justify="right" if index else "left")
        for cells in self.texts():
            table.add_row(*(Text(printable(text), style="bold" if bold else "") for text, bold in cells))
        return table

    def markdown(self) -> str:
        """A pipe table under its title."""
        rule = ["---"] + ["---:"] * len(self.columns)
        body = [
            [f"**{_pipe(text)}**" if bold else _pipe(text) for text, bold in cells] for cells in self.texts()
        ]
        lines = [[_pipe(heading) for heading in self.headings], rule, *body]
        return (
            f"**{printable(self.title)}**\n\n"
            + "\n".join("| " + " | ".join(line) + " |" for line in lines)
            + "\n"
        )

    def latex(self) -> str:
        """A tabular with booktabs rules."""
        body = " \\\\\n".join(
            " & ".join(f"\\textbf{{{_latex(text)}}}" if bold else _latex(text) for text, bold in cells)
            for cells in self.texts()
        )
        head = " & ".join(map(_latex, self.headings))
        title = printable(self.title)
        return (
            f"% {title}\n\\begin{{tabular}}{{l{'r' * len(self.columns)}}}\n\\toprule\n"
            f"{head} \\\\\n\\midrule\n{body} \\\\\n\\bottomrule\n\\end{{tabular}}\n"
        )

    def html(self) -> str:
        """A table element."""
        head = "".join(f'<th scope="col">{escape(heading)}</th>' for heading in self.headings)
        body = "\n".join(
            f'<tr><th scope="row">{escape(label)}</th>'
            + "".join(
                f"<td>{f'<b>{escape(text)}</b>' if bold else escape(text)}</td>" for text, bold in cells
            )
            + "</tr>"
            for (label, _), *cells in self.texts()
        )
        return f"<table><thead><tr>{head}</tr></thead><tbody>\n{body}\n</tbody></table>\n"

    def _best(self, index: int) -> float | None:
        column = self.columns[index]
        values = [
            value for row in self.rows if row.ranked and (value := _value(row.cells[index])) is not None
        ]
        if column.best is None or not values:
            return None
        return min(values) if column.best == "min" else max(values)


def write_tables(path: str | Path, title: str, tables: Sequence[Table]) -> list[Path]:
    """Write tables as Markdown, LaTeX and HTML.

    Args:
        path: Without suffix.
        title: Of the HTML page.
        tables: One below the other.

    Returns:
        The three files; the Markdown first.
    """
    path = Path(path)
    style = (
        "body{font-family:sans-serif}table{border-collapse:collapse}td,th{padding:.2em .6em;text-align:right}"
        "tbody th{text-align:left;font-weight:normal}"
    )
    sections = "".join(f"<h2>{escape(table.title)}</h2>\n{table.html()}" for table in tables)
    contents = {
        ".md": "\n".join(table.markdown() for table in tables),
        ".tex": "\n".join(table.latex() for table in tables),
        ".html": f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(title)}</title>'
        f"<style>{style}</style>\n{sections}</html>\n",
    }
    for suffix, content in contents.items():
        write_text(path.with_name(path.name + suffix), content)
    return [path.with_name(path.name + suffix) for suffix in contents]


def _value(cell: Cell) -> float | None:
    if isinstance(cell, tuple):
        return cell[0]
    return None if cell is None or isinstance(cell, str) else float(cell)


def _pipe(text: str) -> str:
    return printable(text).replace("|", "\\|")


def _latex(text: str) -> str:
    return "".join(LATEX.get(sign, sign) for sign in printable(text))
