"""Scenes: settings, composition, and what the intensity vector hears of a rendered one."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from torchmcl.audio.clips import Clip, deal, synthesized_clips
from torchmcl.audio.foa import CONVENTIONS, detect_normalization, intensity_directions, unit_vectors
from torchmcl.audio.rooms import ROOMS
from torchmcl.audio.scenes import Placement, Scene, SceneSettings, compose, render
from torchmcl.errors import UserError

SHORT = SceneSettings(duration=6.0, sample_rate=16000)
CLIPS = deal(synthesized_clips(0), 3, 0, parted=True)[1, "train"]


def drawn(scene_settings: SceneSettings, overlap: int, seed: int, room: int = 0) -> Scene:
    return compose(scene_settings, CLIPS, overlap, room, np.random.default_rng(seed))


def recording(scene: Scene, scene_settings: SceneSettings) -> np.ndarray:
    return render(scene, scene_settings, np.random.default_rng(0)).T


def degrees_apart(directions: np.ndarray, truth: np.ndarray) -> np.ndarray:
    cosine = (unit_vectors(directions) * unit_vectors(truth)).sum(axis=-1)
    return np.degrees(np.arccos(np.clip(cosine, -1, 1)))


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("condition", "dry", "condition is 'dry', it must be one of anechoic, reverberant, mixed"),
        ("layout", "dcase20", "layout is 'dcase20', it must be one of tut, dcase19"),
        ("convention", "ambix", "convention is 'ambix', it must be one of acn-n3d, acn-sn3d, fuma"),
        ("recordings", 1, "recordings is 1, it must be between 2 and 100000"),
        ("duration", 0.5, "duration is 0.5, it must be between 1 and 3600"),
        ("duration", float("nan"), "duration is nan, it must be between 1 and 3600"),
        ("duration", 3600.0, "duration x sample_rate is .* samples, it must be at most 33,554,432"),
        ("sample_rate", 100, "sample_rate is 100, it must be between 8000 and 192000"),
        ("snr", -1.0, "snr is -1, it must be between 0 and 100"),
        ("grid", -10.0, "grid is -10, it must be between 0.1 and 90"),
        ("grid", 1e-9, "grid is 1e-09, it must be between 0.1 and 90"),
        ("seed", -1, "seed is -1, it must be between 0 and 9"),
    ],
)
def test_wrong_settings_are_named(name, value, message):
    with pytest.raises(UserError, match=message):
        replace(SHORT, **{name: value})


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 3), st.integers(0, 1000), st.sampled_from(["anechoic", "reverberant"]))
def test_no_more_than_the_overlap_sound_at_once_and_never_from_one_direction(overlap, seed, condition):
    scene = drawn(replace(SHORT, condition=condition), overlap, seed, room=seed % len(ROOMS))
    for one, other in itertools.combinations(scene.placements, 2):
        if one.start < other.end and other.start < one.end:
            assert degrees_apart(one.direction, other.direction) > 9.99
    frames = np.arange(0, SHORT.duration, 0.02)
    sounding = sum(((p.start < frames + 0.02) & (p.end > frames)).astype(int) for p in scene.placements)
    assert sounding.max() <= overlap
    for placement in scene.placements:
        assert 0 <= placement.start < placement.end <= SHORT.duration
        assert 1 <= placement.distance <= 4
        assert placement.azimuth in range(-180, 180, 10)
        assert placement.elevation in range(-60, 60, 10)


def test_every_overlap_takes_a_good_share_of_the_time():
    long = replace(SHORT, duration=30.0)
    for overlap in (1, 2, 3):
        shares = np.zeros(overlap + 1)
        for seed in range(5):
            times = np.arange(0, 30, 0.01)
            placements = drawn(long, overlap, seed).placements
            sounding = sum(((p.start <= times) & (times < p.end)).astype(int) for p in placements)
            shares += np.bincount(sounding, minlength=overlap + 1) / len(times) / 5
        print(f"ov{overlap}:", shares.round(3))
        assert shares.sum() == pytest.approx(1)
        assert shares[overlap] > 0.2
        assert shares[:overlap].sum() > 0.05


def test_continuous_directions_leave_the_grid_and_cover_the_sphere():
    free = replace(SHORT, grid=0.0, duration=60.0)
    placements = [p for seed in range(4) for p in drawn(free, 3, seed).placements]
    azimuths, elevations = np.array([(p.azimuth, p.elevation) for p in placements]).T
    assert (azimuths % 10 != 0).mean() > 0.9
    assert azimuths.min() < -150
    assert azimuths.max() > 150
    assert -60 <= elevations.min() < -45
    assert 35 < elevations.max() <= 50


def test_each_layout_has_its_own_elevations():
    placements = drawn(replace(SHORT, layout="dcase19", duration=60.0), 2, 0).placements
    assert {p.elevation for p in placements} == set(range(-40, 50, 10))


@pytest.mark.parametrize("name", CONVENTIONS)
def test_the_intensity_vector_agrees_with_the_label_of_a_single_source(name):
    """Median over the active frames below one degree, for several directions at once in one recording."""
    chosen = replace(SHORT, convention=name, grid=0.0)
    scene = drawn(chosen, 1, seed=5)
    audio = recording(scene, chosen)
    assert detect_normalization(audio).name == name.removeprefix("acn-")
    found, active = intensity_directions(audio, 320, name)
    errors = []
    for placement in scene.placements:
        frames = np.arange(np.ceil(placement.start * 50), np.floor(placement.end * 50), dtype=int)
        frames = frames[active[frames]]
        errors.append(degrees_apart(found[frames], placement.direction))
        assert np.median(errors[-1]) < 1
    assert len(errors) >= 3
    assert np.median(np.concatenate(errors)) < 1


@pytest.mark.parametrize("room", range(len(ROOMS)))
def test_in_rooms_the_intensity_vector_agrees_with_the_label_at_the_onsets(room):
    """The direct sound comes before the reflections: the first 10 ms of each event of a recording."""
    chosen = replace(SHORT, condition="reverberant", duration=12.0)
    scene = drawn(chosen, 1, room, room)
    audio = recording(scene, chosen)
    errors = []
    for placement in scene.placements:
        first = round(placement.start * chosen.sample_rate)
        found, _ = intensity_directions(audio[:, first : first + 160], 160)
        errors.append(degrees_apart(found[0], placement.direction))
    assert len(errors) >= 5
    assert np.median(errors) < 15


def test_noise_is_as_far_below_the_sounds_as_it_says():
    """The end of a recording whose only event is over holds nothing but noise."""
    event = Placement(Clip("phone", 1), 0.0, 2.0, 30.0, 0.0, 1.0, 0.0)
    for snr in (10.0, 30.0):
        audio = recording(Scene((event,)), replace(SHORT, snr=snr)).astype(float)
        signal, noise = audio[0, :32000], audio[:, 80000:]
        ratio = np.square(signal).mean() / np.square(noise[0]).mean()
        expected = 10 ** (snr / 10) + 1
        assert 10 * np.log10(ratio / expected) == pytest.approx(0, abs=0.3)
        np.testing.assert_allclose(np.square(noise).mean(axis=1) / np.square(noise[0]).mean(), 1, atol=0.1)


def test_recordings_use_the_range_of_16_bits_without_clipping():
    for overlap in (1, 3):
        audio = recording(drawn(SHORT, overlap, 3), SHORT)
        assert audio.dtype == np.int16
        assert audio.shape == (4, 96000)
        assert np.abs(audio.astype(int)).max() == round(0.9 * 32767)


def test_nearer_and_louder_sounds_are_louder():
    def power(distance: float, level: float) -> float:
        reference = Placement(Clip("phone", 1), 3.0, 5.0, 0.0, 0.0, 1.0, 0.0)
        event = Placement(Clip("phone", 1), 0.0, 2.0, 90.0, 0.0, distance, level)
        audio = recording(Scene((event, reference)), replace(SHORT, snr=100.0)).astype(float)
        return np.square(audio[0, :32000]).mean() / np.square(audio[0, 48000:80000]).mean()

    assert power(2.0, 0.0) == pytest.approx(1 / 4, rel=0.01)
    assert power(1.0, -3.0) == pytest.approx(10**-0.3, rel=0.01)
