"""Scenes: which sounds start when and where, and how that sounds in first-order Ambisonics."""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Float32, Int16
from scipy.signal import oaconvolve

from torchmcl.audio.clips import Clip, by_label, load
from torchmcl.audio.datasets import LAYOUTS, RecordingSpec
from torchmcl.audio.datasets.description import HEADER
from torchmcl.audio.foa import convention_named, convert, encode, unit_vectors
from torchmcl.audio.rooms import ROOMS, Point, Room, furthest, impulse_response, random_microphone
from torchmcl.errors import UserError

__all__ = ["Placement", "Scene", "SceneSettings", "compose", "description", "render"]

CONDITIONS = ("anechoic", "reverberant", "mixed")
NEAREST, FURTHEST = 1.0, 4.0
LEVELS = (-3.0, 3.0)
FIRST = 0.5
SHORTEST_PAUSE = 0.05
SHORTEST = 0.1
APART = np.radians(10.0)
PEAK = 0.9
MOST = 2**25
"""Samples of each channel of a recording, which is made as a whole and takes about 35 times as many bytes."""


@dataclass(frozen=True)
class SceneSettings:
    """The settings of a simulated data set; every value is checked.

    Args:
        condition: `anechoic`, `reverberant` or `mixed`, of which half is reverberant.
        recordings: Per split and overlap. In the layout of TUT Sound Events 2018 a fifth of them are test recordings.
        duration: Of each recording, in seconds.
        sample_rate: In hertz.
        events: A folder of sounds with one subfolder a class, or `None` for synthesized sounds.
        synthesised: Whether to use synthesized sounds in addition to `events`.
        snr: Signal-to-noise ratio in decibels.
        grid: Step of azimuths and elevations in degrees; 0 for continuous ones.
        seed: The same seed gives the same bytes.
        layout: A key of `LAYOUTS`.
        convention: Of the four channels.
    """

    condition: str = "anechoic"
    recordings: int = 10
    duration: float = 30.0
    sample_rate: int = 44100
    events: str | Path | None = None
    synthesised: bool = False
    snr: float = 30.0
    grid: float = 10.0
    seed: int = 0
    layout: str = "tut"
    convention: str = "acn-n3d"

    def __post_init__(self) -> None:
        _among("condition", self.condition, CONDITIONS)
        _among("layout", self.layout, LAYOUTS)
        convention_named(self.convention)
        _between("recordings", self.recordings, 2, 100_000)
        _between("duration", self.duration, 1.0, 3600.0)
        _between("sample_rate", self.sample_rate, 8000, 192_000)
        if self.samples > MOST:
            raise UserError(
                f"duration x sample_rate is {self.samples:,} samples, it must be at most {MOST:,} "
                "to fit into memory"
            )
        _between("snr", self.snr, 0.0, 100.0)
        if self.grid != 0:
            _between("grid", self.grid, 0.1, 90.0)
        _between("seed", self.seed, 0, 2**63 - 1)

    @classmethod
    def for_layout(
        cls, layout: str, *, duration: float | None = None, sample_rate: int | None = None, **values: Any
    ) -> "SceneSettings":
        """Settings with the duration and sample rate of a published data set.

        Args:
            layout: A key of `LAYOUTS`.
            duration: Seconds, those of the data set if `None`.
            sample_rate: Hertz, that of the data set if `None`.
            **values: Other settings.

        Returns:
            The settings.

        Example:
            >>> SceneSettings.for_layout("dcase19", seed=3).sample_rate
            48000
        """
        _among("layout", layout, LAYOUTS)
        usual = LAYOUTS[layout]
        return cls(
            layout=layout,
            duration=usual.duration if duration is None else duration,
            sample_rate=usual.sample_rate if sample_rate is None else sample_rate,
            **values,
        )

    @property
    def samples(self) -> int:
        """Samples per channel of a recording."""
        return round(self.duration * self.sample_rate)

    @property
    def specs(self) -> list[RecordingSpec]:
        """All recordings of a data set with these settings, in order."""
        layout = LAYOUTS[self.layout]
        return list(layout.specs(self.recordings, self.snr, self.condition != "anechoic"))


def _among(name: str, value: str, allowed: Collection[str]) -> None:
    if value not in allowed:
        raise UserError(f"{name} is {value!r}, it must be one of {', '.join(allowed)}")


def _between(name: str, value: int | float, low: int | float, high: int | float) -> None:
    if not low <= value <= high:
        raise UserError(f"{name} is {value:g}, it must be between {low:g} and {high:g}")


@dataclass(frozen=True)
class Placement:
    """A clip in a scene.

    Args:
        clip: The sound.
        start: In seconds.
        end: In seconds.
        azimuth: In degrees.
        elevation: In degrees.
        distance: In meters.
        level: In decibels.
    """

    clip: Clip
    start: float
    end: float
    azimuth: float
    elevation: float
    distance: float
    level: float

    @property
    def direction(self) -> Float[np.ndarray, "2"]:
        """(azimuth, elevation) in radians."""
        return np.radians([self.azimuth, self.elevation])


@dataclass(frozen=True)
class Scene:
    """All sounds of a recording.

    Args:
        placements: In the order of their start times.
        room: `None` for an anechoic scene.
        microphone: (x, y, z) in meters.
    """

    placements: tuple[Placement, ...]
    room: Room | None = None
    microphone: tuple[float, float, float] = (0.0, 0.0, 0.0)


def compose(
    settings: SceneSettings, clips: Sequence[Clip], overlap: int, room: int, rng: np.random.Generator
) -> Scene:
    """Draw a random scene.

    There are `overlap` voices. Each has one sound after another, with classes drawn uniformly. A pause lasts 50 ms
    (more than a frame, so that no frame holds two sounds of a voice) and up to as long as the sound before it. A
    voice is thus active for about two thirds of the time, which agrees with the published errors of a single
    hypothesis on ANSYN. A sound that outlasts the recording is cut. Simultaneous sounds are at least 10 degrees
    apart. Distances are 1 to 4 m, less where a wall is nearer.

    Args:
        settings: Of the data set.
        clips: To choose from.
        overlap: Sounds at a time, at most.
        room: Index of the room, for reverberant scenes.
        rng: Of the random numbers.

    Returns:
        The scene.
    """
    indoors = settings.condition == "reverberant" or (settings.condition == "mixed" and rng.random() < 0.5)
    place = ROOMS[room] if indoors else None
    microphone = np.zeros(3) if place is None else random_microphone(place, rng)
    classes = list(by_label(clips).values())
    placements: list[Placement] = []
    for _ in range(overlap):
        start = round(rng.uniform(0, FIRST), 3)
        while start + SHORTEST < settings.duration:
            members = classes[rng.integers(len(classes))]
            clip = members[int(rng.integers(len(members)))]
            length = len(load(clip, settings.sample_rate)) / settings.sample_rate
            end = min(math.ceil((start + length) * 1000) / 1000, settings.duration)
            taken = [other.direction for other in placements if other.start < end and start < other.end]
            azimuth, elevation = _direction(settings, taken, rng)
            reach = (
                FURTHEST if place is None else furthest(place, microphone, np.radians([azimuth, elevation]))
            )
            distance = round(rng.uniform(NEAREST, max(NEAREST, min(reach, FURTHEST))), 2)
            placements.append(Placement(clip, start, end, azimuth, elevation, distance, rng.uniform(*LEVELS)))
            start = round(end + SHORTEST_PAUSE + rng.uniform(0, end - start), 3)
    placements.sort(key=lambda placement: (placement.start, placement.end))
    x, y, z = microphone.tolist()
    return Scene(tuple(placements), place, (x, y, z))


def _direction(
    settings: SceneSettings, taken: list[Float[np.ndarray, "2"]], rng: np.random.Generator
) -> tuple[float, float]:
    """Azimuth and elevation in degrees, evenly drawn, away from those that are taken."""
    low, high = LAYOUTS[settings.layout].elevations
    tries = 64
    if settings.grid > 0:
        azimuths = rng.choice(np.arange(-180.0, 180.0, settings.grid), size=tries)
        elevations = rng.choice(np.arange(low, high + 1e-6, settings.grid), size=tries)
    else:
        azimuths = rng.uniform(-180, 180, size=tries).round(2)
        elevations = rng.uniform(low, high, size=tries).round(2)
    candidates = unit_vectors(np.radians(np.stack([azimuths, elevations], axis=-1)))
    others = unit_vectors(np.array(taken).reshape(-1, 2))
    nearness = (candidates[:, None] * others).sum(axis=-1).max(axis=1, initial=-1.0)
    apart = nearness <= np.cos(APART) + 1e-9
    chosen = apart.argmax() if apart.any() else nearness.argmin()
    return float(azimuths[chosen]), float(elevations[chosen])


def render(scene: Scene, settings: SceneSettings, rng: np.random.Generator) -> Int16[np.ndarray, "samples 4"]:
    """Render the 16-bit recording of a scene.

    Each sound has its level at 1 m and decreases with one over the distance. A reverberant sound starts when its direct
    sound arrives, and its decay continues after its end. The noise is white and diffuse: independent and equally
    strong in the four channels of N3D. In W it is `snr` decibels below the mean power of W while events are active.
    The recording is scaled such that its largest sample is 0.9 of full scale.

    Args:
        scene: What sounds where and when.
        settings: Of the data set.
        rng: Of the noise.

    Returns:
        The samples of the four channels.
    """
    field = np.zeros((4, settings.samples), dtype=np.float32)
    active = np.zeros(settings.samples, dtype=bool)
    for placement in scene.placements:
        first, last = (round(second * settings.sample_rate) for second in (placement.start, placement.end))
        dry = load(placement.clip, settings.sample_rate)[: last - first] * np.float32(
            10 ** (placement.level / 20)
        )
        wet = _spatial(dry, placement, scene, settings.sample_rate)[:, : settings.samples - first]
        field[:, first : first + wet.shape[1]] += wet
        active[first:last] = True
    power = np.square(field[0, active], dtype=np.float64).mean()
    noise = rng.standard_normal(field.shape, dtype=np.float32)
    noise *= np.float32(np.sqrt(power) * 10 ** (-settings.snr / 20))
    field += noise
    del noise  # a long recording is large
    audio = convert(field, "acn-n3d", convention_named(settings.convention))
    del field
    audio *= np.float32(32767 * PEAK / max(audio.max(), -audio.min()))
    return np.ascontiguousarray(np.rint(audio, out=audio).astype(np.int16).T)


def _spatial(
    dry: Float32[np.ndarray, "samples"], placement: Placement, scene: Scene, sample_rate: int
) -> Float32[np.ndarray, "4 longer"]:
    azimuth, elevation = placement.direction.tolist()
    if scene.room is None:
        return encode(dry / np.float32(placement.distance), azimuth, elevation)
    microphone: Point = np.array(scene.microphone)
    source = microphone + placement.distance * unit_vectors(placement.direction)
    response = impulse_response(scene.room, source, microphone, sample_rate)
    return oaconvolve(dry[None], response, axes=-1)


def description(scene: Scene, layout: str) -> str:
    """The events of a scene as the CSV file of a recording, elevation before azimuth.

    Args:
        scene: What sounds.
        layout: A key of `LAYOUTS`.

    Returns:
        The text of the file.
    """
    names_files = LAYOUTS[layout].names_files
    rows = [
        f"{p.clip.name if names_files else p.clip.label},{p.start:.3f},{p.end:.3f},"
        f"{p.elevation:g},{p.azimuth:g},{p.distance:g}"
        for p in scene.placements
    ]
    return "\n".join([HEADER, *rows]) + "\n"
