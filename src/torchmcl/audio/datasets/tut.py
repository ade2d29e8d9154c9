"""TUT Sound Events 2018 in first-order Ambisonics: ANSYN, RESYN and REAL.

Nine pairs of folders `wav_ov{1,2,3}_split{1,2,3}_30db/` with descriptions in `desc_ov{1,2,3}_split{1,2,3}/`, each with
files `train_*` and `test_*`. Fold N tests on all files of split N, trains on the `train_*` files of the other
two splits and validates on their `test_*` files.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from torchmcl.audio.datasets.catalogue import Candidate, Fold, Layout, pairs
from torchmcl.audio.datasets.recording import Problem, Recording, RecordingSpec, Subset
from torchmcl.audio.rooms import ROOMS

__all__ = ["TUT", "label"]

_FOLDER = re.compile(r"(wav|desc)_ov([123])_split([123])(_-?\d+db)?")
_URBANSOUND = re.compile(r"\d+-(\d+)-\d+-\d+")


def label(name: str) -> str:
    """The class of an event, from the name of its sound file.

    ANSYN and RESYN number the files of a class with three digits. REAL has the names of UrbanSound8K.

    Args:
        name: In the description.

    Returns:
        The class.

    Example:
        >>> label("clearthroat126.wav"), label("100032-3-0-0.wav")
        ('clearthroat', '3')
    """
    stem = name.rsplit(".", 1)[0]
    urban = _URBANSOUND.fullmatch(stem)
    return urban[1] if urban else stem[:-3] or stem


def candidates(folder: Path) -> Iterator[Candidate | Problem]:
    """Pairs of files, by overlap and split.

    Args:
        folder: Of the data set.

    Yields:
        Recordings, or problems of files whose names do not fit.
    """
    found: dict[tuple[int, int], dict[str, Path]] = {}
    for path in sorted(folder.iterdir()):
        match = _FOLDER.fullmatch(path.name)
        if match and path.is_dir():
            kind, group = match[1], (int(match[2]), int(match[3]))
            if kind in found.setdefault(group, {}):
                yield Problem(path, f"is there beside {found[group][kind].name}, must be the only one")
                continue
            found[group][kind] = path
    for (overlap, split), kinds in sorted(found.items()):
        sounds = kinds.get("wav", folder / f"wav_ov{overlap}_split{split}_30db")
        descriptions = kinds.get("desc", folder / f"desc_ov{overlap}_split{split}")
        for audio, description in pairs(sounds, descriptions):
            subset = _subset(audio.stem)
            if subset is None:
                yield Problem(audio, "its name starts with neither train nor test")
            else:
                yield Candidate(audio, description, overlap, split, subset)


def _subset(stem: str) -> Subset | None:
    if stem.startswith("train"):
        return "train"
    return "test" if stem.startswith("test") else None


def divide(recordings: Sequence[Recording], number: int) -> Fold:
    """The recordings of a fold: one split for testing, the `train_*` and `test_*` files of the others for training and
    validation.

    Args:
        recordings: All of the data set.
        number: Of the fold and of the split for testing.

    Returns:
        The fold.
    """
    others = [recording for recording in recordings if recording.split != number]
    return Fold(
        train=tuple(recording for recording in others if recording.subset == "train"),
        validation=tuple(recording for recording in others if recording.subset == "test"),
        test=tuple(recording for recording in recordings if recording.split == number),
    )


def specs(recordings: int, snr: float, rooms: bool) -> Iterator[RecordingSpec]:
    """Recordings to simulate in this layout: a fifth of those of a split are test recordings, as in the data set.

    Args:
        recordings: Per split and overlap.
        snr: Signal-to-noise ratio in decibels, as in the names of folders.
        rooms: Whether there are rooms; names do not contain them.

    Yields:
        The recordings in order.
    """
    test = max(1, recordings // 5)
    counts: dict[Subset, int] = {"train": recordings - test, "test": test}
    for split in (1, 2, 3):
        for overlap in (1, 2, 3):
            audio, description = (
                Path(f"wav_ov{overlap}_split{split}_{snr:.0f}db"),
                Path(f"desc_ov{overlap}_split{split}"),
            )
            for subset, count in counts.items():
                for index in range(count):
                    name = f"{subset}_{index}_desc_{snr:.0f}_100"
                    yield RecordingSpec(
                        audio / f"{name}.wav",
                        description / f"{name}.csv",
                        (split, subset),
                        overlap,
                        index,
                        index % len(ROOMS),
                    )


TUT = Layout(
    name="TUT Sound Events 2018",
    folders="wav_ov1_split1_30db/ and desc_ov1_split1/",
    duration=30.0,
    sample_rate=44100,
    elevations=(-60.0, 50.0),
    folds=3,
    splits=3,
    test_clips=True,
    names_files=True,
    overlap_by_frame=False,
    candidates=candidates,
    label=label,
    divide=divide,
    specs=specs,
)
