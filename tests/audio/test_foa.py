"""First-order Ambisonics: orientation, conventions, normalization, intensity."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchmcl.audio.foa import (
    CONVENTIONS,
    convention_named,
    conversion_matrix,
    convert,
    detect_normalization,
    directions,
    encode,
    intensity_directions,
    steering,
    unit_vectors,
)
from torchmcl.errors import UserError

convention = st.sampled_from(CONVENTIONS)
angles = st.tuples(st.floats(-180, 180), st.floats(-89, 89)).map(np.radians)
ROOT3 = 3**0.5


def noise(samples: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(samples)


@pytest.mark.parametrize(
    ("azimuth", "elevation", "n3d", "fuma"),
    [
        (0, 0, [1, 0, 0, ROOT3], [0.5**0.5, 1, 0, 0]),
        (90, 0, [1, ROOT3, 0, 0], [0.5**0.5, 0, 1, 0]),
        (-90, 0, [1, -ROOT3, 0, 0], [0.5**0.5, 0, -1, 0]),
        (0, 90, [1, 0, ROOT3, 0], [0.5**0.5, 0, 0, 1]),
        (180, -90, [1, 0, -ROOT3, 0], [0.5**0.5, 0, 0, -1]),
    ],
)
def test_azimuth_grows_to_the_left_and_elevation_upwards(azimuth, elevation, n3d, fuma):
    direction = np.radians([azimuth, elevation])
    np.testing.assert_allclose(steering(direction, "acn-n3d"), n3d, atol=1e-12)
    np.testing.assert_allclose(steering(direction, "acn-sn3d") * [1, ROOT3, ROOT3, ROOT3], n3d, atol=1e-12)
    np.testing.assert_allclose(steering(direction, "fuma"), fuma, atol=1e-12)


@given(angles)
def test_directions_invert_unit_vectors(direction):
    vector = unit_vectors(direction)
    assert np.linalg.norm(vector) == pytest.approx(1)
    np.testing.assert_allclose(unit_vectors(directions(7 * vector)), vector, atol=1e-9)


@given(angles, convention, convention)
def test_converting_is_encoding_in_the_other_convention(direction, source, target):
    signal = noise(5)
    audio = encode(signal, *direction, source)
    before = audio.copy()
    expected = encode(signal, *direction, target)
    np.testing.assert_allclose(convert(audio, source, target), expected, atol=1e-12)
    np.testing.assert_allclose(conversion_matrix(source, target) @ audio, expected, atol=1e-12)
    np.testing.assert_array_equal(audio, before)


def test_encoding_takes_batches_and_keeps_the_precision():
    signals = noise(12).reshape(3, 4).astype(np.float32)
    azimuth, elevation = np.array([0.1, -2.0, 3.0]), np.array([0.0, 0.5, -1.0])
    audio = encode(signals, azimuth, elevation)
    assert audio.shape == (3, 4, 4)
    assert audio.dtype == np.float32
    np.testing.assert_array_equal(audio[1], encode(signals[1], -2.0, 0.5))


@pytest.mark.parametrize("name", CONVENTIONS)
@pytest.mark.parametrize("field", ["plane", "diffuse", "both"])
def test_the_energies_tell_the_normalization(name, field):
    plane = encode(noise(20000), 1.0, -0.4, name)
    diffuse = convert(noise(80000, 1).reshape(4, 20000), "acn-n3d", name)
    audio = {"plane": plane, "diffuse": diffuse, "both": plane + 0.3 * diffuse}[field]
    found = detect_normalization(audio)
    assert found.name == name.removeprefix("acn-")
    assert not found.doubtful
    scaled = (audio / np.abs(audio).max() * 30000).astype(np.int16)
    assert detect_normalization(scaled).name == found.name


@pytest.mark.parametrize(
    "audio",
    [
        np.zeros((4, 10)),
        np.ones((4, 10)) * [[1.0], [1.2], [0.0], [0.0]],
        np.ones((4, 10)) * [[1.0], [9.0], [9.0], [9.0]],
        np.ones((4, 10)) * [[1.0], [0.0], [0.0], [0.0]],
    ],
    ids=["silence", "between sn3d and fuma", "dipoles too loud", "no dipoles"],
)
def test_where_the_energies_do_not_tell_the_answer_is_doubtful(audio):
    assert detect_normalization(audio).doubtful


@given(angles, convention)
def test_the_intensity_of_a_plane_wave_points_to_its_source(direction, name):
    audio = encode(noise(400), *direction, name)
    found, active = intensity_directions(audio, 100, name)
    assert found.shape == (4, 2)
    assert active.all()
    np.testing.assert_allclose(unit_vectors(found), np.tile(unit_vectors(direction), (4, 1)), atol=1e-9)


def test_quiet_frames_are_not_active():
    audio = encode(np.concatenate([noise(100), 1e-3 * noise(100), np.zeros(150)]), 0.3, 0.1)
    _, active = intensity_directions(audio, 100, floor=-30.0)
    np.testing.assert_array_equal(active, [True, False, False])
    _, active = intensity_directions(np.zeros((4, 200)), 100)
    assert not active.any()


def test_an_unknown_convention_is_named():
    assert convention_named("fuma") == "fuma"
    with pytest.raises(UserError, match="convention is 'ambix', it must be one of acn-n3d, acn-sn3d, fuma"):
        convention_named("ambix")
