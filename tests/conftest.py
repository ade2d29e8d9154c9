"""What all tests share."""

import os
from collections.abc import Iterator
from pathlib import Path

import jaxtyping
import pytest
import torch
from hypothesis import settings

from startup import sitecustomize

STARTUP = [str(Path(sitecustomize.__file__).parent)]
os.environ["PYTHONPATH"] = os.pathsep.join(STARTUP + os.environ.get("PYTHONPATH", "").split(os.pathsep))
settings.register_profile("repeatable", deadline=None, derandomize=True)
settings.load_profile("repeatable")
torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


@pytest.fixture
def unchecked() -> Iterator[None]:
    """Without the shape types that only tests check: the errors that a user sees."""
    before = jaxtyping.config.jaxtyping_disable
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", before)
