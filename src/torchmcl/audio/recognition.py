"""Recognition: a source that was lost while others masked it gets its track back, wherever it is heard again.

A moving source that is masked for a second comes back elsewhere. The new track is that source if it could have gone
there, and sounds like it. A source that stood still is not recognized elsewhere: two people who talk in turns sound
alike.
"""

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from torchmcl.audio.motion import Motion, Path
from torchmcl.audio.signatures import Voice

__all__ = ["Recognition", "Track"]

Vector = Float[np.ndarray, "3"]

AROUND = 10
"""Frames before and after over which the strength of a track is averaged."""


class Track:
    """A source that is followed.

    Attributes:
        number: Of the track.
        first: Its first frame.
        labels: Frames from which on it is told with a number: that of the first track of its source.
        known: Whether it goes on with the source of another track.
        succeeded: Whether another track goes on with its source.
        last: The last frame with a candidate.
        firm: The last frame with a clear candidate.
        path: Its directions.
        scores: Of its candidates, 0 in frames without one.
        strength: Mean score, live.
        best: Greatest score.
        origin: Where its source began.
        begun: The frame in which its source began.
        place: Where it was heard last.
        voice: Its signature.
        ended: Its smoothed directions, once it has ended.

    Args:
        number: Of the track.
        frame: Its first frame.
        vector: Where it begins.
        score: Of the candidate there.
        motion: How sources move.
    """

    def __init__(self, number: int, frame: int, vector: Vector, score: float, motion: Motion) -> None:
        self.number = number
        self.first = self.begun = self.last = self.firm = frame
        self.labels = [(frame, number)]
        self.known = self.succeeded = False
        self.path = Path(motion, vector, score)
        self.scores = [score]
        self.strength = self.best = score
        self.origin = self.place = vector
        self.voice = Voice()
        self.ended: Float[np.ndarray, "frames 3"] | None = None

    @property
    def source(self) -> int:
        """The number that is told at present."""
        return self.labels[-1][1]

    @property
    def speed(self) -> float:
        """Degrees a second, straight from where its source began to where it was heard last."""
        return _degrees(self.origin, self.place) / max(self.last - self.begun, 1) / self.path.motion.step

    def hear(self, frame: int, score: float, clear: float) -> None:
        """Take a candidate into the present frame, after the path has taken its direction.

        Args:
            frame: Its number.
            score: Of the candidate.
            clear: Score of a clear candidate.
        """
        self.scores[-1], self.last = score, frame
        self.firm = frame if score >= clear else self.firm
        self.best = max(self.best, score)
        self.place = self.path.position

    def succeed(self, old: "Track", frame: int, other: int) -> None:
        """Go on with the source of a track that was lost.

        Args:
            old: That track.
            frame: From which on this track is that source.
            other: Number of the source that the old track follows from then on, if any.
        """
        self._label(frame, old.source)
        old._label(frame, other)
        self.known = old.succeeded = True
        self.origin, self.begun = old.origin, old.begun
        self.voice.hear(old.voice.mean, old.voice.weight, old.voice.frames)

    def _label(self, frame: int, number: int) -> None:
        self.labels.append((max(frame, self.labels[-1][0]), number))

    def sources(self) -> Int[np.ndarray, "frames"]:
        """The number that is told in each frame, up to the last one with a candidate."""
        frames = np.arange(self.first, self.last + 1)
        starts, numbers = np.array(self.labels).T
        return numbers[np.searchsorted(starts, frames, side="right") - 1]

    def exchange(self, other: "Track", frames: int) -> None:
        """Exchange the last frames with another track.

        Args:
            other: Another track.
            frames: How many.
        """
        self.path.exchange(other.path, frames)
        self.scores[-frames:], other.scores[-frames:] = other.scores[-frames:], self.scores[-frames:]
        for name in ("last", "firm", "strength", "place", "voice"):
            own, its = getattr(self, name), getattr(other, name)
            setattr(self, name, its)
            setattr(other, name, own)

    def forget(self) -> None:
        """Keep the present state only."""
        self.path.forget()
        self.scores.clear()

    def end(self) -> None:
        """Keep the directions only: filters of a long recording are large."""
        self.ended = self.directions()
        self.path.forget()

    def directions(self) -> Float[np.ndarray, "frames 3"]:
        """Smoothed, up to the last frame with a candidate."""
        return self.path.smoothed(1 + self.last - self.first) if self.ended is None else self.ended

    def strengths(self) -> Float[np.ndarray, "frames"]:
        """Mean score around each frame, up to the last one with a candidate."""
        length = self.last - self.first + 1
        total = np.cumsum(np.r_[0.0, self.scores[:length]])
        frames = np.arange(length)
        late, early = np.minimum(frames + AROUND + 1, length), np.maximum(frames - AROUND, 0)
        return (total[late] - total[early]) / (2 * AROUND + 1)


@dataclass(frozen=True)
class Recognition:
    """When a new track is a source that was lost.

    Attributes:
        near: Degrees within which a new track is the source that has ended there, whatever it sounds like.
        reach: Degrees between both places at most, besides the way that the source went meanwhile.
        fastest: Degrees a second that a source goes at most.
        still: Degrees a second; a source that was slower stands still.
        alike: Mean square of the differences of both signatures at most, in nepers of power.
        heard: Frames that the new track must have been heard in.
        latest: Frames after which a track that was not recognized is a new source.
        overlap: Frames that both tracks may have had clear candidates in, as an echo may be heard before.
        silent: Frames since the last clear candidate of a source that is lost.
    """

    near: float = 10.0
    reach: float = 50.0
    fastest: float = 60.0
    still: float = 4.0
    alike: float = 1.7
    heard: int = 5
    latest: int = 40
    overlap: int = 20
    silent: int = 3

    def lost(self, old: Track, new: Track, frame: int, memory: int) -> bool:
        """Whether a track may be the one that goes on as a new track.

        Args:
            old: Of a source that may be lost.
            new: A later track.
            frame: The present one.
            memory: Frames after which a source is forgotten.
        """
        since = min(new.first + self.overlap, frame - self.silent)
        recent = old.first < new.first <= old.last + memory
        return recent and old.firm < since and not old.succeeded

    def returned(self, old: Track, new: Track) -> bool:
        """Whether a new track is where a track has ended.

        Args:
            old: A track that has ended.
            new: A later track.
        """
        return _degrees(old.place, new.origin) <= self.near

    def difference(self, old: Track, new: Track, voice: Voice, since: int) -> float:
        """How much a new track differs from one that was lost; infinite where it is another source.

        Args:
            old: A track that was lost.
            new: A later track.
            voice: Of the lost one.
            since: The frame since which its place is unknown.
        """
        way = self.fastest * max(new.first - since, 0) * new.path.motion.step
        distance = voice.distance(new.voice)
        same = (
            new.voice.frames >= self.heard
            and old.speed >= self.still
            and _degrees(old.place, new.origin) <= self.reach + way
            and distance <= self.alike
        )
        return distance if same else math.inf


def _degrees(one: Vector, two: Vector) -> float:
    return math.degrees(math.acos(min(max(float(one @ two), -1.0), 1.0)))
