"""Studies: rows are trained once, and tables say what was found beside what was published."""

import json
from dataclasses import replace

import pytest
import torch
from matplotlib.pyplot import imread

from torchmcl.errors import UserError
from torchmcl.experiments import studies, study
from torchmcl.experiments.compose import compose_config
from torchmcl.experiments.figures import Result
from torchmcl.experiments.published import ANSYN, PUBLISHED, RESYN
from torchmcl.experiments.saved import load_network
from torchmcl.experiments.train import prepare, resume, train
from torchmcl.runs.files import write_json
from torchmcl.runs.jobs import Local


def test_the_published_numbers_are_those_of_the_abstracts_claims():
    """In the paper rMCL has the best EMD of Table 1 and 2 where several sources sound."""
    for table in (ANSYN, RESYN):
        rows = [table[key] for key in ("pit_in_order", "ie", "wta1", "wta", "top_n_wta", "eps_wta")]
        for column in (1, 2):
            assert all(table["rmcl"][column][0] < row[column][0] for row in rows)
        assert all(len(row) == 6 for row in table.values())


@pytest.fixture
def finished_runs(tmp_path, monkeypatch):
    """A study whose runs are done, with the results of the test recordings that are given."""
    monkeypatch.setattr(study, "build_data", lambda *_, **__: None)

    def make(name, changes=None, **test):
        (base,) = study.compose_panels(name, ["scale=smoke"])
        for run in study.plan(studies.STUDIES[name], base, tmp_path, seeds=2):
            prepare(run.folder, run.config)
            winners = [1] * (run.config.method.hypotheses or 1)
            own = {"groups": groups("D1", "D2", "D3"), "winners": winners, "frame_recall": None}
            own["frames_without_active_slot"] = 0
            record = {
                "method": run.config.method.name, "data": run.config.data.name, "scale": run.config.scale,
                "seed": run.config.seed, "train_seconds": None, "collapse": None, "validation": own, "test": own,
            }  # fmt: skip
            write_json(run.done, record)
        write_json(run.done, {**record, **(changes or {}), "test": {**own, **test}})
        return study.run_study(name, ["scale=smoke"], out=tmp_path, seeds=2)[0]

    return make


def groups(*names):
    moments = {"mean": 1.0, "std": 0.5, "chunks": 3}
    return {name: {"emd": moments, "oracle": moments} for name in names}


@pytest.mark.parametrize("names", [(), ("D1", "D3"), ("D1", "D2", "D3", "D4"), ("other",)])
def test_recordings_without_some_numbers_of_sources_leave_gaps(names, monkeypatch, finished_runs):
    """Not only in every run, but in the last one of several alone, whose files may come from elsewhere."""
    use(monkeypatch, "table1", [studies.PIT])
    shown = ["1.00 ± 0.50" if name in names else "" for name in ("D1", "D2", "D3")]
    (row,) = [
        line
        for line in finished_runs("table1", groups=groups(*names)).read_text().split("\n")
        if "PIT" in line
    ]
    assert [cell.strip(" *") for cell in row.split("|")[2:8]] == 2 * shown
    for name in ("figure-statistics", "figure-hypotheses"):
        use(monkeypatch, name, [studies.SIZES[0]])
        assert imread(finished_runs(name, groups=groups(*names))).std() > 0


@pytest.mark.parametrize("winners", [None, [], [0] * 20, [2, -1, *[0] * 18], [1] * 19, [1] * 21])
def test_impossible_counts_of_winners_are_refused(winners, finished_runs):
    with pytest.raises(UserError, match=r"metrics\.json: test.*winners must be .*counts"):
        finished_runs("figure-winners", winners=winners)


@pytest.mark.parametrize(
    ("key", "value"), [("method", "pit"), ("data", "a"), ("scale", "paper"), ("seed", 9)]
)
def test_results_of_another_run_are_refused(key, value, finished_runs):
    with pytest.raises(UserError, match=rf"metrics\.json: {key} is {value!r}, must be"):
        finished_runs("figure-winners", {key: value})


@pytest.fixture
def here(monkeypatch):
    """Jobs are done in this process, in an order that they can be done in."""

    def execute(jobs, where):
        waiting = [job for job in jobs if not job.is_done]
        while waiting:
            job = next(job for job in waiting if all(need.is_done for need in job.needs))
            assert job.function == "torchmcl.experiments.train:resume"
            resume(**job.arguments)
            waiting.remove(job)

    monkeypatch.setattr(study, "execute", execute)


@pytest.fixture(scope="module")
def smoke(tmp_path_factory):
    """Settings of runs that take a second, on scenes that all tests share."""
    return ["scale=smoke", "training.epochs=1", f"data.folder={tmp_path_factory.mktemp('scenes') / 'a'}"]


def use(monkeypatch, name, rows, data=("simulated",)):
    changed = replace(studies.STUDIES[name], rows=tuple(rows), data=tuple(data))
    monkeypatch.setitem(studies.STUDIES, name, changed)


def finished(folder):
    return {path.parent.name: path.stat().st_mtime_ns for path in folder.rglob("metrics.json")}


@pytest.mark.parametrize("name", studies.STUDIES)
def test_every_row_of_every_table_is_planned_on_every_data_set(name, tmp_path):
    chosen = studies.STUDIES[name]
    known = ("pit", "rmcl_softmax", "transport_rmcl")
    for data in chosen.data:
        base = compose_config([f"data={data}", "seed=4"])
        runs = study.plan(chosen, base, tmp_path, seeds=2)
        shown = [run for run in runs if run.row is not None]
        seeds = (4, 5) if chosen.several_seeds else (4,)
        assert [(run.row, run.config.seed) for run in shown] == [(r, s) for r in chosen.rows for s in seeds]
        for run in runs:
            assert run.config.data == base.data
            assert run.config.run == str(run.folder)
            assert run.row is None or run.row.published in (*PUBLISHED[data], *known)
    assert not list(tmp_path.iterdir()), "nothing is started"


def test_an_ensemble_needs_the_runs_of_its_members(tmp_path):
    runs = study.plan(studies.STUDIES["table1"], compose_config([]), tmp_path)
    (ensemble,) = [run for run in runs if run.row and run.row.published == "ie"]
    assert [need.config.method.name for need in ensemble.needs] == ["wta1"] * 5
    assert [need.config.seed for need in ensemble.needs] == [0, 1, 2, 3, 4]
    assert len({run.folder for run in runs}) == len(runs) == 13
    assert sum(run.row is None for run in runs) == 4, "the first member is a row of its own"


@pytest.mark.parametrize("name", ["table3", "figure-statistics"])
def test_a_data_set_that_is_named_replaces_one_panel_and_drops_none(name):
    for words, expected in (
        ([], ["simulated", "reverberant"]),
        (["data=mixed"], ["mixed", "reverberant"]),
        (["data=ansyn,resyn"], ["ansyn", "resyn"]),
        (["data=simulated"], ["simulated", "reverberant"]),
    ):
        assert [base.data.name for base in study.compose_panels(name, words)] == expected
    words = ["data=ansyn,resyn", "data.folder=A,B", "data.fold=2"]
    bases = study.compose_panels(name, words)
    assert [(base.data.folder, base.data.fold) for base in bases] == [("A", 2), ("B", 2)]
    (first, second) = study.compose_panels(name, ["data=ansyn", "data.folder=A"])
    assert (first.data.folder, second.data.folder) == ("A", None)
    with pytest.raises(UserError, match=f"data names 3, {name} has 2 data sets: simulated, reverberant"):
        study.compose_panels(name, ["data=a,b,c"])
    with pytest.raises(UserError, match="would have reverberant twice"):
        study.compose_panels(name, ["data=reverberant"])


def test_both_panels_are_run_and_written(tmp_path, monkeypatch, here):
    monkeypatch.chdir(tmp_path)
    use(monkeypatch, "table3", [studies.PIT], ("simulated", "reverberant"))
    words = ["scale=smoke", "data=reverberant,simulated", "training.epochs=1"]
    (table,) = study.run_study("table3", words, out=tmp_path / "out")
    text = table.read_text()
    assert text.index("**reverberant, scale smoke**") < text.index("**simulated, scale smoke**")
    assert sorted(finished(tmp_path)) == ["reverberant-pit-seed0", "simulated-pit-seed0"]


def test_settings_of_the_method_hold_for_all_rows(tmp_path):
    changes = study._method_changes(["method.scoring=4", "method.epsilon=5e-1", "scale=smoke"])
    assert changes == {"method.scoring": 4.0, "method.epsilon": 0.5}
    rows = replace(studies.STUDIES["table1"], rows=(studies.RMCL,))
    (run,) = study.plan(rows, compose_config([]), tmp_path, changes=changes)
    assert (run.config.method.scoring, run.config.method.name) == (4.0, "rmcl")
    with pytest.raises(UserError, match=r"method\.scorin=4: no setting method\.scorin"):
        study._method_changes(["method.scorin=4"])


def test_a_study_trains_what_is_missing_and_reuses_the_rest(tmp_path, monkeypatch, here, smoke):
    sized = studies.SIZES[0]
    use(monkeypatch, "table1", [studies.PIT, sized])
    (table,) = study.run_study("table1", smoke, out=tmp_path / "out")
    assert {path.suffix for path in table.parent.glob("table1.*")} == {".md", ".tex", ".html"}
    text = table.read_text()
    assert "| PIT |" in text
    assert "| 9.89 | 14.37 | 20.96 |" in text
    runs = finished(tmp_path)
    assert sorted(runs) == ["simulated-pit-seed0", "simulated-rmcl-3-seed0"]
    study.run_study("table1", smoke, out=tmp_path / "out")
    for name, rows in (
        ("figure-hypotheses", [sized]),
        ("figure-winners", [sized]),
        ("figure-scenes", [sized, studies.PIT]),
        ("figure-statistics", [studies.PIT, sized]),
    ):
        use(monkeypatch, name, rows)
        (figure,) = study.run_study(name, smoke, out=tmp_path / "out", seeds=1)
        assert imread(figure).std() > 0
        assert figure.with_suffix(".pdf").read_bytes().startswith(b"%PDF")
    assert finished(tmp_path) == runs
    with pytest.raises(
        UserError, match=r"simulated-pit-seed0: training\.epochs is 2, this run was made with 1"
    ):
        study.run_study("table1", [*smoke, "training.epochs=2"], out=tmp_path / "out")
    (table.parent / "simulated-pit-seed0" / "metrics.json").write_text('{"test": []}')
    with pytest.raises(UserError, match=r"metrics\.json: method is missing"):
        study.run_study("table1", smoke, out=tmp_path / "out")


def test_an_ensemble_is_made_of_rows_that_are_trained_once(tmp_path, monkeypatch, here, smoke):
    """And it is what `torchmcl train method=ie` makes, bit for bit."""
    ensemble = replace(studies.BASELINES[2], changes={"method": "ie", "method.members": 2})
    use(monkeypatch, "table1", [ensemble, studies.WTA1])
    (table,) = study.run_study("table1", smoke, out=tmp_path / "out")
    runs = finished(tmp_path)
    assert sorted(runs) == ["simulated-ie-seed0", "simulated-wta1-seed0", "simulated-wta1-seed1"]
    text = table.read_text()
    assert text.index("| IE (5 members) |") < text.index("| WTA, 1 hyp. |")
    words = [*smoke, "method=ie", "method.members=2", f"run={tmp_path / 'alone'}", "trainer.threads=1"]
    alone = train(compose_config(words), progress=False)
    joined = tmp_path / "out" / "smoke" / "simulated-ie-seed0"
    first, second = (load_network(folder)[1].state_dict() for folder in (joined, alone))
    assert all(torch.equal(first[name], second[name]) for name in first)
    results = [json.loads((folder / "metrics.json").read_text())["test"] for folder in (joined, alone)]
    assert results[0] == results[1]


def test_members_are_folders_beside_the_ensemble(tmp_path, smoke):
    config = compose_config([*smoke, "method=ie"])
    prepare(tmp_path / "run", config, members=[tmp_path / "member"])
    (tmp_path / "run" / "members.json").write_text('["../../elsewhere"]')
    with pytest.raises(UserError, match=r"members\.json: must hold the names of folders beside run"):
        resume(tmp_path / "run")


def test_a_failed_run_is_named(tmp_path, monkeypatch, smoke):
    use(monkeypatch, "table1", [studies.RMCL])
    words = [*smoke, "network.pools=[7]"]
    with pytest.raises(
        UserError,
        match=r"simulated-rmcl-seed0: failed, network: pools is \(7,\): 32 bins .*; see .*train.log",
    ):
        study.run_study("table1", words, out=tmp_path / "out", where=Local(1))


def test_tables_mark_the_best_and_leave_the_unpublished_empty(tmp_path):
    cells = tuple((float(i), 0.5) for i in range(1, 7))
    worse = tuple((mean + 1, 0.5) for mean, _ in cells)
    results = [
        Result("ε-one", "rmcl", "simulated", (cells,), tmp_path),
        Result("two", "new", "simulated", (worse,), tmp_path),
    ]
    path = studies.write_table(tmp_path / "smoke" / "table1", results)
    markdown = path.read_text()
    assert markdown.startswith("**simulated, scale smoke**")
    assert "| ε-one | **1.00 ± 0.50** |" in markdown
    assert "| 7.04 | 13.87 |" in markdown
    assert markdown.splitlines()[-1].endswith("|  |  |  |  |  |  |")
    assert r"\textbf{1.00 $\pm$ 0.50}" in path.with_suffix(".tex").read_text()
    assert "<b>1.00 ± 0.50</b>" in path.with_suffix(".html").read_text()
