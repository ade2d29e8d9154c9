"""Losses are compiled as one graph; networks that take and return hypotheses are exported, saved, loaded, compiled."""

import subprocess
import sys

import pytest

import compiled
from cases import losses


@pytest.fixture(scope="module")
def done(tmp_path_factory) -> list[str]:
    """In a process of its own: the shape checks of tests are no part of what a user compiles."""
    words = [sys.executable, compiled.__file__, tmp_path_factory.mktemp("network")]
    ended = subprocess.run(words, capture_output=True, text=True, check=False)
    return [*ended.stdout.splitlines(), ended.stderr]


@pytest.mark.parametrize("loss", losses())
def test_compiled_values_and_gradients(loss, done):
    assert loss in done[:-1], done[-1]


@pytest.mark.parametrize("link", ["sigmoid", "softmax"])
@pytest.mark.parametrize("way", ["exported", "compiled"])
def test_exported_and_compiled(link, way, done):
    assert f"{link} {way}" in done[:-1], done[-1]
