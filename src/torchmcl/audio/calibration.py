r"""What scores and counts are worth in simulated rooms: probabilities of the number of sources, and regions.

The number of sources in an output frame is predicted by multinomial logistic regression from the network's own count,
the number of tracks and the sum of their scores. The region of a direction is the conformal quantile of its error,
for tracks of about the same score: with probability `coverage` the nearest active source lies within it.
"""

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from scipy.optimize import minimize

from torchmcl.audio.roomnet import COUNTS
from torchmcl.errors import UserError
from torchmcl.runs.files import write_json

__all__ = ["CALIBRATION", "Calibration", "fit_counts", "fit_regions", "load_calibration", "save_calibration"]

CALIBRATION = "calibration.json"
EVIDENCE = 2 * COUNTS + 2
LARGEST = 1 << 16


@dataclass(frozen=True)
class Calibration:
    """Calibrated on simulated rooms.

    Attributes:
        coverage: Probability that the nearest active source lies within the region of a direction.
        scores: Edges of the score classes, increasing from 0.
        radii: Degrees, one for each class, not increasing.
        counts: Weights of the logistic regression, a row for each number of sources.
    """

    coverage: float
    scores: tuple[float, ...]
    radii: tuple[float, ...]
    counts: tuple[tuple[float, ...], ...]

    def __post_init__(self) -> None:
        if not 0 < self.coverage < 1:
            raise UserError(f"coverage is {self.coverage}, must be between 0 and 1")
        if len(self.scores) != len(self.radii) or not self.scores:
            raise UserError(
                f"scores has {len(self.scores)} values, radii {len(self.radii)}: one for each class"
            )
        if np.shape(self.counts) != (COUNTS, EVIDENCE):
            raise UserError(f"counts must have {COUNTS} rows of {EVIDENCE} numbers")
        if not all(np.isfinite(np.array(values)).all() for values in (self.scores, self.radii, self.counts)):
            raise UserError("calibration has values that are not finite")

    def radius(self, score: Float[np.ndarray, "*batch"]) -> Float[np.ndarray, "*batch"]:
        """Radius of the region of a direction with that score, degrees."""
        place = np.searchsorted(self.scores, score, side="right") - 1
        return np.asarray(np.array(self.radii)[place.clip(min=0)])

    def probabilities(self, evidence: Float[np.ndarray, "frames 10"]) -> Float[np.ndarray, "frames 4"]:
        """Probabilities of 0, 1, 2, and 3 or more sources."""
        return _softmax(evidence @ np.array(self.counts).T)


def count_evidence(
    counts: Float[np.ndarray, "frames 4"],
    tracks: Int[np.ndarray, "frames"],
    scores: Float[np.ndarray, "frames"],
) -> Float[np.ndarray, "frames 10"]:
    """Inputs of the logistic regression.

    Args:
        counts: Probabilities by the network's count head.
        tracks: Number of tracks.
        scores: Sum of their scores.
    """
    return np.concatenate(
        [
            np.log(counts.clip(min=1e-4)),
            np.eye(COUNTS)[tracks.clip(max=COUNTS - 1)],
            scores[:, None],
            np.ones((len(scores), 1)),
        ],
        axis=1,
    )


def fit_counts(
    evidence: Float[np.ndarray, "frames 10"], counts: Int[np.ndarray, "frames"], penalty: float = 1e-3
) -> tuple[tuple[float, ...], ...]:
    """Weights of the logistic regression with the largest likelihood, all numbers of sources weighing the same.

    Args:
        evidence: Inputs.
        counts: True numbers of sources; more than 3 count as 3.
        penalty: Of the squared weights.
    """
    truth = np.eye(COUNTS)[counts.clip(max=COUNTS - 1)]
    weight = 1 / np.maximum(truth.sum(0), 1)
    share = truth @ (weight / (weight * truth.sum(0)).sum())

    def loss(flat: np.ndarray) -> tuple[float, np.ndarray]:
        table = flat.reshape(COUNTS, -1)
        found = _softmax(evidence @ table.T)
        value = -float(share @ np.log((found * truth).sum(1).clip(min=1e-12)))
        slope = ((found - truth) * share[:, None]).T @ evidence
        return value + penalty * float((table**2).sum()), (slope + 2 * penalty * table).reshape(-1)

    start = np.zeros((COUNTS, EVIDENCE))
    start[:, :COUNTS] = np.eye(COUNTS)
    found = minimize(loss, start.reshape(-1), jac=True, method="L-BFGS-B")
    return tuple(tuple(float(value) for value in row) for row in found.x.reshape(COUNTS, -1))


def fit_regions(
    scores: Float[np.ndarray, "directions"],
    errors: Float[np.ndarray, "directions"],
    *,
    coverage: float = 0.9,
    classes: int = 8,
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Conformal radii for classes of scores with about as many directions each.

    Args:
        scores: Of reported directions.
        errors: Angles to the nearest active source, degrees.
        coverage: Share of the directions whose source must lie within the radius.
        classes: Number of score classes.

    Returns:
        Edges of the classes, and radii in degrees that do not increase with the score.
    """
    order = np.argsort(scores, kind="stable")
    parts = np.array_split(order, classes)
    edges = [0.0, *(float(scores[part[0]]) for part in parts[1:])]
    radii = [_conformal_quantile(errors[part], coverage) for part in parts]
    return tuple(edges), tuple(float(r) for r in np.maximum.accumulate(radii[::-1])[::-1])


def load_calibration(folder: str | Path) -> Calibration | None:
    """The calibration of a model, where its folder has one."""
    path = Path(folder) / CALIBRATION
    if not path.is_file():
        return None
    try:
        if path.stat().st_size > LARGEST:
            raise UserError(f"is larger than {LARGEST} bytes")
        values: Any = json.loads(path.read_text(encoding="utf-8"))
        return Calibration(
            coverage=float(values["coverage"]),
            scores=tuple(map(float, values["scores"])),
            radii=tuple(map(float, values["radii"])),
            counts=tuple(tuple(map(float, row)) for row in values["counts"]),
        )
    except UserError as error:
        raise UserError(f"{path}: {error}") from None
    except (ValueError, KeyError, TypeError, RecursionError):
        raise UserError(f"{path}: is not a calibration") from None


def save_calibration(folder: str | Path, calibration: Calibration) -> None:
    """Write a calibration into the folder of a model."""
    write_json(Path(folder) / CALIBRATION, asdict(calibration))


def _conformal_quantile(errors: Float[np.ndarray, "directions"], coverage: float) -> float:
    rank = math.ceil((len(errors) + 1) * coverage)
    return float(np.sort(errors)[rank - 1]) if rank <= len(errors) else 180.0


def _softmax(logits: Float[np.ndarray, "frames counts"]) -> Float[np.ndarray, "frames counts"]:
    powers = np.exp(logits - logits.max(1, keepdims=True))
    return powers / powers.sum(1, keepdims=True)


def reliability(
    probabilities: Float[np.ndarray, "frames 4"], counts: Int[np.ndarray, "frames"], bins: Sequence[float]
) -> list[tuple[float, float, int]]:
    """How often the most probable number is right, against how probable it was said to be.

    Args:
        probabilities: Of 0, 1, 2, and 3 or more sources.
        counts: True numbers.
        bins: Edges of classes of probability.

    Returns:
        For each class with frames in it: mean probability, share that was right, number of frames.
    """
    best = probabilities.max(1)
    right = probabilities.argmax(1) == counts.clip(max=COUNTS - 1)
    rows = []
    for low, high in pairwise(bins):
        chosen = (best >= low) & (best < high)
        if chosen.any():
            rows.append((float(best[chosen].mean()), float(right[chosen].mean()), int(chosen.sum())))
    return rows
