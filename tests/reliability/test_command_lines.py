"""Hostile command lines: each ends with 0 or 2 and one sentence, or goes on until it is interrupted."""

import random
import re
import socket
import sys

import pytest

import commandline
import foreign
import worlds
from torchmcl import cli
from torchmcl.errors import UserError
from torchmcl.web.server import serve

CASES, FILES = 19, 24


@pytest.mark.filterwarnings("ignore:.*fork.*")
@pytest.mark.usefixtures("unchecked")
def test_hostile_command_lines_end_well(tmp_path):
    """`python -m benchmarks fuzz --cases 20000` is the long run."""
    commandline.ready()
    draw = random.Random(0)
    names = sorted(commandline.commands())
    endings = []
    for number in range(CASES):
        commandline.prepare(tmp_path / str(number))
        words = commandline.line(draw, names[number % len(names)])
        endings.append(commandline.run(words, tmp_path / str(number)))
    assert [each.complaint for each in endings if each.complaint] == []
    assert sum(each.code == 2 for each in endings) > CASES // 2


def test_the_lines_are_made_of_every_option():
    draw = random.Random(0)
    for name, function in commandline.commands().items():
        lines = {word for _ in range(300) for word in commandline.line(draw, name)}
        options = {
            f"--{each.replace('_', '-')}" for each, _, option, _ in commandline.kinds(function) if option
        }
        assert options <= lines


@pytest.mark.parametrize("host", ["scale=nothing", "256.256.256.256", "a" * 300])
def test_a_server_that_cannot_listen_is_one_sentence(host):
    with pytest.raises(UserError, match="cannot listen there"):
        serve(host, 0)


def test_a_port_in_use_is_one_sentence():
    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        pytest.raises(UserError, match="cannot listen there"),
    ):
        serve("127.0.0.1", taken.getsockname()[1])


@pytest.mark.filterwarnings("ignore:.*fork.*")
@pytest.mark.usefixtures("unchecked")
def test_hostile_files_end_well(tmp_path):
    """A few of the cases of `python -m benchmarks fuzz`, in every test run the same."""
    commandline.ready()
    readers = worlds.make_worlds(tmp_path / "worlds", heavy=False)
    draw = random.Random(0)
    cases = [foreign.draw_case(draw, readers, tmp_path / "worlds") for _ in range(FILES)]
    endings = [
        foreign.complaint(case, tmp_path / "worlds", tmp_path / str(n)) for n, case in enumerate(cases)
    ]
    assert [wrong for _, wrong in endings if wrong] == []
    assert sum(ending.code == 2 for ending, _ in endings) > FILES // 2


def test_every_key_of_a_file_is_damaged():
    text = '{"a": {"b": [1, 2]}, "c": "x"}'
    draw = random.Random(0)
    told = {re.split(" is | missing", foreign.damaged_json(draw, text)[0])[0] for _ in range(300)}
    assert told == {"a", "a.b", "a.b.0", "a.b.1", "c", "one more", "a.one more"}


def test_a_sentence_is_short_and_printable(capsys, monkeypatch, tmp_path):
    """Whatever names and files hold: escapes would change the terminal, and a long text would hide what it is about."""
    for word in ("\x1b[2J[bold]x", "a" * 100_000, "\u202egnp.exe", "line\nbreak"):
        monkeypatch.setattr(sys, "argv", ["torchmcl", "evaluate", str(tmp_path / word[:200]), word])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        assert ended.value.code == 2
        said = capsys.readouterr().err
        assert said.startswith("torchmcl: ")
        assert said[:-1].isprintable()
        assert len(said) < 2100
