"""Two sources that pass each other, or meet and turn back: how often each keeps its track.

`python -m benchmarks crossings SOUNDS`, where SOUNDS is a folder of recorded sounds; synthesized ones without.
"""

import argparse
from collections.abc import Sequence

import numpy as np
from scipy.signal import oaconvolve

from torchmcl.audio.clips import Clip, folder_clips, synthesized_clips
from torchmcl.audio.foa import unit_vectors
from torchmcl.audio.localizer import BUNDLED_MODEL, DEFAULT, Listening, Localizer, listening_named
from torchmcl.audio.predictions import Localization
from torchmcl.audio.responses import SimulatedRooms
from torchmcl.audio.voices import draw_clip, dry_sound

__all__ = ["OPEN", "RATE", "ROOM", "SEED", "crossing", "identities_kept", "main", "share_kept"]

RATE = 16000
SEED = 1234
"""Of scenes and of synthesized sounds, other than those of the training."""

CROSSINGS = 40
SECONDS = 5.0
OPEN = SimulatedRooms(open_air=1.0)
ROOM = SimulatedRooms(rt60=(0.2, 0.6), distances=(0.5, 2.0), open_air=0.0)
FIRST = 1000
"""Number of the first crossing; smaller ones were looked at while the tracks were made."""


def main(arguments: list[str]) -> int:
    """Print the share of crossings in which both sources keep their tracks."""
    parser = argparse.ArgumentParser("benchmarks crossings", description=__doc__)
    parser.add_argument("sounds", nargs="?", help="folder of recorded sounds; synthesized ones without")
    parser.add_argument("--model", default=str(BUNDLED_MODEL), help="folder of the model")
    parser.add_argument("--crossings", type=int, default=CROSSINGS, help="of each kind")
    parser.add_argument("--first", type=int, default=FIRST, help="number of the first crossing")
    parser.add_argument("--causal", action="store_true")
    given = parser.parse_args(arguments)
    localizer = Localizer.from_pretrained(given.model)
    clips = folder_clips(given.sounds) if given.sounds else synthesized_clips(SEED)
    listening = listening_named("recall", causal=given.causal)
    print("| identity kept, % | pass each other | meet and turn back |\n|---|---:|---:|")
    for name, rooms in (("open air", OPEN), ("rooms", ROOM)):
        shares = [
            share_kept(
                localizer,
                clips,
                rooms,
                back=back,
                first=given.first,
                count=given.crossings,
                listening=listening,
            )
            for back in (False, True)
        ]
        print(f"| {name} | " + " | ".join(f"{100 * share:.1f}" for share in shares) + " |", flush=True)
    return 0


def share_kept(
    localizer: Localizer,
    clips: Sequence[Clip],
    rooms: SimulatedRooms,
    *,
    back: bool = False,
    first: int = FIRST,
    count: int = CROSSINGS,
    listening: Listening = DEFAULT,
) -> float:
    """Share of crossings in which both sources keep their tracks."""
    scenes = (crossing(clips, first + number, rooms, back=back) for number in range(count))
    return float(np.mean([identities_kept(localizer, *scene, listening) for scene in scenes]))


def crossing(
    clips: Sequence[Clip], seed: int, rooms: SimulatedRooms = OPEN, *, back: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Two sources of different classes in a room, each moving at 20 to 40 degrees a second, that pass each other.

    Each source turns about the array together with its reflections. With `back` both turn back where they meet.

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
        way = time_ - SECONDS / 2
        azimuths[index] = sign * speed_ * (-np.abs(way) if back else way)
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


def identities_kept(
    localizer: Localizer, sound: np.ndarray, azimuths: np.ndarray, listening: Listening = DEFAULT
) -> bool:
    """Whether the track that follows each source before the crossing is the one that follows it afterwards."""
    found = localizer(sound, RATE, listening=listening)
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
