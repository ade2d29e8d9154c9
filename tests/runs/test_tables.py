"""One description, four forms."""

import io
from html.parser import HTMLParser

import pytest
from rich.console import Console

from torchmcl.runs.figures import save_figure
from torchmcl.runs.tables import Column, Row, Table, write_tables

TABLE = Table(
    "Errors of [bold]all[/bold]",
    [Column("EMD", 2, "min"), Column("recall", 1, "max", 100.0, " %"), Column("n")],
    [
        Row("ours & <b>", [(1.0, 0.5), 0.25, 3]),
        Row("ε|other", [2.0, 0.5, None]),
        Row("bound", [0.1, "none", 2], ranked=False),
    ],
    "method",
)


def test_every_form_has_every_cell_and_the_best_in_bold():
    markdown, latex, html = TABLE.markdown(), TABLE.latex(), TABLE.html()
    assert "| ours & <b> | **1.00 ± 0.50** | 25.0 % | 3 |" in markdown
    assert "| ε\\|other | 2.00 | **50.0 %** |  |" in markdown
    assert "| bound | 0.10 | none | 2 |" in markdown
    assert r"ours \& <b> & \textbf{1.00 $\pm$ 0.50} & 25.0 \% & 3 \\" in latex
    assert latex.count("\\\\") == 4
    assert "<td><b>50.0 %</b></td>" in html
    assert "ours &amp; &lt;b&gt;" in html
    console = Console(width=100, file=io.StringIO())
    console.print(TABLE.terminal())
    shown = console.file.getvalue()
    assert "Errors of [bold]all[/bold]" in shown
    assert "1.00 ± 0.50" in shown


def test_nothing_in_a_name_is_a_command_for_the_terminal():
    console = Console(width=100, file=io.StringIO())
    escape = "\x1b[31m"
    console.print(Table(escape, [Column(escape)], [Row(escape, [escape])], escape).terminal())
    assert "\x1b" not in console.file.getvalue()
    assert console.file.getvalue().count("\\x1b[31m") == 5


def test_a_row_with_too_few_cells_is_named():
    with pytest.raises(ValueError, match="row 'x' has 0 cells, must have 1"):
        Table("", [Column("a")], [Row("x", [])])


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (31278.503, "31,279"), (12.3456, "12.35"), (0.0123456, "0.01235"), (-2.5, "-2.500"), (0.0, "0.000"),
        (1.23e-9, "1.230e-09"), (1.23e30, "1.230e+30"), (float("inf"), "inf"), (float("nan"), "nan"),
    ],
)  # fmt: skip
def test_significant_digits_show_numbers_of_any_unit(value, shown):
    assert Column("RMSE", 4, significant=True).text(value) == shown


def test_tables_and_figures_are_written_whole_and_the_same_each_time(tmp_path):
    from matplotlib.figure import Figure

    def write(folder):
        figure = Figure()
        figure.subplots().plot([0, 1])
        return [
            *write_tables(folder / "v1.table", "All", [TABLE, TABLE]),
            *save_figure(figure, folder / "f.png"),
        ]

    first, second = write(tmp_path / "a"), write(tmp_path / "b")
    assert [path.name for path in first] == ["v1.table.md", "v1.table.tex", "v1.table.html", "f.pdf", "f.png"]
    assert all(one.read_bytes() == two.read_bytes() for one, two in zip(first, second, strict=True))
    HTMLParser().feed(first[2].read_text())
    assert first[2].read_text().count("<table>") == 2


def test_control_characters_of_names_are_written_as_text():
    name = "a\x1b[31m\nb"
    table = Table(name, [Column(name)], [Row(name, [1.0])])
    for text, lines in ((table.markdown(), 5), (table.latex(), 8)):
        assert "\x1b" not in text
        assert len(text.splitlines()) == lines
