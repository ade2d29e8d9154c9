"""The command before it is imported."""

import os
import signal
import subprocess
import sys

import pytest

import torchmcl_command
from torchmcl import cli

PROGRAM = """
import os, signal, sys

class Interrupter:
    @staticmethod
    def find_spec(name, *_):
        if name == "torch":
            os.kill(os.getpid(), signal.Signals[sys.argv[1]])

sys.meta_path.insert(0, Interrupter)
from torchmcl_command import main
main()
"""


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_an_interruption_while_modules_are_imported_is_one_sentence(name):
    words = [sys.executable, "-c", PROGRAM, name]
    ended = subprocess.run(words, capture_output=True, text=True, check=False)
    code = 128 + signal.Signals[name]
    assert (ended.returncode, ended.stdout, ended.stderr) == (code, "", "torchmcl: interrupted\n")


DROPPED = """
import signal, sys, time
from torchmcl import cli

class Finalized:
    def __del__(self):
        signal.raise_signal(signal.Signals[sys.argv[1]])

def app(words, standalone_mode):
    Finalized()
    time.sleep(60)

cli.app = app
cli.main()
"""


@pytest.mark.parametrize(("name", "code"), [("SIGINT", 130), ("SIGTERM", 143)])
def test_an_interruption_in_a_finalizer_is_not_dropped(name, code):
    words = [sys.executable, "-c", DROPPED, name]
    ended = subprocess.run(words, capture_output=True, text=True, check=False, timeout=50)
    said = "torchmcl: interrupted; the same command continues where it stopped\n"
    assert (ended.returncode, ended.stdout, ended.stderr) == (code, "", said)


AGAIN = """
import runpy, signal, sys
import torchmcl_command
from torchmcl import cli

def app(words, standalone_mode):
    signal.raise_signal(signal.SIGINT)

cli.app = app
begin = torchmcl_command.main if sys.argv[1] == "script" else lambda: runpy.run_module("torchmcl", run_name="__main__")
try:
    begin()
finally:
    signal.raise_signal(signal.Signals[sys.argv[2]])
"""


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
@pytest.mark.parametrize("begin", ["script", "module"])
def test_a_second_signal_after_the_sentence_changes_nothing(begin, name):
    words = [sys.executable, "-c", AGAIN, begin, name]
    ended = subprocess.run(words, capture_output=True, text=True, check=False, timeout=50)
    said = "torchmcl: interrupted; the same command continues where it stopped\n"
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", said)


def test_a_deleted_current_folder_is_one_sentence(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "gone").mkdir()
    os.chdir("gone")
    os.rmdir(tmp_path / "gone")
    with pytest.raises(SystemExit) as end:
        torchmcl_command.main()
    assert end.value.code == 2
    assert capsys.readouterr().err.startswith("torchmcl: the current folder does not exist any more")


def test_figures_need_no_window_whatever_the_environment_says(monkeypatch, capsys):
    monkeypatch.setenv("MPLBACKEND", "nonsense")
    monkeypatch.setattr(sys, "argv", ["torchmcl", "--version"])
    with pytest.raises(SystemExit):
        cli.main()
    assert os.environ["MPLBACKEND"] == "agg"
