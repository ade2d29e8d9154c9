"""Sounds for scenes: synthesised ones, files, trimming, dealing to splits."""

import os
from collections import Counter

import numpy as np
import pytest
import soundfile
from hypothesis import given
from hypothesis import strategies as st

from torchmcl.audio.clips import Clip, deal, folder_clips, load, load_whole, synthesized_clips, trim
from torchmcl.audio.synthesis import SOUNDS
from torchmcl.errors import UserError

RATE = 16000


def tone(seconds: float, rate: int = RATE, frequency: float = 440.0) -> np.ndarray:
    return np.cos(2 * np.pi * frequency * np.arange(round(seconds * rate)) / rate)


@pytest.mark.parametrize("label", SOUNDS)
def test_synthesised_sounds_are_audible_throughout_and_differ(label):
    one, other = (load(Clip(label, number), RATE) for number in (0, 1))
    for signal in (one, other):
        assert 0.1 < len(signal) / RATE <= 5
        assert np.isfinite(signal).all()
        frames = np.square(signal[: len(signal) // 160 * 160]).reshape(-1, 160).mean(axis=1)
        assert frames[[0, 1]].max() > 1e-4 * frames.max()
        assert frames[[-1, -2]].max() > 1e-5 * frames.max()
    assert one.shape != other.shape or np.abs(one - other).max() > 0.1
    np.testing.assert_array_equal(one, load.__wrapped__(Clip(label, 0), RATE))
    assert not np.array_equal(one, load(Clip(label, 0, seed=1), RATE))


def test_synthesised_sounds_can_be_told_apart_by_their_spectra_and_rhythms():
    """A nearest-neighbour guess by a few coarse features is far better than one in eleven."""

    def features(clip: Clip) -> np.ndarray:
        signal = load(clip, RATE).astype(float)
        spectrum = np.abs(np.fft.rfft(signal)) ** 2
        bands = np.array(
            [part.sum() for part in np.array_split(spectrum, 2 ** np.arange(5, 13) * len(spectrum) // 8000)]
        )
        frames = np.square(signal[: len(signal) // 320 * 320]).reshape(-1, 320).mean(axis=1)
        rhythm = [np.log(len(frames)), np.log(frames.mean() / np.median(frames + 1e-6))]
        return np.r_[np.log(bands / bands.sum() + 1e-6), rhythm]

    known = {label: np.stack([features(Clip(label, number)) for number in range(6)]) for label in SOUNDS}
    spread = np.concatenate(list(known.values())).std(axis=0)
    right = 0
    for label in SOUNDS:
        for number in (10, 11, 12):
            mine = features(Clip(label, number))
            distance = {
                name: np.abs((table - mine) / spread).sum(axis=1).min() for name, table in known.items()
            }
            right += min(distance, key=distance.get) == label
    assert right / (3 * len(SOUNDS)) > 0.6


def test_clips_are_loaded_at_level_one_and_read_only():
    for rate in (8000, 48000):
        signal = load(Clip("speech", 3), rate)
        assert 0.5 < np.sqrt(np.square(signal).mean()) < 1.5
    with pytest.raises(ValueError, match="read-only"):
        signal[0] = 0


def test_silence_is_trimmed_and_long_pauses_cut():
    quiet = np.zeros(RATE)
    np.testing.assert_array_equal(trim(np.r_[quiet, tone(0.5), quiet], RATE), tone(0.5))
    short_pause = np.r_[tone(0.3), np.zeros(RATE // 4), tone(0.3)]
    np.testing.assert_array_equal(trim(np.r_[quiet, short_pause, quiet], RATE), short_pause)
    assert len(trim(np.r_[tone(0.3), quiet, tone(0.5), quiet, 0.1 * tone(1)], RATE)) == RATE // 2
    assert len(trim(tone(9), RATE)) == 5 * RATE
    assert len(trim(quiet, RATE)) == 0
    assert len(trim(quiet[:0], RATE)) == 0


@pytest.fixture
def sounds(tmp_path):
    """Three classes of eight files: formats, rates and channels of all sorts."""
    rng = np.random.default_rng(0)
    for label in ("bell", "dog", "rain"):
        (tmp_path / label).mkdir()
        for number in range(8):
            rate = (8000, 16000, 44100, 48000)[number % 4]
            suffix = ("wav", "flac", "ogg")[number % 3]
            signal = 0.1 * rng.standard_normal(rate // 4)
            stereo = np.stack([signal, signal], axis=1) if number % 2 else signal
            soundfile.write(tmp_path / label / f"some-{number}.{suffix}", stereo, rate)
    (tmp_path / "README.txt").write_text("not a class")
    (tmp_path / "dog" / "notes.txt").write_text("not a sound")
    (tmp_path / "dog" / ".hidden.wav").write_text("not a sound")
    return tmp_path


def test_a_folder_has_a_class_for_each_subfolder(sounds):
    clips = folder_clips(sounds)
    assert Counter(clip.label for clip in clips) == {"bell": 8, "dog": 8, "rain": 8}
    assert [clip.name for clip in clips[:2]] == ["bell000.wav", "bell001.wav"]
    for clip in clips[:8]:
        assert len(load(clip, RATE)) == pytest.approx(RATE / 4, abs=RATE // 50)


def test_channels_are_averaged_and_the_rate_converted(tmp_path):
    left, right = tone(0.5, 44100), np.zeros(22050)
    (tmp_path / "tone").mkdir()
    soundfile.write(tmp_path / "tone" / "a.wav", np.stack([left, right], axis=1), 44100, "FLOAT")
    [clip] = folder_clips(tmp_path)
    signal = load(clip, RATE)
    middle = slice(RATE // 10, RATE // 5)
    np.testing.assert_allclose(signal[middle], 2**0.5 * tone(0.5)[middle], atol=0.05)


@given(st.lists(st.integers(6, 40), min_size=1, max_size=4), st.integers(0, 5), st.booleans())
def test_no_clip_is_in_two_pools_and_each_pool_has_every_class(counts, seed, parted):
    clips = [Clip(f"class{label}", number) for label, count in enumerate(counts) for number in range(count)]
    pools = deal(clips, 3, seed, parted)
    assert len(pools) == (6 if parted else 3)
    assert Counter(clip for pool in pools.values() for clip in pool) == Counter(clips)
    for pool in pools.values():
        assert {clip.label for clip in pool} == {clip.label for clip in clips}


def test_a_fifth_of_the_clips_is_for_testing():
    pools = deal(synthesized_clips(0), 3, 0, parted=True)
    for split in (1, 2, 3):
        train, test = len(pools[split, "train"]), len(pools[split, "test"])
        assert train == 4 * test == 16 * len(SOUNDS)


def test_broken_folders_are_named(tmp_path):
    with pytest.raises(UserError, match="nowhere: there is no such folder of sounds"):
        folder_clips(tmp_path / "nowhere")
    with pytest.raises(UserError, match="has no sounds, it must have one subfolder a class"):
        folder_clips(tmp_path)
    broken = tmp_path / "dog" / "a.wav"
    broken.parent.mkdir()
    broken.write_bytes(b"RIFF but not really")
    with pytest.raises(UserError, match=r"dog/a\.wav: cannot be read as sound"):
        folder_clips(tmp_path)
    soundfile.write(broken, np.zeros(0), RATE)
    with pytest.raises(UserError, match=r"dog/a\.wav: has no samples"):
        folder_clips(tmp_path)
    soundfile.write(broken, np.zeros(RATE), RATE)
    [clip] = folder_clips(tmp_path)
    with pytest.raises(UserError, match=r"dog/a\.wav: is silent"):
        load(clip, RATE)
    with pytest.raises(UserError, match="too few sounds: none is left for split 1 test, split 2 train"):
        deal([clip], 3, 0, parted=True)
    soundfile.write(broken, np.array([0.0, np.nan] * 1000), RATE, "FLOAT")
    load_whole.cache_clear()
    with pytest.raises(UserError, match=r"dog/a\.wav: has samples that are not finite numbers"):
        load(clip, RATE)
    for loudness in (1e16, 1e200):
        soundfile.write(broken, np.array([0.0, loudness] * 1000), RATE, "DOUBLE")
        load_whole.cache_clear()
        with pytest.raises(UserError, match=r"dog/a\.wav: has samples beyond 1e\+15"):
            load(clip, RATE)
    for rate in (1, 2**31 - 1):
        soundfile.write(broken, np.ones(100), rate)
        with pytest.raises(UserError, match=r"dog/a\.wav: the sample rate is"):
            folder_clips(tmp_path)
    broken.unlink()
    os.mkfifo(broken)
    with pytest.raises(UserError, match=r"dog/a\.wav: is no file"):
        folder_clips(tmp_path)
    broken.parent.rename(tmp_path / "dog, big")
    with pytest.raises(UserError, match="dog, big: the name of a class must have no comma"):
        folder_clips(tmp_path)
