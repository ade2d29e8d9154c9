"""Forecasting pedestrians: the answer to one frame, and a long file in one pass."""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

from benchmarks import Row, medians, show
from torchmcl.trajectories.forecaster import Forecaster

__all__ = ["rows"]

PEOPLE = 50
LINES = (10_000, 100_000)

STREAM = """
import resource, sys
from pathlib import Path
from torchmcl.trajectories.forecast import forecast_all
from torchmcl.trajectories.stream import Source
forecast_all(Source(Path(sys.argv[1])), Path(sys.argv[2]), top=1)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


def rows() -> list[Row]:
    """50 pedestrians at a frame against 50 ms; memory (in gigabytes) and time for a file of 100,000 lines."""
    forecaster = Forecaster.from_pretrained()
    observed = torch.randn(PEOPLE, 8, 2).cumsum(1) * 0.3
    frames = torch.zeros(PEOPLE, dtype=torch.long)

    def answer() -> None:
        forecaster.answer(forecaster(observed, frames=frames))

    taken = medians({"answer": answer}, 20)["answer"]
    with tempfile.TemporaryDirectory() as folder:
        peaks, seconds = zip(*(_stream(Path(folder), lines) for lines in LINES), strict=True)
    return [
        Row("forecast, 50 pedestrians at a frame", taken, 0.05, taken / 0.05, 1.0),
        Row("forecast, memory for 100,000 lines and 10,000", *peaks[::-1], peaks[1] / peaks[0], 1.1),
        Row("forecast, 100,000 lines", seconds[1], 120.0, seconds[1] / 120, 1.0),
    ]


def _stream(folder: Path, lines: int) -> tuple[float, float]:
    """Gigabytes at most and seconds, of a process of its own."""
    path = folder / f"{lines}.txt"
    random = np.random.default_rng(0)
    with path.open("w") as stream:
        for number in range(lines // 200):
            walks = random.normal(0, 0.4, (20, 10, 2)).cumsum(0)
            for step, places in enumerate(walks):
                for person, (x, y) in enumerate(places):
                    stream.write(f"{10 * (20 * number + step)} {10 * number + person} {x:.3f} {y:.3f}\n")
    began = time.perf_counter()
    said = subprocess.run(
        [sys.executable, "-c", STREAM, path, folder / "out"], capture_output=True, text=True, check=True
    ).stdout
    return float(said) / 1024, time.perf_counter() - began


if __name__ == "__main__":
    show(rows())
