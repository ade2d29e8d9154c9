"""The command line: help for everybody, and one sentence for each mistake."""

import sys

import pytest

from torchmcl import __version__, cli

COMMANDS = [
    command.name or command.callback.__name__.replace("_", "-") for command in cli.app.registered_commands
]


def run(monkeypatch, *words: str) -> int:
    monkeypatch.setattr(sys, "argv", ["torchmcl", *words])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    return ended.value.code or 0


def test_commands_are_those_of_the_design_in_its_order():
    expected = ["toy", "toy-outliers", "simulate", "inspect", "train", "evaluate", "study", "localize"]
    assert sorted(COMMANDS, key=expected.index) == expected


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_an_example(command, monkeypatch, capsys):
    assert run(monkeypatch, command, "--help") == 0
    assert f"torchmcl {command}" in " ".join(capsys.readouterr().out.replace("│", " ").split()).replace(
        "For example", ""
    )


def test_alone_it_shows_its_help(monkeypatch, capsys):
    assert run(monkeypatch) == 0
    shown = capsys.readouterr().out
    assert all(command in shown for command in COMMANDS)


def test_version(monkeypatch, capsys):
    assert run(monkeypatch, "--version") == 0
    assert capsys.readouterr().out == f"torchmcl {__version__}\n"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["nonsense"], "No such command 'nonsense'."),
        (["simulate"], "Missing argument 'out'."),
        (["simulate", "x", "--nope", "1"], "No such option: --nope"),
        (["simulate", "x", "--workers", "many"], "Invalid value for '--workers'"),
        (["simulate", "x", "--snr", "1000"], "snr is 1000, it must be between 0 and 100"),
        (
            ["simulate", "x", "--condition", "wet"],
            "condition is 'wet', it must be one of anechoic, reverberant",
        ),
        (["inspect", "nowhere"], "nowhere: no such file or folder"),
        (["toy", "--preset", "fast"], "--preset must be one of paper, tuned, got 'fast'"),
        (["train", "method=rmclx"], "method=rmclx: did you mean rmcl?"),
        (["train", "method"], "method: a setting is written key=value"),
        (["evaluate", "nowhere"], "nowhere: no finished run, config.yaml is missing"),
        (["localize", "nowhere.wav", "--model", "x"], "nowhere.wav: no such file"),
        (["localize", "nowhere.wav"], "Missing option '--model'."),
        (["study", "table9"], "no study table9; there are table1, table2, table3, table4"),
        (["study", "table1", "method=rmcl"], "method, data and run are chosen by the study"),
    ],
)
def test_a_mistake_is_one_sentence(words, sentence, monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert run(monkeypatch, *words) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"torchmcl: {sentence}")
    assert said.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError(28, "No space left on device", "runs/x")])
def test_the_machine_is_no_traceback_either(error, monkeypatch, capsys):
    def fail(*args, **kwargs):
        raise error

    monkeypatch.setattr(cli, "app", fail)
    assert run(monkeypatch) == (130 if error is KeyboardInterrupt else 2)
    assert (
        "interrupted" in (said := capsys.readouterr().err)
        or said == "torchmcl: runs/x: No space left on device\n"
    )
