"""What all tests share."""

import os
import signal
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

# Shells that run without a terminal make their background processes deaf to Ctrl-C, which some tests send.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

SLOW = (
    "test_documents", "web/test_page", "test_nothing_lost", "test_onnx", "test_examples", "test_shell",
    "images/test_study", "test_regressor", "test_classifier", "test_ray", "test_simulate", "test_compiled",
    "test_length", "test_several_processes", "toy/test_experiment", "experiments/test_study",
    "experiments/test_train", "test_fit", "toy/test_outcomes",
)  # fmt: skip
"""Files of tests that take longest: the others fill the time that one process would wait for the other at the end."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    def place(item: pytest.Item) -> int:
        found = (index for index, name in enumerate(SLOW) if item.path.as_posix().endswith(f"/{name}.py"))
        return next(found, len(SLOW))

    items.sort(key=place)


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


@pytest.fixture
def unchecked() -> Iterator[None]:
    """Without the shape types that only tests check: the errors that a user sees."""
    with no_shape_types():
        yield
