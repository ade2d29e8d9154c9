"""Voices: one sound after another, each from its own place in a room, with the frames in which it is active.

Training mixes voices at each step, so a few hundred of them stand for any number of scenes. They are rendered once
and kept as 16-bit floats in a file that is mapped into memory.
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float, Float16, Float32
from scipy.fft import irfft, rfft
from scipy.signal import butter, oaconvolve, resample_poly, sosfilt

from torchmcl.audio.clips import Clip, load_whole
from torchmcl.audio.responses import Rooms, SimulatedRooms, Space
from torchmcl.errors import UserError
from torchmcl.runs.files import atomic, read_json, write_json

__all__ = ["Voices", "draw_sound", "dry_sound", "make_voices", "voice"]

FRAMES_PER_SECOND = 50
LONGEST = 5.0
FLOOR = 1e-3
"""A frame is active if its energy is at least so much (-30 dB) of that of the loudest frame."""

LEVEL = 0.05
"""Scale of the stored samples, so that 16-bit floats hold them."""

TRIES = 3000
"""Sounds that are drawn at most until one lasts long enough."""

Dry = tuple[Float32[np.ndarray, "samples"], Bool[np.ndarray, "frames"]]


@dataclass(frozen=True)
class Voices:
    """Rendered voices in ACN/N3D.

    Attributes:
        sound: Samples, mapped from a file.
        directions: (azimuth, elevation) of the sound of each frame of 20 ms, radians.
        active: Frames in which something sounds.
        sample_rate: Hz.
    """

    sound: Float16[np.ndarray, "voices 4 samples"]
    directions: Float32[np.ndarray, "voices frames 2"]
    active: Bool[np.ndarray, "voices frames"]
    sample_rate: int


def dry_sound(clip: Clip, sample_rate: int, rng: np.random.Generator, vary: bool = True) -> Dry | None:
    """A clip with its active frames of 20 ms; the root mean square of the active frames is 1.

    Args:
        clip: A file or a synthesized sound.
        sample_rate: Hz.
        rng: Draws the variation.
        vary: Change the speed of 30 % and the spectral tilt of 50 % of the sounds (data augmentation).

    Returns:
        At most 5 s, from the first to the last active frame; `None` for a silent clip.
    """
    sound = sosfilt(butter(2, 80, "highpass", fs=sample_rate, output="sos"), load_whole(clip, sample_rate))
    if vary and rng.random() < 0.3:
        sound = resample_poly(sound, 100, int(rng.integers(70, 140)))
    if vary and rng.random() < 0.5:
        spectrum = rfft(sound)
        frequency = np.arange(1, len(spectrum) + 1) / len(spectrum)
        sound = irfft(spectrum * frequency ** rng.uniform(-0.4, 0.4), len(sound))
    hop = sample_rate // FRAMES_PER_SECOND
    energy = _energy(sound, hop)
    if energy.max(initial=0.0) <= 0:
        return None
    audible = np.flatnonzero(energy > energy.max() * FLOOR)
    sound = sound[audible[0] * hop : (audible[-1] + 1) * hop][: int(LONGEST * sample_rate)].copy()
    energy = _energy(sound, hop)
    active = energy > energy.max() * FLOOR
    fade = min(80, len(sound))
    sound[-fade:] *= np.linspace(1, 0, fade)
    return (sound / np.sqrt(energy[active].mean())).astype(np.float32), active


def voice(
    clips: Sequence[Clip], space: Space, seconds: float, sample_rate: int, rng: np.random.Generator
) -> tuple[Float32[np.ndarray, "4 samples"], Float32[np.ndarray, "frames 2"], Bool[np.ndarray, "frames"]]:
    """Random clips one after another, each from a new place in the room.

    Args:
        clips: To draw from; files and synthesized sounds are drawn in the ratio 3 to 2 where there are both.
        space: The room.
        seconds: Length.
        sample_rate: Hz.
        rng: Source of randomness.

    Returns:
        Sound, directions and active frames.
    """
    samples, frames = int(seconds * sample_rate), int(seconds * FRAMES_PER_SECOND)
    hop = sample_rate // FRAMES_PER_SECOND
    sound = np.zeros((4, samples), np.float32)
    directions, active = np.zeros((frames, 2), np.float32), np.zeros(frames, bool)
    frame = int(rng.integers(25))
    while frame < frames - 10:
        signal, sounding = draw_sound(clips, sample_rate, rng)
        place = space.place(sample_rate, rng)
        gain = np.float32(10 ** (rng.uniform(-3, 3) / 20))
        wet = oaconvolve(gain * signal[None], place.response, axes=-1)[:, : samples - frame * hop]
        sound[:, frame * hop : frame * hop + wet.shape[1]] += wet
        length = min(len(sounding), frames - frame)
        active[frame : frame + length] |= sounding[:length]
        directions[frame : frame + length] = place.direction
        frame += length + 3 + int(rng.uniform() ** 2 * min(length, 100))
    return sound, directions, active


def draw_clip(clips: Sequence[Clip], rng: np.random.Generator) -> Clip:
    """A clip; recorded ones in three of five draws where there are recorded and synthesized ones."""
    recorded = [clip for clip in clips if clip.path is not None]
    synthesized = [clip for clip in clips if clip.path is None]
    pool = recorded if recorded and (not synthesized or rng.random() < 0.6) else synthesized
    return pool[int(rng.integers(len(pool)))]


def draw_sound(
    clips: Sequence[Clip], sample_rate: int, rng: np.random.Generator, shortest: float = 0.0
) -> Dry:
    """A sound that is not silent; a `UserError` where there is none.

    Args:
        clips: To draw from.
        sample_rate: Hz.
        rng: Source of randomness.
        shortest: Seconds that it lasts at least.
    """
    for _ in range(TRIES):
        dry = dry_sound(draw_clip(clips, rng), sample_rate, rng)
        if dry is not None and len(dry[1]) >= shortest * FRAMES_PER_SECOND:
            return dry
    labels = ", ".join(sorted({clip.label for clip in clips}))
    raise UserError(f"no sound of at least {shortest:g} s that is not silent is among those of {labels}")


def make_voices(
    folder: str | Path,
    clips: Sequence[Clip],
    *,
    rooms: Rooms | None = None,
    count: int = 800,
    seconds: float = 20.0,
    sample_rate: int = 16000,
    seed: int = 0,
    progress: Callable[[float], None] = lambda share: None,
) -> Voices:
    """Render voices into `folder`, or map those that are there; an interrupted call goes on where it stopped.

    Args:
        folder: Where `voices.npy` and its companions are kept; 2.6 MB for each voice of 20 s.
        clips: The sounds.
        rooms: Where they sound; simulated rooms by default.
        count: Number of voices, each in a room of its own.
        seconds: Length of a voice.
        sample_rate: Hz.
        seed: Voice `i` depends on (seed, i) only.
        progress: Called with the share that is done.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    rooms = SimulatedRooms() if rooms is None else rooms
    names = hashlib.sha256(repr([(clip.name, clip.seed) for clip in clips]).encode()).hexdigest()[:16]
    identity = [names, count, seconds, sample_rate, seed, _identity(rooms)]
    samples, frames = int(seconds * sample_rate), int(seconds * FRAMES_PER_SECOND)
    state = folder / "voices.json"
    shapes = {"sound": (count, 4, samples), "directions": (count, frames, 2), "active": (count, frames)}
    types = {"sound": np.float16, "directions": np.float32, "active": np.bool_}
    done = _done(state, identity, count)
    if done and not all(_is_whole(folder / f"{name}.npy", types[name], shapes[name]) for name in shapes):
        done = 0
    for name, shape in shapes.items():
        if done == 0:
            with atomic(folder / f"{name}.npy") as temporary:
                np.lib.format.open_memmap(temporary, "w+", types[name], shape)
    files = {name: np.load(folder / f"{name}.npy", mmap_mode="r+") for name in shapes}
    for index in range(done, count):
        rng = np.random.default_rng([seed, index])
        sound, directions, active = voice(clips, rooms.draw(rng), seconds, sample_rate, rng)
        files["sound"][index] = np.clip(sound * LEVEL, -60000, 60000)
        files["directions"][index], files["active"][index] = directions, active
        progress((index + 1) / count)
        if (index + 1) % 20 == 0 or index + 1 == count:
            for file in files.values():
                file.flush()
            write_json(state, {"identity": identity, "done": index + 1})
    files = {name: np.load(folder / f"{name}.npy", mmap_mode="r") for name in shapes}
    return Voices(files["sound"], np.array(files["directions"]), np.array(files["active"]), sample_rate)


def _done(state: Path, identity: list[object], count: int) -> int:
    """How many voices are there; none where the file is another's or damaged."""
    try:
        kept = read_json(state) if state.is_file() else None
    except UserError:
        return 0
    if not isinstance(kept, dict) or kept.get("identity") != identity or type(kept.get("done")) is not int:
        return 0
    return kept["done"] if 0 <= kept["done"] <= count else 0


def _is_whole(path: Path, kind: type, shape: tuple[int, ...]) -> bool:
    if not path.is_file():
        return False
    try:
        found = np.load(path, mmap_mode="r")
    except Exception:  # NumPy reads a header with Python's parser, which raises errors of its own
        return False
    return found.dtype == kind and found.shape == shape and all(np.isfinite(part).all() for part in found)


def _identity(rooms: Rooms) -> str:
    return hashlib.sha256(repr(rooms).encode()).hexdigest()[:16]


def _energy(sound: Float[np.ndarray, "samples"], hop: int) -> Float[np.ndarray, "frames"]:
    padded = np.pad(sound.astype(np.float64), (0, -len(sound) % hop))
    return np.square(padded).reshape(-1, hop).mean(axis=1)
