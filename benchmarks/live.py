"""Live localization, measured: `python -m benchmarks live --minutes 60`.

Delays are those of the command `torchmcl localize --live`, fed in real time. Speed, memory and equality with the
offline localizer are those of `localize_live`, fed as fast as it goes. The sound has sources in simulated rooms.
"""

import argparse
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import numpy as np
import torch
from scipy.signal import resample_poly

from benchmarks import Row, show
from benchmarks.growth import _memory
from torchmcl.audio.clips import synthesized_clips
from torchmcl.audio.foa import unit_vectors
from torchmcl.audio.live import LiveFrame, localize_live, read_raw
from torchmcl.audio.localizer import STEP, WINDOW, Listening, Localizer
from torchmcl.audio.predictions import OUTPUT, Source
from torchmcl.audio.room_scenes import SceneLaw, room_scenes
from torchmcl.audio.targets import HOP

__all__ = ["block_end", "main"]

RATE, SEED = 48000, 77
PIECE = 960
"""Samples that arrive at a time: 20 ms."""

SETTLED = 0.1
"""Share of the stream after which memory is taken for the first time: caches are warm by then."""

GROWTH = 4.0
"""Megabytes that count as growth; an hour of answers as JSON is about 4.3, of sound 2,765."""


def main(words: list[str]) -> int:
    """Print the table; 1 if a promise is not kept."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks live")
    parser.add_argument("--minutes", type=float, default=60.0, help="of sound for speed and memory")
    parser.add_argument("--seconds", type=float, default=60.0, help="of sound in real time for the delay")
    chosen = parser.parse_args(words)
    torch.set_num_threads(1)
    sound = scenes()
    rows = [*delays(sound, chosen.seconds), *endurance(sound, chosen.minutes), *equality(sound)]
    show(rows)
    return int(any(row.kept is False for row in rows))


def scenes() -> np.ndarray:
    """About a minute of one to three sources in simulated rooms, `(4, samples)` at 48 kHz."""
    parts = room_scenes(synthesized_clips(SEED), [1, 2, 3, 0] * 3, SceneLaw(), SEED)
    sound = np.concatenate([scene.sound for scene in parts], axis=1)
    return resample_poly(sound, 3, 1, axis=1).astype(np.float32)


def block_end(time_: float) -> float:
    """Seconds when the last sample has arrived that the output frame at `time_` depends on: the end of a window."""
    last = round(time_ / HOP) + OUTPUT - 1
    return (last // STEP * STEP + WINDOW) * HOP


def delays(sound: np.ndarray, seconds: float) -> list[Row]:
    """Milliseconds from the end of a window, and from the end of a frame, to its line of JSON."""
    words = [sys.executable, "-m", "torchmcl", "localize", "--live", "--rate", str(RATE)]
    pieces = np.array_split(sound, range(PIECE, sound.shape[1], PIECE), axis=1)
    told: list[tuple[float, float]] = []
    process = subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )
    assert process.stdin is not None
    assert process.stdout is not None
    lines = process.stdout

    def listen() -> None:
        told.extend((json.loads(line)["time"], time.monotonic()) for line in lines)

    listener = threading.Thread(target=listen)
    listener.start()
    sent = 0

    def send(count: int, begin: float | None) -> None:
        nonlocal sent
        for _ in range(count):
            if begin is not None:
                # A piece has arrived when its last sample has.
                time.sleep(max(begin + (sent + 1) * PIECE / RATE - time.monotonic(), 0))
            process.stdin.write(np.ascontiguousarray(pieces[sent % (len(pieces) - 1)].T).tobytes())  # type: ignore[union-attr]
            process.stdin.flush()  # type: ignore[union-attr]
            sent += 1

    send(round(2 * RATE / PIECE), None)  # until the model is loaded and warm
    while not told or told[-1][0] < 1.0:
        time.sleep(0.05)
    first = sent * PIECE / RATE
    begin = time.monotonic() - first
    send(round(seconds * RATE / PIECE), begin)
    process.stdin.close()
    listener.join()
    process.wait()
    measured = [each for each in told if first <= block_end(each[0]) <= first + seconds]
    beyond = np.array([at - begin - block_end(frame) for frame, at in measured]) * 1e3
    after = np.array([at - begin - (frame + OUTPUT * HOP) for frame, at in measured]) * 1e3
    return [
        Row("live, delay beyond the block in ms, median", *_plain(float(np.median(beyond)))),
        Row("live, delay beyond the block in ms, largest", *_plain(float(beyond.max())), 300.0),
        Row("live, delay after the end of a frame in ms, median", *_plain(float(np.median(after)))),
        Row("live, delay after the end of a frame in ms, largest", *_plain(float(after.max()))),
    ]


class _Repeated:
    """A stream of raw bytes that repeats a sound for a time."""

    def __init__(self, sound: np.ndarray, seconds: float) -> None:
        self.raw = np.ascontiguousarray(sound.T).tobytes()
        self.left = round(seconds * RATE) * 16
        self.at = 0

    def read1(self, size: int, /) -> bytes:
        data = self.raw[self.at : self.at + min(size, self.left)]
        self.at = (self.at + len(data)) % len(self.raw)
        self.left -= len(data)
        return data


def endurance(sound: np.ndarray, minutes: float) -> list[Row]:
    """Seconds of sound in a second of CPU, and memory at the end over memory near the beginning."""
    localizer = Localizer.from_pretrained()
    total = 60 * minutes
    stream = _Repeated(sound, total)
    settled = 0.0
    highest = 0.0
    letters = 0
    began = time.process_time()
    for frame in localize_live(localizer, read_raw(stream, PIECE), RATE):
        letters += len(frame.to_json())
        if round(frame.time / 0.1) % 600 == 0 and frame.time >= SETTLED * total:
            settled = settled or _memory("VmRSS")
            highest = max(highest, _memory("VmRSS"))
    taken = time.process_time() - began
    highest = max(highest, _memory("VmRSS"))
    growth = (highest - (settled or highest)) * 1e3
    return [
        Row("live, seconds of sound in a CPU second", taken, total, total / taken, 10.0, at_most=False),
        Row(f"live, growth of memory in {minutes:g} minutes, MB", *_plain(growth), GROWTH),
        Row("live, memory at the end, MB", *_plain(_memory("VmRSS") * 1e3)),
        Row("live, JSON of one minute, kB", *_plain(letters / minutes / 1e3)),
    ]


def equality(sound: np.ndarray) -> list[Row]:
    """The largest angle between live and offline sources, in frames whose samples both have seen in full."""
    localizer = Localizer.from_pretrained()
    offline = localizer(sound, RATE, convention="acn-sn3d", listening=Listening(causal=True))
    live = list(localize_live(localizer, _cut(sound), RATE))
    full = [frame for frame in live if block_end(frame.time) <= sound.shape[1] / RATE]
    worst = max(_angle(frame, there) for frame, there in zip(full, offline.sources, strict=False))
    return [Row(f"live against offline, {len(full)} frames, largest angle in degrees", *_plain(worst), 0.01)]


def _angle(frame: LiveFrame, there: tuple[Source, ...]) -> float:
    """Degrees; 180 where tracks differ."""
    if [source.track for source in frame.sources] != [source.track for source in there]:
        return 180.0
    pairs = zip(frame.sources, there, strict=True)
    gaps = [
        np.linalg.norm(
            np.subtract(*unit_vectors(np.array([(a.azimuth, a.elevation), (b.azimuth, b.elevation)])))
        )
        for a, b in pairs
    ]
    return float(np.degrees(max(gaps, default=0.0)))


def _cut(sound: np.ndarray) -> Iterator[np.ndarray]:
    """Pieces of random lengths, as a device may give them."""
    random = np.random.default_rng(SEED)
    at = 0
    while at < sound.shape[1]:
        length = int(random.integers(1, RATE // 5))
        yield sound[:, at : at + length]
        at += length


def _plain(value: float) -> tuple[float, float, float]:
    return value * 1e-3, 1e-3, value
