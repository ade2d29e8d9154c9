"""Short scenes in simulated rooms with one to three fixed sources, on which the localizer is judged and calibrated."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Float32
from scipy.signal import oaconvolve

from torchmcl.audio.clips import Clip
from torchmcl.audio.foa import unit_vectors
from torchmcl.audio.responses import Place, Rooms, SimulatedRooms, Space
from torchmcl.audio.voices import FRAMES_PER_SECOND, draw_sound
from torchmcl.errors import UserError

__all__ = ["RoomScene", "SceneLaw", "room_scene", "room_scenes"]


ROOMS = SimulatedRooms(rt60=(0.4, 1.5), distances=(0.5, 2.5), open_air=0.0)
"""Where the scenes are: rooms with clear to strong reverberation."""

TRIES, RESTART = 3000, 300
"""Places that are drawn at most for a scene, and after how many of them it begins again."""


@dataclass(frozen=True)
class RoomScene:
    """A recording with what sounds in it.

    Attributes:
        sound: In ACN/N3D.
        sample_rate: Hz.
        directions: (azimuth, elevation) of the sources, radians.
        active: Sources by frames of 20 ms.
        rt60: Reverberation time, seconds; 0 in open air.
    """

    sound: Float32[np.ndarray, "4 samples"]
    sample_rate: int
    directions: Float[np.ndarray, "sources 2"]
    active: Bool[np.ndarray, "sources frames"]
    rt60: float


@dataclass(frozen=True)
class SceneLaw:
    """How scenes are drawn.

    Attributes:
        rooms: Where the sources are.
        seconds: Length of a scene.
        sample_rate: Hz.
        apart: Degrees between two sources.
        highest: Greatest elevation, degrees.
        snr: Diffuse white noise below the sound, decibels.
        shortest: Seconds of a sound at least.
    """

    rooms: Rooms = ROOMS
    seconds: float = 6.0
    sample_rate: int = 16000
    apart: float = 25.0
    highest: float = 50.0
    snr: float = 30.0
    shortest: float = 0.8


def room_scenes(
    clips: Sequence[Clip], counts: Sequence[int], law: SceneLaw | None = None, seed: int = 0
) -> Iterator[RoomScene]:
    """A scene for each number of sources in `counts`; scene `i` depends on (seed, i) only.

    Args:
        clips: Sounds to draw from.
        counts: Numbers of sources.
        law: How scenes are drawn.
        seed: Of all scenes.
    """
    law = SceneLaw() if law is None else law
    for index, count in enumerate(counts):
        yield room_scene(clips, count, law, np.random.default_rng([seed, index]))


def room_scene(clips: Sequence[Clip], count: int, law: SceneLaw, rng: np.random.Generator) -> RoomScene:
    """One scene with `count` sources, each sounding once.

    Args:
        clips: Sounds to draw from.
        count: Number of sources.
        law: How scenes are drawn.
        rng: Source of randomness.
    """
    rate, hop = law.sample_rate, law.sample_rate // FRAMES_PER_SECOND
    frames = round(law.seconds * FRAMES_PER_SECOND)
    sound = np.zeros((4, frames * hop), np.float32)
    active = np.zeros((count, frames), bool)
    space = law.rooms.draw(rng)
    places = _places(space, count, law, rng)
    for source, place in enumerate(places):
        signal, sounding = draw_sound(clips, rate, rng, law.shortest)
        first = int(rng.integers(10, max(11, min(100, frames - len(sounding)))))
        wet = oaconvolve(signal[None], place.response, axes=-1)[:, : (frames - first) * hop]
        sound[:, first * hop : first * hop + wet.shape[1]] += wet
        length = min(len(sounding), frames - first)
        active[source, first : first + length] = sounding[:length]
    on = np.repeat(active.any(0), hop)
    power = float(np.square(sound[0][on]).mean()) if on.any() else 1e-4
    sound += rng.standard_normal(sound.shape, dtype=np.float32) * np.float32(
        math.sqrt(power) * 10 ** (-law.snr / 20)
    )
    sound *= np.float32(0.5 / np.abs(sound).max())
    where = np.array([place.direction for place in places]).reshape(-1, 2)
    return RoomScene(sound, rate, where, active, space.rt60)


def _places(space: Space, count: int, law: SceneLaw, rng: np.random.Generator) -> list[Place]:
    places: list[Place] = []
    for number in range(TRIES):
        if len(places) == count:
            return places
        if number % RESTART == 0:  # nothing may fit beside the first places
            places = []
        place = space.place(law.sample_rate, rng)
        others = unit_vectors(np.array([other.direction for other in places]).reshape(-1, 2))
        nearest = (others @ unit_vectors(place.direction)).max(initial=-1.0)
        if abs(place.direction[1]) < math.radians(law.highest) and nearest < math.cos(
            math.radians(law.apart)
        ):
            places.append(place)
    raise UserError(
        f"a room has no places for {count} sources, {law.apart:g} degrees from each other and at most "
        f"{law.highest:g} degrees above or below the horizon"
    )
