"""Tiny data sets in exactly the format of the real ones."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
import soundfile

HEADER = "sound_event_recording,start_time,end_time,ele,azi,dist"
WriteSound = Callable[..., Path]
WritePair = Callable[..., tuple[Path, Path]]


@pytest.fixture
def write_sound() -> WriteSound:
    """Write seeded noise; by default what the data sets have: four channels of 16-bit samples."""

    def write(
        path: Path, *, seconds: float = 1.0, rate: int = 44100, channels: int = 4, subtype: str = "PCM_16"
    ) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        noise = np.random.default_rng(len(path.stem)).normal(0, 0.1, (round(seconds * rate), channels))
        soundfile.write(path, noise, rate, subtype=subtype)
        return path

    return write


@pytest.fixture
def write_pair(write_sound: WriteSound) -> WritePair:
    """Write a recording and its description."""

    def write(
        audio: Path,
        description: Path,
        rows: Sequence[str] = ("knock001.wav,0.1,0.4,10,-20,1",),
        **sound: object,
    ) -> tuple[Path, Path]:
        description.parent.mkdir(parents=True, exist_ok=True)
        description.write_text("\n".join([HEADER, *rows]) + "\n")
        return write_sound(audio, **sound), description

    return write


@pytest.fixture
def tut(tmp_path: Path, write_pair: WritePair) -> Path:
    """Three overlaps and three splits of one training and one test recording each, 16 kHz, 1.2 s."""
    root = tmp_path / "tut"
    for overlap in (1, 2, 3):
        for split in (1, 2, 3):
            for part in ("train", "test"):
                stem = f"{part}_{split}_desc_30_100"
                write_pair(
                    root / f"wav_ov{overlap}_split{split}_30db" / f"{stem}.wav",
                    root / f"desc_ov{overlap}_split{split}" / f"{stem}.csv",
                    [
                        f"knock00{i + 1}.wav,{0.1 * i},{0.5 + 0.1 * i},{10 * i},{-20 * i},1"
                        for i in range(overlap)
                    ],
                    seconds=1.2,
                    rate=16000,
                )
    return root


@pytest.fixture
def dcase19(tmp_path: Path, write_pair: WritePair) -> Path:
    """Four development splits and an evaluation set, two recordings each, 16 kHz, 1 s."""
    root = tmp_path / "dcase19"
    for split in range(5):
        for overlap in (1, 2):
            which, stem = ("dev" if split else "eval"), f"split{split}_ir0_ov{overlap}_{overlap}"
            write_pair(
                root / f"foa_{which}" / f"{stem}.wav",
                root / f"metadata_{which}" / f"{stem}.csv",
                ["knock,0.0,0.5,0,10,1", "speech,0.3,0.8,-10,20,2"][:overlap],
                rate=16000,
            )
    return root
