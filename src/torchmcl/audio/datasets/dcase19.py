"""TAU Spatial Sound Events 2019 in first-order Ambisonics (DCASE19).

Development recordings `foa_dev/split{1-4}_ir{0-4}_ov{1,2}_{n}.wav` with `metadata_dev/`, evaluation
recordings in `foa_eval/` with `metadata_eval/`. The evaluation set is for testing. Fold N trains on three
development splits and validates on split N (the paper trains on all four and says nothing of validation).
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from torchmcl.audio.datasets.catalogue import Candidate, Fold, Layout, pairs
from torchmcl.audio.datasets.recording import Problem, Recording, RecordingSpec, Subset
from torchmcl.audio.rooms import ROOMS

__all__ = ["DCASE19", "label"]

_NAME = re.compile(r"split(\d)(?:_ir\d)?(?:_ov([12]))?_\d+")
_FOLDERS: dict[Subset, str] = {"train": "dev", "test": "eval"}
_OVERLAP = 2


def label(name: str) -> str:
    """The class of an event; descriptions contain it.

    Args:
        name: In the description.

    Returns:
        The same name.

    Example:
        >>> label("knock")
        'knock'
    """
    return name


def candidates(folder: Path) -> Iterator[Candidate | Problem]:
    """Pairs of files of the development set, then of the evaluation set.

    Evaluation files may have names without their overlap (`split0_7.wav`); at most two events sound at once in any.

    Args:
        folder: Of the data set.

    Yields:
        Recordings, or problems of files whose names do not fit.
    """
    for subset, which in _FOLDERS.items():
        for audio, description in pairs(folder / f"foa_{which}", folder / f"metadata_{which}"):
            match = _NAME.fullmatch(audio.stem)
            if match is None:
                yield Problem(audio, "its name is not like split1_ir0_ov1_1")
            else:
                yield Candidate(audio, description, int(match[2] or _OVERLAP), int(match[1]), subset)


def divide(recordings: Sequence[Recording], number: int) -> Fold:
    """The recordings of a fold: one development split for validation, the other three for training.

    Args:
        recordings: All of the data set.
        number: Of the fold and of the split for validation.

    Returns:
        The fold.
    """
    development = [recording for recording in recordings if recording.subset == "train"]
    return Fold(
        train=tuple(recording for recording in development if recording.split != number),
        validation=tuple(recording for recording in development if recording.split == number),
        test=tuple(recording for recording in recordings if recording.subset == "test"),
    )


def specs(recordings: int, snr: float, rooms: bool) -> Iterator[RecordingSpec]:
    """Recordings to simulate in this layout: four development splits, and a fifth one as the evaluation set.

    Args:
        recordings: Per split and overlap.
        snr: Signal-to-noise ratio in decibels; names do not contain it.
        rooms: Whether names contain the index of a room.

    Yields:
        The recordings in order.
    """
    for split in (1, 2, 3, 4, 5):
        which = "eval" if split == 5 else "dev"
        for overlap in (1, 2):
            for index in range(recordings):
                room = index % len(ROOMS) if rooms else 0
                number = 2 * index + overlap
                name = f"split0_{number}" if split == 5 else f"split{split}_ir{room}_ov{overlap}_{number}"
                yield RecordingSpec(
                    Path(f"foa_{which}") / f"{name}.wav",
                    Path(f"metadata_{which}") / f"{name}.csv",
                    (split, "train"),
                    overlap,
                    index,
                    room,
                )


DCASE19 = Layout(
    name="DCASE19",
    folders="foa_dev/ and metadata_dev/",
    duration=60.0,
    sample_rate=48000,
    elevations=(-40.0, 40.0),
    folds=4,
    splits=5,
    test_clips=False,
    names_files=False,
    overlap_by_frame=True,
    candidates=candidates,
    label=label,
    divide=divide,
    specs=specs,
)
