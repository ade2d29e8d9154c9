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

from torchmcl.audio.candidates import candidates
from torchmcl.audio.foa import CONVENTIONS, encode
from torchmcl.audio.localizer import Listening, Localizer, detect_convention, localize
from torchmcl.audio.predictions import write_predictions
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


def blocks_of(path, convention="acn-n3d"):
    return list(Localizer(Intensity(), RATE).blocks(path, convention=convention))


def answer(path, convention="acn-n3d"):
    """The hypothesis of the window with the greater weight, and the sum of scores."""
    blocks = blocks_of(path, convention)
    points, scores = (np.concatenate([getattr(b, name) for b in blocks]) for name in ("directions", "scores"))
    return points[np.arange(len(points)), scores.argmax(-1)], scores.sum(-1)


@pytest.mark.parametrize("rate", [16000, 44100])
def test_an_array_is_localized_as_a_file_is(rate, tmp_path):
    path = write(tmp_path / "a.wav", 31.3, rate=rate)
    samples, _ = soundfile.read(path, dtype="int16")
    blocks = blocks_of(path)
    for sound in (samples.T, samples.T / np.float32(32768), torch.from_numpy(samples.T.copy())):
        found = Localizer(Intensity(), RATE)(sound, rate)
        np.testing.assert_array_equal(found.directions, np.concatenate([b.directions for b in blocks]))
        np.testing.assert_array_equal(found.scores, np.concatenate([b.scores for b in blocks]))
        np.testing.assert_allclose(found.times, np.arange(len(found.scores)) * 0.02)
        assert len(found.sources) == len(found.counts) == math.ceil(31.3 / 0.1)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("sound", "rate", "message"),
    [
        (np.zeros((3, 800)), 16000, r"sound has shape \(3, 800\), must be \(4, samples\)"),
        (np.zeros((5, 800)), 16000, r"sound has shape \(5, 800\), must be \(4, samples\)"),
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
    assert found.directions.shape == (50, 2, 2)
    assert np.median(found.directions, axis=(0, 1)) == pytest.approx([1.0, 0.5], abs=0.01)


def test_inference_imports_neither_hydra_nor_lightning():
    program = (
        "import sys, numpy; from torchmcl.audio import Localizer;"
        "directions, scores, times = Localizer.from_pretrained()(numpy.zeros((4, 16000), 'float32'), 16000);"
        "assert directions.shape == (*scores.shape, 2) and times.shape == (50,);"
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
@pytest.mark.parametrize("rate", [8000, 16000, 44100, 48000, 22050, 192000])
def test_direction_in_every_convention_and_rate(convention, rate, tmp_path):
    path = write(tmp_path / "a.wav", 1.3, convention=convention, rate=rate)
    points, scores = answer(path, convention)
    assert points.shape == (65, 2)
    assert np.degrees(np.median(points, axis=0)) == pytest.approx([50, 20], abs=0.5)
    assert np.median(scores) > 0.99
    found = detect_convention(path)
    assert (found.name, found.doubtful) == (convention, False)


@pytest.mark.parametrize(
    ("name", "subtype"),
    [
        ("a.flac", "PCM_24"),
        ("a.aiff", "PCM_16"),
        ("a.caf", "PCM_24"),
        ("a.w64", "FLOAT"),
        ("a.wav", "PCM_32"),
    ],
)
def test_formats_hold_the_same_sound(name, subtype, tmp_path):
    reference = answer(write(tmp_path / "reference.wav", 1.1))
    samples, _ = soundfile.read(tmp_path / "reference.wav", dtype="float64")
    soundfile.write(tmp_path / name, samples, RATE, subtype)
    np.testing.assert_array_equal(answer(tmp_path / name)[0], reference[0])


def test_a_higher_order_is_read_by_its_first_four_channels(tmp_path):
    samples, _ = soundfile.read(write(tmp_path / "first.wav", 1.1), dtype="int16")
    noise = np.random.default_rng(1).integers(-9999, 9999, (len(samples), 5), dtype=np.int16)
    soundfile.write(tmp_path / "second.wav", np.concatenate([samples, noise], 1), RATE, "PCM_16")
    np.testing.assert_array_equal(answer(tmp_path / "second.wav")[0], answer(tmp_path / "first.wav")[0])


@pytest.mark.parametrize("rate", [16000, 44100])
@pytest.mark.parametrize("seconds", [0.3, 7.0])
def test_answers_do_not_depend_on_the_blocks(rate, seconds, tmp_path, monkeypatch):
    path = write(tmp_path / "a.wav", 16.3, rate=rate, quiet=2.0)
    points, scores = answer(path)
    monkeypatch.setattr("torchmcl.audio.localizer.BLOCK", seconds)
    assert len(blocks_of(path)) > 2
    blocked, blocked_scores = answer(path)
    np.testing.assert_allclose(blocked_scores, scores, atol=1e-6)
    np.testing.assert_allclose(blocked[105:], points[105:], atol=1e-4)


class Clock(nn.Module):
    """Says a direction that depends on the place of a frame in its window: joints of windows would show it."""

    def forward(self, waveform):
        n = len(waveform)
        azimuth = torch.linspace(-0.3, 0.3, 25).expand(n, 25)
        points = torch.stack([azimuth, torch.zeros(n, 25)], -1)[:, :, None]
        return Hypotheses(points, torch.full((n, 25, 1), 9.0))


def test_nothing_jumps_where_windows_meet(monkeypatch):
    """The mean direction moves by less in a frame than half of what it would jump by at a hard joint."""
    monkeypatch.setattr(
        "torchmcl.audio.localizer.COPIES", ((0.0, 1, 1),)
    )  # the clock does not turn with the sound
    found = Localizer(Clock(), RATE)(np.ones((4, 5 * RATE), np.float32), RATE)
    mean = (found.directions[..., 0] * found.scores).sum(-1) / found.scores.sum(-1)
    np.testing.assert_allclose(found.scores.sum(-1), found.scores.sum(-1)[0], rtol=1e-5)
    assert np.abs(np.diff(mean[25:-25])).max() < 0.1


def test_samples_beyond_full_scale_are_not_clipped(tmp_path):
    samples, _ = soundfile.read(write(tmp_path / "a.wav", 1.1), dtype="float32")
    soundfile.write(tmp_path / "loud.wav", 50 * samples, RATE, "FLOAT")
    np.testing.assert_allclose(answer(tmp_path / "loud.wav")[0], answer(tmp_path / "a.wav")[0], atol=1e-5)


class Listed(nn.Module):
    """Keeps the windows that it is given."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def forward(self, waveform):
        self.seen += list(waveform)
        return Hypotheses(torch.zeros(len(waveform), 25, 1, 2), torch.zeros(len(waveform), 25, 1))


def test_successive_windows_are_turned_differently(tmp_path):
    network = Listed()
    list(Localizer(network, RATE).blocks(write(tmp_path / "a.wav", 1.8, azimuth=50)))
    points = [torch.atan2((w * y).sum(), (w * x).sum()).rad2deg().item() for w, y, _, x in network.seen[:5]]
    assert points == pytest.approx([50, 40, -130, -140, 50], abs=1)


@pytest.mark.parametrize("turns", [1, 4])
def test_turned_copies_agree(turns, tmp_path):
    """For a network that turns with the sound, all copies say the same."""
    path = write(tmp_path / "a.wav", 1.1, azimuth=-170)
    (block,) = Localizer(Intensity(), RATE).blocks(path, listening=Listening(turns=turns))
    assert block.directions.shape[1] == 2 * turns
    expected = np.broadcast_to(np.radians([-170.0, 20.0]), block.directions.shape)
    np.testing.assert_allclose(block.directions, expected, atol=0.01)
    np.testing.assert_allclose(block.scores.sum(-1), 1.0, atol=1e-3)


def test_candidates_are_merged_and_sorted():
    directions = np.radians([[[0.0, 0], [8, 0], [90, 0], [-90, 0]], [[0, 0], [8, 0], [90, 0], [-90, 0]]])
    scores = np.array([[0.5, 0.5, 0.8, 0.1], [0.0, 0.02, 0.01, 0.0]])
    three, none = candidates(directions, scores, stride=1)
    angles = np.degrees(np.arctan2(three.vectors[:, 1], three.vectors[:, 0]))
    assert angles == pytest.approx([4, 90, -90], abs=1e-4)
    assert three.scores == pytest.approx([1.0, 0.8, 0.1])
    assert len(none.scores) == 0


def test_files_say_what_was_heard(tmp_path):
    path = write(tmp_path / "a.wav", 2.0, quiet=1.0)
    written = write_predictions(
        Localizer(Intensity(), RATE).blocks(path), tmp_path / "out", "a", {"model": "x"}
    )
    assert all(each.exists() for each in written)
    read = {each.name: each.read_text() for each in written if each.suffix != ".png"}
    rows = [list(map(int, row)) for row in csv.reader(read["a.csv"].splitlines())]
    assert [row[0] for row in rows] == list(range(10, 20))
    assert all(row[1:3] == [0, 0] and row[3:] == [50, 20] for row in rows)
    fine = [list(map(int, row)) for row in csv.reader(read["a-dcase2019.csv"].splitlines())]
    assert fine == [[frame, 0, 50, 20] for frame in range(50, 100)]
    assert read["a-labels.txt"] == "1.000\t2.000\tsource 0 at azimuth 50, elevation 20\n"
    lines = [json.loads(line) for line in read["a.jsonl"].splitlines()]
    assert [line["timeStamp"] for line in lines] == list(range(0, 2000, 100))
    assert [[s["id"] for s in line["src"]] for line in lines[9:11]] == [[0, 0, 0, 0], [1, 0, 0, 0]]
    ray = [lines[12]["src"][0][axis] for axis in "xyz"]
    assert ray == pytest.approx([0.604, 0.720, 0.342], abs=0.01)
    long = list(csv.DictReader(read["a-hypotheses.csv"].splitlines()))
    assert {row["time"] for row in long} == {f"{frame * 0.02:.2f}" for frame in range(50, 100)}
    assert float(long[-1]["azimuth"]) == pytest.approx(50, abs=1)
    counts = list(csv.DictReader(read["a-counts.csv"].splitlines()))
    assert [row["p1"] for row in counts] == ["0.000"] * 10 + ["1.000"] * 10
    about = json.loads(read["a.json"])
    assert about["model"] == "x"
    assert about["coverage"] is None
    assert about["sources"][0]["time"] == 1.0
    assert about["sources"][0]["azimuth"] == pytest.approx(50, abs=1)
    assert about["sources"][0]["radius"] is None


def test_recordings_that_cannot_be(tmp_path):
    soundfile.write(tmp_path / "mono.wav", np.zeros(16000), RATE)
    with pytest.raises(UserError, match=r"mono.wav: has 1 channels, first-order Ambisonics has 4"):
        answer(tmp_path / "mono.wav")
    with pytest.raises(UserError, match=r"mono.wav: has 1 channels, first-order Ambisonics has 4"):
        detect_convention(tmp_path / "mono.wav")
    soundfile.write(tmp_path / "low.wav", np.zeros((4000, 4)), 4000)
    with pytest.raises(UserError, match=r"low.wav: the sample rate is 4000 Hz, must be 8000 to 768000 Hz"):
        answer(tmp_path / "low.wav")
    samples = np.zeros((800, 4))
    samples[300, 2] = np.nan
    soundfile.write(tmp_path / "nan.wav", samples, RATE, "FLOAT")
    with pytest.raises(UserError, match=r"nan.wav: sample 300 is no number"):
        answer(tmp_path / "nan.wav")
    assert detect_convention(write(tmp_path / "silence.wav", 1.0, quiet=1.0)).doubtful


@pytest.mark.parametrize("ratio", [2.4, 1.45, 5.0, 0.5])
def test_a_doubtful_convention_is_taken_for_ambix(ratio, tmp_path):
    noise = np.random.default_rng(0).standard_normal((4 * RATE, 4)) * 0.1
    noise[:, 1:] *= math.sqrt(ratio / 3)
    soundfile.write(tmp_path / "odd.wav", noise, RATE, "FLOAT")
    found = detect_convention(tmp_path / "odd.wav")
    assert found.doubtful
    assert found.name == "acn-sn3d"
    assert found.ratio == pytest.approx(ratio, rel=0.05)


def test_files_of_a_person_are_not_replaced(tmp_path):
    write(tmp_path / "x.wav", 1.0)
    (tmp_path / "x.csv").write_text("precious")
    with pytest.raises(UserError, match=r"x\.csv: is there and was not written by this program"):
        localize([tmp_path / "x.wav"], tmp_path)
    assert (tmp_path / "x.csv").read_text() == "precious"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x.csv", "x.wav"]
    localize([tmp_path / "x.wav"], tmp_path, overwrite=True)
    assert (tmp_path / "x.csv").read_text() != "precious"
    localize([tmp_path / "x.wav"], tmp_path)


def test_a_boastful_rate_is_refused_before_filters_are_made_for_it(tmp_path):
    path = tmp_path / "boast.wav"
    soundfile.write(path, np.zeros((100, 4)), 16000)
    content = bytearray(path.read_bytes())
    content[24:28] = b"\xff" * 4
    path.write_bytes(content)
    with pytest.raises(UserError, match="4294967295 Hz, must be"):
        detect_convention(path)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"sample_rate": "16000"}, "sample_rate must be a number"),
        ({"sample_rate": 16000.5}, "sample_rate is 16000.5 Hz, must be a whole number"),
        ({"sound": np.full((4, 800), 1e20, np.float32)}, "sound has values beyond 1e[+]15"),
        ({"sound": torch.zeros(4, 800).to_sparse()}, "must be a plain one"),
        ({"listening": "recall"}, "listening must be a Listening, got str"),
    ],
)
def test_wrong_arguments_are_named(arguments, message):
    given = {"sound": np.zeros((4, 800), np.float32), "sample_rate": 16000, **arguments}
    with pytest.raises((TypeError, ValueError), match=message):
        Localizer(Intensity(), RATE)(**given)


def test_whole_rates_and_short_floats_are_taken():
    sound = torch.zeros(4, 800, dtype=torch.bfloat16)
    assert len(Localizer(Intensity(), RATE)(sound, 16000.0).times) == 3


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    "settings", [{"prefer": "x"}, {"prefer": None}, {"turns": "2"}, {"turns": 2.5}, {"causal": "no"}]
)
def test_wrong_ways_of_listening_are_named(settings):
    with pytest.raises((TypeError, ValueError), match=next(iter(settings))):
        Listening(**settings)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("device", ["x", None, 3, "cuda:99"])
def test_a_device_that_is_not_there_is_named(device):
    with pytest.raises((TypeError, ValueError), match="device"):
        Localizer(Intensity(), RATE, device=device)


def test_a_page_of_a_person_is_found_before_the_work(tmp_path):
    path = write(tmp_path / "a.wav", 0.5)
    (tmp_path / "a.html").write_text("mine")
    with pytest.raises(UserError, match=r"a\.html: is there and was not written by this program"):
        localize([path], tmp_path, page=True)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["a.html", "a.wav"]


def test_samples_out_of_all_proportion_are_refused(tmp_path):
    """Their squares are infinite, and nothing would be heard."""
    soundfile.write(tmp_path / "a.wav", np.full((800, 4), 1e25), RATE, "DOUBLE")
    with pytest.raises(UserError, match=r"a\.wav.*beyond 1e[+]15"):
        blocks_of(tmp_path / "a.wav")
