import math

import numpy as np
import pytest
import scipy.signal
import torch
from hypothesis import given
from hypothesis import strategies as st

from torchmcl.audio.features import StftFeatures
from torchmcl.audio.foa import encode


def noise(rate: int, *batch: int) -> torch.Tensor:
    values = np.random.default_rng(rate).normal(0, 3000, (*batch, 4, rate // 2))
    return torch.from_numpy(values.astype(np.int16))


def reference(waveform: torch.Tensor, rate: int, nfft: int = 2048) -> np.ndarray:
    """`(*batch, 4, 25, bins)`: SciPy without its first bin and its last frame."""
    _, _, values = scipy.signal.stft(
        waveform.numpy() / 32768,
        fs=rate,
        window="hann",
        nperseg=round(0.04 * rate),
        noverlap=round(0.02 * rate),
        nfft=nfft,
    )
    return values[..., 1:, :-1].swapaxes(-1, -2)


@pytest.mark.parametrize("rate", [44100, 48000, 16000])
def test_features_are_those_of_scipy(rate):
    waveform = noise(rate, 3)
    expected = reference(waveform, rate)
    features = StftFeatures(rate)(waveform).numpy()
    assert features.shape == (3, 8, 25, 1024)
    magnitude, phase = features[:, :4], features[:, 4:]
    scale = np.abs(expected).max()
    np.testing.assert_allclose(magnitude / scale, np.abs(expected) / scale, atol=1e-4)
    np.testing.assert_allclose(magnitude * np.exp(1j * phase) / scale, expected / scale, atol=1e-4)
    loud = np.abs(expected) > 0.01 * scale
    assert loud.mean() > 0.9
    turn = (phase - np.angle(expected) + math.pi) % (2 * math.pi) - math.pi
    np.testing.assert_allclose(turn[loud], 0, atol=1e-4)


@pytest.mark.parametrize("rate", [44100, 48000, 16000])
def test_in_double_precision_phases_agree_everywhere(rate):
    waveform = noise(rate, 1)
    expected = reference(waveform, rate)
    features = StftFeatures(rate).double()(waveform.double() / 32768).numpy()
    np.testing.assert_allclose(features[:, :4], np.abs(expected), atol=1e-8)
    turn = np.exp(1j * (features[:, 4:] - np.angle(expected)))
    np.testing.assert_allclose(turn, 1, atol=1e-4)


@pytest.mark.parametrize(
    ("nfft", "stride", "bins"), [(640, 4, 64), (2048, 2, None), (2048, 8, 100), (640, 1, 7)]
)
def test_a_stride_keeps_every_so_many_bins(nfft, stride, bins):
    waveform = noise(16000, 2)
    expected = reference(waveform, 16000, nfft)[..., stride - 1 :: stride][..., :bins]
    found = StftFeatures(16000, nfft=nfft, stride=stride, bins=bins).spectrum(waveform).numpy()
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, atol=1e-7)


def test_log_magnitude_and_phase_in_units_of_pi():
    waveform = noise(16000, 2)
    plain = StftFeatures(16000)(waveform)
    other = StftFeatures(16000, content="log_magnitude_phase")(waveform)
    torch.testing.assert_close(other[:, :4], (plain[:, :4] + 1e-6).log())
    torch.testing.assert_close(other[:, 4:], plain[:, 4:] / math.pi)
    silence = StftFeatures(16000, content="log_magnitude_phase")(torch.zeros(4, 8000, dtype=torch.int16))
    assert silence.isfinite().all()


@pytest.mark.parametrize("content", ["intensity", "band_intensity"])
def test_intensity_of_a_plane_wave_points_to_its_source_whatever_its_level(content):
    layer = StftFeatures(16000, stride=2, content=content)
    sound = np.random.default_rng(0).standard_normal(8000)
    for azimuth, elevation, level in ((0.3, 0.2, 1000.0), (-2.0, -0.9, 10.0)):
        field = torch.from_numpy(encode(sound.astype(np.float32), azimuth, elevation))
        features = layer((field * level).round().short())
        assert features.shape == (layer.channels, 25, 512)
        y, z, x = features[1:4, 2:-2, 10:].flatten(1).median(-1).values / math.sqrt(3)
        torch.testing.assert_close(torch.atan2(y, x).item(), azimuth, atol=0.02, rtol=0)
        torch.testing.assert_close(torch.asin(z).item(), elevation, atol=0.02, rtol=0)
        assert features[4:, 2:-2, 10:].median().abs() < 0.02
    assert layer(torch.zeros(4, 8000, dtype=torch.int16)).isfinite().all()


@pytest.mark.parametrize(("band", "bins"), [(1, 320), (4, 64), (8, 40)])
def test_bands_average_energies_and_products_before_the_quotient(band, bins):
    waveform = noise(16000, 2)
    w, *dipoles = reference(waveform, 16000, 640)[:, :, :, : band * bins].swapaxes(0, 1)

    def mean(values):
        return values.reshape(*values.shape[:-1], bins, band).mean(-1)

    energy = mean(abs(w) ** 2 + sum(abs(dipole) ** 2 for dipole in dipoles) / 3) / 2
    products = [mean(w.conj() * dipole) / energy for dipole in dipoles]
    expected = [p.real for p in products] + [p.imag for p in products]
    found = StftFeatures(16000, nfft=640, stride=band, bins=bins, content="band_intensity")(waveform).numpy()
    np.testing.assert_allclose(found[:, 1:], np.stack(expected, 1), atol=1e-4)
    np.testing.assert_allclose(found[:, 0], (np.log(energy) / 2 + 9) / 3, atol=1e-4)


def test_unknown_content_is_refused(unchecked):
    with pytest.raises(ValueError, match="content is 'loudness', must be one of magnitude_phase"):
        StftFeatures(content="loudness")


@given(st.integers(1, 20), st.integers(1, 5))
def test_any_batch_shape_gives_the_features_of_its_parts(first, second):
    layer = StftFeatures(16000, nfft=640, stride=4, bins=8)
    waveform = torch.randint(-100, 100, (first, second, 4, 640), dtype=torch.int16)
    features = layer(waveform)
    assert features.shape == (first, second, 8, 2, 8)
    torch.testing.assert_close(features[-1, -1], layer(waveform[-1, -1]))


def test_integers_and_floats_are_the_same_sound_and_stay_as_they_are():
    waveform = noise(16000, 2)
    before = waveform.clone()
    layer = StftFeatures(16000)
    torch.testing.assert_close(layer(waveform), layer(waveform.float() / 32768))
    assert torch.equal(waveform, before)


def test_the_layer_has_nothing_to_save():
    assert StftFeatures(44100).state_dict() == {}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"sample_rate": 22051}, "half a window of 0.04 s is not a whole number of samples at 22051 Hz"),
        ({"sample_rate": 96000}, "nfft is 2048, must be at least the 3840 samples of a window"),
        ({"stride": 3}, "stride is 3, must divide nfft 2048"),
        ({"bins": 2000}, "bins is 2000, must be 1 to 1024"),
        ({"bins": 0}, "bins is 0, must be 1 to 1024"),
    ],
)
def test_settings_that_cannot_be(settings, message):
    with pytest.raises(ValueError, match=message):
        StftFeatures(**settings)


def test_a_waveform_that_is_no_whole_number_of_frames():
    message = r"^waveform has 8001 samples, must have a multiple of 320 \(20 ms at 16000 Hz\)$"
    with pytest.raises(ValueError, match=message):
        StftFeatures(16000)(torch.zeros(4, 8001))
