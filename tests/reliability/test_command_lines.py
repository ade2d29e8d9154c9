"""Hostile command lines: each ends with 0 or 2 and one sentence, or goes on until it is interrupted."""

import random
import socket

import jaxtyping
import pytest
import torch

import commandline
from torchmcl.errors import UserError
from torchmcl.web.server import serve

CASES = 19


@pytest.mark.filterwarnings("ignore:.*fork.*")
def test_hostile_command_lines_end_well(tmp_path):
    """`python -m benchmarks fuzz --cases 20000` is the long run."""
    torch.set_num_threads(1)
    before = jaxtyping.config.jaxtyping_disable
    jaxtyping.config.update("jaxtyping_disable", True)
    draw = random.Random(0)
    names = sorted(commandline.commands())
    endings = []
    for number in range(CASES):
        commandline.prepare(tmp_path / str(number))
        words = commandline.line(draw, names[number % len(names)])
        endings.append(commandline.run(words, tmp_path / str(number)))
    jaxtyping.config.update("jaxtyping_disable", before)
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
