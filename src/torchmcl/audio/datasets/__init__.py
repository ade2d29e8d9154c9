"""Data sets of first-order Ambisonics recordings with directions: TUT Sound Events 2018 and DCASE19."""

from pathlib import Path

from torchmcl.audio.datasets.catalogue import Catalogue, Fold, Layout, scan
from torchmcl.audio.datasets.dcase19 import DCASE19
from torchmcl.audio.datasets.recording import BrokenFile, Event, Problem, Recording
from torchmcl.audio.datasets.sound import open_sound
from torchmcl.audio.datasets.tut import TUT
from torchmcl.errors import UserError

__all__ = [
    "DCASE19",
    "TUT",
    "BrokenFile",
    "Catalogue",
    "Event",
    "Fold",
    "Layout",
    "Problem",
    "Recording",
    "open_sound",
    "read_dataset",
    "scan",
]


def read_dataset(folder: str | Path, *, skip_broken: bool = False) -> Catalogue:
    """Read the data set in `folder`, whichever of the known layouts it has."""
    folder = Path(folder)
    if not folder.is_dir():
        raise UserError(f"{folder}: no such folder")
    for layout in (TUT, DCASE19):
        if next(layout.candidates(folder), None) is not None:
            return scan(folder, layout, skip_broken=skip_broken)
    known = " or ".join(f"{layout.folders} ({layout.name})" for layout in (TUT, DCASE19))
    raise UserError(f"{folder}: no recordings found, must be in {known}")
