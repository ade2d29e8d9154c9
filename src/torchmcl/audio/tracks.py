r"""Tracks: directions linked over time on the sphere.

Each output frame has a few candidates: places where score gathers. Kalman filters follow each track on the sphere
(see `motion`); candidates are assigned to tracks at the least total angle within a gate; unassigned candidates start
new tracks, and a track without candidates coasts for a while, then ends. Two sources that pass each other are one
candidate for a while: both tracks then coast along their velocities, and are told apart by them afterwards. `link`
looks at a whole recording: a track is told from its first frame, gaps are filled, and directions are smoothed forward
and backward. `Tracker` is the causal part, for live use.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Literal

import numpy as np
from jaxtyping import Float
from scipy.optimize import linear_sum_assignment

from torchmcl.audio.foa import unit_vectors
from torchmcl.audio.meetings import Meeting, Passing, approaching
from torchmcl.audio.motion import Motion, Path

__all__ = ["OPERATING_POINTS", "Candidates", "Prefer", "Told", "Tracker", "Tracking", "candidates", "link"]

Prefer = Literal["recall", "precision"]
Vectors = Float[np.ndarray, "candidates 3"]
PASSING, MOTION = Passing(), Motion()


@dataclass(frozen=True, slots=True)
class Candidates:
    """Places where score gathers in one output frame: unit vectors, the strongest first, and their scores."""

    vectors: Vectors
    scores: Float[np.ndarray, "candidates"]


@dataclass(frozen=True)
class Tracking:
    """Settings of the tracker; the defaults were chosen on simulated rooms.

    Attributes:
        near: Hypotheses within so many degrees are one candidate.
        apart: Of two tracks within so many degrees the stronger one is told.
        gate: Degrees between a track and a candidate at most.
        begin: Score of a candidate that starts a track.
        keep: Score of a candidate that continues a track.
        confirm: Score that a track must reach in some frame to be told.
        faint: Strength below which a track is not told; the strength is the mean score within 1 s before and after,
            frames without a candidate included.
        gap: Frames without a candidate after which a track ends.
        fill: Whether the frames of a gap are told.
        hold: Frames without a candidate in which a track is still told live, where the end of a gap is unknown.
        most: Tracks told in a frame at most.
        memory: Frames after which a track that starts where another ended is a new source.
        passing: When two tracks pass each other.
        motion: How sources move.
    """

    near: float = 18.0
    apart: float = 10.0
    gate: float = 20.0
    begin: float = 0.15
    keep: float = 0.12
    confirm: float = 0.4
    faint: float = 0.05
    gap: int = 20
    fill: bool = True
    hold: int = 5
    most: int = 3
    memory: int = 50
    passing: Passing = PASSING
    motion: Motion = MOTION


OPERATING_POINTS: dict[Prefer, Tracking] = {
    "recall": Tracking(),
    "precision": Tracking(
        near=20.0, begin=0.3, keep=0.3, confirm=0.5, faint=0.15, gap=10, fill=False, hold=0
    ),
}
"""`recall` fills pauses and keeps faint sources; `precision` tells a source only where it is heard."""

AHEAD = 0.3
"""The gate of a track that moves is wider, by the angle that it moves in so many seconds."""

AROUND = 10
"""Frames before and after over which the strength of a track is averaged."""

FORGET = 0.85
"""Live, the strength is an exponential average that keeps so much of itself in a frame."""


@dataclass(frozen=True, slots=True)
class Told:
    """A track in one output frame.

    Attributes:
        frame: Number of the output frame.
        track: Number of the track.
        vector: Unit vector to the source.
        score: Strength, the mean score of its candidates around the frame.
    """

    frame: int
    track: int
    vector: Float[np.ndarray, "3"]
    score: float


def candidates(
    points: Float[np.ndarray, "frames hypotheses 2"],
    scores: Float[np.ndarray, "frames hypotheses"],
    *,
    stride: int = 5,
    near: float = 18.0,
    most: int = 4,
    least: float = 0.08,
) -> list[Candidates]:
    """Merge hypotheses by their scores: the masses of score within `near` degrees, for each `stride` frames.

    The strongest mass is where most score lies within `near`; its direction is the mean of that score, which is then
    used up.

    Args:
        points: (azimuth, elevation) in radians.
        scores: Of the hypotheses.
        stride: Frames merged into one output frame; the last one may have fewer.
        near: Degrees.
        most: Candidates in an output frame at most.
        least: Mass of a candidate.

    Returns:
        Candidates of each output frame.
    """
    frames, count = scores.shape
    outputs = -(-frames // stride)
    missing = outputs * stride - frames
    rays = np.pad(unit_vectors(points), ((0, missing), (0, 0), (0, 0))).astype(np.float32)
    left = np.pad(scores, ((0, missing), (0, 0))).astype(np.float32)
    rays, left = rays.reshape(outputs, stride * count, 3), left.reshape(outputs, stride * count)
    left /= np.r_[np.full(outputs - 1, stride), stride - missing][:, None] if outputs else 1
    close = rays @ rays.swapaxes(1, 2) > math.cos(math.radians(near))
    vectors, masses = np.zeros((outputs, most, 3)), np.zeros((outputs, most))
    every = np.arange(outputs)
    for number in range(most):
        mass = np.einsum("fkj,fj->fk", close, left)
        best = mass.argmax(-1)
        share = close[every, best] * left
        masses[:, number] = mass[every, best]
        vectors[:, number] = np.einsum("fk,fkc->fc", share, rays)
        left = left - share
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    vectors = vectors / np.maximum(lengths, 1e-12)
    kept = (masses >= least) & (lengths[..., 0] > 0)
    return [Candidates(vectors[f][kept[f]], masses[f][kept[f]].clip(max=1.0)) for f in every]


@dataclass
class _Track:
    """A source that is followed. Scores are those of the candidates, 0 in frames without one."""

    number: int
    first: int
    path: Path
    scores: list[float]
    last: int
    strength: float
    best: float
    ended: np.ndarray | None = None

    def forget(self) -> None:
        """Keep the present state only."""
        self.path.forget()
        self.scores.clear()

    def end(self) -> None:
        """Keep the directions only: filters of a long recording are large."""
        self.ended = self.directions()
        self.path.forget()

    def directions(self) -> Vectors:
        """Smoothed, up to the last frame with a candidate."""
        return self.path.smoothed(1 + self.last - self.first) if self.ended is None else self.ended

    def strengths(self) -> Float[np.ndarray, "frames"]:
        """Mean score around each frame, up to the last one with a candidate."""
        length = self.last - self.first + 1
        total = np.cumsum(np.r_[0.0, self.scores[:length]])
        frames = np.arange(length)
        late, early = np.minimum(frames + AROUND + 1, length), np.maximum(frames - AROUND, 0)
        return (total[late] - total[early]) / (2 * AROUND + 1)


class Tracker:
    """Links candidates frame by frame; tells what is known up to now.

    Args:
        settings: How.
        remember: Whether tracks keep their past, which `finish` needs; without, memory does not grow.

    Example:
        >>> tracker = Tracker()
        >>> front = Candidates(np.array([[1.0, 0.0, 0.0]]), np.array([0.9]))
        >>> [told.track for told in tracker.step(front)]
        [0]
    """

    def __init__(self, settings: Tracking = OPERATING_POINTS["recall"], *, remember: bool = True) -> None:
        self.settings = settings
        self.remember = remember
        self.live: list[_Track] = []
        self.ended: list[_Track] = []
        self.meetings: list[Meeting] = []
        self.frame = -1
        self._next = 0

    def step(self, found: Candidates) -> list[Told]:
        """Take the candidates of the next frame; returns the confirmed tracks in it, strongest first."""
        self.frame += 1
        settings = self.settings
        audible = found.scores >= settings.keep
        vectors, scores = found.vectors[audible], found.scores[audible]
        for track in self.live:
            track.path.predict()
            track.scores.append(0.0)
        pairs = self._attend(vectors, scores)
        leaving = pairs.keys() - self._meeting
        free = [index for index in range(len(vectors)) if index not in pairs.values()]
        others = [track for track in self.live if track.number not in self._meeting | pairs.keys()]
        for number, index in self._assign(others, vectors[free], scores[free]).items():
            pairs[number] = free[index]
        self._meet(pairs, vectors, scores)
        for track in (track for track in self.live if track.number in pairs):
            index = pairs[track.number]
            if track.number in leaving:
                track.path.restart(vectors[index], float(scores[index]))
            elif track.number not in self._meeting:
                track.path.update(vectors[index], float(scores[index]))
            track.scores[-1], track.last = float(scores[index]), self.frame
            track.best = max(track.best, track.scores[-1])
        for index in range(len(vectors)):
            if scores[index] >= settings.begin and index not in pairs.values():
                self._begin(vectors[index], float(scores[index]))
        self._end()
        for track in self.live:
            track.strength = FORGET * track.strength + (1 - FORGET) * track.scores[-1]
            if not self.remember:
                track.forget()
        told = [
            Told(self.frame, track.number, track.path.position, track.strength)
            for track in self.live
            if track.best >= settings.confirm
            and track.strength >= settings.faint
            and self.frame - track.last <= settings.hold
        ]
        return _apart(told, settings)[: settings.most]

    def finish(self) -> list[_Track]:
        """All confirmed tracks, in the order of their beginning."""
        tracks = (track for track in self.ended + self.live if track.best >= self.settings.confirm)
        return sorted(tracks, key=lambda track: (track.first, track.number))

    def _end(self) -> None:
        for track in self.live:
            late = self.frame - track.last > self.settings.gap
            if late and self.remember and track.best >= self.settings.confirm:
                track.end()
                self.ended.append(track)
        self.live = [track for track in self.live if self.frame - track.last <= self.settings.gap]

    def _assign(
        self, tracks: list[_Track], vectors: Vectors, scores: Float[np.ndarray, "candidates"]
    ) -> dict[int, int]:
        """Tracks by number, with the candidates that continue them."""
        if not tracks or not len(vectors):
            return {}
        angles = np.arccos((np.stack([t.path.position for t in tracks]) @ vectors.T).clip(-1, 1))
        speeds = np.array([[np.linalg.norm(track.path.velocity)] for track in tracks])
        gate = math.radians(self.settings.gate) + AHEAD * speeds
        # A faint candidate must not win over a strong one because it is a little nearer; nor must a doubtful track.
        known = np.array([track.best >= self.settings.confirm for track in tracks])[:, None]
        cost = np.where(angles <= gate, angles - gate * (0.5 + scores + 0.5 * known), 0.0)
        return {
            tracks[row].number: int(column)
            for row, column in zip(*linear_sum_assignment(cost), strict=True)
            if angles[row, column] <= gate[row]
        }

    def _meet(self, pairs: dict[int, int], vectors: Vectors, scores: Float[np.ndarray, "candidates"]) -> None:
        """Begin meetings: two tracks approach each other, and one candidate is left of both."""
        law = self.settings.passing
        sure = self._settled()
        clear = {track: index for track, index in pairs.items() if scores[index] >= law.score}
        for one, two in combinations(sure, 2):
            pair = (one.number, two.number)
            own = [clear[number] for number in pair if number in clear]
            if len(own) == 2 or {*pair} & self._meeting:
                continue
            strangers = {clear[t.number] for t in sure if t.number in clear and t.number not in pair}
            for column in own or np.flatnonzero(scores >= law.score).tolist():
                velocity = approaching(one.path, two.path, vectors[column], law)
                if velocity is not None and column not in strangers:
                    self.meetings.append(
                        Meeting(pair, vectors[column], vectors[column], velocity, self.frame)
                    )
                    # A young track at the candidate was both of them already.
                    young = {number for number, index in pairs.items() if index == column} - {*pair}
                    self.live = [track for track in self.live if track.number not in young]
                    pairs.update(dict.fromkeys(pair, column))
                    break

    def _attend(self, vectors: Vectors, scores: Float[np.ndarray, "candidates"]) -> dict[int, int]:
        """Go on with meetings: candidates of their tracks; a meeting ends when both tracks have one."""
        pairs: dict[int, int] = {}
        sure = self._settled()
        others = np.array([track.path.position for track in sure]).reshape(-1, 3)
        positions, law = {track.number: track.path.position for track in self.live}, self.settings.passing
        for meeting in list(self.meetings):
            known = [positions[number] for number in meeting.tracks if number in positions]
            angle = (vectors @ np.array([meeting.place, meeting.start, *known]).T).max(1)
            own = (angle >= math.cos(math.radians(law.reach))) & (
                angle > (vectors @ others.T).max(1, initial=-1.0)
            )
            around = np.flatnonzero(own)[np.argsort(-scores[own], kind="stable")]
            leave = meeting.leave(vectors[around], scores[around], law)
            if leave is not None:
                pairs.update({t: int(around[c]) for t, c in zip(meeting.tracks, leave, strict=True)})
            late = self.frame - meeting.frame > law.longest
            if leave is not None or late or len(known) < 2:
                self.meetings.remove(meeting)
            elif len(around):
                meeting.place = vectors[around[0]]
                pairs.update(dict.fromkeys(meeting.tracks, int(around[0])))
        return pairs

    def _settled(self) -> list[_Track]:
        """Confirmed tracks that are strong, and old enough to have a velocity, and do not meet another one."""
        settings, meeting = self.settings, self._meeting
        return [
            track
            for track in self.live
            if track.best >= settings.confirm
            and track.strength >= settings.passing.score
            and self.frame - track.first >= settings.passing.age
            and track.number not in meeting
        ]

    @property
    def _meeting(self) -> set[int]:
        return {number for meeting in self.meetings for number in meeting.tracks}

    def _begin(self, vector: np.ndarray, score: float) -> None:
        path = Path(self.settings.motion, vector, score)
        self.live.append(_Track(self._next, self.frame, path, [score], self.frame, score, score))
        self._next += 1


def link(found: Iterable[Candidates], settings: Tracking = OPERATING_POINTS["recall"]) -> list[list[Told]]:
    """Tracks of a whole recording, told with hindsight.

    Args:
        found: Candidates of each output frame.
        settings: How.

    Returns:
        For each output frame its tracks, strongest first. Numbers count tracks in the order of their beginning; a
        track that starts where another one ended not long ago takes its number.
    """
    tracker = Tracker(settings)
    for each in found:
        tracker.step(each)
    tracks = tracker.finish()
    frames: list[list[Told]] = [[] for _ in range(tracker.frame + 1)]
    paths = [track.directions() for track in tracks]
    for number, track, path in zip(_numbers(tracks, paths, settings), tracks, paths, strict=True):
        for told in _told(number, track, path, settings):
            frames[told.frame].append(told)
    return _renumbered([_apart(told, settings)[: settings.most] for told in frames])


def _apart(told: list[Told], settings: Tracking) -> list[Told]:
    """Strongest first; of two tracks at the same place the stronger one."""
    kept: list[Told] = []
    limit = math.cos(math.radians(settings.apart))
    for each in sorted(told, key=lambda each: -each.score):
        if all(each.vector @ other.vector < limit for other in kept):
            kept.append(each)
    return kept


def _renumbered(frames: list[list[Told]]) -> list[list[Told]]:
    """Numbers without gaps, in the order in which sources are first told."""
    numbers: dict[int, int] = {}
    for told in (each for frame in frames for each in frame):
        numbers.setdefault(told.track, len(numbers))
    return [[replace(told, track=numbers[told.track]) for told in frame] for frame in frames]


def _told(number: int, track: _Track, path: np.ndarray, settings: Tracking) -> Iterator[Told]:
    for index, (vector, strength) in enumerate(zip(path, track.strengths(), strict=True)):
        if strength >= settings.faint and (settings.fill or track.scores[index] > 0):
            yield Told(track.first + index, number, vector, float(strength))


def _numbers(tracks: Sequence[_Track], paths: Sequence[np.ndarray], settings: Tracking) -> list[int]:
    """Numbers of the sources: a pause does not make a new one."""
    numbers: list[int] = []
    places: dict[int, tuple[int, np.ndarray]] = {}
    for track, path in zip(tracks, paths, strict=True):
        first = track.first
        near = [
            (float(path[0] @ place), number)
            for number, (last, place) in places.items()
            if last < first <= last + settings.memory
            and path[0] @ place >= math.cos(math.radians(settings.gate / 2))
        ]
        number = max(near)[1] if near else max(places, default=-1) + 1
        places[number] = (track.last, path[-1])
        numbers.append(number)
    return numbers
