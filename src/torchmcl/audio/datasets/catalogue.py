"""Scanning a data set: pairs of recordings and descriptions, every problem by file and line."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from torchmcl.audio.datasets.description import read_description
from torchmcl.audio.datasets.recording import BrokenFile, Event, Problem, Recording, RecordingSpec, Subset
from torchmcl.audio.datasets.sound import SUFFIXES, read_header
from torchmcl.errors import UserError

__all__ = ["Candidate", "Catalogue", "Fold", "Layout", "complaint", "examine", "pairs", "scan"]

CHANNELS = 4


@dataclass(frozen=True)
class Candidate:
    """Files that should be a recording, before anything in them has been read.

    Args:
        audio: The sound file.
        description: The CSV file; `None` for a recording without events.
        overlap: Events that may sound at once; `None` for any number.
        split: Of the data set.
        subset: Of the data set.
    """

    audio: Path
    description: Path | None
    overlap: int | None
    split: int
    subset: Subset


@dataclass(frozen=True)
class Fold:
    """The recordings of a cross-validation fold.

    Args:
        train: For training.
        validation: For the choice of weights and settings.
        test: For the reported results.
    """

    train: tuple[Recording, ...]
    validation: tuple[Recording, ...]
    test: tuple[Recording, ...]


@dataclass(frozen=True)
class Layout:
    """The files of a published data set: how they are read, and how recordings in the same layout are simulated.

    Args:
        name: Of the data set.
        folders: Where its recordings and descriptions are, for error messages.
        duration: Of its recordings in seconds; longer ones are cut when used, shorter ones padded.
        sample_rate: Of its recordings in hertz.
        elevations: Lowest and highest elevation of its events in degrees.
        folds: Cross-validation folds.
        splits: Groups of recordings that share no sound.
        test_clips: Whether the test recordings of a split have clips of their own.
        names_files: Whether descriptions name the sound file of an event, not its class.
        overlap_by_frame: Whether results are grouped by the number of events that sound in each frame, not by the
            overlap that the recording announces.
        candidates: The pairs of files in a folder.
        label: The class of an event from its name in the description.
        divide: The recordings of a fold.
        specs: The recordings of a simulated data set, from the number per split and overlap, the signal-to-noise ratio
            and whether there are rooms.
    """

    name: str
    folders: str
    duration: float
    sample_rate: int
    elevations: tuple[float, float]
    folds: int
    splits: int
    test_clips: bool
    names_files: bool
    overlap_by_frame: bool
    candidates: Callable[[Path], Iterator[Candidate | Problem]]
    label: Callable[[str], str]
    divide: Callable[[Sequence[Recording], int], Fold]
    specs: Callable[[int, float, bool], Iterator[RecordingSpec]]


@dataclass(frozen=True)
class Catalogue:
    """The recordings of a data set.

    Args:
        folder: Of the data set.
        layout: Of its files.
        recordings: With their events.
        left_out: The problems of recordings that `skip_broken` left out.
    """

    folder: Path
    layout: Layout
    recordings: tuple[Recording, ...]
    left_out: tuple[Problem, ...] = ()

    @property
    def sample_rate(self) -> int:
        """The one sample rate of all recordings."""
        return self.recordings[0].sample_rate

    @property
    def length(self) -> float:
        """Seconds that a recording is padded or cut to: the layout's, or less where all are shorter."""
        return min(self.layout.duration, max(recording.duration for recording in self.recordings))

    def fold(self, number: int) -> Fold:
        """The recordings of a fold.

        Args:
            number: From 1.

        Returns:
            Training, validation and test recordings; an empty part is a `UserError`.
        """
        if not 1 <= number <= self.layout.folds:
            raise UserError(f"fold is {number}, must be 1 to {self.layout.folds} for {self.layout.name}")
        fold = self.layout.divide(self.recordings, number)
        for part in ("train", "validation", "test"):
            if not getattr(fold, part):
                raise UserError(f"{self.folder}: fold {number} has no {part} recordings")
        return fold


def scan(folder: str | Path, layout: Layout, *, skip_broken: bool = False) -> Catalogue:
    """Read the headers and descriptions of a data set.

    Args:
        folder: Of the data set.
        layout: Of its files.
        skip_broken: Leave out recordings that have a problem, and list the problems. Otherwise the first problem is
            an error that says how many more there are.

    Returns:
        Its recordings.
    """
    folder = Path(folder)
    recordings: list[Recording] = []
    problems: list[Problem] = []
    for candidate in layout.candidates(folder):
        found = examine(candidate, layout.label) if isinstance(candidate, Candidate) else [candidate]
        if isinstance(found, Recording):
            recordings.append(found)
        else:
            problems += found
    if not recordings and not problems:
        raise UserError(f"{folder}: no recordings found, {layout.name} has them in {layout.folders}")
    recordings, others = _one_rate(recordings)
    problems += others
    if problems and not skip_broken:
        raise UserError(complaint(problems))
    if not recordings:
        raise UserError(f"{folder}: no usable recording is left; {complaint(problems)}")
    return Catalogue(folder, layout, tuple(recordings), tuple(problems))


def complaint(problems: Sequence[Problem]) -> str:
    """The sentence of an error.

    Args:
        problems: At least one.

    Returns:
        The first problem, and how many more there are.
    """
    more = len(problems) - 1
    rest = f" (and {more} more problem{'s' * (more > 1)})" if more else ""
    return f"{problems[0]}{rest}"


def examine(candidate: Candidate, label: Callable[[str], str]) -> Recording | list[Problem]:
    """Read one recording.

    Args:
        candidate: Its files.
        label: The class of an event from its name.

    Returns:
        The recording, or all problems of its files.
    """
    audio, description = candidate.audio, candidate.description
    if description and not description.is_file():
        return [Problem(audio, f"its description {description} is missing")]
    if description and not audio.is_file():
        return [Problem(description, f"its recording {audio} is missing")]
    try:
        sound = read_header(audio)
    except BrokenFile as error:
        return [error.problem]
    if sound.channels != CHANNELS:
        many = "channel" if sound.channels == 1 else "channels"
        return [Problem(audio, f"has {sound.channels} {many}, first-order Ambisonics has {CHANNELS}")]
    events: tuple[Event, ...] = ()
    problems: list[Problem] = []
    if description:
        events, problems = read_description(description, label, sound.duration, candidate.overlap)
    if problems:
        return problems
    return Recording(
        audio=audio,
        description=description,
        events=events,
        duration=sound.duration,
        sample_rate=sound.sample_rate,
        overlap=len(events) if candidate.overlap is None else candidate.overlap,
        split=candidate.split,
        subset=candidate.subset,
    )


def _one_rate(recordings: list[Recording]) -> tuple[list[Recording], list[Problem]]:
    """The recordings with the commonest sample rate, and a problem for each of the others."""
    rates = Counter(recording.sample_rate for recording in recordings)
    if len(rates) < 2:
        return recordings, []
    [(rate, _)] = rates.most_common(1)
    what = "has {} Hz, most recordings have {} Hz".format
    return (
        [recording for recording in recordings if recording.sample_rate == rate],
        [Problem(r.audio, what(r.sample_rate, rate)) for r in recordings if r.sample_rate != rate],
    )


def pairs(sounds: Path, descriptions: Path) -> Iterator[tuple[Path, Path]]:
    """Recordings and descriptions of the same name in two folders, in natural order.

    Args:
        sounds: Folder of sound files; it may be absent.
        descriptions: Folder of CSV files; it may be absent.

    Yields:
        Two paths, of which one may not exist.
    """
    audio = {path.stem: path for path in _visible(sounds, *SUFFIXES)}
    text = {path.stem: path for path in _visible(descriptions, ".csv")}
    for stem in sorted(audio.keys() | text.keys(), key=_natural):
        yield audio.get(stem, sounds / f"{stem}.wav"), text.get(stem, descriptions / f"{stem}.csv")


def _visible(folder: Path, *suffixes: str) -> list[Path]:
    if not folder.is_dir():
        return []
    return [path for path in folder.iterdir() if path.suffix in suffixes and not path.name.startswith(".")]


def _natural(stem: str) -> list[tuple[int, str]]:
    """`train_2` before `train_10`."""
    return [(int(word) if word.isdecimal() else 0, word) for word in stem.split("_")]
