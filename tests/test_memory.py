"""Memory that is freed and needed again stays in the process."""

import platform
import subprocess
import sys

import pytest

FAULTS = """
import resource
import numpy as np
from torchmcl.memory import keep_memory
{first}
def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(20):
        activations = [np.ones(2**21) for _ in range(8)]
        del activations
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
faults()
print(faults())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the C library is not glibc")
def test_kept_memory_is_not_fetched_again():
    def count(first: str) -> int:
        done = subprocess.run(
            [sys.executable, "-c", FAULTS.format(first=first)], capture_output=True, text=True, check=True
        )
        return int(done.stdout)

    assert count("assert keep_memory()") < 100 < count("") / 10
