"""Saved models: equal to the last bit, and nothing else is read."""

import json
import math

import numpy as np
import pandas as pd
import pytest
from safetensors.torch import load_file, save_file
from torch import nn

from torchmcl import MCLClassifier, MCLRegressor, great_circle
from torchmcl.errors import UserError


@pytest.fixture(scope="module")
def data():
    random = np.random.default_rng(0)
    X = pd.DataFrame({"x": random.normal(size=80), "kind": random.choice(["a", "b"], 80)})
    return X, X["x"].to_numpy() + (X["kind"] == "a").to_numpy()


def fitted(X, y, **settings):
    settings = {"n_hypotheses": 2, "members": 2, "hidden": (8,), "max_epochs": 2, **settings}
    return MCLRegressor(**settings, random_state=0, progress=False).fit(X, y)


@pytest.fixture(scope="module")
def folder(data, tmp_path_factory):
    place = tmp_path_factory.mktemp("model")
    groups = np.where(np.arange(80) % 2, "odd", "even")
    fitted(*data).calibrate(*data, groups=groups).save(place)
    return place


def test_predictions_are_equal_to_the_last_bit(data, folder):
    X, y = data
    model, again = fitted(X, y), MCLRegressor.load(folder)
    assert again.get_params() == model.get_params()
    for name in ("predict", "predict_std", "predict_mode"):
        np.testing.assert_array_equal(getattr(again, name)(X), getattr(model, name)(X))
    np.testing.assert_array_equal(again.log_prob(X, y), model.log_prob(X, y))
    model.calibrate(X, y, groups=np.where(np.arange(80) % 2, "odd", "even"))
    pd.testing.assert_frame_equal(
        *(each.predict_interval(X[:2], 0.8, ["odd", "even"]) for each in (again, model))
    )
    with pytest.raises(ValueError, match="feature names"):
        again.predict(X.rename(columns={"x": "z"}))


def test_the_files_of_a_model_are_for_the_same_readers(folder):
    assert len({path.stat().st_mode for path in folder.iterdir()}) == 1


def test_a_network_of_ones_own_needs_its_code(data, tmp_path):
    def build(features, outputs):
        return nn.Sequential(nn.Linear(features, 4), nn.Tanh(), nn.Linear(4, outputs))

    model = fitted(*data, network=build)
    model.save(tmp_path)
    np.testing.assert_array_equal(
        MCLRegressor.load(tmp_path, network=build).predict(data[0]), model.predict(data[0])
    )
    with pytest.raises(UserError, match="network must be given for a model with a network of its own"):
        MCLRegressor.load(tmp_path)


def test_other_losses_are_saved(tmp_path):
    random = np.random.default_rng(0)
    X, y = random.normal(size=(40, 2)), random.uniform(-1, 1, size=(40, 2))
    model = fitted(X, y, loss="rmcl", members=None, distance=great_circle, scores="sigmoid")
    model.save(tmp_path)
    again = MCLRegressor.load(tmp_path)
    assert again.distance is great_circle
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda config: None, "is not JSON"),
        (lambda config: [], "does not describe an MCLRegressor"),
        (lambda config: {**config, "format": 9}, "has the format 9, this version reads 1"),
        (
            lambda config: {**config, "settings": {**config["settings"], "hidden": [10**9]}},
            "weights, must be at most",
        ),
        (
            lambda config: {**config, "settings": {**config["settings"], "hidden": [9]}},
            "does not describe a model",
        ),
        (lambda config: {**config, "units": {"center": [0], "scale": [-1]}}, "does not describe a model"),
        (lambda config: {**config, "units": {"center": [0], "scale": [[1, 2]]}}, "does not describe a model"),
        (lambda config: {**config, "units": {"center": [0], "scale": [1, 2]}}, "does not describe a model"),
        (
            lambda config: {**config, "columns": {**config["columns"], "medians": []}},
            "does not describe a model",
        ),
        (lambda config: {key: config[key] for key in config if key != "scalar"}, "does not describe a model"),
        (lambda config: {**config, "epochs": math.inf}, "is not JSON"),
        (lambda config: {**config, "epochs": 10**30}, "more than 64 bits"),
        (lambda config: {**config, "units": {"center": [1e308], "scale": [1]}}, "units must be at most"),
        (lambda config: {**config, "columns": {**config["columns"], "names": "text"}}, "a list of text"),
        (
            lambda config: {**config, "columns": {**config["columns"], "names": ["a"] * 9}},
            "there are 9 names",
        ),
    ],
)
def test_foreign_configurations_are_refused(folder, tmp_path, change, message):
    (tmp_path / "model.safetensors").write_bytes((folder / "model.safetensors").read_bytes())
    changed = change(json.loads((folder / "config.json").read_text()))
    (tmp_path / "config.json").write_text("{" if changed is None else json.dumps(changed))
    with pytest.raises(UserError, match=message):
        MCLRegressor.load(tmp_path)


def test_broken_weights_and_absent_files_are_named(folder, tmp_path):
    with pytest.raises(UserError, match=r"config.json: there is no such file"):
        MCLRegressor.load(tmp_path)
    (tmp_path / "config.json").write_text((folder / "config.json").read_text())
    (tmp_path / "model.safetensors").write_bytes((folder / "model.safetensors").read_bytes()[:-9])
    with pytest.raises(UserError, match=r"model.safetensors: is not a complete safetensors file"):
        MCLRegressor.load(tmp_path)


@pytest.mark.parametrize(
    "change", [lambda each: -each, lambda each: 0 * each - 1e30, lambda each: each[None]]
)
@pytest.mark.parametrize(
    "name", ["factors", "calibration.interval", "calibration.region", "calibration.weights"]
)
def test_foreign_factors_and_calibrations_are_refused(folder, tmp_path, name, change):
    (tmp_path / "config.json").write_bytes((folder / "config.json").read_bytes())
    tensors = load_file(folder / "model.safetensors")
    save_file({**tensors, name: change(tensors[name]).contiguous()}, tmp_path / "model.safetensors")
    with pytest.raises(UserError, match=f"does not describe a model of this program .*{name.split('.')[0]}"):
        MCLRegressor.load(tmp_path)


def test_any_text_is_a_name_of_a_column_and_a_label(data, tmp_path):
    X, y = data
    names = {"x": "\ud800\x1b[31m", "kind": "`\n# kind" * 999}
    model = MCLClassifier(hidden=(8,), max_epochs=1, random_state=0, progress=False)
    model.fit(X.rename(columns=names), np.where(y > 0.5, "\udfff", "b")).save(tmp_path)
    again = MCLClassifier.load(tmp_path)
    np.testing.assert_array_equal(again.classes_, model.classes_)
    card = (tmp_path / "README.md").read_text()
    assert "\n# kind" not in card
    assert "\x1b" not in card


@pytest.mark.parametrize(
    "labels", [["low", "high"], [3, 7], [False, True], np.array([5, 2**63 + 1], dtype=np.uint64)]
)
def test_classifiers_are_saved_with_their_labels(data, tmp_path, labels):
    X, y = data
    settings = {"n_hypotheses": 2, "loss": "rmcl", "hidden": (8,), "max_epochs": 2, "random_state": 0}
    model = MCLClassifier(**settings, progress=False).fit(X, np.where(y > 0.5, *labels))
    model.save(tmp_path)
    again = MCLClassifier.load(tmp_path)
    assert again.get_params() == model.get_params()
    assert again.classes_.dtype == model.classes_.dtype
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    with pytest.raises(UserError, match="does not describe an MCLRegressor"):
        MCLRegressor.load(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "classes": [1, "a"]}))
    with pytest.raises(UserError, match="does not describe a model of this program"):
        MCLClassifier.load(tmp_path)


class Tied(nn.Module):
    """Two layers with the same weights."""

    def __init__(self, features, outputs):
        super().__init__()
        self.first, self.second = nn.Linear(features, features), nn.Linear(features, features)
        self.second.weight = self.first.weight
        self.head = nn.Linear(features, outputs)

    def forward(self, x):
        return self.head(self.second(self.first(x).relu()))


@pytest.mark.parametrize("kind", [MCLRegressor, MCLClassifier])
def test_networks_whose_layers_share_weights_are_saved(kind, data, tmp_path):
    X, y = data
    model = kind(network=Tied, max_epochs=1, random_state=0, progress=False).fit(X, np.where(y > 0, 1, 0))
    model.save(tmp_path)
    np.testing.assert_array_equal(kind.load(tmp_path, network=Tied).predict(X), model.predict(X))
