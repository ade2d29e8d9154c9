"""What is in a data set or a recording: numbers, a map of directions, a picture of one recording."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from torchmcl.audio.datasets import Problem, Recording, open_sound, read_dataset, read_recording
from torchmcl.audio.foa import Convention, detect_normalization
from torchmcl.audio.streaming import check_rate
from torchmcl.audio.targets import overlap_shares
from torchmcl.errors import UserError, printable
from torchmcl.runs.files import atomic, write_json
from torchmcl.runs.outputs import claim_outputs

__all__ = ["Summary", "inspect", "show", "summarize"]

_LISTENED = 10
_SECONDS = 30.0


@dataclass(frozen=True)
class Summary:
    """The numbers of a data set.

    Args:
        recordings: Their number.
        seconds: Of all recordings together.
        shortest: Duration of the shortest recording in seconds.
        longest: Duration of the longest recording in seconds.
        sample_rate: In hertz.
        parts: Recordings of each split and subset.
        events: Their number.
        seconds_by_class: How long the events of each class sound.
        shares: For each announced overlap, the shares of frames in which 0, 1, 2, ... events are active.
        normalization: As detected, or `unclear`.
        dipoles_over_w: Median ratio of energies; `None` for silence.
    """

    recordings: int
    seconds: float
    shortest: float
    longest: float
    sample_rate: int
    parts: dict[str, int]
    events: int
    seconds_by_class: dict[str, float]
    shares: dict[str, list[float]]
    normalization: str
    dipoles_over_w: float | None


def summarize(recordings: Sequence[Recording]) -> Summary:
    """Summarize recordings.

    Args:
        recordings: With their events; the normalization is detected on ten of them at most.

    Returns:
        The numbers.
    """
    durations = [recording.duration for recording in recordings]
    events = [event for recording in recordings for event in recording.events]
    classes: dict[str, float] = {}
    for event in events:
        classes[event.label] = classes.get(event.label, 0.0) + event.end - event.start
    normalization, ratio = _normalization(recordings)
    return Summary(
        recordings=len(recordings),
        seconds=sum(durations),
        shortest=min(durations),
        longest=max(durations),
        sample_rate=recordings[0].sample_rate,
        parts=dict(sorted(Counter(f"split {r.split} {r.subset}" for r in recordings).items())),
        events=len(events),
        seconds_by_class=dict(sorted(classes.items(), key=lambda item: -item[1])),
        shares={f"ov{n}": shares.tolist() for n, shares in overlap_shares(recordings).items()},
        normalization=normalization,
        dipoles_over_w=ratio,
    )


def _normalization(recordings: Sequence[Recording]) -> tuple[str, float | None]:
    chosen = np.unique(np.linspace(0, len(recordings) - 1, _LISTENED).round().astype(int))
    found = []
    for recording in (recordings[i] for i in chosen):
        samples = round(_SECONDS * recording.sample_rate)
        found.append(detect_normalization(open_sound(recording.audio)[:samples].T))
    ratios = [each.ratio for each in found if np.isfinite(each.ratio)]
    clear = Counter(each.name for each in found if not each.doubtful)
    name = clear.most_common(1)[0][0] if 2 * clear.total() > len(found) else "unclear"
    return name, float(np.median(ratios)) if ratios else None


def show(summary: Summary, title: str, left_out: Sequence[Problem] = ()) -> None:
    """Print a summary as tables.

    Args:
        summary: The numbers.
        title: Of the first table.
        left_out: Recordings that were skipped, and why.
    """
    console = Console()
    facts = Table("", "", title=_plain(title), show_header=False)
    hours = f"{summary.seconds / 3600:.2f} h" if summary.seconds >= 3600 else f"{summary.seconds:.1f} s"
    facts.add_row("recordings", f"{summary.recordings} ({hours})")
    facts.add_row("length", f"{summary.shortest:.2f} to {summary.longest:.2f} s")
    facts.add_row("sample rate", f"{summary.sample_rate} Hz")
    facts.add_row("events", f"{summary.events} of {len(summary.seconds_by_class)} classes")
    ratio = "silent" if summary.dipoles_over_w is None else f"dipoles over W {summary.dipoles_over_w:.2f}"
    facts.add_row("normalization", f"{summary.normalization} ({ratio})")
    console.print(facts)
    if summary.recordings > 1:
        console.print(_table("recordings", summary.parts, "{}"))
    if summary.events:
        console.print(_shares(summary))
        console.print(_table("seconds of each class", summary.seconds_by_class, "{:.1f}"))
    for problem in left_out:
        console.print(f"left out: {problem}", markup=False, highlight=False, soft_wrap=True)


def _table(title: str, rows: dict[str, int] | dict[str, float], form: str) -> Table:
    table = Table("", "", title=title, show_header=False)
    for name, value in rows.items():
        table.add_row(_plain(name), form.format(value))
    return table


def _plain(name: str) -> str:
    """Nothing in a name is a command for the terminal or for rich."""
    return escape(printable(name))


def _shares(summary: Summary) -> Table:
    columns = max(len(shares) for shares in summary.shares.values())
    table = Table("", *(str(count) for count in range(columns)), title="frames with so many events")
    for name, shares in summary.shares.items():
        table.add_row(_plain(name), *(f"{share:.1%}" for share in shares))
    return table


def inspect(
    path: str | Path,
    out: str | Path,
    *,
    skip_broken: bool = False,
    convention: Convention = "acn-n3d",
    overwrite: bool = False,
) -> Summary:
    """Print a summary of a data set or a recording, and write `summary.json` and pictures.

    The map of directions is drawn where there are events. The picture shows a recording with a high overlap.

    Args:
        path: Folder of a data set, or a recording.
        out: Folder of the files.
        skip_broken: Leave out recordings that have a problem, and list them; otherwise the first problem is an error.
        convention: Of the channels.
        overwrite: Replace files in `out` that this program did not write as well.

    Returns:
        The numbers.
    """
    from torchmcl.audio.plots import directions_figure, recording_figure

    path, out = Path(path), Path(out)
    recordings, left_out = _read(path, skip_broken)
    for recording in recordings:
        check_rate(recording.sample_rate, f"{recording.audio}: the sample rate")
    events = [event for recording in recordings for event in recording.events]
    names = ["recording.png", *(["directions.png"] if events else [])]
    inputs = [recording.audio for recording in recordings]
    claim_outputs(out, [*names, "summary.json"], overwrite=overwrite, inputs=inputs)
    summary = summarize(recordings)
    show(summary, str(path), left_out)
    shown = max(recordings, key=lambda r: (r.overlap, bool(r.events)))
    pictures = {"recording.png": recording_figure(shown, convention, "/".join(shown.audio.parts[-2:]))}
    if events:
        title = f"Directions of {len(events)} events in {path.name}"
        pictures["directions.png"] = directions_figure(events, title)
    for name, figure in pictures.items():
        with atomic(out / name) as temporary:
            figure.savefig(temporary)
    write_json(out / "summary.json", asdict(summary))
    print(printable(f"{out}: {', '.join(pictures)}, summary.json"))
    return summary


def _read(path: Path, skip_broken: bool) -> tuple[tuple[Recording, ...], tuple[Problem, ...]]:
    if path.is_file():
        return (read_recording(path),), ()
    if not path.exists():
        raise UserError(f"{path}: no such file or folder")
    catalogue = read_dataset(path, skip_broken=skip_broken)
    return catalogue.recordings, catalogue.left_out
