"""Small data for the demonstration: a table that scikit-learn has, and pedestrians that are made up."""

import csv
import io
from pathlib import Path

import numpy as np
from sklearn.datasets import load_diabetes

from torchmcl.runs.files import write_text

__all__ = ["TARGET", "write_table", "write_tracks"]

TARGET = "progression"
"""The column to predict: how far diabetes has progressed a year later."""


def write_table(path: Path) -> None:
    """The diabetes data of scikit-learn as a CSV file: 442 patients, 10 columns and the target.

    Args:
        path: The file to write.
    """
    data = load_diabetes(scaled=False)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*data.feature_names, TARGET])
    writer.writerows(
        [*(f"{value:g}" for value in row), f"{y:g}"] for row, y in zip(data.data, data.target, strict=True)
    )
    write_text(path, text.getvalue())


def write_tracks(path: Path, seed: int = 0) -> None:
    """A crossing with eight pedestrians who walk straight, turn or stop, with a little jitter.

    Args:
        path: The file to write: lines of frame, id, x and y.
        seed: Of the random numbers.
    """
    rng = np.random.default_rng(seed)
    lines = []
    for walker in range(8):
        heading = rng.choice([0, 90, 180, 270]) + rng.normal(0, 5)
        speed = rng.uniform(0.35, 0.6)
        turn = rng.choice([0.0, 0.0, -6.0, 6.0])
        first, length = int(rng.integers(0, 14)), int(rng.integers(20, 27))
        angles = np.radians(heading + turn * np.clip(np.arange(length) - 8, 0, 12))
        steps = speed * np.stack([np.cos(angles), np.sin(angles)], -1)
        if walker % 4 == 3:
            steps[12:] *= 0.05
        places = np.cumsum(steps, 0)
        places += rng.uniform(-2, 2, 2) - places[length // 2] + rng.normal(0, 0.01, places.shape)
        frames = first + np.arange(length)
        lines += [(int(frame) * 10, walker + 1, *place) for frame, place in zip(frames, places, strict=True)]
    lines.sort()
    write_text(
        path,
        "".join(f"{frame}\t{walker}\t{x:.3f}\t{y:.3f}\n" for frame, walker, x, y in lines),
    )
