"""The commands `fit`, `predict` and `tables`: from a file to a file, and every mistake as one sentence."""

import contextlib
import gzip
import json
import random
import re
import shutil
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from playwright.sync_api import sync_playwright

from foreign import mutate
from forks import execute
from torchmcl import MCLRegressor
from torchmcl.errors import UserError
from torchmcl.runs.figures import caption
from torchmcl.runs.jobs import Local
from torchmcl.tabular import drawing, scorers
from torchmcl.tabular.command import FitSettings, fit_table, predict_table
from torchmcl.tabular.figures import study_figure
from torchmcl.tabular.files import pieces, read_frame
from torchmcl.tabular.judge import COVERAGES
from torchmcl.tabular.peers.answers import GaussianMixture
from torchmcl.tabular.preparation import validated_table
from torchmcl.tabular.report import Marginal, _densities, _importance
from torchmcl.tabular.sets import read_split
from torchmcl.tabular.study import Study, study, summary

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.filterwarnings("ignore:.*are too few to calibrate:UserWarning")
browser_needed = pytest.mark.skipif(
    CHROMIUM is None, reason="no Chromium: sh tests/install_browser.sh tells why and how to get it"
)


CUT = """
[...document.querySelectorAll("svg text")].filter((label) => {
  const own = label.getBoundingClientRect(), chart = label.closest("svg").getBoundingClientRect();
  return own.left < chart.left || own.right > chart.right;
}).map((label) => label.textContent)
"""
"""The labels of charts that do not fit into them."""


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    random = np.random.default_rng(0)
    frame = pd.DataFrame({"x": random.normal(size=150), "kind": random.choice(["a", "b<i>"], 150)})
    frame["y"] = frame["x"] * (frame["kind"] == "a") + random.normal(size=150)
    frame["other"] = -1e5 * frame["x"] ** 2
    frame.loc[random.random(150) < 0.3, "x"] = np.nan
    path = tmp_path_factory.mktemp("table") / "data.csv"
    frame.to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def run(table):
    out = table.parent / "run"
    found = fit_table(
        FitSettings(str(table), ("y", "other"), "kind", members=2, hypotheses=2, epochs=2),
        out,
        progress=False,
    )
    assert set(found["outputs"]) == {"y", "other"}
    return out


def test_a_model_of_another_table_is_not_taken_for_that_of_the_run(table, run, tmp_path):
    shutil.copytree(run, tmp_path / "run")
    config = json.loads((run / "config.json").read_text())
    config["columns"]["names"][0] = "1e308"
    (tmp_path / "run" / "config.json").write_text(json.dumps(config))
    with pytest.raises(
        UserError, match=r"config\.json: is not of this table; remove it to train from the start"
    ):
        fit_table(
            FitSettings(str(table), ("y", "other"), "kind", members=2, hypotheses=2, epochs=2),
            tmp_path / "run",
            progress=False,
        )


@pytest.mark.parametrize(
    "change",
    [
        {"targets": []},
        {"targets": ["y"]},
        {"targets": ["y", "y"]},
        {"targets": ["y", None]},
        {"targets": "y"},
        {"group": None},
        {"group": 5},
        {"group": ["kind"]},
    ],
)
def test_settings_that_do_not_fit_the_model_are_refused(table, run, tmp_path, change):
    shutil.copytree(run, tmp_path / "run")
    settings = json.loads((run / "settings.json").read_text())
    (tmp_path / "run" / "settings.json").write_text(json.dumps(settings | change))
    with pytest.raises(UserError, match=r"settings\.json: does not "):
        predict_table(tmp_path / "run", table, tmp_path / "out.csv", 0.5, print)


@pytest.mark.parametrize(
    "change",
    [{"names": []}, {"names": ["x", "x"]}, {"categories": [["a", "a"]]}, {"categorical": [True, False]}],
)
def test_columns_of_another_model_are_refused(table, run, tmp_path, change):
    shutil.copytree(run, tmp_path / "run")
    config = json.loads((run / "config.json").read_text())
    config["columns"] |= change
    (tmp_path / "run" / "config.json").write_text(json.dumps(config))
    with pytest.raises(UserError, match=r"(config|settings)\.json|data\.csv: X holds text"):
        predict_table(tmp_path / "run", table, tmp_path / "out.csv", 0.5, print)
    settings = FitSettings(str(table), ("y", "other"), "kind", members=2, hypotheses=2, epochs=2)
    with pytest.raises(UserError, match=r"config\.json"):
        fit_table(settings, tmp_path / "run", progress=False)


def test_a_run_has_model_measures_and_report_and_is_not_trained_again(table, run):
    before = {path.name: path.read_bytes() for path in run.iterdir() if path.is_file()}
    assert {"config.json", "model.safetensors", "metrics.json", "report.html", "settings.json"} <= set(before)
    fit_table(
        FitSettings(str(table), ("y", "other"), "kind", members=2, hypotheses=2, epochs=2),
        run,
        progress=False,
    )
    assert before["model.safetensors"] == (run / "model.safetensors").read_bytes()
    with pytest.raises(UserError, match="seed is 1, this run was made with 0"):
        fit_table(
            FitSettings(str(table), ("y", "other"), "kind", members=2, hypotheses=2, epochs=2, seed=1), run
        )
    found = json.loads(before["metrics.json"])
    inside = found["outputs"]["y"]["reliability"][2]
    assert inside["low"] <= inside["coverage"] <= inside["high"]
    assert sum(found["outputs"]["y"]["pit"]) == pytest.approx(1)


def test_prediction_writes_one_line_for_each_row(table, run, tmp_path):
    new = pd.read_csv(table).drop(columns=["y", "other"])
    new.loc[0, "kind"] = "a"
    new.assign(more=1).to_csv(tmp_path / "new.csv", index=False)
    notes = []
    assert predict_table(run, tmp_path / "new.csv", tmp_path / "out.csv", 0.8, notes.append) == 150
    assert "not used: more" in notes[0]
    found = pd.read_csv(tmp_path / "out.csv")
    assert (found["y_lower"] <= found["y_upper"]).all()
    np.testing.assert_allclose(found[["probability_1", "probability_2"]].sum(axis=1), 1)
    new.drop(columns="x").to_csv(tmp_path / "new.csv", index=False)
    with pytest.raises(UserError, match="the column 'x' is missing, which the model was trained on"):
        predict_table(run, tmp_path / "new.csv", tmp_path / "again.csv", 0.8, notes.append)
    assert not (tmp_path / "again.csv").exists()
    for name in ("config.json", "model.safetensors", "settings.json"):
        with pytest.raises(UserError, match="is read as well"):
            predict_table(run, table, run / name, 0.8, notes.append, overwrite=True)
    for name, reason in (("new.csv", "is read as well"), ("own.csv", "was not written by this program")):
        (tmp_path / "own.csv").write_text("precious")
        before = (tmp_path / name).read_text()
        with pytest.raises(UserError, match=reason):
            predict_table(run, tmp_path / "new.csv", tmp_path / name, 0.8, notes.append)
        assert (tmp_path / name).read_text() == before


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"targets": ("z",)}, "has no column 'z'; it has x, kind, y, other"),
        ({"targets": ("kind",)}, r"the column 'kind' holds text \('.*'\), a target must hold numbers"),
        ({"targets": ("x",)}, "row .* has no value for the target 'x'"),
        ({"group": "y"}, "--group y: is a target"),
        ({"targets": ("y", "y")}, "'y' is named twice"),
        ({"group": "nothing"}, "has no column 'nothing'"),
        ({"test_fraction": 0.0}, "--test-fraction 0.0: must be above 0"),
        ({"target_transform": "log"}, "--target-transform log: must be auto or yeo-johnson"),
    ],
)
def test_mistakes(table, tmp_path, changes, message):
    with pytest.raises(UserError, match=message):
        fit_table(
            FitSettings(**{"data": str(table), "targets": ("y",), **changes}),
            tmp_path / "run",
            progress=False,
        )
    assert not (tmp_path / "run").exists()


def test_the_marginal_distribution_is_one_mixture_for_all_rows():
    random = np.random.default_rng(0)
    y, trained = random.normal(size=10), random.lognormal(size=50)
    found = Marginal.of(trained)
    shape = (10, len(found.points))
    rows = GaussianMixture(
        np.full(shape, 1 / shape[1]),
        np.broadcast_to(found.points, shape),
        np.broadcast_to(found.widths, shape),
    )
    np.testing.assert_allclose(found.crps(y), rows.crps(y))
    np.testing.assert_allclose(found.nll(y), rows.nll(y))


def test_the_marginal_mean_is_that_of_the_training_rows(table, tmp_path):
    frame = pd.read_csv(table)
    frame["y"] = np.exp(3 * frame["y"])
    path = tmp_path / "heavy.csv"
    frame.to_csv(path, index=False)
    settings = FitSettings(str(path), ("y",), members=1, hypotheses=2, epochs=1)
    found = fit_table(settings, tmp_path / "run", progress=False)["outputs"]["y"]["marginal"]
    order = np.random.default_rng(0).permutation(150)
    held, trained = (frame["y"].to_numpy()[part] for part in (order[:30], order[30:]))
    assert found["mae"] == pytest.approx(np.abs(held - trained.mean()).mean())


def test_a_skewed_target_is_transformed_where_asked(table, tmp_path):
    settings = FitSettings(
        str(table), ("y",), members=1, hypotheses=2, epochs=1, target_transform="yeo-johnson"
    )
    fit_table(settings, tmp_path / "run", progress=False)
    model = MCLRegressor.load(tmp_path / "run")
    assert model.target_transform_ == "yeo-johnson"
    found = json.loads((tmp_path / "run" / "metrics.json").read_text())["outputs"]["y"]
    frame = pd.read_csv(table)
    held = frame.iloc[np.random.default_rng(0).permutation(150)[:30]]
    X, y = held[["x", "kind", "other"]], held["y"]
    assert found["model"]["crps"] == pytest.approx(-scorers.crps(model, X, y))
    assert found["model"]["nll"] == pytest.approx(-scorers.log_likelihood(model, X, y))
    assert found["model"]["mae"] == pytest.approx(np.abs(model.predict(X) - y).mean())
    below = model.predict_dist(X).cdf(torch.from_numpy(y.to_numpy())[:, None]).numpy()
    assert found["pit"] == pytest.approx(list(np.histogram(below, 10, (0, 1))[0] / 30))
    (chart,) = _densities(model, X.iloc[:1], y.to_numpy()[:1], 0)
    low, high = (float(each) for each in re.findall(r'middle">([^<]+)<', chart))
    levels = model.predict_quantiles(X.iloc[:1], [0.001, 0.999]).to_numpy()[0]
    assert [low, high] == pytest.approx(levels, rel=0.01)


@pytest.mark.parametrize("scale", [1e155, 1e-200])
def test_measures_follow_the_unit_of_the_target(table, tmp_path, scale):
    frame = pd.read_csv(table)
    settings = FitSettings("", ("y",), members=1, hypotheses=2, epochs=1)
    found = []
    for name, factor in (("plain", 1.0), ("scaled", scale)):
        path = tmp_path / f"{name}.csv"
        frame.assign(y=frame["y"] * factor).to_csv(path, index=False)
        own = fit_table(replace(settings, data=str(path)), tmp_path / name, progress=False)
        found.append(own["outputs"]["y"])
    for kind in ("model", "marginal", "linear"):
        plain, scaled = found[0][kind], found[1][kind]
        for key in ("crps", "rmse", "mae"):
            assert scaled[key] / scale == pytest.approx(plain[key], rel=1e-3)
        assert scaled["nll"] - np.log(scale) == pytest.approx(plain["nll"], abs=0.01)


def test_an_importance_that_is_infinite_is_left_out(run, monkeypatch):
    model = MCLRegressor.load(run)
    frame = pd.DataFrame({"x": [0.5, None, 2.0, 1.0], "kind": ["a", "b<i>", "a", "c"]})
    monkeypatch.setattr(type(model.model_), "std", lambda self, inputs: np.full((len(inputs), 2), np.inf))
    assert _importance(model, frame, 0) == []


def test_what_is_infinite_is_left_out_of_the_report(table, tmp_path):
    frame = pd.read_csv(table)
    frame.loc[np.random.default_rng(0).permutation(150)[0], "y"] = 1e200
    frame.to_csv(tmp_path / "t.csv", index=False)
    settings = FitSettings(str(tmp_path / "t.csv"), ("y", "other"), members=1, hypotheses=2, epochs=1)
    found = fit_table(settings, tmp_path / "run", progress=False)
    assert found["outputs"]["y"]["model"]["nll"] is None
    assert found["outputs"]["y"]["model"]["rmse"] == pytest.approx(1e200 / 30**0.5)
    assert "energy score" not in (tmp_path / "run" / "report.html").read_text()


@pytest.mark.parametrize("kinds", [("01", "02", "A"), ("TRUE", "FALSE", "?"), ("1.50", "2", "A")])
@pytest.mark.parametrize("rows", [None, 7])
def test_a_category_is_the_same_text_in_every_file(tmp_path, monkeypatch, kinds, rows):
    """Though all of a file, or of a piece of it, look like numbers or truth values."""
    draw = np.random.default_rng(0)
    frame = pd.DataFrame({"kind": draw.choice(kinds, 60), "y": draw.normal(size=60)})
    frame.to_csv(tmp_path / "t.csv", index=False)
    settings = FitSettings(str(tmp_path / "t.csv"), ("y",), members=1, hypotheses=2, epochs=2)
    fit_table(settings, tmp_path / "run", progress=False)
    new = frame[frame["kind"] != kinds[-1]]
    new.to_csv(tmp_path / "n.csv", index=False)
    monkeypatch.setattr("torchmcl.tabular.command.pieces", lambda path, text: pieces(path, rows, text))
    predict_table(tmp_path / "run", tmp_path / "n.csv", tmp_path / "out.csv", 0.5, print)
    model = MCLRegressor.load(tmp_path / "run")
    assert model.predict(new[["kind"]]).std() > 0
    np.testing.assert_allclose(pd.read_csv(tmp_path / "out.csv")["mean"], model.predict(new[["kind"]]))


def test_categories_that_are_not_known_are_noted(tmp_path, monkeypatch):
    draw = np.random.default_rng(0)
    frame = pd.DataFrame({"kind": draw.choice(["a", "b"], 60), "size": draw.choice(["s", "l"], 60)})
    frame.assign(y=draw.normal(size=60)).to_csv(tmp_path / "t.csv", index=False)
    settings = FitSettings(str(tmp_path / "t.csv"), ("y",), members=1, hypotheses=2, epochs=1)
    fit_table(settings, tmp_path / "run", progress=False)
    frame.loc[[1, 4, 50], "kind"] = ["c", "d", "c"]
    frame.loc[7, "kind"] = None
    frame.to_csv(tmp_path / "n.csv", index=False)
    monkeypatch.setattr("torchmcl.tabular.command.pieces", lambda path, text: pieces(path, 10, text))
    notes = []
    predict_table(tmp_path / "run", tmp_path / "n.csv", tmp_path / "out.csv", 0.5, notes.append)
    assert len(notes) == 1
    assert "'kind' is in 4 of 60 rows a category that the training did not have" in notes[0]


def test_names_that_are_numbers_are_found_again(tmp_path):
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(60, 2)), columns=[0, 1])
    frame.to_parquet(tmp_path / "t.parquet")
    settings = FitSettings(str(tmp_path / "t.parquet"), ("1",), members=1, hypotheses=2, epochs=1)
    fit_table(settings, tmp_path / "run", progress=False)
    assert (
        predict_table(tmp_path / "run", tmp_path / "t.parquet", tmp_path / "out.csv", 0.5, pytest.fail) == 60
    )


def test_a_group_is_the_same_beside_gaps(tmp_path):
    draw = np.random.default_rng(0)
    frame = pd.DataFrame({"g": draw.choice([1, 2, np.nan], 90), "x": draw.normal(size=90)})
    frame.assign(y=frame["x"]).to_csv(tmp_path / "t.csv", index=False)
    settings = FitSettings(str(tmp_path / "t.csv"), ("y",), "g", members=1, hypotheses=2, epochs=1)
    fit_table(settings, tmp_path / "run", progress=False)
    frame.to_csv(tmp_path / "n.csv", index=False)
    frame.dropna().astype({"g": int}).to_csv(tmp_path / "whole.csv", index=False)
    found = []
    for name in ("n", "whole"):
        predict_table(tmp_path / "run", tmp_path / f"{name}.csv", tmp_path / f"o{name}.csv", 0.5, print)
        found.append(pd.read_csv(tmp_path / f"o{name}.csv"))
    pd.testing.assert_frame_equal(found[0][frame["g"].notna()].reset_index(drop=True), found[1])


def test_groups_that_nothing_calibrates_are_found_before_training(table, tmp_path):
    frame = pd.read_csv(table).assign(g=range(150))
    frame.to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(UserError, match=r"t\.csv: --group g: too few rows of '\d+' to be among those"):
        fit_table(FitSettings(str(tmp_path / "t.csv"), ("y",), "g"), tmp_path / "run", progress=False)
    frame.assign(g=["a"] * 149 + ["b"]).to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(UserError, match="--group g: too few rows of all but 'a'"):
        fit_table(FitSettings(str(tmp_path / "t.csv"), ("y",), "g"), tmp_path / "run", progress=False)
    assert not (tmp_path / "run").exists()


def test_numbers_that_are_taken_for_categories_are_told(tmp_path):
    frame = pd.DataFrame({"x": ["?", *map(str, range(59))], "code": ["1", "2", "A"] * 20, "y": range(60)})
    frame.to_csv(tmp_path / "t.csv", index=False)
    settings = FitSettings(str(tmp_path / "t.csv"), ("y",), members=1, hypotheses=2, epochs=1)
    with pytest.warns(UserWarning, match="is taken for categories") as told:
        fit_table(settings, tmp_path / "run", progress=False)
    said = [str(each.message) for each in told if "is taken for categories" in str(each.message)]
    assert said == [
        f"{tmp_path / 't.csv'}: the column 'x' is taken for categories, because it holds '?' beside numbers: "
        "leave out such cells and signs if it shall be numbers"
    ]


@pytest.mark.parametrize(
    ("content", "columns"),
    [
        (b"a,b\n1,x\n2.5,y\n", {"a": [1, 2.5], "b": ["x", "y"]}),
        (b"a;b\n1,5;x\n2,5;y\n", {"a": [1.5, 2.5], "b": ["x", "y"]}),
        (b"\xef\xbb\xbfa\tb\n1\t2\n", {"a": [1], "b": [2]}),
        (b"a|b\n1|2\n", {"a": [1], "b": [2]}),
        (b"a;b\r1,5;x\r2,5;y\r", {"a": [1.5, 2.5], "b": ["x", "y"]}),
        (b"a;b\n1.5;3,5 m\n2.5;4,5 m\n", {"a": [1.5, 2.5], "b": ["3,5 m", "4,5 m"]}),
        (b"a;b\n1.234,5;x\n2;y\n", {"a": [1234.5, 2.0], "b": ["x", "y"]}),
        (b"a;b\n1,5;1.5\n2,5;x\n", {"a": [1.5, 2.5], "b": ["1.5", "x"]}),
        (b"a;b\n1,234;0,5\n950;x\n", {"a": [1.234, 950], "b": ["0,5", "x"]}),
        ("a;b\n1,5;x\u2028y\n2,5;\x85\n".encode(), {"a": [1.5, 2.5], "b": ["x\u2028y", "\x85"]}),
    ],
)
def test_delimiter_and_decimal_sign_are_detected(tmp_path, content, columns):
    (tmp_path / "t.csv").write_bytes(content)
    assert read_frame(tmp_path / "t.csv").to_dict("list") == columns


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t.csv", b"", "is empty"),
        ("t.csv", b"a,b\n", "holds no row"),
        ("t.csv", b"a,b\n1,2\n1,\xff\n", "line 3 is not UTF-8 text"),
        ("t.csv", b"a,b\n1,2\n1,2,3\n", "Expected 2 fields in line 3, saw 3"),
        ("t.csv", b"a,b\n1,2,3\n1,2,3\n", "its lines have more fields than its header"),
        ("t.csv", b"a;y;y\n1;2;3\n", "has two columns named 'y'"),
        ("t.csv", b'"a,b","a,b"\n1,2\n', "has two columns named 'a,b'"),
        ("t.csv", b"\n\na;y;y\n1;2;3\n", "has two columns named 'y'"),
        (
            "t.csv",
            b"a;b\n1,5;1.234\n2,5;999\n",
            "the column 'b' holds '1.234', whose point may be a decimal sign",
        ),
        (
            "t.csv",
            b"a\tb\n1,234\t2\n950\t3\n",
            "'1,234', whose comma may be a decimal sign or be between thousands",
        ),
        (
            "t.csv",
            b"a;b\n1,234;1,234,567\n",
            "'1,234', whose comma may be a decimal sign or be between thousands",
        ),
        ("t.csv", b"a,b\n1\x002,3\n", "line 2 holds a null character"),
        ("t.csv", "a,b\n1,2\n".encode("utf-16-le"), "line 1 holds a null character"),
        ("t.csv", b"a,b\n" + b"1,2\n" * 50_000 + b"1,\x00\n", "line 50002 holds a null character"),
        ("t.csv.gz", gzip.compress(b"a,b\n1,\x00\n", mtime=0), "line 2 holds a null character"),
        ("t.csv", b"," * 70_000 + b"y,y\n" + b"1," * 70_001 + b"1\n", "has two columns named 'y'"),
        ("t.csv.gz", b"a,b\n1,2\n", r"t\.csv\.gz: cannot be read \(Not a gzipped file"),
        ("t.csv.gz", gzip.compress(b"a,b\n1,2\n" * 99, mtime=0)[:-9], r"t\.csv\.gz: cannot be read"),
        ("t.csv.bz2", b"a,b\n", r"t\.csv\.bz2: cannot be read"),
        ("t.csv.xz", b"a,b\n", r"t\.csv\.xz: cannot be read"),
        ("t.csv.zip", b"a,b\n", r"t\.csv\.zip: cannot be read"),
        ("t.csv.tar", b"a,b\n", r"t\.csv\.tar: cannot be read"),
        ("t.parquet", b"a,b\n", "is not a Parquet file"),
    ],
)
def test_broken_files_are_named(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError, match=message):
        read_frame(tmp_path / name)


def test_the_decimal_sign_is_found_below_a_long_header(tmp_path):
    names, cells = ";".join(f"a long name {n}" for n in range(5000)), ";".join(["1,5"] * 5000)
    (tmp_path / "t.csv").write_text(f"{names}\n{cells}\n{cells}\n")
    assert (read_frame(tmp_path / "t.csv").to_numpy() == 1.5).all()


@pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
def test_a_folder_whose_name_is_a_tilde_is_not_the_home(tmp_path, monkeypatch, name):
    home, here = tmp_path / "home", tmp_path / "here" / "~"
    for folder, value in ((home, 1.0), (here, 2.0)):
        folder.mkdir(parents=True)
        frame = pd.DataFrame({"a": [value]})
        frame.to_csv(folder / name, index=False) if name == "t.csv" else frame.to_parquet(folder / name)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(here.parent)
    assert read_frame(Path("~") / name)["a"].tolist() == [2.0]


def test_compressed_files_are_read_as_others_are(tmp_path, monkeypatch):
    frame = pd.DataFrame({"a": [1.5, 2.5], "b": ["x", "y"]})
    for suffix in ("gz", "bz2", "xz", "zip"):
        frame.to_csv(tmp_path / f"t.csv.{suffix}", index=False, sep=";", decimal=",")
        pd.testing.assert_frame_equal(read_frame(tmp_path / f"t.csv.{suffix}"), frame)
    monkeypatch.setattr("torchmcl.tabular.files.MOST_CONTENT", 2**21)
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(b"a,b\n" + b"1,2\n" * 2**20))
    with pytest.raises(UserError, match=r"t\.csv\.gz: has more than 2097152 bytes of content"):
        read_frame(tmp_path / "t.csv.gz")


def test_two_columns_without_a_name_are_refused(tmp_path):
    pq.write_table(pa.Table.from_arrays([pa.array([1.0])] * 2, names=["", ""]), tmp_path / "t.parquet")
    with pytest.raises(UserError, match=r"t\.parquet: has two columns named ''"):
        read_frame(tmp_path / "t.parquet")
    (tmp_path / "t.csv").write_text(",,y\n1,2,3\n")
    assert read_frame(tmp_path / "t.csv").to_numpy().tolist() == [[1, 2, 3]]


def test_a_small_file_that_announces_a_large_table_is_refused(tmp_path):
    """Equal values cost nothing in Parquet."""
    constant = pa.DictionaryArray.from_arrays(pa.array(np.zeros(3_000_000, np.int8)), ["x"])
    pq.write_table(pa.table({str(n): constant for n in range(100)}), tmp_path / "t.parquet")
    assert (tmp_path / "t.parquet").stat().st_size < 2**20
    with pytest.raises(UserError, match=r"t.parquet: has 3000000 rows of 100 columns, at most"):
        read_frame(tmp_path / "t.parquet")


def test_damaged_parquet_is_read_or_refused(tmp_path):
    pd.DataFrame({"a": range(25), "b": ["x"] * 25}).to_parquet(tmp_path / "whole.parquet")
    content, draw = (tmp_path / "whole.parquet").read_bytes(), random.Random(0)
    for _ in range(150):
        (tmp_path / "t.parquet").write_bytes(mutate(content, draw))
        with contextlib.suppress(UserError):
            read_frame(tmp_path / "t.parquet")


@pytest.mark.parametrize("remark", ["[" * 100_000, json.dumps({
    "index_columns": [], "columns": [], "column_indexes": [
        {"name": None, "field_name": None, "pandas_type": "decimal", "numpy_type": "object", "metadata": None}
    ]})])  # fmt: skip
def test_remarks_of_pandas_that_cannot_be_followed_are_refused(tmp_path, remark):
    table = pa.table({"x": [1.0]}).replace_schema_metadata({"pandas": remark})
    pq.write_table(table, tmp_path / "t.parquet")
    with pytest.raises(UserError, match=r"t\.parquet: is not a Parquet file"):
        read_frame(tmp_path / "t.parquet")


def test_pieces_are_the_whole(tmp_path):
    frame = pd.DataFrame({"a": range(25), "b": ["x"] * 25})
    frame.to_parquet(tmp_path / "t.parquet")
    frame.to_csv(tmp_path / "t.csv", index=False)
    for name in ("t.parquet", "t.csv"):
        found = list(pieces(tmp_path / name, 10))
        assert [len(each) for each in found] == [10, 10, 5]
        pd.testing.assert_frame_equal(pd.concat(found), frame, check_index_type=False)


def test_the_page_needs_nothing_else(run):
    text = (run / "report.html").read_text(encoding="utf-8")
    assert not re.findall(r"""(?:src|href)=["'](?!data:)""", text)
    assert "<i>" not in text


def test_no_control_character_is_in_the_page():
    page = drawing.page("\x1b[31m", drawing.figure("\x1b]0;\x07", drawing.horizontal([("\x00", 1.0)])))
    assert not re.findall(r"[\x00-\x08\x0b-\x1f]", page)


@browser_needed
@pytest.mark.parametrize("width", [390, 1280])
def test_the_page_fits_and_nothing_goes_wrong(run, width):
    wrong = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        )
        tab = browser.new_context(viewport={"width": width, "height": 900}, offline=True).new_page()
        tab.on("console", lambda message: wrong.append(message.text))
        tab.on("pageerror", lambda error: wrong.append(str(error)))
        tab.goto((run / "report.html").as_uri())
        assert tab.evaluate("document.documentElement.scrollWidth") <= width
        assert tab.locator("svg").count() > 10
        assert tab.evaluate(CUT) == []
        browser.close()
    assert wrong == []


def test_a_study_is_resumed_and_summarized(tmp_path, monkeypatch):
    monkeypatch.setattr("torchmcl.tabular.study.execute", execute)
    random = np.random.default_rng(0)
    folder = tmp_path / "sets" / "tiny" / "data"
    folder.mkdir(parents=True)
    X = random.normal(size=(60, 2))
    np.savetxt(folder / "data.txt", np.c_[X, X.sum(1)])
    np.savetxt(folder / "index_features.txt", [0, 1])
    np.savetxt(folder / "index_target.txt", [2])
    np.savetxt(folder / "index_train_0.txt", np.arange(50))
    np.savetxt(folder / "index_test_0.txt", np.arange(50, 60))
    settings = Study(str(tmp_path / "sets"), methods=("quantiles",))
    written = study(settings, tmp_path / "out", Local(1))
    record = tmp_path / "out" / "records" / "tiny-0-quantiles.json"
    stamp = record.stat().st_mtime_ns
    assert study(settings, tmp_path / "out", Local(1)) == written
    assert record.stat().st_mtime_ns == stamp
    plain, text = json.loads(record.read_text()), (tmp_path / "out" / "tables.md").read_text()
    assert "LightGBM" in text
    shares = " | ".join(f"{share:.3f}" for share in plain["coverage"].values())
    assert f"| tiny | {shares} | 10 |" in text
    assert f"| mean of the sets | {shares} |" in text
    for change in (
        {"set": 1},
        {"crps": None},
        {"coverage": {"0.5": 1.0}},
        {"rmse": "x"},
        {"method": "other"},
        {"rmse": -1.0},
        {"cpu_seconds": -1},
        {"crps": 5e-324},
        {"coverage": dict.fromkeys(plain["coverage"], 7.0)},
        {"width": dict.fromkeys(plain["width"], -1.0)},
    ):
        record.write_text(json.dumps(plain | change))
        with pytest.raises(UserError, match=r"tiny-0-quantiles\.json"):
            study(settings, tmp_path / "out", Local(1))
    record.write_text(json.dumps(plain))
    with pytest.raises(UserError, match=r"--sets none: .* has tiny"):
        study(Study(str(tmp_path / "sets"), ("none",)), tmp_path / "out", Local(1))
    with pytest.raises(UserError, match="--peers magic: must be one of torchmcl, mdn"):
        study(Study(str(tmp_path / "sets"), methods=("magic",)), tmp_path / "out", Local(1))


@pytest.mark.parametrize("name", ["a$\\bad{$", "$x$", "a\nb|c", "\x1b[31m"])
def test_a_name_of_a_set_is_shown_as_text(name, tmp_path):
    levels = dict.fromkeys(map(str, COVERAGES), 0.5)
    numbers = dict.fromkeys(("seconds", "cpu_seconds", "rmse", "mae", "nll", "crps"), 1.0)
    spread = {"coverage": levels, "width": levels, "interval_score": levels}
    record = {"set": name, "method": "torchmcl", "rows": 9, "test_rows": 3, **numbers, **spread}
    figure = study_figure(summary([record]))
    figure.savefig(tmp_path / "study.png")
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == [caption(name)]


@pytest.mark.parametrize("text", ["", "nan", "1e300", "99999999999999999999999", "0.5", "-1", "2", "x"])
def test_numbers_of_columns_that_are_not_there_are_refused(text, tmp_path):
    """With one sentence: a warning would be another."""
    folder = tmp_path / "tiny" / "data"
    folder.mkdir(parents=True)
    np.savetxt(folder / "data.txt", np.zeros((4, 2)))
    (folder / "index_features.txt").write_text(text)
    with pytest.raises(UserError, match=r"index_features\.txt: (must hold|is not a table of numbers)"):
        read_split(tmp_path, "tiny", 0)


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("index_features.txt", "0\n1\n", r"index_features\.txt: names column 1, which is the target"),
        ("index_test_0.txt", "1\n3\n", r"index_test_0\.txt: names row 1, which is a training row"),
        ("data.txt", "1 2\n2 2\n3 2\n4 1\n", r"data\.txt: the target, column 1, must .* differ"),
        ("data.txt", "1 2\n2 3\n3 1e155\n4 1\n", r"data\.txt: the target, column 1, must be at most 1e\+100"),
    ],
)
def test_splits_that_measure_nothing_are_refused(file, text, message, tmp_path):
    folder = tmp_path / "tiny" / "data"
    folder.mkdir(parents=True)
    contents = {"data": "1 2\n2 3\n3 4\n4 5\n", "index_features": "0", "index_target": "1",
                "index_train_0": "0\n1\n2\n", "index_test_0": "3"}  # fmt: skip
    for name, content in contents.items():
        (folder / f"{name}.txt").write_text(content)
    assert read_split(tmp_path, "tiny", 0).y_test.tolist() == [5]
    (folder / file).write_text(text)
    with pytest.raises(UserError, match=message):
        read_split(tmp_path, "tiny", 0)


@pytest.mark.parametrize("text", [None, "", "9\n"])
def test_a_later_split_that_is_broken_is_found_before_the_work(text, tmp_path):
    folder = tmp_path / "tiny" / "data"
    folder.mkdir(parents=True)
    contents = {"data": "1 2\n2 3\n3 4\n4 5\n", "index_features": "0", "index_target": "1",
                "index_train_0": "0\n1\n", "index_test_0": "3", "index_train_1": "0\n1\n"}  # fmt: skip
    for name, content in contents.items():
        (folder / f"{name}.txt").write_text(content)
    if text is not None:
        (folder / "index_test_1.txt").write_text(text)
    with pytest.raises(UserError, match=r"index_test_1\.txt: "):
        study(Study(str(tmp_path), methods=("quantiles",)), tmp_path / "out", Local(1))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("seed", [-1, 2**32])
def test_a_seed_that_is_none_is_found_before_the_work(seed):
    for settings in (partial(Study, "sets"), partial(FitSettings, "t.csv", ("y",))):
        with pytest.raises(UserError, match="--seed must be 0 to 4294967295"):
            settings(seed=seed)


def test_ranks_and_ratios():
    def record(name, method, crps):
        levels = {str(level): 0.9 for level in (0.5, 0.8, 0.9, 0.95)}
        one = {"rmse": crps, "mae": crps, "nll": crps, "crps": crps, "cpu_seconds": 1.0, "seconds": 1.0}
        return {"set": name, "split": 0, "method": method, "rows": 9, "test_rows": 5, **one,
                "coverage": levels, "width": levels, "interval_score": levels}  # fmt: skip

    found = summary(
        [record("a", "torchmcl", 1.0), record("a", "mdn", 2.0), record("a", "control", 0.5),
         record("b", "torchmcl", 4.0), record("b", "mdn", 2.0), record("b", "control", 4.0)]
    )  # fmt: skip
    assert found["ranks"]["crps"] == {"torchmcl": 1.5, "mdn": 1.5}
    assert found["ratios"] == {"mdn": pytest.approx(1.0), "control": pytest.approx(2**0.5)}
    assert found["coverage"]["mdn"]["mean_gap_per_set"] == pytest.approx((0.4 + 0.1 + 0 + 0.05) / 4)


def test_many_columns_take_time_in_proportion_to_their_number(tmp_path):
    path = tmp_path / "wide.csv"
    path.write_text(",".join(map(str, range(60_000))) + "\n" + ",".join(["1"] * 60_000) + "\n")
    began = time.process_time()
    assert read_frame(path).shape == (1, 60_000)
    assert time.process_time() - began < 10  # comparing each name with each other one takes 25 s


def test_two_different_rows_are_too_few_for_a_report(tmp_path):
    path = tmp_path / "two.csv"
    path.write_text("x,y\n" + "0,0\n1,1\n" * 30)
    with pytest.raises(UserError, match=r"two\.csv: has too few different rows to hold out some"):
        fit_table(FitSettings(str(path), ("y",), members=1, hypotheses=2, epochs=1), tmp_path / "run", False)
    assert not (tmp_path / "run" / "config.json").exists()


def test_a_wide_table_is_read_once_for_the_importance_of_its_columns(run, monkeypatch):
    model, read = MCLRegressor.load(run), []
    monkeypatch.setattr("torchmcl.tabular.predictions.validated_table", _counted(read))
    frame = pd.DataFrame({"x": [0.5, None, 2.0, 1.0], "kind": ["a", "b<i>", "a", "c"]})
    found = {each["column"]: each["mean"] for each in _importance(model, frame, 0)}
    assert len(read) == 1
    draw = np.random.default_rng(0)
    for name in frame:
        shuffled = frame.copy()
        shuffled[name] = frame[name].to_numpy()[draw.permutation(4)]
        moved = (model.predict(shuffled) - model.predict(frame)) / model.model_.units.scale
        assert found[name] == pytest.approx(np.sqrt(np.mean(moved**2)))


def _counted(calls):
    def read(*arguments):
        calls.append(arguments)
        return validated_table(*arguments)

    return read
