"""The estimator: scikit-learn's own checks, ambiguous data, and every form of y."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures
from sklearn.utils.estimator_checks import parametrize_with_checks

from torchmcl import great_circle
from torchmcl.tabular.regressor import MCLRegressor

NOT_APPLICABLE = {
    "check_array_api_input": "predictions come from torch on the CPU; other array libraries are not promised",
}


def small(**settings) -> MCLRegressor:
    return MCLRegressor(
        **{"n_hypotheses": 3, "members": 2, "hidden": (32,), "max_epochs": 40, "progress": False, **settings}
    )


@pytest.mark.usefixtures("unchecked")
@parametrize_with_checks(
    [small(max_epochs=12, learning_rate=2e-2)], expected_failed_checks=lambda estimator: NOT_APPLICABLE
)
def test_scikit_learn(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def forked():
    """A fork: y is x or -x with probabilities 0.8 and 0.2."""
    random = np.random.default_rng(0)
    x = random.uniform(0.2, 1, (400, 1))
    y = np.where(random.uniform(size=400) < 0.8, x[:, 0], -x[:, 0])
    return x, y


def competing(**settings) -> MCLRegressor:
    return small(**{"loss": "rmcl", "members": None, **settings})


@pytest.mark.parametrize(
    "settings", [{}, {"loss": "rmcl", "members": 1}, {"loss": "rmcl", "members": 1, "scores": "sigmoid"}]
)
def test_a_fork_gives_two_answers_with_their_probabilities(forked, settings):
    model = small(n_hypotheses=2, max_epochs=25, learning_rate=2e-2, random_state=0, **settings).fit(*forked)
    for where in (0.3, 0.6, 0.9):
        hypotheses = model.predict_hypotheses([[where]])[0]
        order = hypotheses.points[:, 0].argsort()
        assert hypotheses.points[order, 0].tolist() == pytest.approx([-where, where], abs=0.06)
        assert hypotheses.probs[order].tolist() == pytest.approx([0.2, 0.8], abs=0.07)
        assert model.predict([[where]])[0] == pytest.approx(0.6 * where, abs=0.1)


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_units_of_y_change_nothing_but_the_units(forked, scale):
    x, y = forked
    model = small(random_state=0, max_epochs=2).fit(x, y * scale + 3 * scale)
    plain = small(random_state=0, max_epochs=2).fit(x, y)
    np.testing.assert_allclose(model.predict(x) / scale - 3, plain.predict(x), atol=2e-3)


def test_several_targets_in_every_form_are_the_same():
    random = np.random.default_rng(0)
    x = random.uniform(size=(60, 2))
    counts = random.integers(0, 4, 60)
    parts = [random.normal(size=(count, 2)) for count in counts]
    padded = np.full((60, 3, 2), np.nan)
    for row, part in zip(padded, parts, strict=True):
        row[: len(part)] = part
    first, second = (small(random_state=0, max_epochs=3).fit(x, y) for y in (parts, padded))
    np.testing.assert_array_equal(first.predict(x), second.predict(x))
    assert first.score(x, parts) == second.score(x, padded)


def test_two_targets_are_counted():
    random = np.random.default_rng(0)
    x = random.uniform(size=(400, 1))
    y = np.full((400, 2, 1), np.nan)
    y[:, 0, 0] = -1
    y[x[:, 0] > 0.5, 1, 0] = 1
    model = competing(scores="sigmoid", random_state=0, max_epochs=30, learning_rate=2e-2).fit(x, y)
    assert model.predict_hypotheses([[0.2], [0.8]]).count.tolist() == pytest.approx([1, 2], abs=0.15)


def test_shape_of_prediction_follows_y(forked):
    x, y = forked
    assert small(max_epochs=1).fit(x, y).predict(x[:5]).shape == (5,)
    assert small(max_epochs=1).fit(x, y[:, None]).predict(x[:5]).shape == (5, 1)
    assert small(max_epochs=1).fit(x, np.stack([y, y], 1)).predict(x[:5]).shape == (5, 2)
    assert competing(loss="mcl", max_epochs=1, scores=None).fit(x, y).predict_hypotheses(x[:5]).logits is None


def test_the_distribution_of_several_outputs_has_the_moments_of_the_predictions(forked):
    x, y = forked
    model = small(max_epochs=2, random_state=0).fit(x, np.stack([y, 100 * y + 7], 1))
    found = model.predict_dist(x[:5])
    for each in (found, found.expand((3, 5))):
        assert each.mean.shape == each.variance.shape == (*each.batch_shape, 2)
    np.testing.assert_allclose(found.mean, model.predict(x[:5]))
    np.testing.assert_allclose(found.stddev, model.predict_std(x[:5]))


def test_the_region_of_a_row_does_not_depend_on_the_rows_beside_it(forked):
    x, y = forked
    model = small(max_epochs=2, random_state=0).fit(x, y)
    together = model.predict_region(x[:5], 0.8).thresholds
    alone = [model.predict_region(row[None], 0.8).thresholds[0] for row in x[:5]]
    np.testing.assert_allclose(together, alone)


def test_seed_decides_and_leaves_the_global_generator_alone(forked):
    import torch

    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    first, second, third = (small(random_state=seed, max_epochs=2).fit(*forked) for seed in (1, 1, 2))
    assert torch.equal(torch.rand(1), expected)
    np.testing.assert_array_equal(first.predict(forked[0]), second.predict(forked[0]))
    assert not np.allclose(first.predict(forked[0]), third.predict(forked[0]))


def test_early_stopping_stops(forked):
    model = small(patience=2, max_epochs=500, learning_rate=1e-2, random_state=0).fit(*forked)
    assert 2 < model.n_iter_ < 500
    assert len(model.validation_score_) == 2


def test_cloned_pickled_piped_and_searched(forked):
    x, y = forked[0][:200], forked[1][:200]
    model = small(max_epochs=3, random_state=0).fit(x, y)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict(x), model.predict(x))
    assert clone(model).get_params() == model.get_params()
    piped = make_pipeline(PolynomialFeatures(2), small(max_epochs=3)).fit(x, y)
    assert piped.predict(x).shape == (200,)
    search = GridSearchCV(small(max_epochs=2, random_state=0), {"n_hypotheses": [1, 4]}, cv=2).fit(x, y)
    assert search.best_params_["n_hypotheses"] in (1, 4)


def test_outliers_do_not_decide_the_unit():
    random = np.random.default_rng(0)
    x = random.uniform(size=(400, 1))
    y = x[:, 0] + 0.01 * random.normal(size=400)
    y[::100] = 10
    y[0] = 1e200
    model = small(n_hypotheses=4, random_state=0, max_epochs=25, learning_rate=2e-2).fit(x, y)
    assert 0.2 < model.model_.units.scale[0] < 2
    assert np.isfinite(model.predict(x)).all()
    hypotheses = model.predict_hypotheses([[0.5]])[0]
    assert hypotheses.points[hypotheses.probs.argmax(), 0].item() == pytest.approx(0.5, abs=0.1)


@pytest.mark.parametrize(
    ("settings", "y", "message"),
    [
        ({"n_hypotheses": 0}, None, "n_hypotheses must be at least 1, got 0"),
        ({"n_hypotheses": "3"}, None, "n_hypotheses must be an integer, got '3'"),
        ({"loss": "mse"}, None, "loss must be 'energy', 'rmcl', 'mcl' or 'transport', got 'mse'"),
        ({"members": 0}, None, "members must be None or at least 1, got 0"),
        ({"members": 2, "loss": "rmcl"}, None, "members must be 1 with loss='rmcl'"),
        ({"hidden": 8}, None, "hidden must be a sequence of whole numbers"),
        ({"hidden": (-3,)}, None, "each number of hidden must be at least 1, got -3"),
        ({"activation": "cube"}, None, "activation must be 'relu', 'silu', 'gelu' or 'tanh', got 'cube'"),
        ({"network": 3}, None, "network must be None, a module or a function that makes one, got 3"),
        ({"max_epochs": 0}, None, "max_epochs must be None or at least 1, got 0"),
        ({"max_epochs": 2.5}, None, "max_epochs must be None or an integer, got 2.5"),
        ({"batch_size": 2.5}, None, "batch_size must be None or an integer, got 2.5"),
        ({"patience": 0}, None, "patience must be None or at least 1, got 0"),
        ({"validation_fraction": 1.0}, None, r"validation_fraction must be between 0 and 0.5, got 1.0"),
        ({"learning_rate": 0.0}, None, "learning_rate must be positive and at most 1e6, got 0.0"),
        ({"scores": "tanh"}, None, "scores must be 'sigmoid', 'softmax' or None, got 'tanh'"),
        ({"scores": "sigmoid"}, None, "scores must be left as it is with loss='energy'"),
        ({"beta": -1.0}, None, "beta must be at least 0, got -1.0"),
        ({"beta": 2.0}, None, "beta must be left as it is with loss='energy'"),
        ({"assign": None}, None, "assign must be a function, got None"),
        ({"distance": great_circle}, None, "distance must be left as it is with loss='energy'"),
        ({"device": "abacus"}, None, "hardware: "),
        ({}, np.full(4, np.nan), "Input y contains NaN"),
        ({}, np.array([1, 2, 3, np.inf]), "Input y contains infinity"),
        ({}, ["a", "b", "c", "d"], "y must hold numbers: could not convert string to float: 'a'"),
        ({}, np.array([1, 2, 3, 1e301]), "y holds 1e[+]301: numbers beyond 1e[+]300 are not supported"),
        ({}, np.full((4, 2, 1), np.nan), "y holds no target at all"),
        ({}, np.array([[[0.0, np.nan]]] * 4), "some but not all coordinates NaN"),
        ({}, [np.zeros((1, 2)), np.zeros((1, 3))] * 2, r"y holds targets with \[2, 3\] coordinates"),
        ({}, [np.zeros(1), np.zeros(2)] * 2, r"each of them must be \(targets, dim\)"),
        ({}, [np.full((1, 2), np.inf)] * 4, "y contains NaN or infinity"),
        (
            {},
            np.zeros((4, 1, 1, 1)),
            r"y must be \(n,\), \(n, dim\) or \(n, targets, dim\), got \(4, 1, 1, 1\)",
        ),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_mistakes(settings, y, message):
    with pytest.raises((ValueError, TypeError), match=message):
        small(**{"members": None, **settings}).fit(
            np.arange(4.0)[:, None], np.arange(4.0) if y is None else y
        )


@pytest.mark.parametrize("validation_fraction", [0.0, 0.1])
@pytest.mark.parametrize("learning_rate", [1e3, 1e6])
def test_a_training_that_diverges_names_the_learning_rate(learning_rate, validation_fraction):
    X = np.random.default_rng(0).normal(size=(100, 2))
    chosen = {"learning_rate": learning_rate, "validation_fraction": validation_fraction, "max_epochs": 3}
    with pytest.raises(ValueError, match=r"nan.*; a smaller learning_rate may help|nan: .* learning_rate"):
        MCLRegressor(**chosen, random_state=0, progress=False).fit(X, X[:, 0])
