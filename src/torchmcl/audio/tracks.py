r"""Tracks: directions linked over time on the sphere.

Each output frame has a few candidates: places where score gathers. A Kalman filter with constant velocity follows
each track in the tangent space of the sphere; candidates are assigned to tracks at the least total angle within a
gate; unassigned candidates start new tracks, and a track without candidates coasts for a while, then ends. `link`
looks at a whole recording: a track is told from its first frame, gaps are filled, and directions are smoothed
forward and backward (Rauch-Tung-Striebel). `Tracker` is the causal part, for live use.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from jaxtyping import Float
from scipy.optimize import linear_sum_assignment

from torchmcl.audio.foa import unit_vectors

__all__ = ["OPERATING_POINTS", "Candidates", "Prefer", "Told", "Tracker", "Tracking", "candidates", "link"]

Prefer = Literal["recall", "precision"]
Vectors = Float[np.ndarray, "candidates 3"]


@dataclass(frozen=True)
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
        noise: Standard deviation of a candidate with score 1, degrees.
        agility: Spectral density of the acceleration, (degrees/s^2)^2 s.
        memory: Frames after which a track that starts where another ended is a new source.
        step: Seconds between frames.
    """

    near: float = 15.0
    apart: float = 10.0
    gate: float = 20.0
    begin: float = 0.15
    keep: float = 0.12
    confirm: float = 0.45
    faint: float = 0.08
    gap: int = 20
    fill: bool = True
    hold: int = 5
    most: int = 3
    noise: float = 15.0
    agility: float = 60.0
    memory: int = 50
    step: float = 0.1


OPERATING_POINTS: dict[Prefer, Tracking] = {
    "recall": Tracking(),
    "precision": Tracking(
        near=20.0, begin=0.3, keep=0.3, confirm=0.5, faint=0.15, gap=10, fill=False, hold=0
    ),
}
"""`recall` fills pauses and keeps faint sources; `precision` tells a source only where it is heard."""

AROUND = 10
"""Frames before and after over which the strength of a track is averaged."""

FORGET = 0.85
"""Live, the strength is an exponential average that keeps so much of itself in a frame."""


@dataclass(frozen=True)
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
    near: float = 15.0,
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
    """State of a filter: position and velocity, and their covariance, which is the same for all axes.

    Scores are those of the candidates, 0 in frames without one.
    """

    number: int
    first: int
    filtered: list[np.ndarray]
    covariances: list[np.ndarray]
    scores: list[float]
    last: int
    strength: float

    @property
    def position(self) -> Float[np.ndarray, "3"]:
        return self.filtered[-1][0]

    @property
    def best(self) -> float:
        return max(self.scores)

    def forget(self) -> None:
        """Keep the present state and the best score only."""
        del self.filtered[:-1], self.covariances[:-1]
        self.scores[:] = [self.best]

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
        remember: Whether tracks keep their past, which `finish` and `smoothed` need; without, memory does not grow.

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
        self.frame = -1
        self._next = 0
        dt = settings.step
        density = math.radians(1) ** 2 * settings.agility
        self._motion = np.array([[1.0, dt], [0.0, 1.0]])
        self._process = density * np.array([[dt**3 / 3, dt**2 / 2], [dt**2 / 2, dt]])

    def step(self, found: Candidates) -> list[Told]:
        """Take the candidates of the next frame; returns the confirmed tracks in it, strongest first."""
        self.frame += 1
        settings = self.settings
        audible = found.scores >= settings.keep
        vectors, scores = found.vectors[audible], found.scores[audible]
        for track in self.live:
            self._predict(track)
        taken = self._assign(vectors, scores)
        for index in np.flatnonzero(~taken & (scores >= settings.begin)):
            self._begin(vectors[index], float(scores[index]))
        self.ended += [track for track in self.live if self.frame - track.last > settings.gap]
        self.live = [track for track in self.live if self.frame - track.last <= settings.gap]
        for track in self.live:
            track.strength = FORGET * track.strength + (1 - FORGET) * track.scores[-1]
        if not self.remember:
            self.ended.clear()
            for track in self.live:
                track.forget()
        told = [
            Told(self.frame, track.number, track.position, track.strength)
            for track in self.live
            if track.best >= settings.confirm
            and track.strength >= settings.faint
            and self.frame - track.last <= settings.hold
        ]
        return _apart(told, settings)[: settings.most]

    def finish(self) -> list[_Track]:
        """All tracks, in the order of their beginning."""
        return sorted(self.ended + self.live, key=lambda track: (track.first, track.number))

    def _predict(self, track: _Track) -> None:
        motion = self._motion
        state = motion @ track.filtered[-1]
        state[0] /= np.linalg.norm(state[0])
        track.filtered.append(state)
        track.covariances.append(motion @ track.covariances[-1] @ motion.T + self._process)
        track.scores.append(0.0)

    def _assign(self, vectors: Vectors, scores: Float[np.ndarray, "candidates"]) -> np.ndarray:
        taken = np.zeros(len(vectors), bool)
        if not self.live or not len(vectors):
            return taken
        angles = np.arccos((np.stack([t.position for t in self.live]) @ vectors.T).clip(-1, 1))
        gate = math.radians(self.settings.gate)
        # A faint candidate must not win over a strong one because it is a little nearer.
        cost = np.where(angles <= gate, angles - gate * (0.5 + 0.5 * scores), 0.0)
        for row, column in zip(*linear_sum_assignment(cost), strict=True):
            if angles[row, column] <= gate:
                self._update(self.live[row], vectors[column], float(scores[column]))
                taken[column] = True
        return taken

    def _update(self, track: _Track, vector: np.ndarray, score: float) -> None:
        variance = (math.radians(self.settings.noise) / max(score, 0.05)) ** 2
        covariance = track.covariances[-1]
        gain = covariance[:, 0] / (covariance[0, 0] + variance)
        state = track.filtered[-1] + gain[:, None] * (vector - track.filtered[-1][0])
        track.filtered[-1] = _on_sphere(state)
        track.covariances[-1] = covariance - np.outer(gain, covariance[0])
        track.scores[-1] = score
        track.last = self.frame

    def _begin(self, vector: np.ndarray, score: float) -> None:
        variance = (math.radians(self.settings.noise) / max(score, 0.05)) ** 2
        state = np.stack([vector, np.zeros(3)])
        covariance = np.diag([variance, math.radians(20) ** 2])
        self.live.append(_Track(self._next, self.frame, [state], [covariance], [score], self.frame, score))
        self._next += 1

    def smoothed(self, track: _Track) -> Float[np.ndarray, "frames 3"]:
        """Directions of a track given all its candidates (Rauch-Tung-Striebel)."""
        motion, length = self._motion, 1 + track.last - track.first
        state = track.filtered[length - 1]
        positions = [state[0]]
        for index in range(length - 2, -1, -1):
            filtered, covariance = track.filtered[index], track.covariances[index]
            predicted = motion @ covariance @ motion.T + self._process
            gain = covariance @ motion.T @ np.linalg.inv(predicted)
            state = filtered + gain @ (state - motion @ filtered)
            positions.append(state[0])
        path = np.array(positions[::-1])
        return path / np.linalg.norm(path, axis=-1, keepdims=True)


def link(found: Sequence[Candidates], settings: Tracking = OPERATING_POINTS["recall"]) -> list[list[Told]]:
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
    tracks = [track for track in tracker.finish() if track.best >= settings.confirm]
    frames: list[list[Told]] = [[] for _ in found]
    paths = [tracker.smoothed(track) for track in tracks]
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


def _on_sphere(state: np.ndarray) -> np.ndarray:
    position = state[0] / np.linalg.norm(state[0])
    return np.stack([position, state[1] - (state[1] @ position) * position])
