"""A run of the toy experiment that takes a second: tiny networks, few samples, and a real evaluation."""

from pathlib import Path

import pytest
from rich.console import Console

from torchmcl.runs import RunFolder
from torchmcl.toy.experiment import run_seeds
from torchmcl.toy.outcomes import Run
from torchmcl.toy.presets import Settings

GRID = 10

TINY = Settings(
    "tiny",
    training_samples=400,
    validation_samples=200,
    batch_size=100,
    epochs=2,
    ensemble_epochs=2,
    units=8,
    hypotheses=20,
    learning_rate=3e-3,
    spread=True,
)


@pytest.fixture(scope="session")
def tiny() -> Settings:
    return TINY


@pytest.fixture(scope="session")
def tiny_out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where `tiny_run` is kept, as the command keeps it."""
    return tmp_path_factory.mktemp("toy") / "out"


@pytest.fixture(scope="session")
def tiny_run(tiny: Settings, tiny_out: Path) -> Run:
    with RunFolder.open(tiny_out, {"command": "toy"}):
        return run_seeds(tiny, range(1), tiny_out, Console(quiet=True), size=GRID)[0]
