"""Making recordings of 30 s with two workers against listening to them, and rooms against pyroomacoustics."""

import tempfile
import time
from pathlib import Path

import numpy as np
from pyroomacoustics import Material, MicrophoneArray, ShoeBox
from pyroomacoustics.directivities import DirectionVector, FigureEight, Omnidirectional

from benchmarks import Row, medians, show
from torchmcl.audio.rooms import ROOMS, SPEED_OF_SOUND, impulse_response
from torchmcl.audio.scenes import SceneSettings
from torchmcl.audio.simulate import simulate

__all__ = ["rows"]

RECORDINGS = {"anechoic": 10, "reverberant": 5}
LIMITS = {"anechoic": 100.0, "reverberant": 30.0}


def rows() -> list[Row]:
    """Whole runs, from the first worker's start to the last file on the disk; then one response of a room."""
    return [_run(condition) for condition in RECORDINGS] + [_response()]


def _run(condition: str) -> Row:
    settings = SceneSettings(condition=condition, recordings=RECORDINGS[condition])
    count = len(settings.specs)
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        simulate(Path(folder), settings, workers=2, progress=True)
        ours = (time.perf_counter() - start) / count
    return Row(
        f"{condition} recordings of 30 s, 2 workers, times faster than real time",
        ours,
        settings.duration,
        settings.duration / ours,
        LIMITS[condition],
        at_most=False,
    )


def _response() -> Row:
    room, rate = ROOMS[2], 44100
    source, microphone = np.array([2.0, 1.0, 1.2]), np.array([4.6, 1.7, 1.4])

    def pyroomacoustics() -> None:
        order = int(SPEED_OF_SOUND * room.rt60 / min(room.size)) + 1
        shoebox = ShoeBox(room.size, fs=rate, materials=Material(room.absorption), max_order=order)
        towards = [(90, 90), (0, 0), (0, 90)]
        eights = [FigureEight(DirectionVector(azimuth=a, colatitude=c, degrees=True)) for a, c in towards]
        places = np.tile(microphone[:, None], (1, 4))
        shoebox.add_microphone_array(MicrophoneArray(places, rate, directivity=[Omnidirectional(), *eights]))
        shoebox.add_source(source)
        shoebox.compute_rir()

    calls = {
        "ours": lambda: impulse_response(room, source, microphone, rate),
        "pyroomacoustics": pyroomacoustics,
    }
    seconds = medians(calls, repetitions=5)
    name = f"Ambisonics response of a room (RT60 {room.rt60:g} s), pyroomacoustics over ours"
    ratio = seconds["pyroomacoustics"] / seconds["ours"]
    return Row(name, seconds["ours"], seconds["pyroomacoustics"], ratio)


if __name__ == "__main__":
    show(rows())
