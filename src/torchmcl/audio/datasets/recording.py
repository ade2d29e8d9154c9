"""What a data set consists of: recordings, their sound events, and what is wrong with a file."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from torchmcl.errors import UserError

__all__ = ["BrokenFile", "Event", "Problem", "Recording", "RecordingSpec", "Subset"]

Subset = Literal["train", "test"]
"""How the authors of a data set mark a recording."""


@dataclass(frozen=True)
class Event:
    """A sound from one direction.

    Args:
        name: In the description.
        label: Its class.
        start: Seconds from the start of the recording.
        end: Seconds from the start of the recording.
        azimuth: In radians.
        elevation: In radians.
        distance: In meters.
    """

    name: str
    label: str
    start: float
    end: float
    azimuth: float
    elevation: float
    distance: float


@dataclass(frozen=True)
class Recording:
    """A sound file with its events.

    TUT 2018 has files `train_*` and `test_*` in each of three splits. DCASE19 has four development splits (subset
    `train`) and an evaluation set (subset `test`, split 0).

    Args:
        audio: The sound file.
        description: The CSV file, or `None`.
        events: In the order of the file.
        duration: In seconds.
        sample_rate: In hertz.
        overlap: Simultaneous events that its name announces; the number of its events if it belongs to no data set.
        split: Of the data set; 0 if it belongs to none.
        subset: Of the data set.
    """

    audio: Path
    description: Path | None
    events: tuple[Event, ...]
    duration: float
    sample_rate: int
    overlap: int
    split: int
    subset: Subset


@dataclass(frozen=True)
class RecordingSpec:
    """A recording to simulate: its two files, the pool of its clips, and what its random numbers depend on.

    Args:
        audio: Path of the sound file in the data set.
        description: Path of the CSV file in the data set.
        pool: Split and subset whose clips it may use.
        overlap: Events that sound at once, at most.
        index: Number of the recording within its pool and overlap.
        room: Index of the room where it is reverberant.
    """

    audio: Path
    description: Path
    pool: tuple[int, Subset]
    overlap: int
    index: int
    room: int

    def is_complete(self, out: Path) -> bool:
        """Whether both files are there; the description is written last.

        Args:
            out: Folder of the data set.

        Returns:
            True if nothing is left to do.
        """
        return (out / self.description).is_file() and (out / self.audio).is_file()


@dataclass(frozen=True)
class Problem:
    """What is wrong with a file.

    Args:
        path: The file.
        what: A phrase.
        line: Counted from 1, where that makes sense.

    Example:
        >>> print(Problem(Path("a.csv"), "5 columns, must be 6", line=3))
        a.csv:3: 5 columns, must be 6
    """

    path: Path
    what: str
    line: int | None = None

    def __str__(self) -> str:
        where = f"{self.path}" if self.line is None else f"{self.path}:{self.line}"
        return f"{where}: {self.what}"


class BrokenFile(UserError):
    """A file that cannot be used.

    Args:
        path: The file.
        what: A phrase; `problem` holds both.
    """

    def __init__(self, path: Path, what: str) -> None:
        self.problem = Problem(path, what)
        super().__init__(str(self.problem))
