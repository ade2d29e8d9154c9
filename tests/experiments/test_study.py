"""Studies: rows are trained once, and tables say what was found beside what was published."""

import json
from dataclasses import replace

import pytest
import torch
from matplotlib.pyplot import imread

from torchmcl.errors import UserError
from torchmcl.experiments import study
from torchmcl.experiments.compose import compose_config
from torchmcl.experiments.published import ANSYN, RESYN
from torchmcl.experiments.tables import Line, Sheet, as_html, as_latex, as_markdown
from torchmcl.experiments.train import load_network, train


def test_the_published_numbers_are_those_of_the_abstracts_claims():
    """In the paper rMCL has the best EMD of Table 1 and 2 where several sources sound."""
    for table in (ANSYN, RESYN):
        rows = [table[key] for key in ("pit_in_order", "ie", "wta1", "wta", "top_n_wta", "eps_wta")]
        for column in (1, 2):
            assert all(table["rmcl"][column][0] < row[column][0] for row in rows)
        assert all(len(row) == 6 for row in table.values())


@pytest.mark.parametrize("name", study.STUDIES)
def test_every_row_of_every_table_composes(name):
    for data, rows in study.STUDIES[name].parts:
        for row in rows:
            config = compose_config([f"data={data}", *row.settings])
            assert config.data.condition is not None
            assert row.key in study.PUBLISHED[data] or row.key in ("pit", "rmcl_softmax", "transport_rmcl")


def test_a_study_trains_what_is_missing_and_reuses_the_rest(tmp_path, monkeypatch):
    rows = (study.PIT, study._row("rMCL, 3 hyp.", "rmcl", "method.hypotheses=3", key="rmcl-3"))
    monkeypatch.setitem(study.STUDIES, "table1", study.Study((("simulated", rows),), study._write_table))
    settings = ["scale=smoke", f"data.folder={tmp_path / 'scenes'}"]
    (table,) = study.run_study("table1", settings, out=tmp_path / "out", workers=2)
    assert {path.suffix for path in table.parent.glob("table1.*")} == {".md", ".tex", ".html"}
    text = table.read_text()
    assert "| PIT |" in text
    assert "| 9.89 | 14.37 | 20.96 |" in text
    runs = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("metrics.json")}
    assert sorted(path.parent.name for path in runs) == ["simulated-pit-seed0", "simulated-rmcl-3-seed0"]
    study.run_study("table1", settings, out=tmp_path / "out", workers=1)
    assert all(path.stat().st_mtime_ns == before for path, before in runs.items())
    for name, parts in (
        ("figure-hypotheses", (study._row("rMCL", "rmcl", "method.hypotheses=3", key="rmcl-3"),)),
        ("figure-winners", rows[1:]),
        ("figure-scenes", rows[::-1]),
        ("figure-statistics", rows),
    ):
        changed = replace(study.STUDIES[name], parts=(("simulated", parts),))
        monkeypatch.setitem(study.STUDIES, name, changed)
        (figure,) = study.run_study(name, settings, out=tmp_path / "out", workers=1, seeds=1)
        assert imread(figure).std() > 0
        assert figure.with_suffix(".pdf").read_bytes().startswith(b"%PDF")
    assert all(path.stat().st_mtime_ns == before for path, before in runs.items())


def test_an_ensemble_is_made_of_rows_that_are_trained_once(tmp_path, monkeypatch):
    """And it is what `torchmcl train method=ie` makes, bit for bit."""
    ensemble = replace(study.BASELINES[2], settings=("method=ie", "method.members=2"))
    assert ensemble.key == "ie"
    rows = (ensemble, study.WTA1)
    monkeypatch.setitem(study.STUDIES, "table1", study.Study((("simulated", rows),), study._write_table))
    settings = ["scale=smoke", f"data.folder={tmp_path / 'scenes'}"]
    (table,) = study.run_study("table1", settings, out=tmp_path / "out", workers=2)
    runs = {path.parent.name: path.stat().st_mtime_ns for path in tmp_path.rglob("metrics.json")}
    assert sorted(runs) == ["simulated-ie-seed0", "simulated-wta1-seed0", "simulated-wta1-seed1"]
    assert "| IE (5 members) |" in table.read_text()
    words = [*settings, *ensemble.settings, f"run={tmp_path / 'alone'}", "trainer.threads=1"]
    alone = train(compose_config(words), progress=False)
    joined = tmp_path / "out" / "smoke" / "simulated-ie-seed0"
    first, second = (load_network(folder)[1].state_dict() for folder in (joined, alone))
    assert all(torch.equal(first[name], second[name]) for name in first)
    found = [json.loads((folder / "metrics.json").read_text())["test"] for folder in (joined, alone)]
    assert found[0] == found[1]
    study.run_study("table1", settings, out=tmp_path / "out", workers=1)
    assert runs == {
        path.parent.name: path.stat().st_mtime_ns for path in (tmp_path / "out").rglob("metrics.json")
    }


def test_a_failed_run_is_named(tmp_path, monkeypatch):
    rows = (study._row("broken", "rmcl", key="rmcl"),)
    monkeypatch.setitem(study.STUDIES, "table1", study.Study((("simulated", rows),), study._write_table))
    settings = ["scale=smoke", f"data.folder={tmp_path / 'scenes'}", "network.pools=[7]"]
    with pytest.raises(UserError, match=r"simulated-rmcl-seed0: training failed, see .*train.log"):
        study.run_study("table1", settings, out=tmp_path / "out", workers=1)


def test_tables_mark_the_best_and_leave_the_unpublished_empty():
    cells = tuple((float(i), 0.5) for i in range(1, 7))
    worse = tuple((mean + 1, 0.5) for mean, _ in cells)
    sheet = Sheet("a title", [Line("ε-one", cells, ANSYN["rmcl"]), Line("two", worse, None)])
    markdown = as_markdown(sheet)
    assert "| ε-one | **1.00 ± 0.50** |" in markdown
    assert "| 7.04 | 13.87 |" in markdown
    assert markdown.splitlines()[-1].endswith("|  |  |  |  |  |  |")
    assert r"\textbf{1.00 $\pm$ 0.50}" in as_latex(sheet)
    assert r"$\varepsilon$-one" in as_latex(sheet)
    assert "<b>1.00 ± 0.50</b>" in as_html(sheet)
