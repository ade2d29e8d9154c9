"""Settings: composed, written, read back, and refused in one sentence."""

import subprocess
import sys

import pytest

from torchmcl.errors import UserError
from torchmcl.experiments.compose import compose_config, options
from torchmcl.experiments.config import Kind, Rule, change, from_plain, read_method, to_plain

CHOICES = [
    f"{group}={name}" for group in ("method", "data", "head", "network", "scale") for name in options(group)
]


@pytest.mark.parametrize("choice", CHOICES)
def test_every_file_composes_and_survives_writing(choice):
    config = compose_config([choice])
    assert from_plain(to_plain(config)) == config


def test_a_run_is_its_difference_from_the_defaults():
    config = compose_config(
        ["method=top_n_rmcl", "scale=paper", "head=angles", "training.epochs=3", "seed=7"]
    )
    assert (config.method.assign, config.method.n) == (Rule.top_n, 3)
    assert (config.network.units, config.network.layers) == (128, 4)
    assert (config.head.output, config.training.epochs, config.seed, config.scale) == (
        "angles",
        3,
        7,
        "paper",
    )
    assert compose_config(["method=pit"]).method.kind is Kind.pit


def test_a_setting_wins_over_its_scale():
    assert compose_config(["scale=smoke", "network.units=12"]).network.units == 12


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["method=rmclx"], "method=rmclx: did you mean rmcl?"),
        (["scale=huge"], "scale=huge: scale is one of paper, small, smoke"),
        (
            ["method.epsilonn=1"],
            "method.epsilonn=1: no setting method.epsilonn; did you mean method.epsilon?",
        ),
        (["trainingepochs=5"], "trainingepochs=5: no setting trainingepochs; did you mean training.epochs?"),
        (["seed=abc"], "seed: Value 'abc' of type 'str' could not be converted to Integer"),
        (["training.schedule=fast"], "training.schedule: Invalid value 'fast', expected one of"),
        (["rmcl"], "rmcl: a setting is written key=value, for example method=rmcl"),
        (["+method.new=1"], "+method.new=1: a setting is written key=value"),
        (["~method"], "~method: a setting is written key=value"),
    ],
)
def test_mistakes_are_named(words, message):
    with pytest.raises(UserError) as caught:
        compose_config(words)
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", options("method"))
def test_methods_are_read_without_hydra_as_with_it(name):
    assert read_method(name) == compose_config([f"method={name}"]).method


def test_changes_leave_the_settings_as_they_were():
    before = compose_config([])
    after = change(before, {"method": read_method("ie"), "method.members": 2, "seed": 3})
    assert (after.method.name, after.method.members, after.seed) == ("ie", 2, 3)
    assert after.data == before.data
    assert before == compose_config([])
    with pytest.raises(UserError, match=r"method\.members is 0, must be 1 to 1000"):
        change(before, {"method.members": 0})


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("_target_", "os.system", "no setting '_target_'"),
        ("method", {"name": "x", "_target_": "os.system"}, "no setting method.'_target_'"),
        ("method", {}, "method.name is missing"),
        ("method", [], r"method is \[\], must hold settings"),
        ("seed", True, "seed is True, must be a whole number"),
        ("seed", 1.0, "seed is 1.0, must be a whole number"),
        ("training", {"learning_rate": float("nan")}, "training.learning_rate is nan, must be 0 to 1000"),
        ("training", {"learning_rate": 10**400}, "training.learning_rate is 1000.*, must be a number"),
        ("training", {"schedule": "fast"}, "training.schedule is 'fast', must be one of constant, cosine"),
        ("network", {"pools": 3}, "network.pools is 3, must be a list"),
        ("run", "${oc.env:HOME}", "run is .*, settings are plain values"),
        (1, 2, "no setting 1"),
    ],
)
def test_plain_values_cannot_bring_anything_new(key, value, message):
    plain = to_plain(compose_config([]))
    with pytest.raises(UserError, match=message):
        from_plain({**plain, key: value})


def test_settings_need_no_hydra():
    program = "import sys, torchmcl.experiments.config; print(*sys.modules)"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert not {"hydra", "omegaconf", "lightning"} & set(ended.stdout.split())
