"""Filters of a source on the sphere: still, moving, and restarted."""

import numpy as np
import pytest

from torchmcl.audio.foa import directions, unit_vectors
from torchmcl.audio.motion import Motion, Path


def walked(azimuths, *, noise=0.0, seed=0):
    """The path of a source at those azimuths in degrees, one a frame."""
    random = np.random.default_rng(seed)
    places = np.radians(
        np.stack([azimuths, np.zeros(len(azimuths))], -1) + random.normal(0, noise, (len(azimuths), 2))
    )
    path = Path(Motion(), unit_vectors(places[0]), 1.0)
    for place in places[1:]:
        path.predict()
        path.update(unit_vectors(place), 1.0)
    return path


def azimuth(vector):
    return np.degrees(directions(vector)[..., 0])


def test_a_source_that_stands_still_has_no_velocity_and_the_calm_filter():
    path = walked(np.full(40, 30.0), noise=5.0)
    assert np.degrees(np.linalg.norm(path.velocity)) < 8
    assert path.weights[0] > 0.5
    assert azimuth(path.position) == pytest.approx(30, abs=3)


@pytest.mark.parametrize("speed", [-60.0, 20.0, 60.0])
def test_the_velocity_of_a_source_that_moves_is_found(speed):
    path = walked(speed * 0.1 * np.arange(25), noise=2.0)
    # At azimuth a, the velocity along the sphere is (-sin a, cos a, 0).
    angle = np.radians(azimuth(path.position))
    along = path.velocity @ np.array([-np.sin(angle), np.cos(angle), 0])
    assert np.degrees(along) == pytest.approx(speed, rel=0.25)
    assert azimuth(path.position) == pytest.approx(speed * 2.4, abs=6)


def test_a_fast_source_is_the_agile_filters():
    assert walked(8.0 * np.arange(20)).weights[1] > 0.9


def test_states_stay_on_the_sphere_and_covariances_positive():
    path = walked(np.r_[6.0 * np.arange(30), np.full(20, 174.0)], noise=4.0)
    for states, covariances in zip(path.states, path.covariances, strict=True):
        np.testing.assert_allclose(np.linalg.norm(states[:, 0], axis=-1), 1, atol=1e-9)
        assert (np.linalg.eigvalsh(covariances) > 0).all()


def test_smoothing_is_nearer_than_filtering():
    truth = 3.0 * np.arange(60)
    path = walked(truth, noise=5.0)
    smoothed = azimuth(path.smoothed(60))
    filtered = np.array([azimuth(states[0, 0]) for states in path.states])
    error = [np.abs((each - truth + 180) % 360 - 180)[5:-5].mean() for each in (smoothed, filtered)]
    assert error[0] < error[1]


def test_a_path_is_restarted_where_it_comes_out():
    path = walked(4.0 * np.arange(15))
    place = unit_vectors(np.radians([90.0, 10.0]))
    path.predict()
    path.restart(place, 0.9)
    np.testing.assert_allclose(path.position, place)
    assert abs(path.velocity @ place) < 1e-9, "velocities are tangents"
    assert np.degrees(np.linalg.norm(path.velocity)) > 10
