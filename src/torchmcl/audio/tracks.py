r"""Tracks: directions linked over time on the sphere.

Each output frame has a few candidates: places where score gathers. Kalman filters follow each track on the sphere
(see `motion`); candidates are assigned to tracks at the least total angle within a gate; unassigned candidates start
new tracks, and a track without candidates coasts for a while, then ends. Two sources that pass each other are one
candidate for a while: both tracks then coast along their velocities, and are told apart by their signatures and
velocities afterwards (see `meetings`). A new track may be a source that was lost (see `recognition`). `link` looks at a
whole recording: a track is told from its first frame, gaps are filled, and directions are smoothed forward and
backward. `Tracker` is the causal part, for live use.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Literal

import numpy as np
from jaxtyping import Float
from scipy.optimize import linear_sum_assignment

from torchmcl.audio.candidates import Candidates
from torchmcl.audio.meetings import Meeting, Parting, Passing, approaching
from torchmcl.audio.motion import Motion
from torchmcl.audio.recognition import Recognition, Track
from torchmcl.audio.signatures import Voice

__all__ = ["OPERATING_POINTS", "Prefer", "Told", "Tracker", "Tracking", "link"]

Prefer = Literal["recall", "precision"]
Vectors = Float[np.ndarray, "candidates 3"]
PASSING, RECOGNITION, MOTION = Passing(), Recognition(), Motion()


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
        memory: Frames after which a source that was lost is forgotten.
        passing: When two tracks pass each other.
        recognition: When a new track is a source that was lost elsewhere.
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
    recognition: Recognition = RECOGNITION
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
        self.live: list[Track] = []
        self.ended: list[Track] = []
        self.lost: list[Track] = []
        self.meetings: list[Meeting] = []
        self.partings: list[Parting] = []
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
            track.hear(self.frame, float(scores[index]), settings.passing.score)
        for index in range(len(vectors)):
            if scores[index] >= settings.begin and index not in pairs.values():
                pairs[self._next] = index
                self._begin(vectors[index], float(scores[index]))
        if found.signatures is not None:
            self._listen(pairs, found.signatures[audible], scores)
        self._part()
        self._recognize()
        self._end()
        for track in self.live:
            track.strength = FORGET * track.strength + (1 - FORGET) * track.scores[-1]
            if not self.remember:
                track.forget()
        told = [
            Told(self.frame, track.source, track.path.position, track.strength)
            for track in self.live
            if track.best >= settings.confirm
            and track.strength >= settings.faint
            and self.frame - track.last <= settings.hold
        ]
        return _apart(told, settings)[: settings.most]

    def finish(self) -> list[Track]:
        """All confirmed tracks, in the order of their beginning."""
        tracks = (track for track in self.ended + self.live if track.best >= self.settings.confirm)
        return sorted(tracks, key=lambda track: (track.first, track.number))

    def _end(self) -> None:
        settings = self.settings
        late = [track for track in self.live if self.frame - track.last > settings.gap]
        for track in (track for track in late if track.best >= settings.confirm):
            self.lost.append(track)
            if self.remember:
                track.end()
                self.ended.append(track)
        self.live = [track for track in self.live if self.frame - track.last <= settings.gap]
        self.lost = [track for track in self.lost if self.frame - track.last <= settings.memory]

    def _listen(
        self,
        pairs: dict[int, int],
        sounds: Float[np.ndarray, "candidates bands"],
        scores: Float[np.ndarray, "candidates"],
    ) -> None:
        """Signatures of the tracks that have a candidate of their own."""
        alone = pairs.keys() - self._meeting
        for track in (track for track in self.live if track.number in alone):
            index = pairs[track.number]
            track.voice.hear(sounds[index], float(scores[index]))

    def _recognize(self) -> None:
        """New tracks of sources that were lost."""
        settings, law, meeting = self.settings, self.settings.recognition, self._meeting
        for new in list(self.live):
            young = self.frame - new.first <= law.latest and not new.known
            if not young or new.best < settings.confirm or new.number in meeting:
                continue
            known = [
                (self._difference(old, new), old.number, old)
                for old in self.lost + self.live
                if old.best >= settings.confirm
                and old.number not in meeting
                and law.lost(old, new, self.frame, settings.memory)
            ]
            difference, _, old = min(known, default=(math.inf, 0, new))
            if difference < math.inf:
                end = old.last if old in self.lost else old.firm
                new.succeed(old, end + 1, self._next)
                self._next += 1

    def _difference(self, old: Track, new: Track) -> float:
        law = self.settings.recognition
        if old in self.lost and law.returned(old, new):
            return -1.0
        for parting in self.partings:
            if old.number in parting.tracks:
                voice = parting.voices[parting.tracks.index(old.number)]
                return law.difference(old, new, voice, parting.met)
        return law.difference(old, new, old.voice, old.firm)

    def _part(self) -> None:
        """Correct who is who after meetings."""
        tracks = {track.number: track for track in self.live}
        law = self.settings.passing
        for parting in list(self.partings):
            if not {*parting.tracks} <= tracks.keys() - self._meeting:
                self.partings.remove(parting)
                continue
            one, two = (tracks[number] for number in parting.tracks)
            if parting.mistaken(one.voice, two.voice, law):
                one.exchange(two, self.frame - parting.frame + 1)
                parting.straight = not parting.straight
            if self.frame - parting.frame >= law.settle:
                self.partings.remove(parting)
                for track, voice in zip((one, two), parting.voices, strict=True):
                    voice.hear(track.voice.mean, track.voice.weight, track.voice.frames)
                    track.voice = voice

    def _assign(
        self, tracks: list[Track], vectors: Vectors, scores: Float[np.ndarray, "candidates"]
    ) -> dict[int, int]:
        """Tracks by number, with the candidates that continue them."""
        if not tracks or not len(vectors):
            return {}
        angles = np.arccos((np.stack([t.path.position for t in tracks]) @ vectors.T).clip(-1, 1))
        speeds = np.array([[np.linalg.norm(track.path.velocity)] for track in tracks])
        gate = math.radians(self.settings.gate) + AHEAD * speeds
        # A faint candidate must not win over a strong one because it is a little nearer; nor must a doubtful track, or
        # one whose source another track follows.
        known = np.array([track.best >= self.settings.confirm and not track.succeeded for track in tracks])[
            :, None
        ]
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
                self._leave(meeting)
            late = self.frame - meeting.frame > law.longest
            if leave is not None or late or len(known) < 2:
                self.meetings.remove(meeting)
            elif len(around):
                meeting.place = vectors[around[0]]
                pairs.update(dict.fromkeys(meeting.tracks, int(around[0])))
        return pairs

    def _leave(self, meeting: Meeting) -> None:
        tracks = {track.number: track for track in self.live if track.number in meeting.tracks}
        if len(tracks) == 2:
            one, two = (tracks[number] for number in meeting.tracks)
            self.partings.append(Parting(meeting.tracks, (one.voice, two.voice), meeting.frame, self.frame))
            one.voice, two.voice = Voice(), Voice()

    def _settled(self) -> list[Track]:
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
        self.live.append(Track(self._next, self.frame, vector, score, self.settings.motion))
        self._next += 1


def link(found: Iterable[Candidates], settings: Tracking = OPERATING_POINTS["recall"]) -> list[list[Told]]:
    """Tracks of a whole recording, told with hindsight.

    Args:
        found: Candidates of each output frame.
        settings: How.

    Returns:
        For each output frame its tracks, strongest first. Numbers count sources in the order of their beginning.
    """
    tracker = Tracker(settings)
    for each in found:
        tracker.step(each)
    tracks = tracker.finish()
    frames: list[list[Told]] = [[] for _ in range(tracker.frame + 1)]
    for track in tracks:
        for told in _told(track, settings):
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


def _told(track: Track, settings: Tracking) -> Iterator[Told]:
    told = zip(track.sources(), track.directions(), track.strengths(), strict=True)
    for index, (source, vector, strength) in enumerate(told):
        if strength >= settings.faint and (settings.fill or track.scores[index] > 0):
            yield Told(track.first + index, int(source), vector, float(strength))
