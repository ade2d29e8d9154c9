"""Ten thousand damaged files: each is read, or refused with the documented error."""

import random
import time

import numpy as np
import pytest
import soundfile

from foreign import mutate
from torchmcl.audio.datasets import Event, open_sound
from torchmcl.audio.datasets.description import HEADER, read_description
from torchmcl.audio.datasets.sound import read_header
from torchmcl.audio.datasets.tut import label
from torchmcl.errors import UserError

SOUNDS, TEXTS = 5000, 5000


def seeds(folder):
    """Small files of all kinds that the readers know, as bytes."""
    samples = np.random.default_rng(0).integers(-99, 99, (64, 4)).astype(np.int16)
    for name, subtype in (("a.wav", "PCM_16"), ("b.wav", "FLOAT"), ("c.wav", "PCM_24"), ("d.flac", "PCM_16")):
        soundfile.write(folder / name, samples, 16000, subtype)
        yield (folder / name).suffix, (folder / name).read_bytes()


def test_mutated_sounds_are_read_or_refused(tmp_path):
    draw = random.Random(1)
    originals = list(seeds(tmp_path))
    outcomes = {"read": 0, "refused": 0}
    started = time.perf_counter()
    for number in range(SOUNDS):
        suffix, content = originals[number % len(originals)]
        path = tmp_path / f"mutant{suffix}"
        damaged = mutate(content[:64], draw) + content[64:] if draw.random() < 0.7 else mutate(content, draw)
        path.write_bytes(damaged)
        try:
            sound, said = open_sound(path, tmp_path / "cache"), ""
        except UserError as error:
            sound, said = None, str(error)
        if sound is None:
            assert str(path) in said
            assert "\n" not in said
        else:
            assert sound.shape == (read_header(path).frames, read_header(path).channels)
            assert sound.dtype == np.int16
            assert len(sound[:1000].sum(0)) == sound.shape[1]
        outcomes["refused" if sound is None else "read"] += 1
    assert min(outcomes.values()) > SOUNDS // 50, outcomes
    assert time.perf_counter() - started < 60


ROWS = ["knock001.wav,0.1,0.4,10,-20,1", "speech012.wav,0.5,0.9,-30,170,2.5", "phone003.wav,0.25,7,0,0,1"]


def test_mutated_descriptions_are_read_or_refused(tmp_path):
    draw = random.Random(2)
    path = tmp_path / "mutant.csv"
    original = "\n".join([HEADER, *ROWS]).encode() + b"\n"
    head = len(HEADER) + 1
    outcomes = {"read": 0, "refused": 0}
    for _ in range(TEXTS):
        damaged = (
            mutate(original, draw) if draw.random() < 0.3 else original[:head] + mutate(original[head:], draw)
        )
        path.write_bytes(damaged)
        events, problems = read_description(path, label, 1.0, 3)
        for problem in problems:
            assert str(problem).startswith(str(path))
        if problems:
            outcomes["refused"] += 1
            continue
        outcomes["read"] += 1
        for event in events:
            assert isinstance(event, Event)
            assert 0 <= event.start < event.end <= 1.0
            assert abs(event.azimuth) <= np.pi + 1e-9
            assert abs(event.elevation) <= np.pi / 2 + 1e-9
            assert np.isfinite(event.distance)
    assert min(outcomes.values()) > TEXTS // 50, outcomes


@pytest.mark.parametrize(
    "line", ["", ",", ",,,,,", '"', '""', "\r", "\x00", "a,b,c,d,e,f", "a,1,2,3,4,5,6", "٣,٣,٣,٣,٣,٣"]
)
def test_rows_of_almost_nothing(line, tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("\n".join([HEADER, line]))
    events, problems = read_description(path, label, 10.0, None)
    assert len(events) <= 1
    assert len(events) + len(problems) <= 1
