"""Tables with the published numbers beside ours, as Markdown, LaTeX and HTML."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from torchmcl.experiments.published import Cells
from torchmcl.runs.files import write_text

__all__ = ["Line", "Sheet", "as_html", "as_latex", "as_markdown", "write_sheet"]

COLUMNS = ("EMD D1", "EMD D2", "EMD D3", "Oracle D1", "Oracle D2", "Oracle D3")


@dataclass(frozen=True)
class Line:
    """A method: what was measured and, where there is such a row, what was published."""

    label: str
    ours: Cells
    published: Cells | None


@dataclass(frozen=True)
class Sheet:
    """The lines of one data set; the best value of each column is set in bold."""

    title: str
    lines: Sequence[Line]

    def best(self) -> list[float]:
        """The lowest mean of each column."""
        return [min(line.ours[column][0] for line in self.lines) for column in range(len(COLUMNS))]

    def rows(self, bold: str, plus: str) -> list[list[str]]:
        """The cells as text; `bold` is a format for the best ones."""
        found = []
        for line in self.lines:
            cells = []
            for (mean, deviation), best in zip(line.ours, self.best(), strict=True):
                text = f"{mean:.2f} {plus} {deviation:.2f}"
                cells.append(bold.format(text) if mean == best else text)
            known = [f"{mean:.2f}" for mean, _ in line.published or ()] or [""] * len(COLUMNS)
            found.append([line.label, *cells, *known])
        return found


HEADER = ["", *COLUMNS, *(f"{column} (paper)" for column in COLUMNS)]


def as_markdown(sheet: Sheet) -> str:
    """A pipe table."""
    lines = [HEADER, ["---"] + ["---:"] * (len(HEADER) - 1), *sheet.rows("**{}**", "±")]
    return f"**{sheet.title}**\n\n" + "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def as_latex(sheet: Sheet) -> str:
    """A tabular with booktabs rules."""
    rows = [
        [cell.replace("ε", r"$\varepsilon$") for cell in row]
        for row in sheet.rows(r"\textbf{{{}}}", r"$\pm$")
    ]
    body = " \\\\\n".join(" & ".join(row) for row in rows)
    return (
        f"% {sheet.title}\n\\begin{{tabular}}{{l{'r' * (len(HEADER) - 1)}}}\n\\toprule\n"
        f"{' & '.join(HEADER)} \\\\\n\\midrule\n{body} \\\\\n\\bottomrule\n\\end{{tabular}}\n"
    )


def as_html(sheet: Sheet) -> str:
    """A table element."""
    head = "".join(f"<th>{escape(cell)}</th>" for cell in HEADER)
    body = "\n".join(
        "<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in sheet.rows("<b>{}</b>", "±")
    )
    return f"<h2>{escape(sheet.title)}</h2>\n<table>\n<tr>{head}</tr>\n{body}\n</table>\n"


def write_sheet(path: Path, title: str, sheets: Sequence[Sheet]) -> Path:
    """Write `path` with the endings md, tex and html; returns the first of them."""
    write_text(path.with_suffix(".md"), "\n".join(map(as_markdown, sheets)))
    write_text(path.with_suffix(".tex"), "\n".join(map(as_latex, sheets)))
    style = (
        "body{font-family:sans-serif}table{border-collapse:collapse}td,th{padding:.2em .6em;text-align:right}"
    )
    page = (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(title)}</title>'
        f"<style>{style}td:first-child{{text-align:left}}</style>\n{''.join(map(as_html, sheets))}</html>\n"
    )
    write_text(path.with_suffix(".html"), page)
    return path.with_suffix(".md")
