"""Predicted directions against true ones, by the measures of the DCASE challenge (task 3, since 2020).

A recording is cut into segments of one second. In each frame of 100 ms of a segment, the predictions of a class are
assigned to its references at the least total angle; the distance of a reference is the mean angle to what it was
assigned to over the frames of the segment. A reference is a true positive if that is at most 20 degrees, else a false
positive; references and predictions that remain without a partner count as misses and as insertions.
"""

import csv
import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.optimize import linear_sum_assignment

from torchmcl.audio.foa import unit_vectors
from torchmcl.errors import UserError
from torchmcl.runs.files import check_file

__all__ = ["DoaScores", "doa_scores", "evaluate_doa", "read_dcase"]

SEGMENT = 10
"""Frames of 100 ms."""

LAST = 864_000
"""The highest frame: the end of a day."""

LARGEST, MOST, CROWD = 64 * 2**20, 1_000_000, 100
"""Bytes of a file, directions in it, and directions of a class in a frame, all at most."""

WITHIN = 20.0

Directions = Mapping[tuple[int, int], np.ndarray]
"""For (frame, class) the unit vectors of all directions, `(directions, 3)`."""


@dataclass(frozen=True)
class DoaScores:
    """The measures of the challenge.

    Attributes:
        localization_error: Mean angle of the references that were assigned to something, degrees (LE).
        localization_recall: Share of the references that were assigned to something (LR).
        f_score: Of detections within 20 degrees (F20).
        error_rate: Substitutions, deletions and insertions over references, within 20 degrees (ER20).
        references: Number of references, summed over segments.
    """

    localization_error: float
    localization_recall: float
    f_score: float
    error_rate: float
    references: int


@dataclass
class _Sums:
    angle: float = 0.0
    assigned: int = 0
    missed: int = 0
    right: int = 0
    false_positives: int = 0
    false_negatives: int = 0
    errors: int = 0
    references: int = 0


def evaluate_doa(predicted: str | Path, truth: str | Path, *, classes: bool = False) -> DoaScores:
    """Compare two files, or two folders file by file.

    Args:
        predicted: A DCASE file, or a folder of them.
        truth: A DCASE file, or a folder of them; each must have a prediction of the same name.
        classes: Whether the classes of the files count; `localize` does not classify and writes 0.
    """
    predicted, truth = Path(predicted), Path(truth)
    sums = _Sums()
    for guess, reference in _pairs(predicted, truth):
        _add(sums, read_dcase(guess, classes=classes), read_dcase(reference, classes=classes))
    return _scores(sums)


def doa_scores(predicted: Directions, truth: Directions) -> DoaScores:
    """Compare directions of one recording.

    Args:
        predicted: Unit vectors for each (frame of 100 ms, class).
        truth: The same of the references.

    Example:
        >>> front, left = np.array([[1.0, 0.0, 0.0]]), np.array([[0.0, 1.0, 0.0]])
        >>> doa_scores({(0, 0): front, (10, 0): left}, {(0, 0): front}).f_score.__round__(3)
        0.667
    """
    sums = _Sums()
    _add(sums, predicted, truth)
    return _scores(sums)


def read_dcase(path: str | Path, *, classes: bool = True) -> Directions:
    """Directions of a DCASE file.

    Rows of 4 numbers are frame of 20 ms, class, azimuth, elevation (2019); of 5 or more, frame of 100 ms, class,
    track, azimuth, elevation (2020 and later). A file with the header of TUT 2018 and DCASE 2019 descriptions
    (`sound_event_recording,start_time,end_time,ele,azi,dist`) is read as well.

    Args:
        path: The file.
        classes: Whether the classes count; otherwise all are 0.
    """
    path = Path(path)
    check_file(path, LARGEST)
    try:
        with path.open(newline="", encoding="utf-8") as stream:
            rows = [row for row in csv.reader(stream) if row]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UserError(
            f"{path}: cannot be read ({getattr(error, 'strerror', None) or 'not text'})"
        ) from None
    found: dict[tuple[int, int], list[np.ndarray]] = defaultdict(list)
    total = 0
    described = bool(rows) and rows[0][0] == "sound_event_recording"
    for number, row in enumerate(rows[1:] if described else rows, 2 if described else 1):
        try:
            frames, label, azimuth, elevation = _described(row) if described else _row(row)
            if abs(elevation) > 90:
                raise ValueError
        except (ValueError, IndexError):
            raise UserError(f"{path}: line {number} is not of a DCASE file: {','.join(row)[:60]}") from None
        total += len(frames)
        if total > MOST:
            raise UserError(f"{path}: has more than {MOST:,} directions")
        ray = unit_vectors(np.radians([azimuth, elevation]))
        for frame in frames:
            rays = found[frame, label if classes else 0]
            rays.append(ray)
            if len(rays) > CROWD:
                raise UserError(f"{path}: frame {frame} has more than {CROWD} directions")
    return {key: np.array(rays) for key, rays in found.items()}


def _row(row: list[str]) -> tuple[list[int], int, float, float]:
    values = [float(value) for value in row]
    if not all(map(math.isfinite, values)) or not 0 <= values[0] <= LAST or len(values) < 4:
        raise ValueError
    if len(values) == 4:
        # Five frames of 20 ms make one of 100 ms; the middle one stands for it.
        frame = int(values[0])
        return ([frame // 5] if frame % 5 == 2 else []), int(values[1]), values[2], values[3]
    return [int(values[0])], int(values[1]), values[3], values[4]


def _described(row: list[str]) -> tuple[list[int], int, float, float]:
    start, end, elevation, azimuth = (float(value) for value in row[1:5])
    finite = all(map(math.isfinite, (start, end, elevation, azimuth)))
    if not finite or max(abs(start), abs(end)) * 10 > LAST:
        raise ValueError
    middles = range(max(math.ceil(start * 10 - 0.5), 0), max(math.ceil(end * 10 - 0.5), 0))
    return list(middles), 0, azimuth, elevation


def _pairs(predicted: Path, truth: Path) -> list[tuple[Path, Path]]:
    for path in (predicted, truth):
        if not path.exists():
            raise UserError(f"{path}: no such file or folder")
    if truth.is_file() and predicted.is_file():
        return [(predicted, truth)]
    if truth.is_file() or predicted.is_file():
        raise UserError(f"{predicted} and {truth} must both be files or both be folders")
    references = sorted(truth.glob("*.csv"))
    if not references:
        raise UserError(f"{truth}: has no CSV files")
    missing = [path for path in references if not (predicted / path.name).is_file()]
    if missing:
        raise UserError(f"{predicted / missing[0].name}: no such file, {missing[0]} has no prediction")
    return [(predicted / path.name, path) for path in references]


def _add(sums: _Sums, predicted: Directions, truth: Directions) -> None:
    segments = {(frame // SEGMENT, label) for frame, label in [*predicted, *truth]}
    errors: dict[int, list[int]] = defaultdict(lambda: [0, 0])
    for segment, label in sorted(segments):
        frames = range(segment * SEGMENT, (segment + 1) * SEGMENT)
        guesses = {frame: predicted[frame, label] for frame in frames if (frame, label) in predicted}
        references = {frame: truth[frame, label] for frame in frames if (frame, label) in truth}
        positives, negatives = _segment(sums, guesses, references)
        errors[segment][0] += positives
        errors[segment][1] += negatives
    # A false positive and a false negative of the same segment are one substitution.
    sums.errors += sum(max(positives, negatives) for positives, negatives in errors.values())


def _segment(
    sums: _Sums, guesses: Mapping[int, np.ndarray], references: Mapping[int, np.ndarray]
) -> tuple[int, int]:
    """Add a segment of one class; returns its false positives and false negatives."""
    expected = max(map(len, references.values()), default=0)
    offered = max(map(len, guesses.values()), default=0)
    sums.references += expected
    angles: dict[int, list[float]] = defaultdict(list)
    for frame, rays in references.items():
        if frame in guesses:
            degrees = np.degrees(np.arccos((rays @ guesses[frame].T).clip(-1, 1)))
            for row, column in zip(*linear_sum_assignment(degrees), strict=True):
                angles[int(row)].append(float(degrees[row, column]))
    means = [float(np.mean(each)) for each in angles.values()]
    right = sum(mean <= WITHIN for mean in means)
    missed, extra = max(expected - len(means), 0), max(offered - len(means), 0)
    sums.angle += sum(means)
    sums.assigned += len(means)
    sums.missed += missed
    sums.right += right
    positives = len(means) - right + extra
    sums.false_positives += positives
    sums.false_negatives += missed
    return positives, missed


def _scores(sums: _Sums) -> DoaScores:
    wrong = 0.5 * (sums.false_positives + sums.false_negatives)
    return DoaScores(
        localization_error=sums.angle / sums.assigned if sums.assigned else math.nan,
        localization_recall=sums.assigned / max(sums.assigned + sums.missed, 1),
        f_score=sums.right / max(sums.right + wrong, 1e-12),
        error_rate=sums.errors / max(sums.references, 1),
        references=sums.references,
    )
