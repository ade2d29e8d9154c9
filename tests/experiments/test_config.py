"""Settings: composed, written, read back, and refused in one sentence."""

import pytest

from torchmcl.errors import UserError
from torchmcl.experiments.config import Kind, Rule, compose_config, from_plain, options, to_plain

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


def test_a_written_configuration_cannot_bring_anything_new():
    plain = to_plain(compose_config([]))
    with pytest.raises(UserError, match="configuration"):
        from_plain({**plain, "_target_": "os.system"})
    with pytest.raises(UserError, match="configuration"):
        from_plain({**plain, "method": {**plain["method"], "_target_": "os.system"}})
