"""Live localization: the answers of the offline one, in time, in bounded memory."""

import io
import json
import subprocess
import sys
import types

import numpy as np
import pytest

from torchmcl.audio.candidates import Candidates
from torchmcl.audio.foa import encode
from torchmcl.audio.live import DELAY, localize_live, print_live, read_device, read_raw
from torchmcl.audio.localizer import Listening, Localizer
from torchmcl.audio.tracks import Tracker
from torchmcl.errors import UserError

RATE = 16000


@pytest.fixture(scope="module")
def localizer() -> Localizer:
    return Localizer.from_pretrained()


def scene(rate: int, seconds: float = 4.0) -> np.ndarray:
    """Two noises one after the other from two directions."""
    noise = np.random.default_rng(0).normal(0, 0.1, round(seconds * rate))
    half = len(noise) // 2
    first, second = noise.copy(), noise.copy()
    first[half:], second[: half - rate // 2] = 0, 0
    return (encode(first, 0.8, 0.3, "acn-sn3d") + encode(second, -1.5, -0.2, "acn-sn3d")).astype(np.float32)


@pytest.mark.parametrize("rate", [16000, 44100])
def test_live_frames_are_those_of_the_causal_localizer(localizer, rate):
    sound = scene(rate)
    offline = localizer(sound, rate, convention="acn-sn3d", listening=Listening(causal=True))
    cuts = np.cumsum(np.random.default_rng(1).integers(1, rate // 5, 200))
    pieces = np.split(sound, cuts[cuts < sound.shape[1]], axis=1)
    live = list(localize_live(localizer, pieces, rate))
    told = [frame.sources for frame in live]
    assert any(told)
    compared = zip(told, offline.sources, strict=False)
    for ours, theirs in compared:
        assert [source.track for source in ours] == [source.track for source in theirs]
        for one, other in zip(ours, theirs, strict=True):
            assert one.azimuth == pytest.approx(other.azimuth, abs=1e-3)
            assert one.elevation == pytest.approx(other.elevation, abs=1e-3)
    counts = np.stack([frame.counts for frame in live])
    np.testing.assert_allclose(counts[: len(offline.counts)], offline.counts[: len(counts)], atol=1e-3)


def test_a_frame_is_told_within_the_stated_delay(localizer):
    rate = 48000
    heard = 0.0

    def pieces():
        nonlocal heard
        for start in range(0, 3 * rate, 480):
            heard = (start + 480) / rate
            yield (
                scene(rate, 3.0)[:, start : start + 480]
                if start % 4800 == 0
                else np.zeros((4, 480), np.float32)
            )

    for frame in localize_live(localizer, pieces(), rate):
        assert heard - (frame.time + 0.1) <= DELAY + 0.05


def test_raw_samples_are_read_as_they_come_and_checked():
    samples = np.arange(40, dtype="<f4").reshape(10, 4)
    [piece] = read_raw(io.BytesIO(samples.tobytes()))
    np.testing.assert_array_equal(piece, samples.T)
    for value in (np.nan, np.inf, -3e38):
        with pytest.raises(UserError, match="no number or beyond"):
            list(read_raw(io.BytesIO(np.full(8, value, "<f4").tobytes())))


@pytest.mark.parametrize(
    ("piece", "changes", "message"),
    [
        (np.zeros((3, 9)), {}, r"sound has shape \(3, 9\), must be \(4, samples\)"),
        (np.full((4, 9), np.nan), {}, "sound has values that are not finite"),
        (np.full((4, 9), 3e38), {}, "sound has values beyond"),
        (np.zeros((4, 9), np.int32), {}, "sound is int32, must be floating-point or int16"),
        (np.zeros((4, 9)), {"sample_rate": 0}, "sample_rate is 0 Hz"),
    ],
)
def test_wrong_live_sound_is_named(piece, changes, message, localizer):
    with pytest.raises((TypeError, ValueError), match=message):
        list(localize_live(localizer, [piece], **{"sample_rate": RATE, **changes}))


def test_pieces_of_16_bits_are_those_of_their_floats(localizer):
    sound = scene(RATE, 1.0)
    whole = (sound * 32768).astype(np.int16)
    one, other = (
        np.stack([frame.counts for frame in localize_live(localizer, [np.zeros((4, 0)), piece], RATE)])
        for piece in (whole, whole / np.float32(32768))
    )
    np.testing.assert_array_equal(one, other)


def test_the_command_prints_a_line_for_each_frame():
    sound = np.ascontiguousarray(scene(16000, 2.0).T).astype("<f4").tobytes()
    words = [sys.executable, "-m", "torchmcl", "localize", "--live", "--rate", "16000"]
    ended = subprocess.run(words, input=sound, capture_output=True, check=True)
    lines = [json.loads(line) for line in ended.stdout.splitlines()]
    assert [line["time"] for line in lines[:3]] == [0.0, 0.1, 0.2]
    assert any(line["sources"] for line in lines)


def test_a_closed_input_is_one_sentence(monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(UserError, match="--live reads sound from the standard input, which is closed"):
        print_live("nowhere", 48000, "acn-n3d", Listening())


def test_a_live_tracker_tells_the_same_and_keeps_nothing():
    rng = np.random.default_rng(0)
    with_past, without = Tracker(), Tracker(remember=False)
    for _ in range(300):
        vectors = rng.normal(size=(2, 3)) * 0.1 + np.array([[1.0, 0, 0], [0, 1.0, 0]])
        found = Candidates(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), rng.uniform(0.1, 1, 2))
        ours, theirs = without.step(found), with_past.step(found)
        assert [told.track for told in ours] == [told.track for told in theirs]
        assert all(np.array_equal(a.vector, b.vector) for a, b in zip(ours, theirs, strict=True))
    assert not without.ended
    assert all(len(track.path) == 1 for track in without.live)


class Device:
    """As much of `sounddevice.InputStream` as is used, after its documentation."""

    def __init__(self, *, samplerate: int, blocksize: int, device: object, channels: int, dtype: str) -> None:
        if device == "nothing":
            raise ValueError("No input device matching 'nothing'")
        assert (samplerate, channels, dtype) == (48000, 4, "float32")
        self.blocks = iter([(np.full((blocksize, 4), 0.5, np.float32), False)] * 2)

    def __enter__(self) -> "Device":
        return self

    def __exit__(self, *error: object) -> None: ...

    def read(self, frames: int) -> tuple[np.ndarray, bool]:
        return next(self.blocks)


def test_a_device_is_read_20_ms_at_a_time(monkeypatch):
    module = types.SimpleNamespace(InputStream=Device, PortAudioError=OSError)
    monkeypatch.setitem(sys.modules, "sounddevice", module)
    pieces = read_device("3", 48000)
    assert next(pieces).shape == (4, 960)
    with pytest.raises(UserError, match="--device nothing: No input device"):
        next(read_device("nothing", 48000))


def test_without_sounddevice_a_device_is_refused(monkeypatch):
    monkeypatch.setitem(sys.modules, "sounddevice", None)
    with pytest.raises(UserError, match="needs the package sounddevice"):
        next(read_device("0", 48000))
