"""Predicted directions: hypotheses of each frame, and the sources that they are linked to."""

import csv
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path

import numpy as np
from jaxtyping import Float, Float32, Float64

from torchmcl.audio.calibration import Calibration, count_evidence
from torchmcl.audio.candidates import Candidates, candidates
from torchmcl.audio.foa import directions
from torchmcl.audio.roomnet import COUNTS
from torchmcl.audio.targets import HOP
from torchmcl.audio.tracks import OPERATING_POINTS, Told, Tracker, Tracking, link
from torchmcl.runs.files import atomic, write_json, write_text

__all__ = [
    "ENDINGS",
    "OUTPUT",
    "Frames",
    "Localization",
    "Source",
    "causal_output",
    "follow",
    "stretches",
    "write_predictions",
]

OUTPUT = 5
"""Frames of 20 ms in an output frame: 100 ms, as in DCASE."""

DRAWN = 20_000
"""Frames in the timeline at most; a long recording is subsampled."""

AUDIBLE = 0.01
"""Hypotheses with a smaller score are not written."""

ENDINGS = (
    ".csv",
    "-dcase2019.csv",
    "-labels.txt",
    ".jsonl",
    ".json",
    "-counts.csv",
    "-hypotheses.csv",
    "-map.png",
    "-timeline.png",
)
"""Of the names of the files that are written for a recording."""

ODAS_SLOTS = 4


@dataclass(frozen=True)
class Frames:
    """The hypotheses of successive frames of 20 ms.

    Args:
        directions: (azimuth, elevation) in radians.
        scores: From 0 to 1.
        times: When each frame starts, in seconds.
        counts: Probabilities of 0, 1, 2, and 3 or more sources, by the network.
        spectra: Covariances of the channels in bands, see `signatures`.
    """

    directions: Float32[np.ndarray, "frames hypotheses 2"]
    scores: Float32[np.ndarray, "frames hypotheses"]
    times: Float[np.ndarray, "frames"]
    counts: Float32[np.ndarray, "frames 4"]
    spectra: Float64[np.ndarray, "frames bands 10"]

    def __len__(self) -> int:
        return len(self.times)

    def __getitem__(self, part: slice) -> "Frames":
        return Frames(*(getattr(self, field.name)[part] for field in fields(self)))

    def starting(self, first: int) -> "Frames":
        """The same frames, the first of which has that number."""
        return replace(self, times=(first + np.arange(len(self))) * HOP)

    def reduced(self, hypotheses: bool) -> "Frames":
        """The same frames without spectra, and without hypotheses unless they are wanted.

        What is left out is an empty copy, not a view, which would keep the whole array in memory.
        """
        names = ("spectra",) if hypotheses else ("spectra", "directions", "scores")
        return replace(self, **{name: getattr(self, name)[:, :0].copy() for name in names})

    @classmethod
    def join(cls, parts: Sequence["Frames"]) -> "Frames":
        """Frames one after another."""
        names = (field.name for field in fields(cls))
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))


@dataclass(frozen=True, slots=True)
class Source:
    """A source in an output frame of 100 ms.

    Attributes:
        track: Number of the source; the same over time.
        azimuth: Radians, to the left.
        elevation: Radians, upwards.
        score: From 0 to 1.
        radius: Radians within which the true direction lies with the coverage of the calibration; NaN without one.
    """

    track: int
    azimuth: float
    elevation: float
    score: float
    radius: float


@dataclass(frozen=True)
class Localization:
    """What was localized in a recording. Unpacks to `directions, scores, times`.

    Attributes:
        directions: (azimuth, elevation) in radians of the hypotheses of each frame of 20 ms.
        scores: Of the hypotheses, from 0 to 1.
        times: When each frame of 20 ms starts, in seconds.
        sources: For each output frame of 100 ms its sources, the strongest first.
        counts: For each output frame the probabilities of 0, 1, 2, and 3 or more sources.
        coverage: Of the regions of the sources; NaN without a calibration.
    """

    directions: Float32[np.ndarray, "frames hypotheses 2"]
    scores: Float32[np.ndarray, "frames hypotheses"]
    times: Float[np.ndarray, "frames"]
    sources: tuple[tuple[Source, ...], ...]
    counts: Float[np.ndarray, "outputs 4"]
    coverage: float

    def __iter__(self) -> Iterator[np.ndarray]:
        return iter((self.directions, self.scores, self.times))


def follow(
    blocks: Iterable[Frames],
    settings: Tracking = OPERATING_POINTS["recall"],
    *,
    calibration: Calibration | None = None,
    causal: bool = False,
    hypotheses: bool = True,
) -> Localization:
    """Link the hypotheses of a recording to tracks, with regions and counts.

    Args:
        blocks: Successive pieces; all but the last must have whole output frames.
        settings: Of the tracker.
        calibration: Gives regions and the probabilities of counts.
        causal: Whether a track is told from its past only.
        hypotheses: Whether they are kept; without, a long recording takes little memory.
    """
    kept: list[Frames] = []

    def found() -> Iterator[Candidates]:
        for block in blocks:
            kept.append(block.reduced(hypotheses))
            yield from _candidates(block, settings)

    told = _causal(found(), settings) if causal else link(found(), settings)
    counts = np.concatenate([_per_output(block.counts) for block in kept])
    frames = Frames.join(kept)
    if calibration is not None:
        tracks = np.array([len(each) for each in told], int)
        scores = np.array([sum(one.score for one in each) for each in told], float)
        counts = calibration.probabilities(count_evidence(counts, tracks, scores))
    sources = tuple(tuple(_source(one, calibration) for one in each) for each in told)
    coverage = math.nan if calibration is None else calibration.coverage
    return Localization(frames.directions, frames.scores, frames.times, sources, counts, coverage)


WITHOUT_HYPOTHESES = partial(follow, hypotheses=False)


def causal_output(
    frames: Frames, tracker: Tracker, calibration: Calibration | None
) -> tuple[tuple[Source, ...], Float[np.ndarray, "4"]]:
    """Sources and count probabilities of one output frame, from the past only.

    Args:
        frames: The frames of 20 ms of one output frame.
        tracker: Has seen the output frames before.
        calibration: Gives regions and the probabilities of counts.

    Returns:
        The sources, the strongest first, and the probabilities of 0, 1, 2, and 3 or more sources.
    """
    [found] = _candidates(frames, tracker.settings)
    told = tracker.step(found)
    counts = _per_output(frames.counts)
    if calibration is not None:
        scores = np.array([sum(one.score for one in told)], float)
        counts = calibration.probabilities(count_evidence(counts, np.array([len(told)]), scores))
    return tuple(_source(one, calibration) for one in told), counts[0]


def write_predictions(
    blocks: Iterable[Frames],
    out: Path,
    stem: str,
    about: dict[str, object],
    linked: Callable[[Iterable[Frames]], Localization] = WITHOUT_HYPOTHESES,
) -> list[Path]:
    """Write all files of one recording.

    - `STEM.csv`: a line for each source and 100 ms: frame, class (always 0), track, azimuth, elevation, as DCASE has
      since 2020, without a header; `STEM-dcase2019.csv`: frame of 20 ms, class, azimuth, elevation.
    - `STEM-labels.txt`: labels for Audacity, one for each uninterrupted stretch of a track.
    - `STEM.jsonl`: a line for each 100 ms with unit vectors, as ODAS writes tracked sources.
    - `STEM.json`: all sources with scores and regions; `STEM-counts.csv`: the probabilities of 0 to 3 sources.
    - `STEM-hypotheses.csv`: the hypotheses of each 20 ms with a score of at least 0.01.
    - `STEM-map.png`, `STEM-timeline.png`: pictures.

    Args:
        blocks: Successive pieces of the recording.
        out: Folder of the files.
        stem: What their names begin with.
        about: What `STEM.json` says besides the sources.
        linked: From blocks to the sources.

    Returns:
        The paths of the files.
    """
    from torchmcl.audio.plots import HEAT_CELL, heat_map, timeline

    heat = np.zeros((180 // HEAT_CELL, 360 // HEAT_CELL))
    drawn: list[np.ndarray] = []
    with atomic(out / f"{stem}-hypotheses.csv") as temporary, temporary.open("w", newline="") as stream:
        table = csv.writer(stream)
        table.writerow(["time", "hypothesis", "azimuth", "elevation", "score"])

        def seen() -> Iterator[Frames]:
            nonlocal heat
            for block in blocks:
                degrees = np.degrees(block.directions)
                table.writerows(_long_rows(block.times, degrees, block.scores))
                heat += _histogram(degrees, block.scores, HEAT_CELL)
                drawn.append(_drawn_points(block.times, degrees, block.scores))
                yield block

        found = linked(seen())
    write_text(out / f"{stem}.csv", "".join(_dcase(found)))
    write_text(out / f"{stem}-dcase2019.csv", "".join(_dcase2019(found)))
    write_text(out / f"{stem}-labels.txt", "".join(_audacity(found)))
    write_text(out / f"{stem}.jsonl", "".join(_odas(found)))
    write_text(out / f"{stem}-counts.csv", "".join(_count_lines(found)))
    coverage = None if math.isnan(found.coverage) else found.coverage
    plain = {**about, "frame": HOP * OUTPUT, "coverage": coverage, "sources": list(_plain(found))}
    write_json(out / f"{stem}.json", plain)
    points = np.concatenate(drawn)
    points = points[:: max(1, math.ceil(len(points) / DRAWN))]
    with atomic(out / f"{stem}-map.png") as temporary:
        heat_map(heat, stem, found).savefig(temporary)
    with atomic(out / f"{stem}-timeline.png") as temporary:
        timeline(points, found, stem).savefig(temporary)
    return [out / f"{stem}{ending}" for ending in ENDINGS]


def _candidates(frames: Frames, settings: Tracking) -> list[Candidates]:
    return candidates(frames.directions, frames.scores, frames.spectra, stride=OUTPUT, near=settings.near)


def _per_output(counts: Float[np.ndarray, "frames 4"]) -> Float[np.ndarray, "outputs 4"]:
    firsts = np.arange(0, len(counts), OUTPUT)
    sizes = np.diff(np.append(firsts, len(counts)))
    return np.add.reduceat(counts.astype(float), firsts) / sizes[:, None]


def _causal(found: Iterable[Candidates], settings: Tracking) -> list[list[Told]]:
    tracker = Tracker(settings, remember=False)
    return [tracker.step(each) for each in found]


def _source(told: Told, calibration: Calibration | None) -> Source:
    azimuth, elevation = directions(told.vector)
    radius = (
        math.nan if calibration is None else math.radians(float(calibration.radius(np.array(told.score))))
    )
    return Source(told.track, float(azimuth), float(elevation), told.score, radius)


def _rounded(source: Source) -> tuple[int, int]:
    """Whole degrees; azimuth from -180 to 179, as DCASE has it."""
    azimuth = round(math.degrees(source.azimuth))
    return (azimuth + 180) % 360 - 180, round(math.degrees(source.elevation))


def _dcase(found: Localization) -> Iterator[str]:
    for frame, sources in enumerate(found.sources):
        for source in sources:
            azimuth, elevation = _rounded(source)
            yield f"{frame},0,{source.track},{azimuth},{elevation}\n"


def _dcase2019(found: Localization) -> Iterator[str]:
    for frame, sources in enumerate(found.sources):
        for part in range(OUTPUT):
            for source in sources:
                azimuth, elevation = _rounded(source)
                yield f"{frame * OUTPUT + part},0,{azimuth},{elevation}\n"


def stretches(found: Localization) -> list[tuple[int, int, list[Source]]]:
    """Uninterrupted stretches of tracks: first frame, frame after the last, and the sources between."""
    open_: dict[int, tuple[int, list[Source]]] = {}
    done: list[tuple[int, int, list[Source]]] = []
    for frame, sources in enumerate([*found.sources, ()]):
        present = {source.track: source for source in sources}
        for track in [track for track in open_ if track not in present]:
            first, path = open_.pop(track)
            done.append((first, frame, path))
        for track, source in present.items():
            open_.setdefault(track, (frame, []))[1].append(source)
    return sorted(done, key=lambda stretch: (stretch[0], stretch[2][0].track))


def _audacity(found: Localization) -> Iterator[str]:
    for first, end, path in stretches(found):
        azimuth, elevation = _rounded(path[len(path) // 2])
        seconds = HOP * OUTPUT
        yield (
            f"{first * seconds:.3f}\t{end * seconds:.3f}\t"
            f"source {path[0].track} at azimuth {azimuth}, elevation {elevation}\n"
        )


def _odas(found: Localization) -> Iterator[str]:
    for frame, sources in enumerate(found.sources):
        slots = [
            f'{{"id": {s.track + 1}, "tag": "dynamic", "x": {math.cos(s.elevation) * math.cos(s.azimuth):.4f}, '
            f'"y": {math.cos(s.elevation) * math.sin(s.azimuth):.4f}, "z": {math.sin(s.elevation):.4f}, '
            f'"activity": {s.score:.3f}}}'
            for s in sources
        ]
        empty = '{"id": 0, "tag": "", "x": 0.0, "y": 0.0, "z": 0.0, "activity": 0.0}'
        slots += [empty] * (ODAS_SLOTS - len(slots))
        yield f'{{"timeStamp": {frame * round(1000 * HOP * OUTPUT)}, "src": [{", ".join(slots)}]}}\n'


def _count_lines(found: Localization) -> Iterator[str]:
    yield "time," + ",".join(f"p{count}" for count in range(COUNTS)) + "\n"
    for frame, row in enumerate(found.counts):
        yield f"{frame * HOP * OUTPUT:.1f}," + ",".join(f"{value:.3f}" for value in row) + "\n"


def _plain(found: Localization) -> Iterator[dict[str, float | None]]:
    for frame, sources in enumerate(found.sources):
        for source in sources:
            yield {
                "time": round(frame * HOP * OUTPUT, 3),
                "track": source.track,
                "azimuth": round(math.degrees(source.azimuth), 1),
                "elevation": round(math.degrees(source.elevation), 1),
                "score": round(source.score, 3),
                "radius": None if math.isnan(source.radius) else round(math.degrees(source.radius), 1),
            }


def _long_rows(times: np.ndarray, degrees: np.ndarray, scores: np.ndarray) -> Iterator[list[object]]:
    frames, hypotheses = np.nonzero(scores >= AUDIBLE)
    azimuths, elevations = degrees[frames, hypotheses].T
    rows = zip(times[frames], hypotheses, azimuths, elevations, scores[frames, hypotheses], strict=True)
    for time, hypothesis, azimuth, elevation, score in rows:
        yield [f"{time:.2f}", hypothesis, f"{azimuth:.1f}", f"{elevation:.1f}", f"{score:.3f}"]


def _drawn_points(
    times: np.ndarray, degrees: np.ndarray, scores: np.ndarray
) -> Float[np.ndarray, "points 4"]:
    frames, hypotheses = np.nonzero(scores > 0.1)
    columns = [times[frames], *degrees[frames, hypotheses].T, scores[frames, hypotheses]]
    return np.stack(columns, -1).astype(np.float32)


def _histogram(
    degrees: np.ndarray, scores: np.ndarray, cell: int
) -> Float[np.ndarray, "elevations azimuths"]:
    azimuth = (degrees[..., 0] + 180) % 360 - 180
    edges = np.arange(-90, 91, cell), np.arange(-180, 181, cell)
    weights = scores.reshape(-1).astype(float)
    return np.histogram2d(degrees[..., 1].reshape(-1), azimuth.reshape(-1), edges, weights=weights)[0]
