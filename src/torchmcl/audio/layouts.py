"""Where recordings and descriptions lie in TUT Sound Events 2018 and in TAU Spatial Sound Events 2019."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from torchmcl.audio.clips import Clip
from torchmcl.audio.rooms import ROOMS
from torchmcl.audio.scenes import Scene, SceneSettings, overlap_shares

__all__ = ["LAYOUTS", "Layout", "Take", "describe", "overlap_table", "settings_for", "takes"]

HEADER = "sound_event_recording,start_time,end_time,ele,azi,dist"


@dataclass(frozen=True)
class Take:
    """One recording to make: its two files, the pool of its clips, and what its random numbers depend on."""

    audio: Path
    description: Path
    pool: tuple[int, str]
    overlap: int
    index: int
    room: int

    def complete(self, out: Path) -> bool:
        """Whether both files are there; the description is written last."""
        return (out / self.description).is_file() and (out / self.audio).is_file()


def _tut(settings: SceneSettings) -> Iterator[Take]:
    test = max(1, settings.recordings // 5)
    for split in (1, 2, 3):
        for overlap in (1, 2, 3):
            audio = Path(f"wav_ov{overlap}_split{split}_{settings.snr:.0f}db")
            description = Path(f"desc_ov{overlap}_split{split}")
            for part, count in (("train", settings.recordings - test), ("test", test)):
                for index in range(count):
                    name = f"{part}_{index}_desc_{settings.snr:.0f}_100"
                    yield Take(
                        audio / f"{name}.wav",
                        description / f"{name}.csv",
                        (split, part),
                        overlap,
                        index,
                        index % len(ROOMS),
                    )


def _dcase19(settings: SceneSettings) -> Iterator[Take]:
    for split in (1, 2, 3, 4, 5):
        which = "eval" if split == 5 else "dev"
        for overlap in (1, 2):
            for index in range(settings.recordings):
                room = index % len(ROOMS) if settings.condition != "anechoic" else 0
                number = 2 * index + overlap
                name = f"split0_{number}" if split == 5 else f"split{split}_ir{room}_ov{overlap}_{number}"
                yield Take(
                    Path(f"foa_{which}") / f"{name}.wav",
                    Path(f"metadata_{which}") / f"{name}.csv",
                    (split, "train"),
                    overlap,
                    index,
                    room,
                )


@dataclass(frozen=True)
class Layout:
    """How a data set is laid out: its takes, the splits of its clips, and what its recordings are like."""

    takes: Callable[[SceneSettings], Iterator[Take]]
    splits: int
    parted: bool
    duration: float
    sample_rate: int
    event_name: Callable[[Clip], str]


LAYOUTS = {
    "tut": Layout(_tut, 3, True, 30.0, 44100, lambda clip: clip.name),
    "dcase19": Layout(_dcase19, 5, False, 60.0, 48000, lambda clip: clip.label),
}


def settings_for(
    layout: str, duration: float | None = None, sample_rate: int | None = None, **values: Any
) -> SceneSettings:
    """Settings in which what is None is as in the recordings of that layout.

    >>> settings_for("dcase19", seed=3).sample_rate
    48000
    """
    usual = LAYOUTS.get(layout, LAYOUTS["tut"])
    return SceneSettings(
        layout=layout,
        duration=usual.duration if duration is None else duration,
        sample_rate=usual.sample_rate if sample_rate is None else sample_rate,
        **values,
    )


def takes(settings: SceneSettings) -> list[Take]:
    """Everything that belongs into a folder with these settings, in order."""
    return list(LAYOUTS[settings.layout].takes(settings))


def describe(scene: Scene, layout: str) -> str:
    """The events of a scene as CSV, elevation before azimuth."""
    name = LAYOUTS[layout].event_name
    rows = [
        f"{name(p.clip)},{p.start:.3f},{p.end:.3f},{p.elevation:g},{p.azimuth:g},{p.distance:g}"
        for p in scene.placements
    ]
    return "\n".join([HEADER, *rows]) + "\n"


def overlap_table(out: str | Path, settings: SceneSettings) -> dict[int, Float[np.ndarray, "counts"]]:
    """For each overlap N, the shares of the time in which 0 to N events sound, from the descriptions."""
    shares: dict[int, list[np.ndarray]] = {}
    for take in takes(settings):
        _, *rows = (Path(out) / take.description).read_text(encoding="utf-8").splitlines()
        intervals = [(float(row.split(",")[1]), float(row.split(",")[2])) for row in rows]
        found = overlap_shares(intervals, settings.duration)
        shares.setdefault(take.overlap, []).append(np.pad(found, (0, take.overlap + 1 - len(found))))
    return {overlap: np.mean(found, axis=0) for overlap, found in shares.items()}
