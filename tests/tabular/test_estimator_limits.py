"""Endings of the estimator: extreme numbers, failures, threads, and the tools of scikit-learn around it."""

import threading
from datetime import date
from functools import partial

import numpy as np
import pandas as pd
import pytest
import sklearn
import torch
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.model_selection import GridSearchCV, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from torchmcl import MCLClassifier, MCLRegressor, great_circle
from torchmcl.tabular import scorers

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(60, 2))
Y = X[:, 0] + 0.1 * RANDOM.normal(size=60)


def small(**settings):
    settings = {
        "n_hypotheses": 2,
        "members": 2,
        "hidden": (8,),
        "max_epochs": 3,
        "random_state": 0,
        **settings,
    }
    return MCLRegressor(**settings, progress=False)


@pytest.mark.parametrize("scale", [1e155, 1e298, 1e-200])
def test_any_magnitude_of_y_is_right(scale):
    model, plain = small().fit(X, Y * scale), small().fit(X, Y)
    np.testing.assert_allclose(model.predict(X) / scale, plain.predict(X), rtol=1e-3, atol=1e-4)
    assert model.score(X, Y * scale) == pytest.approx(plain.score(X, Y), abs=1e-3)
    assert np.isfinite(model.predict_interval(X, 0.5)).all()
    assert np.isfinite(model.predict_std(X)).all()
    np.testing.assert_allclose(
        model.log_prob(X, Y * scale) + np.log(scale), plain.log_prob(X, Y), rtol=1e-3, atol=1e-2
    )


def test_any_magnitude_of_inputs_is_finite():
    for changed in (X * 1e154, X * 1e-200, np.where(X[3, 0] == X, 1e200, X)):
        assert np.isfinite(small().fit(changed, Y).predict(changed)).all()


def test_one_outlier_leaves_the_score_finite():
    for outlier in (1e200, -1e300):
        y = np.where(Y[3] == Y, outlier, Y)
        model = small().fit(X, y)
        assert np.isfinite(model.predict(X)).all()
        assert np.isfinite(model.score(X, y))


@pytest.mark.parametrize(
    "settings",
    [{"n_hypotheses": 10**9}, {"hidden": (10**9,)}, {"hidden": (10**5,) * 3}, {"hidden": (8,) * 130_000}],
)
@pytest.mark.parametrize("kind", [MCLRegressor, MCLClassifier])
def test_networks_that_would_fill_the_memory_are_refused(kind, settings):
    with pytest.raises(ValueError, match=r"n_hypotheses.* hidden.* at most"):
        kind(**settings).fit(X, Y > 0)


def test_as_many_members_would_fill_the_memory():
    with pytest.raises(ValueError, match=r"members.* at most"):
        small(members=10**8).fit(X, Y)


@pytest.mark.parametrize("seed", [-1, 2**70, "x", 1.5])
@pytest.mark.parametrize("kind", [MCLRegressor, MCLClassifier])
def test_a_seed_that_is_none_is_named(kind, seed):
    with pytest.raises(ValueError, match="random_state"):
        kind(random_state=seed, max_epochs=1).fit(X, Y > 0)


def test_a_failed_refit_leaves_everything_as_it_was():
    model = small().fit(X, Y)
    before = model.predict(X)
    with pytest.raises(ValueError, match="y must hold numbers"):
        model.fit(X[:, :1], ["a"] * 60)
    np.testing.assert_array_equal(model.predict(X), before)


def test_fits_in_several_threads_are_equal():
    found = [np.empty(0)] * 4

    def work(index):
        found[index] = small().fit(X, Y).predict(X)

    threads = [threading.Thread(target=work, args=(index,)) for index in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for each in found:
        np.testing.assert_array_equal(each, small().fit(X, Y).predict(X))


@pytest.mark.parametrize("kind", [MCLRegressor, MCLClassifier])
def test_a_score_takes_the_weights_that_a_fit_takes(kind):
    model = kind(n_hypotheses=2, hidden=(8,), max_epochs=2, random_state=0, progress=False)
    y = Y if kind is MCLRegressor else np.where(Y > 0, "a", "b")
    weights = RANDOM.uniform(1, 2, 60)
    expected = model.fit(X, y).score(X, y, weights)
    for scale in (1e308 / 2, 1e-300):
        assert model.score(X, y, weights * scale) == pytest.approx(expected)
    for wrong in (-weights, weights[:, None], 0 * weights, weights[:9]):
        with pytest.raises(ValueError, match="sample_weight"):
            model.score(X, y, wrong)


@pytest.fixture
def double():
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("kind", [MCLRegressor, MCLClassifier])
def test_what_a_program_has_chosen_for_itself_changes_no_fit(kind, tmp_path, request):
    model = kind(n_hypotheses=2, hidden=(8,), max_epochs=2, random_state=0, progress=False)
    y = Y if kind is MCLRegressor else Y > 0
    expected = model.fit(X, y).predict_hypotheses(X).points
    with torch.inference_mode():
        assert torch.equal(model.fit(X, y).predict_hypotheses(X).points, expected)
    request.getfixturevalue("double")
    model.fit(X, y).save(tmp_path)
    for each in (model, kind.load(tmp_path)):
        assert torch.equal(each.predict_hypotheses(X).points, expected)
    assert torch.get_default_dtype() == torch.float64


@pytest.mark.usefixtures("double")
@pytest.mark.parametrize("settings", [{}, {"loss": "rmcl", "members": None}])
@pytest.mark.parametrize("dim", [1, 2])
def test_weights_of_either_part_do_not_need_those_of_the_other(settings, dim):
    y = np.stack([Y, -Y], 1)[:, :dim]
    equal, weights = np.ones(40), np.random.default_rng(0).uniform(0.5, 2, 40)
    # Held-out rows have weights where one of them is there many times.
    repeated = tuple(np.concatenate([each[40:], each[40:41].repeat(150, 0)]) for each in (X, y))
    for own in (equal, weights):
        for held in ((X[40:], y[40:]), repeated):
            model = small(**settings).fit(X[:40], y[:40], sample_weight=own, eval_set=held)
            assert np.isfinite(model.predict_interval(X, 0.5)).all()
            assert model.validation_score_.shape == (model.model_.factors.shape[0],)


@pytest.mark.parametrize("settings", [{}, {"loss": "rmcl", "members": None}])
def test_many_copies_of_a_held_out_row_count_as_one_with_their_weight(settings):
    one = X[40:41], Y[40:41]
    many = tuple(
        np.concatenate([each, own.repeat(100_000, 0)]) for each, own in zip((X, Y), one, strict=True)
    )
    scores = [
        small(max_epochs=1, **settings).fit(X, Y, eval_set=held).validation_score_ for held in (one, many)
    ]
    np.testing.assert_allclose(*scores, rtol=0.01)


@pytest.mark.parametrize("value", [3.0, 0.1, -7e200])
def test_the_score_of_a_constant_target_is_0_as_in_r2_score(value):
    model = small().fit(X, Y)
    for seed in range(10):
        weights = np.random.default_rng(seed).uniform(0.5, 2, 60)
        assert model.score(X, np.full(60, value), weights) == 0
    weights[0] = 0
    assert model.score(X, np.append(value / 2, np.full(59, value)), weights) == 0


def test_weights_of_rows_without_targets_alone_are_refused():
    y = np.where(np.arange(60)[:, None, None] < 40, Y[:, None, None], np.nan)
    model = small().fit(X, y)
    weights = (np.arange(60) >= 40).astype(float)
    for call in (model.score, model.calibrate, partial(scorers.crps, model), model.fit):
        with pytest.raises(ValueError, match="sample_weight is zero for every row that has a target"):
            call(X, y, sample_weight=weights)


def test_the_score_of_directions_does_not_depend_on_full_turns():
    angles = np.stack([np.pi + X[:, 0] / 2, np.zeros(len(X))], 1)
    model = small(loss="rmcl", members=None, distance=great_circle, max_epochs=30, learning_rate=2e-2)
    model.fit(X, angles)
    turned = angles - 2 * np.pi * np.outer(angles[:, 0] > np.pi, [1, 0])
    assert model.score(X, turned) == pytest.approx(model.score(X, angles))
    assert model.score(X, turned) > 0.5
    with pytest.raises(ValueError, match="not for directions: crps"):
        scorers.crps(model, X, angles)


def test_a_list_of_rows_is_the_array_of_its_cells():
    rows = [[float(x), bool(x > 0), "a" if x > 0.5 else np.nan] for x in X[:, 0]]
    frame = pd.DataFrame(rows)
    model = small().fit(frame, Y)
    np.testing.assert_array_equal(model.predict(rows), model.predict(frame))
    np.testing.assert_array_equal(small().fit(rows, Y).predict(rows), model.predict(frame))


def test_training_does_not_change_the_module_that_a_function_gives():
    given = torch.nn.Linear(2, 6)
    before = given.weight.clone()
    first = small(network=lambda features, outputs: given, members=1).fit(X, Y)
    predicted = first.predict(X)
    small(network=lambda features, outputs: given, members=1).fit(X, -Y)
    assert torch.equal(given.weight, before)
    np.testing.assert_array_equal(first.predict(X), predicted)


@pytest.mark.parametrize("kind", [MCLRegressor, MCLClassifier])
def test_networks_that_are_one_module_are_refused(kind):
    given = {}

    def network(features, outputs):
        return given.setdefault(outputs, torch.nn.Linear(features, outputs))

    with pytest.raises(ValueError, match="network must make a new module each time"):
        kind(network=network, max_epochs=1, progress=False).fit(X, np.arange(len(X)) % 2)


def test_a_network_in_double_precision_is_trained_in_single():
    model = small(network=torch.nn.Linear(2, 6)).fit(X, Y)
    assert np.isfinite(model.predict(X)).all()


def test_directions_around_the_back_are_left_as_they_are():
    azimuth = np.pi + 0.05 * RANDOM.normal(size=60)
    angles = np.stack([np.arctan2(np.sin(azimuth), np.cos(azimuth)), 0.05 * RANDOM.normal(size=60)], 1)
    model = small(loss="rmcl", members=None, distance=great_circle, max_epochs=40, learning_rate=2e-2).fit(
        X, angles
    )
    error = great_circle(torch.from_numpy(model.predict(X)), torch.from_numpy(angles))
    assert np.degrees(error.mean().item()) < 20
    with pytest.raises(ValueError, match="not for directions"):
        model.predict_interval(X)
    with pytest.raises(ValueError, match="y has 1 coordinates, directions have 2"):
        small(loss="rmcl", members=None, distance=great_circle).fit(X, Y)


def test_lengths_that_differ_are_refused():
    model = small().fit(X, Y)
    for call in (model.score, model.calibrate, model.log_prob):
        with pytest.raises(ValueError, match="X has 60 rows and y has 5"):
            call(X, Y[:5])


def test_quantiles_never_cross_and_frames_keep_their_index():
    frame = pd.DataFrame(X, columns=["a", "b"], index=range(100, 160))
    model = small().fit(frame, Y)
    found = model.predict_quantiles(frame, [0.05, 0.5, 0.95])
    assert list(found.index) == list(frame.index)
    assert (np.diff(found.to_numpy(), axis=1) > 0).all()
    np.testing.assert_allclose(
        model.predict_dist(frame).cdf(torch.from_numpy(found["0.05"].to_numpy())[:, None]), 0.05
    )
    assert list(model.predict_interval(frame, 0.5).columns) == ["lower", "upper"]


def test_columns_of_quantiles_close_to_each_other_have_names_of_their_own():
    frame = pd.DataFrame(X)
    levels = [0.1 + 0.2, 0.9999999, 0.99999999]
    found = small().fit(frame, Y).predict_quantiles(frame, levels)
    assert list(found.columns) == ["0.3", "0.9999999", "0.99999999"]


def test_no_question_passes_more_rows_through_the_network_than_fit_into_memory(monkeypatch):
    model, seen = small().fit(X, Y), []
    model.model_.network.register_forward_hook(lambda module, inputs, output: seen.append(inputs[0].shape[1]))
    monkeypatch.setattr("torchmcl.tabular.model.CHUNK", 16)
    model.calibrate(X, Y).predict_region(X, 0.5).contains(Y)
    model.predict_dist(X)
    model.score(X, Y)
    assert sum(seen) == 5 * len(X)
    assert max(seen) == 16


def test_calibrated_on_fresh_rows_the_coverage_is_that_of_the_rows():
    model = small().fit(X[:30], Y[:30]).calibrate(X, Y)
    ends = model.predict_interval(X, 0.8)
    inside = ((ends[:, 0] <= Y) & (ends[:, 1] >= Y)).mean()
    assert inside == pytest.approx(np.ceil(61 * 0.8) / 60, abs=1e-9)
    with pytest.raises(ValueError, match=r"groups holds one group only \('a'\)"):
        model.calibrate(X, Y, groups=["a"] * 60)


def test_a_group_is_the_same_as_a_number_with_a_point():
    model = small().fit(X, Y).calibrate(X, Y, groups=[1, 2, 2] * 20)
    ends = [model.predict_interval(X, 0.5, groups=kind([1, 2, 2] * 20)) for kind in (np.array, pd.Series)]
    again = model.predict_interval(X, 0.5, groups=np.array([1.0, 2.0, 2.0] * 20))
    np.testing.assert_array_equal(again, ends[0])
    np.testing.assert_array_equal(again, ends[1])


def test_a_region_takes_one_target_for_each_row():
    region = small().fit(X, Y).predict_region(X, 0.5)
    np.testing.assert_array_equal(region.contains(Y), region.contains(Y[:, None]))
    for wrong in (Y[:3], Y[None], np.stack([Y, Y], 1), np.where(Y[0] == Y, np.nan, Y), ["a"] * 60, None):
        with pytest.raises((ValueError, TypeError), match=r"\by\b"):
            region.contains(wrong)


def test_scorers_name_an_estimator_that_has_no_distribution():
    other = TransformedTargetRegressor(small(), func=np.sinh, inverse_func=np.arcsinh).fit(X, Y)
    for score in (scorers.crps, scorers.log_likelihood, scorers.interval_score):
        with pytest.raises(TypeError, match=r"estimator must be an MCLRegressor.* got TransformedTarget"):
            score(other, X, Y)


def test_tools_of_scikit_learn():
    search = GridSearchCV(
        small(), {"n_hypotheses": [1, 2]}, scoring=scorers.crps, cv=2, error_score="raise"
    ).fit(X, Y)
    assert search.best_score_ < 0
    assert scorers.crps(search, X, Y) == scorers.crps(search.best_estimator_, X, Y)
    pipeline = make_pipeline(ColumnTransformer([("all", StandardScaler(), [0, 1])]), small()).fit(X, Y)
    assert np.isfinite(scorers.log_likelihood(pipeline, X, Y))
    assert cross_val_predict(small(), X, Y, cv=2).shape == (60,)
    transformed = TransformedTargetRegressor(small(), func=np.sinh, inverse_func=np.arcsinh)
    assert np.isfinite(transformed.fit(X, Y).predict(X)).all()
    with sklearn.config_context(enable_metadata_routing=True):
        weighted = make_pipeline(small().set_fit_request(sample_weight=True)).fit(
            X, Y, sample_weight=np.arange(60.0)
        )
    np.testing.assert_array_equal(
        weighted.predict(X), small().fit(X, Y, sample_weight=np.arange(60.0)).predict(X)
    )


QUICK = {"max_epochs": 1, "n_hypotheses": 2, "hidden": (4,), "progress": False, "random_state": 0}
NUMBERS = np.random.default_rng(0).normal(size=(24, 2))


def text_with_gaps(kind):
    return pd.DataFrame({"a": NUMBERS[:, 0], "b": pd.array(["u", None, "v"] * 8, dtype=kind)})


@pytest.mark.parametrize("kind", ["string", "string[pyarrow]", object])
def test_text_with_gaps_of_pandas_is_a_column(kind):
    X = text_with_gaps(kind)
    model = MCLRegressor(members=1, **QUICK).fit(X, NUMBERS[:, 0])
    assert model.model_.columns.categories == (("\0missing", "u", "v"),)
    empty = X.assign(b=pd.array([None] * 24, dtype="string"))
    assert np.isfinite(model.predict(empty)).all()
    assert np.isfinite(MCLRegressor(members=1, **QUICK).fit(empty, NUMBERS[:, 0]).predict(empty)).all()


def test_masked_numbers_are_gaps():
    masked = np.ma.masked_greater(NUMBERS, 1.0)
    gaps = np.where(NUMBERS > 1.0, np.nan, NUMBERS)
    fitted = [MCLRegressor(members=1, **QUICK).fit(X, NUMBERS[:, 0]).predict(gaps) for X in (masked, gaps)]
    assert np.array_equal(*fitted)
    with pytest.raises(ValueError, match="y contains NaN"):
        MCLRegressor(**QUICK).fit(NUMBERS, masked[:, 0])


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("X", [[1.0], [1.0, 2.0]] * 12),
        ("X", np.array([[10**400]] * 24, dtype=object)),
        ("X", NUMBERS + 1j),
        ("X", pd.DataFrame({"a": [{"x": 1}] * 24})),
        ("X", pd.DataFrame({"a": [np.ones(2)] * 24})),
        ("X", pd.DataFrame({"a": [frozenset("x")] * 24})),
        ("X", pd.DataFrame({"a": [object()] * 24})),
        ("X", np.zeros((24, 1), dtype=[("a", float), ("b", int)])),
        ("X", pd.DataFrame({"a": [date(2020, 1, 1)] * 24})),
        ("X", pd.DataFrame({"a": pd.period_range("2020-01", periods=24, freq="M")})),
        ("y", np.arange(24).astype("datetime64[D]")),
        ("y", np.array([10**400] * 24, dtype=object)),
        ("y", {"a": 1}),
        ("y", NUMBERS[:5, 0]),
        ("sample_weight", ["heavy"] * 24),
        ("sample_weight", {"a": 1}),
        ("sample_weight", np.arange(24).astype("timedelta64[s]")),
        ("eval_set", (NUMBERS[:, :1], NUMBERS[:, 0])),
        ("eval_set", (NUMBERS, NUMBERS[:5, 0])),
        ("eval_set", (None, None)),
    ],
)
def test_what_cannot_be_read_is_named(name, value):
    given = {"X": NUMBERS, "y": NUMBERS[:, 0], name: value}
    with pytest.raises((ValueError, TypeError), match=rf"\b{name}\b"):
        MCLRegressor(**QUICK).fit(**given)


def test_tensors_with_gradients_and_integers_of_numpy_are_fine(unchecked):
    X = torch.from_numpy(NUMBERS).requires_grad_()
    quick = {**QUICK, "max_epochs": np.int64(1), "batch_size": np.int64(8), "patience": np.int64(1)}
    for estimator, y in ((MCLRegressor, X[:, 0]), (MCLClassifier, (X[:, 0] > 0).long())):
        assert len(estimator(**quick).fit(X, y).predict(X)) == 24


def test_enormous_weights_and_small_constants_keep_their_proportions():
    plain = MCLRegressor(members=1, **QUICK).fit(NUMBERS, NUMBERS[:, 0])
    heavy = MCLRegressor(members=1, **QUICK).fit(NUMBERS, NUMBERS[:, 0], np.full(24, 1e308))
    assert np.allclose(plain.predict(NUMBERS), heavy.predict(NUMBERS))
    constant = MCLRegressor(members=1, **QUICK).fit(NUMBERS, np.full(24, 1e-9))
    assert np.abs(constant.predict(NUMBERS)).max() < 1e-8


def test_more_draws_than_memory_and_groups_of_no_shape_are_named():
    model = MCLRegressor(members=1, **QUICK).fit(NUMBERS, NUMBERS[:, 0])
    with pytest.raises(ValueError, match="n must be at most"):
        model.sample(NUMBERS, 10**9)
    with pytest.raises(ValueError, match="groups"):
        model.calibrate(NUMBERS, NUMBERS[:, 0], groups=[[1], [1, 2]] * 12)
