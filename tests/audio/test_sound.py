import struct
import tempfile
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
import soundfile
from hypothesis import given
from hypothesis import strategies as st

from torchmcl.audio.datasets import BrokenFile, open_sound
from torchmcl.audio.datasets.sound import cache_folder, read_header
from torchmcl.audio.localizer import detect_convention
from torchmcl.audio.streaming import read_file
from torchmcl.errors import UserError


@pytest.mark.parametrize("name", ["a.wav", "b.flac"])
@pytest.mark.parametrize("subtype", ["PCM_16", "PCM_24"])
def test_samples_are_those_of_libsndfile(tmp_path, write_sound, name, subtype):
    path = write_sound(tmp_path / name, subtype=subtype, seconds=0.1)
    samples = open_sound(path, tmp_path / "cache")
    expected, _ = soundfile.read(path)
    assert samples.dtype == np.int16
    assert not samples.flags.writeable
    np.testing.assert_allclose(samples / 32768, expected, atol=0.5 / 32768)


@pytest.mark.parametrize(
    "change", [lambda data: b"", lambda data: data[:-1], lambda data: data[: len(data) // 2]]
)
def test_a_damaged_cache_is_decoded_again(change, tmp_path, write_sound):
    path = write_sound(tmp_path / "a.flac", seconds=0.1)
    before = open_sound(path, tmp_path / "cache").copy()
    (cached,) = (tmp_path / "cache").iterdir()
    cached.write_bytes(change(cached.read_bytes()))
    np.testing.assert_array_equal(open_sound(path, tmp_path / "cache"), before)


def test_only_what_is_not_16_bit_wav_is_copied(tmp_path, write_sound):
    cache = tmp_path / "cache"
    open_sound(write_sound(tmp_path / "a.wav"), cache)
    assert not cache.exists()
    path = write_sound(tmp_path / "b.wav", subtype="FLOAT")
    np.testing.assert_allclose(
        open_sound(path, cache) / 32768, soundfile.read(path)[0], atol=0.5 / 32768, rtol=0
    )
    open_sound(path, cache)
    assert len(list(cache.iterdir())) == 1


def test_samples_are_found_behind_other_chunks(tmp_path, write_sound):
    path = write_sound(tmp_path / "a.wav", seconds=0.1)
    samples = np.array(open_sound(path))
    content = path.read_bytes()
    at = content.index(b"data")
    path.write_bytes(content[:at] + b"LIST" + struct.pack("<I", 3) + b"abc\0" + content[at:] + b"more")
    np.testing.assert_array_equal(open_sound(path), samples)


@pytest.mark.parametrize(
    ("name", "subtype"), [("a.aiff", "PCM_16"), ("a.aiff", "FLOAT"), ("a.w64", "DOUBLE")]
)
def test_cut_files_of_other_formats_are_named(tmp_path, name, subtype):
    path = tmp_path / name
    soundfile.write(path, np.random.default_rng(0).normal(0, 0.1, (1000, 4)), 16000, subtype)
    whole = path.read_bytes()
    assert read_header(path).frames == 1000
    for size in (len(whole) - 1, len(whole) // 2, len(whole) // 4):
        path.write_bytes(whole[:size])
        with pytest.raises(BrokenFile, match=f"truncated, {size} of {len(whole)} announced bytes"):
            read_header(path)


def test_a_truncated_compressed_file_leaves_nothing_in_the_cache(tmp_path, write_sound):
    path = write_sound(tmp_path / "a.flac", seconds=1)
    path.write_bytes(path.read_bytes()[:100_000])
    with pytest.raises(UserError, match=r"a\.flac: "):
        open_sound(path, tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == []


def test_a_file_that_changed_is_decoded_again(tmp_path, write_sound):
    path, cache = write_sound(tmp_path / "a.flac", seconds=0.1), tmp_path / "cache"
    assert len(open_sound(path, cache)) == 4410
    write_sound(path, seconds=0.2)
    assert len(open_sound(path, cache)) == 8820


def test_decoded_sound_goes_to_the_cache_of_the_user(tmp_path, write_sound, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    open_sound(write_sound(tmp_path / "a.flac", seconds=0.1))
    assert cache_folder() == tmp_path / "cache" / "torchmcl"
    assert len(list(cache_folder().iterdir())) == 1


@given(st.lists(st.tuples(st.integers(0, 59), st.integers(0, 255)), max_size=4), st.integers(0, 200))
def test_a_damaged_header_is_a_broken_file_or_none_at_all(changes, length):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.wav"
        soundfile.write(path, np.zeros((16, 4), np.int16), 16000)
        content = bytearray(path.read_bytes())
        for position, value in changes:
            content[position] = value
        path.write_bytes(content[:length])
        with suppress(BrokenFile):
            assert open_sound(path, folder).size > 0


@pytest.mark.parametrize("name", ["-", "sound.raw", "sound.RAW"])
@pytest.mark.parametrize("read", [read_header, read_file, detect_convention])
def test_names_with_a_meaning_of_their_own_are_refused(read, name, tmp_path, write_sound, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_sound(tmp_path / "a.wav", seconds=0.1).rename(tmp_path / name)
    with pytest.raises(UserError, match=f"{name}: .* rename it"):
        read(Path(name))
