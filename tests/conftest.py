"""What all tests share."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from hypothesis import settings

from shape_types import no_shape_types
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
    with no_shape_types():
        yield
