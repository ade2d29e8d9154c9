"""The ETH/UCY benchmark: five folds, each of which leaves one scene out."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from torchmcl.errors import UserError
from torchmcl.trajectories.rows import iter_rows
from torchmcl.trajectories.tracks import read_tracks
from torchmcl.trajectories.windows import Windows, windows_of

__all__ = [
    "COUNTS",
    "HELD_OUT",
    "SCENES",
    "VIDEOS",
    "Fold",
    "every_video",
    "folds",
    "read_windows",
    "shared_rows",
]

SCENES = ("eth", "hotel", "univ", "zara1", "zara2")

VIDEOS = {
    "eth": ("biwi_eth",),
    "hotel": ("biwi_hotel",),
    "univ": ("students001", "students003", "uni_examples"),
    "zara1": ("crowds_zara01",),
    "zara2": ("crowds_zara02",),
}
"""The videos that show each scene; `crowds_zara03` is in the training data of every fold."""

COUNTS = {
    "filtered": {"eth": 181, "hotel": 1053, "univ": 24334, "zara1": 2253, "zara2": 5833},
    "all": {"eth": 364, "hotel": 1197, "univ": 24334, "zara1": 2356, "zara2": 5910},
}
"""Test pedestrians of the two protocols, to tell that the files are the usual ones."""

HELD_OUT = (("eth", "univ"), ("hotel", "univ"), ("hotel", "zara1"), ("eth", "zara2"))
"""Pairs of scenes that a network is trained without: on each it is judged for the fold of the other."""


@dataclass(frozen=True)
class Fold:
    """The files of a fold: `SCENE/{train,val,test}/*.txt`.

    Args:
        scene: The one that is left out of training.
        folder: That holds train, val and test.
    """

    scene: str
    folder: Path

    def files(self, part: str, *, without: Sequence[str] = (), only: Sequence[str] = ()) -> list[Path]:
        """The files of a part.

        Args:
            part: `train`, `val` or `test`.
            without: Scenes whose videos are left out.
            only: Scenes to whose videos the list is limited; none for no limit.

        Returns:
            Paths, sorted.
        """
        found = sorted((self.folder / part).glob("*.txt"))
        if not found:
            raise UserError(
                f"{self.folder / part}: has no .txt files; the layout is SCENE/{{train,val,test}}/*.txt"
            )
        return [path for path in found if not _shows(path, without) and (not only or _shows(path, only))]


def _shows(path: Path, scenes: Sequence[str]) -> bool:
    return any(path.stem.removesuffix("_train").removesuffix("_val") in VIDEOS[scene] for scene in scenes)


def folds(data: str | Path, scenes: Sequence[str] = SCENES) -> list[Fold]:
    """The folds of a folder of data.

    Args:
        data: With one folder for each scene.
        scenes: Which ones.

    Returns:
        The folds, in the same order.
    """
    for scene in scenes:
        if scene not in SCENES:
            raise UserError(f"scene is {scene!r}, must be one of {', '.join(SCENES)}")
        if not (Path(data) / scene).is_dir():
            raise UserError(
                f"{Path(data) / scene}: is no folder; the layout is SCENE/{{train,val,test}}/*.txt"
            )
    return [Fold(scene, Path(data) / scene) for scene in scenes]


def every_video(data: str | Path, part: str) -> list[Path]:
    """The files of a part of all videos, each once: every fold has a copy.

    Args:
        data: With one folder for each scene.
        part: `train` or `val`.

    Returns:
        Paths, sorted by name.
    """
    named = {path.name: path for fold in reversed(folds(data)) for path in fold.files(part)}
    return [named[name] for name in sorted(named)]


def read_windows(files: Sequence[Path]) -> Windows:
    """The windows of several files.

    Args:
        files: Tracks with one position every 0.4 s.

    Returns:
        All windows; the index of the file is in `files`.
    """
    return Windows.cat([_windows_of(path) for path in files])


@lru_cache(maxsize=32)
def _windows_of(path: Path) -> Windows:
    return windows_of(read_tracks(path))


def shared_rows(files: Sequence[Path], tests: Sequence[Path]) -> int:
    """How many rows of some files are in test files: the same frame and position, whoever it is.

    The train and val files of a scene are cut out of its test file, so that a fold must not look at those of its own
    scene.

    Args:
        files: What settings are chosen on, or what a network learns from.
        tests: The test files of a fold.

    Returns:
        A number that must be 0.
    """
    rows = {row for path in tests for row in _rows(path)}
    return sum(row in rows for path in files for row in _rows(path))


@lru_cache(maxsize=64)
def _rows(path: Path) -> tuple[tuple[int, float, float], ...]:
    return tuple((row.frame, row.x, row.y) for row in iter_rows(path))
