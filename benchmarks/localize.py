"""The bundled model: error and speed on scenes that are not in its training data."""

import os
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

from benchmarks import Row, show
from torchmcl import great_circle
from torchmcl.audio.datasets import Recording, read_dataset
from torchmcl.audio.localizer import localize
from torchmcl.audio.scenes import SceneSettings
from torchmcl.audio.simulate import simulate
from torchmcl.audio.targets import HOP, frame_targets

__all__ = ["median_error", "rows"]

SECONDS = 30.0
SEED = 1234
"""Of scenes and of synthesised sounds, other than those of the training."""


def rows() -> list[Row]:
    """One source in the open, 30 s: the median error over active frames, and seconds of sound in a second.

    `TORCHMCL_SOUNDS` names a folder of sounds to take in place of synthesised ones.
    """
    with tempfile.TemporaryDirectory() as folder:
        settings = SceneSettings(
            recordings=2,
            duration=SECONDS,
            sample_rate=44100,
            events=os.environ.get("TORCHMCL_SOUNDS"),
            seed=SEED,
        )
        simulate(Path(folder) / "scenes", settings)
        recordings = [r for r in read_dataset(Path(folder) / "scenes").fold(1).test if r.overlap == 1]
        localize([recordings[0].audio], Path(folder) / "out")
        started = time.perf_counter()
        localize([r.audio for r in recordings], Path(folder) / "out")
        taken = (time.perf_counter() - started) / len(recordings)
        errors = [
            median_error(r, Path(folder) / "out" / f"{r.audio.stem}-hypotheses.csv") for r in recordings
        ]
    error = float(np.mean(errors))
    return [
        Row("localize, one source, median error in degrees", error * 1e-3, 6e-3, error, 6.0),
        Row("localize, seconds of sound in a second", taken, SECONDS, SECONDS / taken, 20.0, at_most=False),
    ]


def median_error(recording: Recording, answers: Path) -> float:
    """In degrees, over active frames, from the hypothesis with the highest score to the source."""
    table = np.loadtxt(answers, delimiter=",", skiprows=1)
    frames = round(table[:, 0].max() / HOP) + 1
    grid = torch.from_numpy(table.reshape(frames, -1, 5))
    best = grid[..., 4].argmax(-1)
    found = grid[torch.arange(frames), best, 2:4].deg2rad()
    targets, active = frame_targets(recording.events, frames, 1)
    return great_circle(found, targets[:, 0].double())[active[:, 0]].rad2deg().median().item()


if __name__ == "__main__":
    show(rows())
