"""Directions while the sound still arrives: the causal tracks of the localizer, with a bounded delay and memory."""

import json
import math
import sys
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float
from scipy.signal import resample_poly

from torchmcl.audio.foa import Convention, convention_named, convert
from torchmcl.audio.localizer import STEP, WINDOW, Listening, Localizer, checked_sound, whole_rate
from torchmcl.audio.predictions import OUTPUT, Frames, Source, causal_output
from torchmcl.audio.streaming import LOUDEST, TAPS, Sound, check_rate, rate_ratio, read_array, windows
from torchmcl.audio.targets import HOP
from torchmcl.audio.tracks import OPERATING_POINTS, Prefer, Tracker
from torchmcl.errors import UserError, check_choice

__all__ = ["DELAY", "LiveFrame", "localize_live", "print_live", "read_device", "read_raw"]

DELAY = WINDOW * HOP + OUTPUT * HOP
"""Seconds after the end of an output frame when it is told at the latest, besides the time that computing takes."""

BLOCK = 0.02
"""Seconds that are resampled at a time."""


@runtime_checkable
class RawStream(Protocol):
    """Gives the bytes that have arrived, without waiting for more."""

    def read1(self, size: int, /) -> bytes: ...


@dataclass(frozen=True)
class LiveFrame:
    """One output frame of 100 ms.

    Args:
        time: When it starts, in seconds.
        sources: Confirmed tracks, the strongest first.
        counts: Probabilities of 0, 1, 2, and 3 or more sources.
    """

    time: float
    sources: tuple[Source, ...]
    counts: Float[np.ndarray, "4"]

    def to_json(self) -> str:
        """A line of JSON; angles in degrees."""
        sources = [
            {
                "track": source.track,
                "azimuth": round(math.degrees(source.azimuth), 1),
                "elevation": round(math.degrees(source.elevation), 1),
                "score": round(source.score, 3),
                "radius": None if math.isnan(source.radius) else round(math.degrees(source.radius), 1),
            }
            for source in self.sources
        ]
        counts = [round(float(value), 3) for value in self.counts]
        return json.dumps({"time": round(self.time, 3), "counts": counts, "sources": sources})


def localize_live(
    localizer: Localizer,
    pieces: Iterable[np.ndarray],
    sample_rate: int,
    *,
    convention: Convention = "acn-sn3d",
    prefer: Prefer = "recall",
) -> Iterator[LiveFrame]:
    """Localize sound that arrives piece by piece.

    A frame is told once all windows that cover it are complete, `DELAY` seconds after it at the latest. The frames
    are those of `localizer(sound, sample_rate, listening=Listening(causal=True))`. Memory does not grow with time.

    Args:
        localizer: A trained localizer.
        pieces: Successive pieces `(4, samples)` of any length, floating-point or 16-bit.
        sample_rate: Of the pieces, in hertz.
        convention: Of their channels.
        prefer: `"recall"` or `"precision"`.

    Yields:
        Output frames of 100 ms.
    """
    check_choice("prefer", prefer, OPERATING_POINTS)
    known, rate = convention_named(convention), whole_rate(sample_rate)
    hop = round(HOP * localizer.sample_rate)
    sound = (
        convert(piece, known, "acn-n3d")
        for piece in _resampled(_checked(pieces), rate, localizer.sample_rate)
    )
    tracker = Tracker(OPERATING_POINTS[prefer], remember=False)
    rest: list[Frames] = []
    number = 0
    for frames in localizer.answers(windows(sound, WINDOW * hop, STEP * hop)):
        joined = Frames.join([*rest, frames])
        whole = len(joined) // OUTPUT * OUTPUT
        for start in range(0, whole, OUTPUT):
            output = joined[start : start + OUTPUT]
            yield LiveFrame(number * OUTPUT * HOP, *causal_output(output, tracker, localizer.calibration))
            number += 1
        rest = [joined[whole:]]


def read_raw(stream: RawStream, block: int = 4096) -> Iterator[Sound]:
    """Interleaved 32-bit floating-point samples of four channels, as they come.

    Args:
        stream: For example the standard input.
        block: Samples of each channel to read at a time, at most.

    Yields:
        Pieces `(4, samples)`.
    """
    rest = b""
    # `read1` gives what is there, and does not wait for a whole block.
    while data := stream.read1(16 * block):
        data = rest + data
        whole = len(data) // 16 * 16
        rest = data[whole:]
        if whole:
            piece = np.frombuffer(data[:whole], "<f4").reshape(-1, 4).T
            if not (np.abs(piece) <= LOUDEST).all():
                raise UserError(
                    f"the sound has a sample that is no number or beyond {LOUDEST:g}: "
                    "32-bit floats of four channels are expected"
                )
            yield piece


def read_device(device: str, sample_rate: int) -> Iterator[Sound]:
    """The first four channels of a sound device, 20 ms at a time; needs the package `sounddevice`.

    Args:
        device: Its number, or a part of its name.
        sample_rate: In hertz.

    Yields:
        Pieces `(4, samples)`.
    """
    try:
        import sounddevice
    except (ImportError, OSError) as error:
        raise UserError(f"--device needs the package sounddevice and PortAudio ({error})") from None
    block = round(BLOCK * sample_rate)
    wanted = int(device) if device.isdigit() else device
    try:
        with sounddevice.InputStream(
            samplerate=sample_rate, blocksize=block, device=wanted, channels=4, dtype="float32"
        ) as stream:
            while True:
                samples, overflowed = stream.read(block)
                if overflowed:
                    print("sound was lost: this machine is too slow for it", file=sys.stderr, flush=True)
                yield np.ascontiguousarray(samples.T)
    except (sounddevice.PortAudioError, ValueError) as error:
        raise UserError(f"--device {device}: {error}") from None


def print_live(
    model: str | Path, sample_rate: int, convention: str, listening: Listening, device: str | None = None
) -> None:
    """Read sound as it comes and print a line of JSON for each 100 ms, until it ends.

    Args:
        model: Folder of a trained model.
        sample_rate: Of the input, in hertz.
        convention: Of its channels.
        listening: How it is localized; live tracks are causal, and turned copies are not pooled.
        device: Number or name of a sound device; raw sound from the standard input if `None`.
    """
    if listening.turns > 1:
        raise UserError("--turns is for recordings: live sound is localized in one pass")
    check_rate(sample_rate, "--rate")
    if device is None and sys.stdin is None:
        raise UserError("--live reads sound from the standard input, which is closed")
    localizer = Localizer.from_pretrained(model)
    used = convention_named(convention)
    with open(sys.stdin.fileno(), "rb", closefd=False) if device is None else nullcontext() as stream:
        pieces = read_device(str(device), sample_rate) if stream is None else read_raw(stream)
        for frame in localize_live(localizer, pieces, sample_rate, convention=used, prefer=listening.prefer):
            print(frame.to_json(), flush=True)


def _checked(pieces: Iterable[np.ndarray]) -> Iterator[Sound]:
    for piece in pieces:
        if np.size(piece):
            sound = checked_sound(piece)
            yield read_array(sound)(0, sound.shape[1])


def _resampled(pieces: Iterable[np.ndarray], source: int, target: int) -> Iterator[Sound]:
    """Resample a stream; what has arrived is given on as soon as the filter has all that it needs."""
    up, down = rate_ratio(source, target)
    if up == down:
        yield from pieces
        return
    step = max(round(BLOCK * source / down), 1) * down
    margin = (-(-TAPS * max(up, down) // (up * down)) + 1) * down
    kept, before = np.zeros((4, 0), np.float32), 0
    for piece in pieces:
        kept = np.concatenate([kept, piece], axis=1)
        while kept.shape[1] >= before + step + margin:
            ready = resample_poly(kept[:, : before + step + margin], up, down, axis=-1).astype(np.float32)
            first = before * up // down
            yield ready[:, first : first + step * up // down]
            passed = max(before + step - margin, 0) // down * down
            kept, before = kept[:, passed:], before + step - passed
    if kept.shape[1] > before:
        ready = resample_poly(kept, up, down, axis=-1).astype(np.float32)
        first = before * up // down
        yield ready[:, first : first - (-(kept.shape[1] - before) * up // down)]
