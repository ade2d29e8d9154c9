"""Endings of the estimator: extreme numbers, failures, threads, and the tools of scikit-learn around it."""

import threading

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


def test_calibrated_on_fresh_rows_the_coverage_is_that_of_the_rows():
    model = small().fit(X[:30], Y[:30]).calibrate(X, Y)
    ends = model.predict_interval(X, 0.8)
    inside = ((ends[:, 0] <= Y) & (ends[:, 1] >= Y)).mean()
    assert inside == pytest.approx(np.ceil(61 * 0.8) / 60, abs=1e-9)
    with pytest.raises(ValueError, match=r"groups holds one group only \('a'\)"):
        model.calibrate(X, Y, groups=["a"] * 60)


def test_tools_of_scikit_learn():
    search = GridSearchCV(
        small(), {"n_hypotheses": [1, 2]}, scoring=scorers.crps, cv=2, error_score="raise"
    ).fit(X, Y)
    assert search.best_score_ < 0
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
