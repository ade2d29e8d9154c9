"""Data sets of first-order Ambisonics recordings with directions: TUT Sound Events 2018 and DCASE19."""

from collections.abc import Callable
from pathlib import Path

from torchmcl.audio.datasets.catalogue import Candidate, Catalogue, Fold, Layout, complaint, examine, scan
from torchmcl.audio.datasets.dcase19 import DCASE19
from torchmcl.audio.datasets.recording import BrokenFile, Event, Problem, Recording, RecordingSpec
from torchmcl.audio.datasets.sound import open_sound
from torchmcl.audio.datasets.tut import TUT, label
from torchmcl.errors import UserError
from torchmcl.runs.files import resolved

__all__ = [
    "DCASE19",
    "LAYOUTS",
    "TUT",
    "BrokenFile",
    "Catalogue",
    "Event",
    "Fold",
    "Layout",
    "Problem",
    "Recording",
    "RecordingSpec",
    "open_sound",
    "read_dataset",
    "read_recording",
    "scan",
]

LAYOUTS = {"tut": TUT, "dcase19": DCASE19}
"""The known layouts by the names that `SceneSettings` and `torchmcl simulate --layout` have for them."""


def read_dataset(folder: str | Path, *, skip_broken: bool = False) -> Catalogue:
    """Read the data set in a folder, in whichever of the known layouts it is.

    Args:
        folder: Of the data set.
        skip_broken: Leave out recordings that have a problem; otherwise the first problem is an error.

    Returns:
        Its recordings, with headers and descriptions read.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise UserError(f"{folder}: no such folder")
    for layout in LAYOUTS.values():
        if next(layout.candidates(folder), None) is not None:
            return scan(folder, layout, skip_broken=skip_broken)
    known = " or ".join(f"{layout.folders} ({layout.name})" for layout in LAYOUTS.values())
    raise UserError(f"{folder}: no recordings found, must be in {known}")


def read_recording(path: str | Path) -> Recording:
    """Read one recording, described by its data set, by a CSV file beside it, or not at all.

    Args:
        path: Of the sound file.

    Returns:
        The recording with its events.
    """
    path = Path(path)
    if not path.is_file():
        raise UserError(f"{path}: no such file")
    found = examine(*_described(resolved(path)))
    if isinstance(found, Recording):
        return found
    raise UserError(complaint(found))


def _described(path: Path) -> tuple[Candidate, Callable[[str], str]]:
    for layout in LAYOUTS.values():
        for candidate in layout.candidates(path.parent.parent):
            if isinstance(candidate, Candidate) and candidate.audio == path:
                return candidate, layout.label
    beside = path.with_suffix(".csv")
    return Candidate(path, beside if beside.is_file() else None, None, 0, "test"), label
