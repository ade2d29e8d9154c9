"""The command before it is imported."""

import subprocess
import sys

PROGRAM = """
import os, signal, sys

class Interrupter:
    @staticmethod
    def find_spec(name, *_):
        if name == "torch":
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupter)
from torchmcl_command import main
main()
"""


def test_an_interruption_while_modules_are_imported_is_one_sentence():
    words = [sys.executable, "-c", PROGRAM, "--version"]
    ended = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "torchmcl: interrupted\n")
