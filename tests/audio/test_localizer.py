"""Localizing recordings of any length, rate and convention."""

import csv
import json
import math
import subprocess
import sys

import numpy as np
import pytest
import soundfile
import torch
from torch import nn

from torchmcl.audio.foa import CONVENTIONS, encode
from torchmcl.audio.localizer import Localizer, detect_convention, localize
from torchmcl.audio.predictions import sources, write_predictions
from torchmcl.errors import UserError
from torchmcl.hypotheses import Hypotheses

RATE = 16000


class Intensity(nn.Module):
    """Stands in for a network: the direction of the acoustic intensity in each 20 ms, and silence as absence."""

    def forward(self, waveform):
        w, y, z, x = waveform.unflatten(-1, (25, -1)).unbind(1)
        vector = torch.stack([(w * c).sum(-1) for c in (x, y, z)], -1)
        energy = w.square().mean(-1)
        elevation = torch.atan2(vector[..., 2], vector[..., :2].norm(dim=-1))
        points = torch.stack([torch.atan2(vector[..., 1], vector[..., 0]), elevation], -1)[..., None, :]
        return Hypotheses(points, torch.where(energy > 1e-6, 9.0, -9.0)[..., None])


def write(path, seconds, azimuth=50.0, elevation=20.0, convention="acn-n3d", rate=RATE, quiet=0.0):
    noise = 0.1 * np.random.default_rng(0).standard_normal(round(seconds * rate)).astype(np.float32)
    noise[: round(quiet * rate)] = 0
    sound = encode(noise, math.radians(azimuth), math.radians(elevation), convention)
    soundfile.write(path, sound.T, rate, "PCM_16")
    return path


def answer(path, convention="acn-n3d"):
    blocks = list(Localizer(Intensity(), RATE).blocks(path, convention=convention))
    return np.concatenate([b.directions for b in blocks]), np.concatenate([b.scores for b in blocks])


@pytest.mark.parametrize("rate", [16000, 44100])
def test_an_array_is_localized_as_a_file_is(rate, tmp_path):
    path = write(tmp_path / "a.wav", 31.3, rate=rate)
    samples, _ = soundfile.read(path, dtype="int16")
    points, scores = answer(path)
    for sound in (samples.T, samples.T / np.float32(32768), torch.from_numpy(samples.T.copy())):
        found = Localizer(Intensity(), RATE)(sound, rate)
        np.testing.assert_array_equal(found.directions, points)
        np.testing.assert_array_equal(found.scores, scores)
        np.testing.assert_allclose(found.times, np.arange(len(points)) * 0.02)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("sound", "rate", "message"),
    [
        (np.zeros((3, 800)), 16000, r"sound has shape \(3, 800\), must be \(4, samples\)"),
        (np.zeros((4, 0)), 16000, r"sound has shape \(4, 0\)"),
        (np.zeros((4, 8), np.int64), 16000, "sound is int64, must be floating-point or int16"),
        (np.full((4, 8), np.nan), 16000, "sound has values that are not finite"),
        ([[0.0]] * 4, 16000, "sound is list, must be an array or a tensor"),
        (np.zeros((4, 8)), 2**32 - 1, "sample_rate is 4294967295 Hz, must be 8000 to 768000 Hz"),
        (np.zeros((4, 8)), 1, "sample_rate is 1 Hz"),
    ],
)
def test_wrong_sound_is_named(sound, rate, message):
    with pytest.raises((TypeError, ValueError), match=message):
        Localizer(Intensity(), RATE)(sound, rate)


def test_a_prime_rate_costs_little():
    """The exact ratio of rates would need a filter of 15 million taps."""
    sound = encode(np.random.default_rng(0).standard_normal(767_957).astype(np.float32), 1.0, 0.5)
    found = Localizer(Intensity(), RATE)(sound, 767_957)
    assert found.directions.shape == (50, 1, 2)
    assert np.median(found.directions, axis=(0, 1)) == pytest.approx([1.0, 0.5], abs=0.01)


def test_inference_imports_neither_hydra_nor_lightning():
    program = (
        "import sys, numpy; from torchmcl.audio import Localizer;"
        "directions, scores, times = Localizer.from_pretrained()(numpy.zeros((4, 16000), 'float32'), 16000);"
        "assert directions.shape == (50, 5, 2) and scores.shape == (50, 5) and times.shape == (50,);"
        "print(*sys.modules)"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded = set(ended.stdout.split())
    assert "torchmcl.audio.localizer" in loaded
    assert not {"hydra", "omegaconf", "lightning", "matplotlib", "soundfile", "sklearn"} & loaded


@pytest.mark.parametrize(("first", "second"), [("a/x.wav", "b/x.wav"), ("a/x.wav", "a/x-hypotheses.wav")])
def test_outputs_of_the_same_name_are_refused_before_anything_is_written(first, second, tmp_path):
    for name in (first, second):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        write(tmp_path / name, 1.0)
    with pytest.raises(UserError, match=r"would both write x(-hypotheses)?\.csv"):
        localize([tmp_path / first, tmp_path / second], tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("convention", CONVENTIONS)
@pytest.mark.parametrize("rate", [16000, 44100, 48000, 22050])
def test_direction_in_every_convention_and_rate(convention, rate, tmp_path):
    path = write(tmp_path / "a.wav", 1.3, convention=convention, rate=rate)
    points, scores = answer(path, convention)
    assert points.shape == (65, 1, 2)
    assert np.degrees(np.median(points, axis=(0, 1))) == pytest.approx([50, 20], abs=0.5)
    assert np.median(scores) > 0.99
    assert detect_convention(path) == (convention, False)


@pytest.mark.parametrize("rate", [16000, 44100])
def test_blocks_meet_without_a_seam(rate, tmp_path):
    """Sound on both sides of the border of two blocks is heard as it is in one piece."""
    long = write(tmp_path / "long.wav", 31.0, rate=rate, quiet=29.5)
    sound, _ = soundfile.read(long, dtype="int16")
    soundfile.write(tmp_path / "short.wav", sound[29 * rate :], rate, "PCM_16")
    points, scores = answer(long)
    alone, alone_scores = answer(tmp_path / "short.wav")
    assert points.shape[0] == 1550
    np.testing.assert_allclose(points[1476:1545], alone[26:95], atol=0.02)
    np.testing.assert_allclose(scores[1450:], alone_scores, atol=0.02)


def test_sources_are_counted_merged_and_sorted():
    directions = np.radians([[[0.0, 0], [8, 0], [90, 0], [-90, 0]], [[0, 0], [8, 0], [90, 0], [-90, 0]]])
    scores = np.array([[0.5, 0.5, 0.8, 0.1], [0.0, 0.1, 0.1, 0.0]])
    two, none = sources(directions, scores)
    assert np.degrees(two[:, 0]) == pytest.approx([4, 90])
    assert two[:, 2] == pytest.approx([1.0, 0.8])
    assert none.shape == (0, 3)


def test_files_say_what_was_heard(tmp_path):
    path = write(tmp_path / "a.wav", 2.0, quiet=1.0)
    blocks = Localizer(Intensity(), RATE).blocks(path)
    written = write_predictions(blocks, tmp_path / "out", "a", 2.0, {"model": "x"})
    assert all(each.exists() for each in written)
    rows = [list(map(int, row)) for row in csv.reader((tmp_path / "out" / "a.csv").read_text().splitlines())]
    assert [row[0] for row in rows] == list(range(10, 20))
    assert all(row[1:3] == [0, 0] and row[3:] == [50, 20] for row in rows)
    long = list(csv.DictReader((tmp_path / "out" / "a-hypotheses.csv").read_text().splitlines()))
    assert len(long) == 100
    assert float(long[-1]["azimuth"]) == pytest.approx(50, abs=1)
    about = json.loads((tmp_path / "out" / "a.json").read_text())
    assert about["model"] == "x"
    assert about["sources"][0]["time"] == 1.0
    assert about["sources"][0]["azimuth"] == pytest.approx(50, abs=1)


def test_recordings_that_cannot_be(tmp_path):
    soundfile.write(tmp_path / "mono.wav", np.zeros(16000), RATE)
    with pytest.raises(UserError, match=r"mono.wav: has 1 channels, first-order Ambisonics has 4"):
        answer(tmp_path / "mono.wav")
    with pytest.raises(UserError, match=r"mono.wav: has 1 channels, first-order Ambisonics has 4"):
        detect_convention(tmp_path / "mono.wav")
    soundfile.write(tmp_path / "low.wav", np.zeros((4000, 4)), 4000)
    with pytest.raises(UserError, match=r"low.wav: the sample rate is 4000 Hz, must be 8000 to 768000 Hz"):
        answer(tmp_path / "low.wav")
    assert detect_convention(write(tmp_path / "silence.wav", 1.0, quiet=1.0))[1]


@pytest.mark.parametrize(("ratio", "expected"), [(2.37, "acn-n3d"), (1.6, "acn-sn3d")])
def test_an_order_of_channels_is_never_assumed_on_a_doubtful_ground(ratio, expected, tmp_path):
    noise = np.random.default_rng(0).standard_normal((RATE, 4)) * 0.1
    noise[:, 1:] *= math.sqrt(ratio / 3)
    soundfile.write(tmp_path / "odd.wav", noise, RATE, "PCM_16")
    assert detect_convention(tmp_path / "odd.wav") == (expected, True)
