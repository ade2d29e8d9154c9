"""Sound files as memory-mapped 16-bit samples.

A WAV file of 16-bit samples is mapped where it lies: nothing is copied and nothing is read before it is
needed. Anything else that libsndfile reads is decoded once into a cache folder.
"""

import hashlib
import os
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
from jaxtyping import Int16

from torchmcl.audio.datasets.recording import BrokenFile
from torchmcl.runs.files import atomic

__all__ = ["SUFFIXES", "Sound", "cache_folder", "open_sound", "read_header"]

SUFFIXES = (".wav", ".flac")
LONGEST = 3600.0
"""Seconds; a header that announces more is taken for a mistake or an attack."""

_PCM, _EXTENSIBLE = 0x0001, 0xFFFE
_CHUNKS = 1000


@dataclass(frozen=True)
class Sound:
    """The header of a sound file.

    Args:
        path: The file.
        sample_rate: In hertz.
        channels: Their number.
        frames: Samples of each channel.
        offset: Where 16-bit samples begin that can be mapped in place; `None` where they must be decoded.
    """

    path: Path
    sample_rate: int
    channels: int
    frames: int
    offset: int | None

    @property
    def duration(self) -> float:
        """Length in seconds."""
        return self.frames / self.sample_rate


def read_header(path: str | Path) -> Sound:
    """Read the header of a sound file, and nothing else.

    Args:
        path: The file.

    Returns:
        The header; a broken one is a `BrokenFile`.
    """
    path = Path(path)
    if str(path) == "-" or path.suffix.lower() == ".raw":
        raise BrokenFile(path, "stands for the standard input or for sound without a header, rename it")
    with path.open("rb") as stream:
        head = stream.read(12)
        wave = head[:4] == b"RIFF" and head[8:] == b"WAVE"
        if not wave:
            _check_size(path, head + stream.read(12), os.fstat(stream.fileno()).st_size)
        sound = _riff(path, stream) if wave else _libsndfile(path)
    if sound.frames == 0:
        raise BrokenFile(path, "has no samples")
    if sound.duration > LONGEST:
        raise BrokenFile(path, f"announces {sound.duration:.0f} s, must be at most {LONGEST:.0f} s")
    return sound


def _check_size(path: Path, head: bytes, size: int) -> None:
    """AIFF and W64 announce their size, which libsndfile takes no notice of."""
    announced = 0
    if len(head) == 24 and head[:4] == b"FORM":
        announced = 8 + int.from_bytes(head[4:8], "big")
    elif len(head) == 24 and head[:4] == b"riff":
        announced = int.from_bytes(head[16:24], "little")
    if announced > size:
        raise BrokenFile(path, f"truncated, {size} of {announced} announced bytes are there")


def _riff(path: Path, stream: BinaryIO) -> Sound:
    """Walk through the chunks of a RIFF file up to its samples."""
    size = os.fstat(stream.fileno()).st_size
    layout: tuple[int, int, int, int, int] | None = None
    for _ in range(_CHUNKS):
        head = stream.read(8)
        if len(head) < 8:
            break
        name, length = struct.unpack("<4sI", head)
        if name == b"fmt " and 16 <= length <= 4096:
            layout = _format(stream.read(length))
            stream.seek(length % 2, os.SEEK_CUR)
        elif name == b"data" and layout is not None:
            return _samples(path, layout, stream.tell(), length, size)
        else:
            stream.seek(length + length % 2, os.SEEK_CUR)
    raise BrokenFile(path, "not a complete WAV file, its header ends before the samples")


def _format(chunk: bytes) -> tuple[int, int, int, int, int] | None:
    """Format tag, channels, sample rate, bytes a frame, bits a sample."""
    if len(chunk) < 16:
        return None
    tag, channels, rate, _, block, bits = struct.unpack("<HHIIHH", chunk[:16])
    if tag == _EXTENSIBLE and len(chunk) >= 26:
        tag = struct.unpack("<H", chunk[24:26])[0]
    return tag, channels, rate, block, bits


def _samples(
    path: Path, layout: tuple[int, int, int, int, int], offset: int, length: int, size: int
) -> Sound:
    tag, channels, rate, block, bits = layout
    if not (channels and rate and block):
        raise BrokenFile(path, f"not a WAV file, its header has {channels} channels at {rate} Hz")
    if offset + length > size:
        there = max(size - offset, 0) // block
        raise BrokenFile(path, f"truncated, {there} of {length // block} announced samples are there")
    plain = tag == _PCM and bits == 16 and block == 2 * channels
    return Sound(path, rate, channels, length // block, offset if plain else None)


def _libsndfile(path: Path) -> Sound:
    import soundfile  # 16-bit WAV needs none

    try:
        info = soundfile.info(str(path))
    except soundfile.LibsndfileError as error:
        raise BrokenFile(path, f"not a sound file ({error.error_string.rstrip('.')})") from None
    return Sound(path, info.samplerate, info.channels, info.frames, None)


def cache_folder() -> Path:
    """Where decoded sound is kept: `torchmcl` in the user's cache folder."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "torchmcl"


def open_sound(path: str | Path, cache: str | Path | None = None) -> Int16[np.ndarray, "samples channels"]:
    """The samples of a sound file, memory-mapped and read-only.

    Other formats than 16-bit WAV are decoded on first use. The decoded file appears only when it is complete, so
    several processes may do this at once.

    Args:
        path: The file.
        cache: Folder of decoded files; `cache_folder()` if `None`.

    Returns:
        The samples of all channels.
    """
    sound = read_header(path)
    if sound.offset is not None:
        return np.memmap(sound.path, "<i2", "r", sound.offset, (sound.frames, sound.channels))
    decoded = Path(cache or cache_folder()) / f"{_key(sound.path)}.pcm"
    if not decoded.exists() or decoded.stat().st_size != 2 * sound.channels * sound.frames:
        _decode(sound, decoded)
    return np.memmap(decoded, "<i2", "r").reshape(-1, sound.channels)


def _key(path: Path) -> str:
    """A name that changes when the file does."""
    state = path.stat()
    text = f"{path.resolve()}\n{state.st_size}\n{state.st_mtime_ns}"
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _decode(sound: Sound, decoded: Path) -> None:
    import soundfile

    with atomic(decoded) as temporary, temporary.open("wb") as stream:
        try:
            blocks = soundfile.blocks(str(sound.path), blocksize=1 << 18, dtype="float32", always_2d=True)
            for block in blocks:
                if not np.isfinite(block).all():
                    number = stream.tell() // (2 * sound.channels) + int(
                        (~np.isfinite(block)).any(-1).argmax()
                    )
                    raise BrokenFile(sound.path, f"sample {number} is no number")
                stream.write(np.rint(block.clip(-1, 1) * 32768).clip(-32768, 32767).astype("<i2").tobytes())
        except soundfile.LibsndfileError as error:
            raise BrokenFile(sound.path, f"cannot be decoded ({error.error_string.rstrip('.')})") from None
        there = stream.tell() // (2 * sound.channels)
        if there != sound.frames:
            raise BrokenFile(sound.path, f"truncated, {there} of {sound.frames} announced samples are there")
