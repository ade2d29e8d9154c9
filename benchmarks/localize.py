"""The bundled localizer: gain, speed, identity of tracks, and detection of conventions, on scenes it never heard."""

import os
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import soundfile

from benchmarks import Row, show
from benchmarks.crossings import OPEN, RATE, ROOM, SEED, share_kept
from torchmcl.audio.clips import Clip, folder_clips, synthesized_clips
from torchmcl.audio.conventions import ConventionDetector
from torchmcl.audio.foa import CONVENTIONS, convert, unit_vectors
from torchmcl.audio.localizer import Localizer, localize
from torchmcl.audio.predictions import Localization
from torchmcl.audio.responses import SimulatedRooms
from torchmcl.audio.room_scenes import RoomScene, SceneLaw, room_scenes

__all__ = ["array_like", "rows", "swaps"]

MINUTES = 10
FIXED, ROOMS = 30, 60
GAINS = (-60, -40, -20, 0, 20)


def rows() -> list[Row]:
    """Promises that `docs/howto/localize.md` repeats.

    `TORCHMCL_SOUNDS` names a folder of sounds to take in place of synthesized ones.
    """
    sounds = os.environ.get("TORCHMCL_SOUNDS")
    clips = folder_clips(sounds) if sounds else synthesized_clips(SEED)
    localizer = Localizer.from_pretrained()
    kept, kept_in_rooms = (share_kept(localizer, clips, rooms) for rooms in (OPEN, ROOM))
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
        Row(
            "localize, identity kept by crossing sources in rooms", *_plain(kept_in_rooms), 0.8, at_most=False
        ),
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
