"""Columns as they come, against scikit-learn's own encoders and plain NumPy."""

import datetime
import json
import tracemalloc
from functools import partial

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from torchmcl.tabular.columns import Columns, as_labels, read_table
from torchmcl.tabular.scaling import Standard, limit, weighted_quantile

FRAME = pd.DataFrame(
    {
        "number": [1.0, np.nan, 3.0, 4.0],
        "text": ["a", "b", None, "a"],
        "flag": [True, False, True, True],
        "kind": pd.Categorical([1, 2, 2, 1]),
        "constant": [7, 7, 7, 7],
    }
)


def encoded(frame, other=None):
    columns = Columns.fit(read_table(frame), np.ones(len(frame)))
    return columns, columns.apply(read_table(frame if other is None else other, columns.categorical))


def test_a_mixed_table_becomes_numbers():
    columns, values = encoded(FRAME)
    assert (columns.numeric, columns.plain) == (3, 1 + 3 + 2)
    assert np.isfinite(values).all()
    assert values[:, 3].tolist() == [0, 1, 0, 0]  # the indicator of the gap
    assert values[:, 2].tolist() == [0, 0, 0, 0]  # the constant column
    np.testing.assert_array_equal(values[:, 4:7].sum(1), 1)


def test_numbers_and_categories_agree_with_scikit_learn():
    random = np.random.default_rng(0)
    frame = pd.DataFrame({"x": random.normal(size=50), "c": random.choice(list("pqr"), 50)})
    _, values = encoded(frame)
    np.testing.assert_allclose(values[:, :1], StandardScaler().fit_transform(frame[["x"]]), rtol=1e-5)
    np.testing.assert_array_equal(
        values[:, 1:], OneHotEncoder(sparse_output=False).fit_transform(frame[["c"]])
    )


def test_unknown_categories_and_new_gaps():
    new = FRAME.copy()
    new["text"] = ["never", None, "a", "b"]
    new["flag"] = [None, True, False, True]
    _, values = encoded(FRAME, new)
    assert values[0, 4:7].tolist() == [0, 0, 0]
    assert np.isfinite(values).all()


def test_many_categories_keep_the_frequent_ones():
    labels = [f"c{i}" for i in range(200)] + ["often"] * 30
    columns, values = encoded(pd.DataFrame({"c": labels}))
    assert "often" in columns.categories[0]
    assert values.shape == (230, 50)


def test_json_gives_the_same_numbers():
    columns, values = encoded(FRAME)
    again = Columns.from_json(json.loads(json.dumps(columns.to_json())))
    np.testing.assert_array_equal(again.apply(read_table(FRAME, again.categorical)), values)


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (pd.DataFrame({"day": pd.to_datetime(["2020-01-01", "2020-01-02"])}), "X holds dates in day"),
        (pd.DataFrame({"day": ["2020-01-01", "2020-01-02"]}), "X holds dates in day"),
        (pd.DataFrame({"day": [datetime.time(10, 30), None]}), "X holds dates in day"),
        (pd.DataFrame({"day": ["31.12.2020 10:00", "1.1.2021 11:30"]}), "X holds dates in day"),
        (pd.DataFrame({"x": [1.0, np.inf]}), "Input X contains infinity in x"),
    ],
)
def test_what_is_refused(frame, message):
    with pytest.raises(ValueError, match=message):
        read_table(frame)


def test_text_where_numbers_were():
    with pytest.raises(ValueError, match=r"X holds text \('many'\) in x, which held numbers in training"):
        read_table(pd.DataFrame({"x": [1.0, "2.0", "many"]}), (False,))


@given(arrays(float, st.integers(2, 20), elements=st.floats(-1e300, 1e300)))
def test_standardized_numbers_are_finite_and_come_back(values):
    standard = Standard.fit(values[:, None], np.ones(len(values)))
    scaled = standard.apply(values[:, None])
    assert np.isfinite(limit(scaled)).all()
    assert (standard.scale > 0).all()
    near = np.abs(scaled[:, 0]) < 1e3
    np.testing.assert_allclose(
        standard.invert(scaled)[near, 0],
        values[near],
        rtol=1e-6,
        atol=1e-9 * float(np.abs(values).max() + 1e-300),
    )


def test_weights_act_as_repetitions():
    random = np.random.default_rng(0)
    values, weights = random.normal(size=30), random.integers(1, 5, 30)
    repeated = values.repeat(weights)
    a, b = (
        Standard.fit(each[:, None], w)
        for each, w in ((values, weights.astype(float)), (repeated, np.ones(len(repeated))))
    )
    np.testing.assert_allclose([a.center, a.scale], [b.center, b.scale])
    levels = np.array([0.1, 0.5, 0.9])
    np.testing.assert_array_equal(
        weighted_quantile(values, levels, weights.astype(float)),
        np.quantile(repeated, levels, method="inverted_cdf"),
    )


def test_equal_keys_of_different_types_are_different_categories():
    """Whatever the order of the rows is."""
    cells = [1, True, 1.0, "a"]
    for order in (cells, cells[::-1]):
        labels = read_table(pd.DataFrame({"c": order})).labels[:, 0].tolist()
        assert dict(zip(map(repr, order), labels, strict=True)) == {
            "1": "1", "True": "True", "1.0": "1", "'a'": "a",
        }  # fmt: skip
    assert read_table(pd.DataFrame({"c": [np.float32(1), "a"]})).labels.tolist() == [["1"], ["a"]]


def test_places_are_where_a_column_goes():
    columns, values = encoded(FRAME)
    assert sorted(place for places in columns.places for place in places) == list(range(values.shape[1]))
    for name, places in zip(FRAME, columns.places, strict=True):
        changed = FRAME.copy()
        changed[name] = FRAME[name].to_numpy()[[1, 0, 2, 3]]
        moved = columns.apply(read_table(changed, columns.categorical)) != values
        assert set(np.flatnonzero(moved.any(0))) <= set(places)
        np.testing.assert_array_equal(np.delete(moved, places, 1), False)


def test_a_long_cell_takes_memory_once():
    frame = pd.DataFrame({"text": ["x" * 3_000_000, *map(str, range(60)), "a"]})
    tracemalloc.start()
    columns = Columns.fit(read_table(frame), np.ones(len(frame)))
    largest = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(columns.categories[0]) == 50
    assert largest < 50e6


@pytest.mark.parametrize("make", [partial(pd.DataFrame, columns=["x"]), np.array])
def test_names_with_underscores_are_no_numbers(make):
    """Python reads `1_12` and `11_2` as the same number."""
    table = read_table(make([["1_12"], ["11_2"]]))
    assert table.labels[:, 0].tolist() == ["1_12", "11_2"]
    with pytest.raises(ValueError, match=r"X holds text \('1_12'\) in "):
        read_table(make([["5"], ["1_12"]]), (False,))
    assert as_labels(pd.Series(["1_12", "112.0"]), ["112"]).tolist() == ["1_12", "112"]


def test_cells_that_are_no_text_are_refused_by_their_kind():
    for cells in ([b"a", b"\xff"], [[1], [2]]):
        column = pd.Series(cells)
        assert as_labels(column, ["a"]).equals(column)
        with pytest.raises(TypeError, match=f"X holds {type(cells[0]).__name__} in x: the argument must be"):
            read_table(pd.DataFrame({"x": column}), (True,))
