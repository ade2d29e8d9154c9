"""The bundled localizer: gain, speed, identity of tracks, and detection of conventions, on scenes it never heard."""

import os
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import soundfile
from scipy.signal import oaconvolve

from benchmarks import Row, show
from torchmcl.audio.clips import Clip, folder_clips, synthesized_clips
from torchmcl.audio.conventions import ConventionDetector
from torchmcl.audio.foa import CONVENTIONS, convert, unit_vectors
from torchmcl.audio.localizer import Localizer, localize
from torchmcl.audio.predictions import Localization
from torchmcl.audio.responses import SimulatedRooms
from torchmcl.audio.room_scenes import RoomScene, SceneLaw, room_scenes
from torchmcl.audio.voices import draw_clip, dry_sound

__all__ = ["array_like", "crossing", "identities_kept", "rows", "swaps"]

RATE = 16000
SEED = 1234
"""Of scenes and of synthesized sounds, other than those of the training."""

MINUTES = 10
CROSSINGS, FIXED, ROOMS = 40, 30, 60
SECONDS = 5.0
OPEN = SimulatedRooms(open_air=1.0)
ROOM = SimulatedRooms(rt60=(0.2, 0.6), distances=(0.5, 2.0), open_air=0.0)
FIRST = 1000
"""Number of the first crossing; smaller ones were looked at while the tracks were made."""

GAINS = (-60, -40, -20, 0, 20)


def rows() -> list[Row]:
    """Promises that `docs/howto/localize.md` repeats.

    `TORCHMCL_SOUNDS` names a folder of sounds to take in place of synthesized ones.
    """
    sounds = os.environ.get("TORCHMCL_SOUNDS")
    clips = folder_clips(sounds) if sounds else synthesized_clips(SEED)
    localizer = Localizer.from_pretrained()
    numbers = range(FIRST, FIRST + CROSSINGS)
    kept = np.mean([identities_kept(localizer, *crossing(clips, seed)) for seed in numbers])
    kept_in_rooms = np.mean([identities_kept(localizer, *crossing(clips, seed, ROOM)) for seed in numbers])
    fixed = list(room_scenes(clips, [2] * FIXED, SceneLaw(), SEED))
    swapped = swaps(localizer, fixed)
    right, doubtful = conventions(clips)
    return [
        Row(
            "localize, greatest change of a direction with the gain, degrees",
            *_plain(gain(localizer, fixed)),
            0.01,
        ),
        Row("localize, identity kept by crossing sources", *_plain(kept), 0.8, at_most=False),
        Row("localize, identity kept by crossing sources in rooms", *_plain(kept_in_rooms)),
        Row("localize, swaps of two fixed sources between frames", *_plain(swapped), 0.02),
        Row("convention right or declared doubtful", *_plain(right), 0.99, at_most=False),
        Row("convention declared doubtful", *_plain(doubtful), 0.05),
        *speed(),
    ]


def _plain(value: float) -> tuple[float, float, float]:
    return value * 1e-3, 1e-3, value


def gain(localizer: Localizer, scenes: Sequence[RoomScene]) -> float:
    """Degrees by which a reported direction differs between gains of -60 and +20 dB; 180 where counts differ."""
    worst = 0.0
    for scene in scenes[:3]:
        found = [localizer(scene.sound * np.float32(10 ** (g / 20)), RATE) for g in GAINS]
        for other in found[1:]:
            worst = max(worst, _difference(found[0], other))
    return worst


def _difference(one: Localization, two: Localization) -> float:
    worst = 0.0
    for first, second in zip(one.sources, two.sources, strict=True):
        if [source.track for source in first] != [source.track for source in second]:
            return 180.0
        for x, y in zip(first, second, strict=True):
            rays = unit_vectors(np.array([(x.azimuth, x.elevation), (y.azimuth, y.elevation)]))
            worst = max(worst, float(np.degrees(np.linalg.norm(rays[0] - rays[1]))))
    return worst


def crossing(clips: Sequence[Clip], seed: int, rooms: SimulatedRooms = OPEN) -> tuple[np.ndarray, np.ndarray]:
    """Two sources of different classes in a room, each moving at 20 to 40 degrees a second, that pass each other.

    Each source turns about the array together with its reflections.

    Returns:
        The sound, and azimuths `(2, samples)` in radians; both sources are on the horizon.
    """
    random = np.random.default_rng([SEED, seed])
    space = rooms.draw(random)
    samples = int(SECONDS * RATE)
    time_ = np.arange(samples) / RATE
    sound = np.zeros((4, samples), np.float32)
    azimuths = np.zeros((2, samples))
    speed_ = np.radians(random.uniform(20, 40))
    labels: set[str] = set()
    for index, sign in enumerate((1, -1)):
        dry, label = _lasting(clips, labels, random, samples)
        labels.add(label)
        place = space.place(RATE, random)
        while abs(place.direction[1]) > np.radians(10):
            place = space.place(RATE, random)
        wet = oaconvolve(dry[None], place.response, axes=-1)[:, :samples]
        wet /= np.sqrt(np.square(wet[0]).mean())
        azimuths[index] = sign * speed_ * (time_ - SECONDS / 2)
        angle = azimuths[index] - place.direction[0]
        w, y, z, x = wet
        sound += np.stack(
            [w, np.cos(angle) * y + np.sin(angle) * x, z, np.cos(angle) * x - np.sin(angle) * y]
        )
    noise = random.standard_normal(sound.shape) * 10 ** (-25 / 20)
    return (0.1 * (sound + noise)).astype(np.float32), azimuths


def _lasting(
    clips: Sequence[Clip], taken: set[str], random: np.random.Generator, samples: int
) -> tuple[np.ndarray, str]:
    """A sound of a class that is not taken, repeated without a pause."""
    while True:
        clip = draw_clip(clips, random)
        dry = dry_sound(clip, RATE, random)
        if clip.label not in taken and dry is not None and dry[1].mean() > 0.7:
            return np.resize(dry[0], samples), clip.label


def identities_kept(localizer: Localizer, sound: np.ndarray, azimuths: np.ndarray) -> bool:
    """Whether the track that follows each source before the crossing is the one that follows it afterwards."""
    found = localizer(sound, RATE)
    frames = len(found.sources)
    centers = azimuths[:, (np.arange(frames) * RATE // 10 + RATE // 20).clip(max=azimuths.shape[1] - 1)]
    thirds = (range(frames // 3), range(2 * frames // 3, frames))
    owners = [[_owner(found, centers[source], part) for source in range(2)] for part in thirds]
    return owners[0] == owners[1] and None not in owners[0] and owners[0][0] != owners[0][1]


def _owner(found: Localization, azimuths: np.ndarray, frames: range) -> int | None:
    """The track that is most often the nearest one, within 20 degrees."""
    votes: dict[int, int] = {}
    for frame in frames:
        ray = unit_vectors(np.array([azimuths[frame], 0.0]))
        near = [
            (float(unit_vectors(np.array([s.azimuth, s.elevation])) @ ray), s.track)
            for s in found.sources[frame]
        ]
        if near and max(near)[0] > np.cos(np.radians(20)):
            votes[max(near)[1]] = votes.get(max(near)[1], 0) + 1
    return max(votes, key=lambda track: votes[track]) if votes else None


def swaps(localizer: Localizer, scenes: Sequence[RoomScene]) -> float:
    """Share of successive frames in which two tracks exchange the fixed sources that they follow."""
    swapped = pairs = 0
    for scene in scenes:
        rays = unit_vectors(scene.directions)
        before: dict[int, int] = {}
        for sources in localizer(scene.sound, RATE).sources:
            owners: dict[int, int] = {}
            for source in sources:
                angles = rays @ unit_vectors(np.array([source.azimuth, source.elevation]))
                if angles.max() > np.cos(np.radians(20)):
                    owners.setdefault(int(angles.argmax()), source.track)
            if len(owners) == len(before) == 2:
                pairs += 1
                swapped += owners[0] == before[1] or owners[1] == before[0]
            before = owners
    return swapped / max(pairs, 1)


def array_like(sound: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """As a real array: first-order energy is lost below 20 to 350 Hz and above 4 kHz, gains differ by 0.2 dB."""
    frequency = np.fft.rfftfreq(sound.shape[1], 1 / RATE)
    corner, loss = np.exp(random.uniform(np.log(20), np.log(350))), random.uniform(0, 0.6)
    dipoles = (1 - loss * ((frequency - 4000) / 4000).clip(0, 1)) / np.sqrt(
        1 + (corner / frequency.clip(1)) ** 4
    )
    gains = np.stack([np.ones_like(dipoles), dipoles, dipoles, dipoles])
    shaped = np.fft.irfft(np.fft.rfft(sound) * gains, sound.shape[1])
    return shaped * 10 ** (random.normal(0, 0.2, (4, 1)) / 20)


def conventions(clips: Sequence[Clip]) -> tuple[float, float]:
    """Shares of rooms whose convention is found or declared doubtful, and declared doubtful."""
    random = np.random.default_rng(SEED)
    law = SceneLaw(SimulatedRooms())
    right, doubtful = [], []
    for scene in room_scenes(clips, [1 + index % 3 for index in range(ROOMS)], law, SEED):
        sound = array_like(scene.sound, random)
        for convention in CONVENTIONS:
            detector = ConventionDetector(RATE)
            detector.add(convert(sound, "acn-n3d", convention))
            found = detector.result()
            doubtful.append(found.doubtful)
            right.append(found.doubtful or found.name == convention)
    return float(np.mean(right)), float(np.mean(doubtful))


def speed() -> list[Row]:
    """Seconds of sound localized in a second, from the file to all tables and pictures."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "long.wav"
        clips = synthesized_clips(SEED)
        scenes = room_scenes(clips, [1, 2, 3] * 10, SceneLaw(), SEED)
        minute = np.concatenate([scene.sound for scene in scenes], axis=1)
        with soundfile.SoundFile(path, "w", RATE, 4, "PCM_16") as stream:
            for _ in range(round(MINUTES * 60 * RATE / minute.shape[1])):
                stream.write(minute.T)
        started = time.process_time()
        localize([path], Path(folder) / "out")
        taken = time.process_time() - started
    sound = 60.0 * MINUTES
    return [
        Row("localize, seconds of sound in a CPU second", taken, sound, sound / taken, 60.0, at_most=False)
    ]


if __name__ == "__main__":
    show(rows())
