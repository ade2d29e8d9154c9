"""The classifier: scikit-learn's own checks, labels of every kind, columns as they come."""

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import load_iris, make_moons
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.utils.estimator_checks import parametrize_with_checks
from torch import nn

from torchmcl.classification import class_probs, oracle_class_error
from torchmcl.tabular.classifier import MCLClassifier

NOT_APPLICABLE = {
    "check_array_api_input": "predictions come from torch on the CPU; other array libraries are not promised",
}


def small(**settings) -> MCLClassifier:
    return MCLClassifier(
        **{
            "n_hypotheses": 3,
            "hidden": (16,),
            "max_epochs": 15,
            "learning_rate": 2e-2,
            "progress": False,
            **settings,
        }
    )


@pytest.mark.usefixtures("unchecked")
@parametrize_with_checks([small()], expected_failed_checks=lambda estimator: NOT_APPLICABLE)
def test_scikit_learn(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def iris():
    data = load_iris()
    names = np.array(["setosa", "versicolor", "virginica"])
    return train_test_split(
        data.data, names[data.target], test_size=0.4, random_state=0, stratify=data.target
    )


@pytest.mark.parametrize("loss", ["cmcl", "rmcl", "ensemble"])
def test_iris_is_learned_by_its_names(iris, loss):
    X, new, y, true = iris
    model = small(loss=loss, max_epochs=60, random_state=0).fit(X, y)
    assert model.score(new, true) > 0.9
    assert model.classes_.tolist() == ["setosa", "versicolor", "virginica"]
    probs = model.predict_proba(new)
    np.testing.assert_allclose(probs.sum(1), 1)
    np.testing.assert_array_equal(model.predict(new), model.classes_[probs.argmax(1)])
    assert log_loss(true, probs) < 0.4
    hypotheses = model.predict_hypotheses(new)
    assert hypotheses.points.shape == (60, 3, 3)
    assert (hypotheses.logits is not None) == (loss == "rmcl")
    # The temperature changes how certain the average is, not which class it names.
    np.testing.assert_array_equal(class_probs(hypotheses).argmax(-1).numpy(), probs.argmax(1))


def test_specialists_have_the_right_answer_among_them():
    X, y = make_moons(300, noise=0.35, random_state=0)
    new, true = make_moons(300, noise=0.35, random_state=1)
    model = small(loss="mcl", max_epochs=40, random_state=0).fit(X, y)
    codes = np.searchsorted(model.classes_, true)
    oracle = oracle_class_error(model.predict_hypotheses(new), torch.from_numpy(codes)).mean().item()
    assert oracle < 1 - model.score(new, true)
    assert oracle < 0.05


def test_columns_as_they_come_and_gaps():
    random = np.random.default_rng(0)
    color = random.choice(["red", "green", "blue"], 200)
    size = random.normal(size=200)
    size[::7] = np.nan
    X = np.array([color, size], dtype=object).T
    y = (color == "red") | (np.nan_to_num(size) > 1)
    model = small(random_state=0, max_epochs=40).fit(X, y)
    assert model.classes_.tolist() == [False, True]
    assert model.score(X, y) > 0.9
    assert model.predict(np.array([["never seen", None]], dtype=object)).shape == (1,)


def test_weights_are_repeated_rows_and_order_does_not_matter(iris):
    X, new, y, _ = iris
    weights = np.arange(len(y)) % 3
    repeated = np.repeat(np.arange(len(y)), weights)
    shuffled = np.random.default_rng(0).permutation(repeated)
    ways = [
        small(random_state=0, max_epochs=3).fit(X, y, sample_weight=weights),
        small(random_state=0, max_epochs=3).fit(X[repeated], y[repeated]),
        small(random_state=0, max_epochs=3).fit(X[shuffled], y[shuffled]),
    ]
    for other in ways[1:]:
        np.testing.assert_allclose(other.predict_proba(new), ways[0].predict_proba(new), atol=1e-6)


def test_the_temperature_makes_confident_mcl_less_underconfident(iris):
    X, new, y, true = iris
    model = small(loss="cmcl", n_hypotheses=5, max_epochs=60, validation_fraction=0.2, random_state=0).fit(
        X, y
    )
    plain = class_probs(model.predict_hypotheses(new)).numpy()
    assert model.temperature_ < 1
    assert log_loss(true, model.predict_proba(new)) < log_loss(true, plain)


def test_a_network_of_your_own(iris):
    X, new, y, true = iris
    built = []

    def network(features, outputs):
        built.append((features, outputs))
        return nn.Sequential(nn.Linear(features, 16), nn.Tanh(), nn.Linear(16, outputs))

    model = small(network=network, loss="rmcl", max_epochs=60, random_state=0).fit(X, y)
    assert built == [(4, 3)] * 3 + [(4, 3)]
    assert model.score(new, true) > 0.9
    with pytest.raises(ValueError, match="network must map inputs"):
        small(network=lambda features, outputs: nn.Linear(features, outputs + 1)).fit(X, y)


def test_a_fit_that_fails_leaves_the_estimator_as_it_was(iris):
    X, new, y, _ = iris
    model = small(random_state=0, max_epochs=2).fit(X, y)
    before = model.predict_proba(new)
    with pytest.raises(ValueError, match=r"one class only \('same'\)"):
        model.fit(X, ["same"] * len(X))
    np.testing.assert_array_equal(model.predict_proba(new), before)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_hypotheses": 0}, "n_hypotheses must be at least 1, got 0"),
        ({"n_hypotheses": "3"}, "n_hypotheses must be an integer"),
        ({"loss": "other"}, "loss must be 'cmcl'"),
        ({"hidden": 8}, "hidden must be a sequence"),
        ({"hidden": (-3,)}, "hidden must be at least 1"),
        ({"batch_size": 2.5}, "batch_size must be None or"),
        ({"max_epochs": 0}, "max_epochs must be None or at least 1"),
        ({"beta": float("nan")}, "beta must be at least 0, got nan"),
        ({"beta": 1.0, "loss": "mcl"}, "beta must be None with loss='mcl'"),
        ({"scores": "sigmoid"}, "scores must be left as it is with loss='cmcl'"),
        ({"scores": "tanh"}, "scores must be 'sigmoid' or 'softmax'"),
        ({"learning_rate": -1.0}, "learning_rate must be positive"),
        ({"validation_fraction": 0.9}, "validation_fraction must be between 0 and 0.5"),
        ({"network": nn.Linear(4, 3)}, "network must be None or a function"),
        ({"device": 3}, "device must be a name"),
        ({"progress": None}, "progress must be True or False"),
        ({"activation": "sin"}, "activation must be"),
    ],
)
def test_wrong_settings_are_named(iris, settings, message):
    model = small(**settings)
    clone(model)
    with pytest.raises((ValueError, TypeError), match=message):
        model.fit(iris[0], iris[2])


def test_a_training_that_diverges_names_the_learning_rate(iris):
    with pytest.raises(ValueError, match=r"loss is nan.*; a smaller learning_rate may help"):
        small(learning_rate=1e6, max_epochs=5).fit(iris[0], iris[2])
