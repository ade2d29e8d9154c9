"""TUT Sound Events 2018 in first-order Ambisonics: ANSYN, RESYN and REAL.

Nine parts `wav_ov{1,2,3}_split{1,2,3}_30db/` with descriptions in `desc_ov{1,2,3}_split{1,2,3}/`, each with
files `train_*` and `test_*`. Fold N tests on all files of split N, trains on the `train_*` files of the other
two splits and validates on their `test_*` files.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from torchmcl.audio.datasets.catalogue import Candidate, Fold, Layout, pairs
from torchmcl.audio.datasets.recording import Part, Problem, Recording

__all__ = ["TUT", "label"]

_FOLDER = re.compile(r"(wav|desc)_ov([123])_split([123])(_-?\d+db)?")
_URBANSOUND = re.compile(r"\d+-(\d+)-\d+-\d+")


def label(name: str) -> str:
    """The class of an event, from the name of its sound file.

    ANSYN and RESYN number the files of a class with three digits, REAL has the names of UrbanSound8K.

    >>> label("clearthroat126.wav"), label("100032-3-0-0.wav")
    ('clearthroat', '3')
    """
    stem = name.rsplit(".", 1)[0]
    urban = _URBANSOUND.fullmatch(stem)
    return urban[1] if urban else stem[:-3] or stem


def candidates(folder: Path) -> Iterator[Candidate | Problem]:
    """Pairs of files in the parts of the data set, part by part."""
    found: dict[tuple[int, int], dict[str, Path]] = {}
    for path in sorted(folder.iterdir()):
        match = _FOLDER.fullmatch(path.name)
        if match and path.is_dir():
            kind, part = match[1], (int(match[2]), int(match[3]))
            if kind in found.setdefault(part, {}):
                yield Problem(path, f"is there beside {found[part][kind].name}, must be the only one")
                continue
            found[part][kind] = path
    for (overlap, split), kinds in sorted(found.items()):
        sounds = kinds.get("wav", folder / f"wav_ov{overlap}_split{split}_30db")
        descriptions = kinds.get("desc", folder / f"desc_ov{overlap}_split{split}")
        for audio, description in pairs(sounds, descriptions):
            part_of_file = _part(audio.stem)
            if part_of_file is None:
                yield Problem(audio, "its name starts with neither train nor test")
            else:
                yield Candidate(audio, description, overlap, split, part_of_file)


def _part(stem: str) -> Part | None:
    if stem.startswith("train"):
        return "train"
    return "test" if stem.startswith("test") else None


def divide(recordings: Sequence[Recording], number: int) -> Fold:
    """Fold `number`: its split for testing, the `train_*` and `test_*` files of the others to learn from."""
    others = [recording for recording in recordings if recording.split != number]
    return Fold(
        train=tuple(recording for recording in others if recording.part == "train"),
        validation=tuple(recording for recording in others if recording.part == "test"),
        test=tuple(recording for recording in recordings if recording.split == number),
    )


TUT = Layout(
    name="TUT Sound Events 2018",
    folders="wav_ov1_split1_30db/ and desc_ov1_split1/",
    length=30.0,
    folds=3,
    overlap_by_frame=False,
    candidates=candidates,
    label=label,
    divide=divide,
)
