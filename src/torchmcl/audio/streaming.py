"""Recordings of any length, piece by piece: reading, resampling and overlapping windows.

Results do not depend on where the pieces end: blocks are resampled on a common grid, and windows lie at multiples of
their hop from the beginning of the recording.
"""

from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path

import numpy as np
from jaxtyping import Float32
from scipy.signal import resample_poly

from torchmcl.audio.datasets.recording import BrokenFile
from torchmcl.audio.datasets.sound import read_header
from torchmcl.errors import UserError

__all__ = [
    "LOUDEST",
    "Blender",
    "Sound",
    "check_rate",
    "rate_ratio",
    "read_array",
    "read_file",
    "resampled",
    "windows",
]

Sound = Float32[np.ndarray, "4 samples"]
Reader = Callable[[int, int], Sound]
"""The samples from one position up to another one."""

ORDERS = {(order + 1) ** 2: order for order in range(2, 8)}
RATES = (8000, 768_000)
"""Hertz that recordings may have."""
LOUDEST = 1e15
"""Of a full scale of 1: squares of larger samples are infinite in single precision, and silence would be heard."""
TAPS = 12
"""Samples of the slower of two rates that the resampling filter reaches in each direction, at least."""


def check_rate(rate: int | float, name: str) -> None:
    """Raise a `UserError` unless the rate is one that recordings may have.

    Args:
        rate: Hertz.
        name: What has that rate, for the message.
    """
    if not RATES[0] <= rate <= RATES[1]:
        raise UserError(f"{name} is {rate} Hz, must be {RATES[0]} to {RATES[1]} Hz")


def rate_ratio(source: int, target: int) -> tuple[int, int]:
    """Factors by which a sound is resampled up and down.

    Unusual rates are approximated by a ratio of small numbers, because the filter grows with them.

    Args:
        source: Its rate, hertz.
        target: The wanted rate, hertz.
    """
    return Fraction(target, source).limit_denominator(1000).as_integer_ratio()


def read_array(sound: np.ndarray) -> Reader:
    """Read from an array; 16-bit samples are scaled to full scale 1.

    Args:
        sound: `(4, samples)`.
    """

    def read(start: int, end: int) -> Sound:
        piece = sound[:, start:end].astype(np.float32)
        return piece / np.float32(32768) if sound.dtype == np.int16 else piece

    return read


def read_file(path: str | Path) -> tuple[Reader, int, int]:
    """Read from a sound file: WAV, FLAC, AIFF, CAF, W64 and whatever else libsndfile reads.

    Samples beyond full scale in files of floating-point numbers are kept. Of higher-order Ambisonics in ACN order the
    first four channels are read.

    Args:
        path: The file, with 4, 9, 16, 25, 36, 49 or 64 channels.

    Returns:
        The reader, the number of samples, and the sample rate in hertz.
    """
    import soundfile

    header = read_header(path)
    if header.channels != 4 and header.channels not in ORDERS:
        known = ", ".join(map(str, ORDERS))
        raise UserError(
            f"{path}: has {header.channels} channels, first-order Ambisonics has 4 (higher orders {known})"
        )

    def read(start: int, end: int) -> Sound:
        count = min(end, header.frames) - start
        try:
            with soundfile.SoundFile(str(path)) as file:
                file.seek(start)
                piece = file.read(count, dtype="float32", always_2d=True)[:, :4].T
        except soundfile.LibsndfileError as error:
            raise BrokenFile(Path(path), f"cannot be decoded ({error.error_string.rstrip('.')})") from None
        if piece.shape[1] != count:
            there = start + piece.shape[1]
            raise BrokenFile(Path(path), f"truncated, {there} of {header.frames} announced samples are there")
        if not np.isfinite(piece).all():
            number = start + int((~np.isfinite(piece)).any(0).argmax())
            raise BrokenFile(Path(path), f"sample {number} is no number")
        if piece.size and max(piece.max(), -piece.min()) > LOUDEST:
            raise BrokenFile(Path(path), f"has samples beyond {LOUDEST:g}, full scale is 1")
        return piece

    return read, header.frames, header.sample_rate


def resampled(read: Reader, total: int, source: int, target: int, *, block: float = 30.0) -> Iterator[Sound]:
    """A recording at another rate, in blocks that join to what one resampling of the whole would give.

    Args:
        read: The recording.
        total: Its samples.
        source: Its sample rate, hertz.
        target: The wanted rate, hertz.
        block: Seconds of a block, at least.
    """
    up, down = rate_ratio(source, target)
    # Blocks start at multiples of `down` samples, where both rates have a sample.
    step = max(round(block * source / down), 1) * down
    margin = (-(-TAPS * max(up, down) // (up * down)) + 1) * down
    for start in range(0, total, step):
        before, end = min(start, margin), min(start + step, total)
        piece = read(start - before, min(end + margin, total))
        if up != down:
            piece = resample_poly(piece, up, down, axis=-1).astype(np.float32)
        first = before * up // down
        length = step * up // down if end < total else -(-(end - start) * up // down)
        yield piece[:, first : first + length]


def windows(blocks: Iterator[Sound], size: int, hop: int) -> Iterator[Float32[np.ndarray, "windows 4 size"]]:
    """Cut overlapping windows out of successive blocks; the last one is padded with silence.

    Args:
        blocks: Of a recording.
        size: Samples of a window.
        hop: Samples between the beginnings of two windows.

    Yields:
        The windows that each block completes.
    """
    rest = np.zeros((4, 0), np.float32)
    count = 0
    for block in blocks:
        rest = np.concatenate([rest, block], axis=1)
        ready = max((rest.shape[1] - size) // hop + 1, 0)
        if ready:
            view = np.lib.stride_tricks.sliding_window_view(rest, size, axis=1)[:, ::hop][:, :ready]
            yield view.transpose(1, 0, 2)
            rest = rest[:, ready * hop :]
            count += ready
    # What the windows so far have covered of the rest needs no window of its own.
    if not count or rest.shape[1] > size - hop:
        yield np.pad(rest, ((0, 0), (0, max(size - rest.shape[1], 0))))[None, :, :size]


class Blender:
    """Joins the answers of overlapping windows.

    A frame has the answers of the two windows that cover it, with weights that rise from the edge of a window to its
    middle and add up to 1, so that nothing jumps where a window begins or ends.

    Args:
        frames: Of a window.
        hop: Frames between two windows, from half of `frames` to `frames`.
    """

    def __init__(self, frames: int, hop: int) -> None:
        if not frames <= 2 * hop <= 2 * frames:
            raise ValueError(f"hop is {hop}, must be {-(-frames // 2)} to {frames}")
        self.hop, self.overlap = hop, frames - hop
        self.rise = np.ones(hop, np.float32)
        self.rise[: self.overlap] = (np.arange(self.overlap) + 0.5) / max(self.overlap, 1)
        self.tails: list[np.ndarray] | None = None

    def push(self, *answers: np.ndarray) -> tuple[Float32[np.ndarray, "frames 2"], list[np.ndarray]]:
        """Take the answers of successive windows.

        Args:
            answers: Arrays `(windows, frames, ...)`.

        Returns:
            For the finished frames, the weights `(finished, 2)` of a window and of the one before it, and each answer
            as `(finished, 2, ...)`.
        """
        count = len(answers[0])
        weights = np.stack([self.rise, 1 - self.rise], -1)
        weights = np.tile(weights, (count, 1, 1))
        if self.tails is None:
            weights[0] = (1.0, 0.0)
            self.tails = [answer[0, : self.overlap] for answer in answers]
        joined = []
        for answer, tail in zip(answers, self.tails, strict=True):
            before = answer[:, : self.hop].copy()
            before[0, : self.overlap] = tail
            before[1:, : self.overlap] = answer[:-1, self.hop :]
            both = np.stack([answer[:, : self.hop], before], 2)
            joined.append(both.reshape(count * self.hop, 2, *answer.shape[2:]))
        self.tails = [answer[-1, self.hop :] for answer in answers]
        return weights.reshape(-1, 2), joined

    def finish(self) -> tuple[Float32[np.ndarray, "frames 2"], list[np.ndarray]]:
        """What only the last window covers."""
        weights = np.tile(np.array([1.0, 0.0], np.float32), (self.overlap, 1))
        return weights, [np.stack([tail, tail], 1) for tail in self.tails or []]
