"""The sounds of scenes: your own files or synthesized ones, distributed over splits that share none."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import soundfile
from jaxtyping import Bool, Float, Float32
from scipy.signal import resample_poly

from torchmcl.audio.streaming import LOUDEST, check_rate, rate_ratio
from torchmcl.audio.synthesis import SOUNDS, synthesize
from torchmcl.errors import UserError
from torchmcl.runs.files import check_file

__all__ = ["Clip", "by_label", "deal", "folder_clips", "load", "load_whole", "synthesized_clips", "trim"]

LONGEST = 5.0
READ_AT_MOST = 60.0
PER_LABEL = 60
MOST_PER_LABEL = 1000
PART = 5

Signal = Float[np.ndarray, "_samples"]


@dataclass(frozen=True)
class Clip:
    """One sound: a file, or the output of a generator.

    Args:
        label: Its class.
        number: Within its class.
        path: The file; `None` for a synthesized sound.
        seed: Of the generator.
    """

    label: str
    number: int
    path: Path | None = None
    seed: int = 0

    @property
    def name(self) -> str:
        """The name in descriptions of scenes: the label and three digits.

        >>> Clip("knock", 42).name
        'knock042.wav'
        """
        return f"{self.label}{self.number:03d}.wav"


def synthesized_clips(seed: int) -> tuple[Clip, ...]:
    """The clips of all classes of synthesized sounds.

    Args:
        seed: Another seed gives other sounds.

    Returns:
        Sixty clips of each class.
    """
    return tuple(Clip(label, number, seed=seed) for label in SOUNDS for number in range(PER_LABEL))


def folder_clips(folder: str | Path) -> tuple[Clip, ...]:
    """The sound files of a folder with one subfolder a class, in the order of their names.

    Files that libsndfile can read are recognized by their suffixes; hidden files and other files are left alone.
    Headers are read at once, so that a broken file is found before long work begins.

    Args:
        folder: Of the subfolders.

    Returns:
        A clip for each file.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise UserError(f"{folder}: there is no such folder of sounds")
    suffixes = {f".{name.lower()}" for name in soundfile.available_formats()} - {".raw"} | {".oga", ".opus"}
    clips: list[Clip] = []
    for subfolder in sorted(path for path in folder.iterdir() if path.is_dir() and path.name[0] != "."):
        visible = (path for path in subfolder.iterdir() if path.name[0] != ".")
        files = sorted(path for path in visible if path.suffix.lower() in suffixes)
        if any(mark in subfolder.name for mark in ',"\r\n'):
            raise UserError(f"{subfolder}: the name of a class must have no comma, quote or line break")
        if len(files) > MOST_PER_LABEL:
            raise UserError(f"{subfolder}: has {len(files)} sounds, a class may have {MOST_PER_LABEL}")
        clips += [Clip(subfolder.name, number, _checked(path)) for number, path in enumerate(files)]
    if not clips:
        raise UserError(f"{folder}: has no sounds, it must have one subfolder a class with sound files in it")
    return tuple(clips)


def deal(
    clips: Iterable[Clip], splits: int, seed: int, parted: bool
) -> dict[tuple[int, str], tuple[Clip, ...]]:
    """Distribute the clips of each class over splits, so that no clip is in two of them.

    Args:
        clips: Of all classes.
        splits: Their number; they are counted from 1.
        seed: Of the random order.
        parted: Whether a fifth of the clips of each split is reserved for its test recordings. Otherwise all are
            `train`.

    Returns:
        The clips of each split and subset; an empty one is an error.
    """
    parts = ("train", "test") if parted else ("train",)
    pools: dict[tuple[int, str], list[Clip]] = {
        (split, part): [] for split in range(1, splits + 1) for part in parts
    }
    rng = np.random.default_rng(seed)
    for members in by_label(clips).values():
        for place, index in enumerate(rng.permutation(len(members))):
            turn, split = divmod(place, splits)
            part = "test" if parted and turn % PART == 1 else "train"
            pools[split + 1, part].append(members[index])
    empty = [f"split {split} {part}" for (split, part), pool in pools.items() if not pool]
    if empty:
        raise UserError(f"too few sounds: none is left for {', '.join(empty)}; a class needs {len(pools)}")
    return {key: tuple(pool) for key, pool in pools.items()}


def by_label(clips: Iterable[Clip]) -> Mapping[str, Sequence[Clip]]:
    """Group clips by class.

    Args:
        clips: Of all classes.

    Returns:
        The clips of each class.
    """
    groups: dict[str, list[Clip]] = {}
    for clip in clips:
        groups.setdefault(clip.label, []).append(clip)
    return groups


@lru_cache(maxsize=256)
def load(clip: Clip, sample_rate: int) -> Float32[np.ndarray, "samples"]:
    """Read or generate a clip, trimmed to its audible part and with a level of 1.

    The level is the root mean square of the frames that are less than 30 dB below the loudest one.

    Args:
        clip: The sound.
        sample_rate: Of the result, in hertz.

    Returns:
        One channel, read-only.
    """
    signal = trim(load_whole(clip, sample_rate), sample_rate)
    if not len(signal):
        raise UserError(f"{clip.path}: is silent")
    signal = _faded(signal, sample_rate)
    energy = _frame_energy(signal, sample_rate)
    level = np.sqrt(energy[energy > energy.max() * 1e-3].mean())
    return _frozen((signal / level).astype(np.float32))


@lru_cache(maxsize=512)
def load_whole(clip: Clip, sample_rate: int) -> Signal:
    """Read or generate a clip without trimming it.

    Args:
        clip: The sound.
        sample_rate: Of the result, in hertz.

    Returns:
        One channel.
    """
    if clip.path is None:
        words = [clip.seed, sorted(SOUNDS).index(clip.label), clip.number]
        return synthesize(clip.label, np.random.default_rng(words), sample_rate)
    return _read(clip.path, sample_rate)


def trim(signal: Signal, sample_rate: int, floor: float = -30.0, pause: float = 0.3) -> Signal:
    """Cut a sound to the part that is labeled active, which starts exactly at the onset.

    Frames of 10 ms that are `floor` decibels below the loudest one count as silence. Silence is removed at both
    ends, and a longer pause splits the sound. The part with the most energy is kept, up to 5 s.

    Args:
        signal: One channel.
        sample_rate: In hertz.
        floor: Decibels relative to the loudest frame.
        pause: Seconds of silence that split a sound.

    Returns:
        A part of `signal`; nothing of a silent one.
    """
    energy = _frame_energy(signal, sample_rate)
    audible = np.flatnonzero(_above(energy, floor))
    if not len(audible):
        return signal[:0]
    hop = sample_rate // 100
    breaks = np.flatnonzero(np.diff(audible) * hop > pause * sample_rate)
    firsts = audible[np.r_[0, breaks + 1]]
    lasts = audible[np.r_[breaks, len(audible) - 1]]
    total = np.r_[0.0, np.cumsum(energy)]
    best = np.argmax(total[lasts + 1] - total[firsts])
    start = firsts[best] * hop
    start += np.argmax(np.square(signal[start : start + hop]) >= energy.max() * 10 ** (floor / 10))
    return signal[start : min((lasts[best] + 1) * hop, start + int(LONGEST * sample_rate))]


def _above(energy: Float[np.ndarray, "frames"], floor: float) -> Bool[np.ndarray, "frames"]:
    return (energy > 0) & (energy >= energy.max(initial=0.0) * 10 ** (floor / 10))


def _frame_energy(signal: Signal, sample_rate: int) -> Float[np.ndarray, "frames"]:
    """Mean square of successive 10 ms, the last of them padded with silence."""
    hop = sample_rate // 100
    padded = np.pad(signal.astype(np.float64), (0, -len(signal) % hop))
    return np.square(padded).reshape(-1, hop).mean(axis=1)


def _faded(signal: Signal, sample_rate: int) -> Signal:
    """A millisecond to come, ten to go: no clicks where a sound was cut."""
    attack, release = sample_rate // 1000, min(len(signal), sample_rate // 100)
    faded = signal.copy()
    faded[:attack] *= np.linspace(0, 1, attack + 1)[1:]
    faded[-release:] *= np.linspace(1, 0, release)
    return faded


def _frozen(signal: Float32[np.ndarray, "samples"]) -> Float32[np.ndarray, "samples"]:
    signal.flags.writeable = False
    return signal


def _checked(path: Path) -> Path:
    check_file(path)
    try:
        header = soundfile.info(path)
    except (soundfile.SoundFileError, OSError) as error:
        raise _broken(path, error) from None
    if header.frames == 0:
        raise UserError(f"{path}: has no samples")
    check_rate(header.samplerate, f"{path}: the sample rate")
    return path


def _read(path: Path, sample_rate: int) -> Signal:
    """The first minute of a file, its channels averaged, at `sample_rate`."""
    try:
        with soundfile.SoundFile(path) as file:
            rate = file.samplerate
            signal = file.read(int(READ_AT_MOST * rate), dtype="float64", always_2d=True).mean(axis=1)
    except (soundfile.SoundFileError, OSError) as error:
        raise _broken(path, error) from None
    if not np.isfinite(signal).all():
        raise UserError(f"{path}: has samples that are not finite numbers")
    if np.abs(signal).max(initial=0.0) > LOUDEST:
        raise UserError(f"{path}: has samples beyond {LOUDEST:g}, full scale is 1")
    return resample_poly(signal, *rate_ratio(rate, sample_rate))


def _broken(path: Path, error: Exception) -> UserError:
    why = getattr(error, "error_string", None) or getattr(error, "strerror", None) or str(error)
    return UserError(f"{path}: cannot be read as sound ({str(why).rstrip('.')})")
