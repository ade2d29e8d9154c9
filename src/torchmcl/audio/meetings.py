"""Meetings: two sources that pass each other, and are one candidate for a while.

Near each other, two sources are one candidate, whose position says nothing about either: both tracks coast. When two
candidates come out, the one that lies ahead of a track's velocity is that track's at first. Within the next frames
their signatures are compared with those before: sources that turned back sound exchanged, and the tracks exchange what
they have followed since. Sources that stand still never meet, however close they are.
"""

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from torchmcl.audio.motion import Path
from torchmcl.audio.signatures import Voice

__all__ = ["Meeting", "Parting", "Passing", "approaching"]

Vector = Float[np.ndarray, "3"]


@dataclass(frozen=True)
class Passing:
    """When two tracks pass each other.

    Attributes:
        speed: Degrees a second at which they must approach each other.
        reach: Degrees between each of them and the candidate that both have become.
        apart: Degrees between two candidates that both come out.
        score: Of the fainter one at least.
        age: Frames that both must have been followed for, so that their velocities are known.
        longest: Frames after which they did not pass, but one of them went silent.
        inertia: Evidence that they went on rather than turned back; that of their voices is a difference of mean
            squares.
        settle: Frames after which it is settled who is who.
    """

    speed: float = 20.0
    reach: float = 40.0
    apart: float = 26.0
    score: float = 0.35
    age: int = 8
    longest: int = 25
    inertia: float = 0.5
    settle: int = 15


@dataclass
class Meeting:
    """Two tracks that are one candidate.

    Attributes:
        tracks: Numbers of the tracks.
        start: The candidate where they met.
        place: The last candidate.
        velocity: Of the first track relative to the second one, when they met.
        frame: When they met.
    """

    tracks: tuple[int, int]
    start: Vector
    place: Vector
    velocity: Vector
    frame: int

    def leave(
        self,
        vectors: Float[np.ndarray, "candidates 3"],
        scores: Float[np.ndarray, "candidates"],
        law: Passing,
    ) -> tuple[int, int] | None:
        """The candidates that are the first and the second track's, if both have come out.

        Args:
            vectors: Candidates around the place, the strongest first.
            scores: Their scores.
            law: When tracks pass each other.

        Returns:
            Their indices, or `None`.
        """
        for other in range(1, len(vectors)):
            between = float(vectors[0] @ vectors[other])
            if scores[other] >= law.score and between < math.cos(math.radians(law.apart)):
                ahead = (vectors[0] - vectors[other]) @ self.velocity > 0
                return (0, other) if ahead else (other, 0)
        return None


@dataclass
class Parting:
    """Two tracks that have met, until it is settled who is who.

    Attributes:
        tracks: Numbers of the tracks.
        voices: As they were before.
        met: When they met.
        frame: When they came out.
        straight: Whether each lies ahead of the velocity that it had.
    """

    tracks: tuple[int, int]
    voices: tuple[Voice, Voice]
    met: int
    frame: int
    straight: bool = True

    def mistaken(self, one: Voice, two: Voice, law: Passing) -> bool:
        """Whether the first track is the second one, and vice versa.

        Args:
            one: What was heard of the first track since.
            two: What was heard of the second track since.
            law: When tracks pass each other.
        """
        first, second = self.voices
        right = first.distance(one) + second.distance(two)
        exchanged = first.distance(two) + second.distance(one)
        return exchanged - right + (law.inertia if self.straight else -law.inertia) < 0


def approaching(one: Path, two: Path, place: Vector, law: Passing) -> Vector | None:
    """The velocity of one track relative to another, if they approach each other at a candidate.

    Args:
        one: A track.
        two: Another one.
        place: The candidate.
        law: When tracks pass each other.

    Returns:
        The relative velocity in radians a second, or `None`.
    """
    reach = math.cos(math.radians(law.reach))
    if min(one.position @ place, two.position @ place) < reach:
        return None
    velocity, between = one.trend - two.trend, one.position - two.position
    closing = -float(velocity @ between) / max(float(np.linalg.norm(between)), 1e-9)
    return np.asarray(velocity) if closing > math.radians(law.speed) else None
