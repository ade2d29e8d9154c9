"""Signatures of candidates: spectra of plane waves in a diffuse field."""

import math

import numpy as np
import pytest
import torch

from torchmcl.audio.foa import unit_vectors
from torchmcl.audio.signatures import BANDS, PAIRS, Voice, covariances, signatures

RATE, HOP = 16000, 320


def wave(vector):
    x, y, z = vector
    return np.array([1.0, *(math.sqrt(3.0) * axis for axis in (y, z, x))])


def field(vectors, powers, diffuse):
    """Covariances `(1, bands, 10)` of plane waves and a diffuse field."""
    whole = sum(p[:, None, None] * np.outer(wave(v), wave(v)) for v, p in zip(vectors, powers, strict=True))
    whole = whole + diffuse * np.eye(4)
    return np.stack([whole[:, one, two] for one, two in PAIRS], -1)[None]


def shape(powers):
    return np.log(powers) - np.log(powers).mean()


@pytest.fixture
def two():
    rng = np.random.default_rng(0)
    vectors = unit_vectors(np.radians([(-40.0, 10.0), (35.0, -20.0)]))
    return vectors, np.exp(rng.normal(0, 1, (2, BANDS)))


def test_the_spectra_of_two_waves_are_told_apart(two):
    vectors, powers = two
    found = signatures(field(vectors, powers, 0.2), vectors[None], np.ones((1, 2), bool))
    for own, power in zip(found[0], powers, strict=True):
        assert np.abs(own - shape(power)).max() < 0.2
    assert np.abs(found[0, 0] - shape(powers[1])).max() > 1


def test_the_gain_does_not_matter(two):
    vectors, powers = two
    spectra = field(vectors, powers, 0.2)
    present = np.ones((1, 2), bool)
    for gain in (1e-6, 1e-3, 10.0):
        np.testing.assert_allclose(
            signatures(spectra * gain**2, vectors[None], present),
            signatures(spectra, vectors[None], present),
            atol=1e-5,
        )


def test_absent_candidates_do_not_matter(two):
    vectors, powers = two
    spectra = field(vectors, powers, 0.2)
    more = np.concatenate([vectors, np.zeros((2, 3))])[None]
    found = signatures(spectra, more, np.array([[True, True, False, False]]))
    np.testing.assert_allclose(
        found[:, :2], signatures(spectra, vectors[None], np.ones((1, 2), bool)), atol=1e-5
    )


def test_silence_has_a_signature(two):
    vectors, _ = two
    found = signatures(np.zeros((1, BANDS, 10)), vectors[None], np.ones((1, 2), bool))
    assert np.abs(found).max() < 1e-6


def test_a_tone_lies_in_its_band_with_the_covariance_of_its_wave():
    vector = unit_vectors(np.radians([50.0, 20.0]))
    tone = np.sin(2 * math.pi * 1000 * np.arange(14 * HOP) / RATE)
    sound = torch.from_numpy(wave(vector)[:, None] * tone).float()
    found = covariances(sound[None], RATE, HOP)[0].numpy()
    assert found.shape == (13, BANDS, 10)
    energy = found[..., 0]
    loudest = int(energy[0].argmax())
    assert (energy.argmax(1) == loudest).all()
    assert energy[:, loudest].min() > 0.9 * energy.sum(1).max()
    expected = [wave(vector)[one] * wave(vector)[two] for one, two in PAIRS]
    np.testing.assert_allclose(found[0, loudest] / energy[0, loudest], expected, atol=1e-4)


@pytest.mark.parametrize("gain", [1e-30, 1e38])
def test_levels_of_any_float_file_have_the_same_signature(two, gain):
    vectors, _ = two
    noise = torch.from_numpy(np.random.default_rng(2).uniform(-1, 1, (1, 4, 11 * HOP))).float()
    quiet, loud = (covariances(noise * factor, RATE, HOP)[0].numpy() for factor in (1.0, gain))
    assert np.isfinite(loud).all()
    every = np.repeat(vectors[None], len(quiet), 0), np.ones((len(quiet), 2), bool)
    np.testing.assert_allclose(signatures(loud, *every), signatures(quiet, *every), atol=1e-4)


def test_a_voice_is_the_mean_of_what_was_heard():
    rng = np.random.default_rng(1)
    heard, weights = rng.normal(size=(12, BANDS)), rng.uniform(0.1, 1, 12)
    voice, other = Voice(), Voice()
    assert math.isnan(voice.distance(other))
    for signature, weight in zip(heard, weights, strict=True):
        voice.hear(signature, weight)
    other.hear(heard[0], 1.0)
    mean = np.average(heard, axis=0, weights=weights)
    np.testing.assert_allclose(voice.mean, mean)
    assert voice.distance(other) == pytest.approx(np.square(mean - heard[0]).mean())
    assert voice.frames == 12
