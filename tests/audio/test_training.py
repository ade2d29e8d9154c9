"""Rooms, voices and mixtures, and a training on them from beginning to end."""

import json
import math
import os
import time
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch

from torchmcl import great_circle
from torchmcl.audio.calibration import (
    Calibration,
    fit_counts,
    fit_regions,
    load_calibration,
    save_calibration,
)
from torchmcl.audio.clips import synthesized_clips
from torchmcl.audio.foa import encode, intensity_directions, steering
from torchmcl.audio.localizer import Localizer
from torchmcl.audio.mixing import MixedBatches, Mixing
from torchmcl.audio.responses import SimulatedRooms, read_folder, read_responses, read_sofa
from torchmcl.audio.reverberation import OpenAir, random_room
from torchmcl.audio.training import LocalizerTraining, train_localizer, train_with_bars
from torchmcl.audio.voices import make_voices
from torchmcl.cli.audio import train_localizer as train_localizer_command
from torchmcl.errors import UserError

RATE = 16000


@pytest.mark.parametrize("seed", range(4))
def test_a_response_begins_with_the_direct_sound_and_decays_as_it_should(seed):
    random = np.random.default_rng(seed)
    room = random_room(random, (0.5, 1.2))
    direction = np.array([random.uniform(-np.pi, np.pi), random.uniform(-0.5, 0.5)])
    response = room.response(direction, 0.8, RATE, random)
    gains = steering(direction) / 0.8
    np.testing.assert_allclose(response[:, 0], gains, atol=0.05 * np.abs(gains).max())
    energy = np.square(response[0].astype(float))[::-1].cumsum()[::-1]
    level = 10 * np.log10(energy / energy[0])
    # Between 20 and 40 dB below, after the early part: the slope gives the reverberation time.
    low, high = (
        np.argmax(level < level[int(0.08 * RATE)] - 5),
        np.argmax(level < level[int(0.08 * RATE)] - 25),
    )
    measured = 60 / 20 * (high - low) / RATE
    assert 0.5 * room.rt60 < measured < 1.6 * room.rt60


def test_the_tail_is_diffuse():
    """Equal energy in all channels of N3D, and no correlation."""
    room = random_room(np.random.default_rng(3), (1.0, 1.2))
    tail = room.response(np.zeros(2), 2.0, RATE, np.random.default_rng(0))[:, int(0.15 * RATE) :].astype(
        float
    )
    covariance = tail @ tail.T
    np.testing.assert_allclose(covariance / covariance[0, 0], np.eye(4), atol=0.25)


def test_open_air_is_a_plane_wave():
    response = OpenAir().response(np.array([1.0, 0.3]), 2.0, RATE, np.random.default_rng(0))
    np.testing.assert_allclose(response[:, 0], steering(np.array([1.0, 0.3])) / 2, rtol=1e-6)
    assert SimulatedRooms(open_air=1.0).draw(np.random.default_rng(0)).rt60 == 0


@pytest.fixture(scope="module")
def voices(tmp_path_factory):
    folder = tmp_path_factory.mktemp("voices")
    return make_voices(
        folder, synthesized_clips(1), rooms=SimulatedRooms(open_air=1.0), count=4, seconds=4.0, seed=3
    )


def test_voices_are_resumed_where_they_stopped(voices, tmp_path):
    class Stop(Exception):
        pass

    def stop(share):
        if share > 0.7:
            raise Stop

    arguments = {"rooms": SimulatedRooms(open_air=1.0), "count": 4, "seconds": 4.0, "seed": 3}
    with pytest.raises(Stop):
        make_voices(tmp_path, synthesized_clips(1), progress=stop, **arguments)
    again = make_voices(tmp_path, synthesized_clips(1), **arguments)
    np.testing.assert_array_equal(again.sound, voices.sound)
    np.testing.assert_array_equal(again.directions, voices.directions)


@pytest.mark.parametrize("rotating", [0.0, 1.0])
def test_mixed_windows_hold_what_their_targets_say(voices, rotating):
    """One voice in the open: the intensity points to the target, also of a voice that moves."""
    mixing = Mixing(counts=(0, 1, 0, 0), noise=(60.0, 60.0), rotating=rotating)
    (batch,) = MixedBatches(voices, mixing, batches=1, batch_size=24, seed=2)
    sound, targets, active = batch
    assert sound.shape == (24, 4, 8000)
    errors = []
    for item in range(24):
        found, loud = intensity_directions(sound[item].numpy(), 320, floor=-15.0)
        both = active[item, :, 0].numpy() & loud
        errors.append(great_circle(torch.tensor(found), targets[item, :, 0].double())[torch.tensor(both)])
    assert torch.cat(errors).rad2deg().quantile(0.8) < 3


def test_batches_depend_on_the_epoch_alone(voices):
    mixing = Mixing()
    batches = MixedBatches(voices, mixing, batches=2, batch_size=3, seed=5)
    first, second = [list(batches) for _ in range(2)]
    assert not torch.equal(first[0][0], second[0][0])
    resumed = MixedBatches(voices, mixing, batches=2, batch_size=3, seed=5)
    resumed.set_epoch(1)
    for one, two in zip(second, resumed, strict=True):
        assert all(torch.equal(x, y) for x, y in zip(one, two, strict=True))
    fixed = MixedBatches(voices, mixing, batches=1, batch_size=3, seed=5, fixed=True)
    assert torch.equal(next(iter(fixed))[0], next(iter(fixed))[0])


def test_simultaneous_voices_are_apart(voices):
    mixing = Mixing(counts=(0, 0, 1, 0), apart=40.0, rotating=0.0)
    (batch,) = MixedBatches(voices, mixing, batches=1, batch_size=40, seed=1)
    _, targets, active = batch
    both = active[..., 0] & active[..., 1]
    angle = great_circle(targets[..., 0, :], targets[..., 1, :])[both].rad2deg()
    assert (angle >= 40).float().mean() > 0.95


def test_close_voices_meet(voices):
    mixing = Mixing(counts=(0, 0, 1, 0), close=1.0, rotating=1.0)
    (batch,) = MixedBatches(voices, mixing, batches=1, batch_size=40, seed=1)
    _, targets, _ = batch
    between = (targets[:, 12, 0, 0] - targets[:, 12, 1, 0]).remainder(2 * math.pi).rad2deg()
    assert torch.minimum(between, 360 - between).max() < 27


def test_regions_cover_what_they_promise():
    random = np.random.default_rng(0)
    scores = random.random(6000)
    errors = random.rayleigh(10 * (1.2 - scores))
    edges, radii = fit_regions(scores[:3000], errors[:3000], coverage=0.9)
    calibration = Calibration(0.9, edges, radii, ((0.0,) * 10,) * 4)
    inside = errors[3000:] <= calibration.radius(scores[3000:])
    assert inside.mean() == pytest.approx(0.9, abs=0.02)
    assert list(radii) == sorted(radii, reverse=True)
    few = fit_regions(scores[:4], errors[:4], coverage=0.9, classes=1)
    assert few[1] == (180.0,), "four errors say nothing about nine tenths"


def test_counts_are_fitted_to_their_likelihood(tmp_path):
    """Evidence that is the true probability is left as it is."""
    random = np.random.default_rng(0)
    probabilities = random.dirichlet(np.ones(4), 8000)
    counts = np.array([random.choice(4, p=p) for p in probabilities])
    rest = np.concatenate([np.tile([1.0, 0, 0, 0], (8000, 1)), np.zeros((8000, 1)), np.ones((8000, 1))], 1)
    evidence = np.concatenate([np.log(probabilities), rest], 1)
    calibration = Calibration(0.9, (0.0,), (9.0,), fit_counts(evidence, counts))
    assert np.abs(calibration.probabilities(evidence) - probabilities).mean() < 0.03
    save_calibration(tmp_path, calibration)
    assert load_calibration(tmp_path) == calibration
    assert load_calibration(tmp_path / "other") is None
    (tmp_path / "calibration.json").write_text('{"coverage": 2}')
    with pytest.raises(UserError, match=r"calibration.json: is not a calibration"):
        load_calibration(tmp_path)


def measured_folder(folder, places, convention="acn-sn3d"):
    folder.mkdir()
    lines = ["file,azimuth,elevation,distance"]
    for index, (azimuth, elevation) in enumerate(places):
        impulse = np.zeros(400)
        impulse[100] = 0.5
        response = encode(impulse, math.radians(azimuth), math.radians(elevation), convention)
        response += 0.002 * np.random.default_rng(index).standard_normal(response.shape)
        soundfile.write(folder / f"{index}.wav", response.T, 48000, "FLOAT")
        lines.append(f"{index}.wav,{azimuth},{elevation},1.5")
    (folder / "directions.csv").write_text("\n".join(lines) + "\n")
    return folder


@pytest.mark.parametrize("convention", ["acn-sn3d", "fuma"])
def test_a_folder_of_responses(convention, tmp_path):
    room = read_folder(measured_folder(tmp_path / "room", [(30, 10), (-90, 0)], convention), convention)
    random = np.random.default_rng(0)
    for _ in range(4):
        place = room.place(RATE, random)
        # The direct sound is first, whatever came before it in the file, and from where the table says.
        assert np.abs(place.response[0]).argmax() < 10
        peak = place.response[:, np.abs(place.response[0]).argmax()]
        gains = steering(place.direction)
        np.testing.assert_allclose(peak / peak[0], gains / gains[0], atol=0.05)
        assert place.distance == pytest.approx(1.5)


PLACES = np.array([[90.0, 0.0, 2.0], [0.0, 30.0, 1.0]])


def sofa_file(path, **changes):
    """A room with two sources."""
    sofar = pytest.importorskip("sofar")
    sofa = sofar.Sofa("GeneralFIR", mandatory=True)
    impulses = np.zeros((2, 4, 64))
    impulses[:, :, 5] = steering(np.radians(PLACES[:, :2]), "acn-sn3d")
    sofa.Data_IR, sofa.Data_SamplingRate, sofa.Data_Delay = impulses, 48000.0, np.zeros((1, 4))
    sofa.SourcePosition, sofa.SourcePosition_Type = PLACES, "spherical"
    sofa.SourcePosition_Units = "degree, degree, metre"
    sofa.ListenerPosition, sofa.ReceiverPosition = np.zeros((1, 3)), np.zeros((4, 3))
    for name, value in changes.items():
        setattr(sofa, name, value)
    sofar.write_sofa(str(path), sofa)
    return path


def test_a_sofa_file(tmp_path):
    room = read_sofa(sofa_file(tmp_path / "room.sofa"))
    np.testing.assert_allclose(np.degrees(room.directions), PLACES[:, :2], atol=1e-6)
    np.testing.assert_allclose(room.distances, [2.0, 1.0])
    np.testing.assert_allclose(
        room.responses[0][:, 5] / room.responses[0][0, 5], steering(np.radians([90.0, 0.0])), atol=1e-6
    )


def test_wrong_responses_are_named(tmp_path):
    with pytest.raises(UserError, match="nowhere: no such file or folder of impulse responses"):
        read_responses([tmp_path / "nowhere"])
    folder = measured_folder(tmp_path / "room", [(0, 0)])
    (folder / "directions.csv").write_text("file,azimuth,elevation\n0.wav,left,0\n")
    with pytest.raises(UserError, match=r"directions.csv: line 2 must have a file in this folder"):
        read_responses([folder])
    (folder / "directions.csv").write_text("file,azimuth,elevation,distance\n0.wav,1,0,1e300\n")
    with pytest.raises(UserError, match=r"has a source at the place of the listener or without a position"):
        read_responses([folder])
    (folder / "directions.csv").write_text("file,azimuth,elevation\n7.wav,1,0\n")
    with pytest.raises(UserError, match=r"7.wav: cannot be read as sound"):
        read_responses([folder])
    (folder / "directions.csv").unlink()
    with pytest.raises(UserError, match=r"directions.csv: no such file; it must have the columns"):
        read_responses([folder])
    (folder / "directions.csv").write_bytes(b"\x80")
    with pytest.raises(UserError, match=r"directions.csv: is not a table of text"):
        read_responses([folder])
    (folder / "directions.csv").write_text("file,azimuth,elevation\npipe,1,0\n")
    os.mkfifo(folder / "pipe")
    with pytest.raises(UserError, match=r"pipe: is no file"):
        read_responses([folder])
    (folder / "directions.csv").write_text("file,azimuth,elevation\n\0,1,0\n")
    with pytest.raises(UserError, match="is no name of a file"):
        read_responses([folder])
    for row in ("0.wav,1,91", "0.wav,1,0,-2", "../0.wav,1,0", f"{tmp_path}/0.wav,1,0"):
        (folder / "directions.csv").write_text(f"file,azimuth,elevation,distance\n{row}\n")
        with pytest.raises(UserError, match=r"directions.csv: line 2 must have a file"):
            read_responses([folder])
    with pytest.raises(UserError, match=r"directions.csv: the name of a SOFA file must end in .sofa"):
        read_responses([folder / "directions.csv"])
    (tmp_path / "bad.sofa").write_text("no")
    with pytest.raises(UserError, match=r"bad.sofa: cannot be read as a SOFA file"):
        read_responses([tmp_path / "bad.sofa"])


def test_a_response_with_a_channel_out_of_proportion_is_refused(tmp_path):
    impulses = np.zeros((2, 4, 64))
    impulses[:, 0, 5], impulses[1, 2, 5] = 1.0, 1e36
    with pytest.raises(
        UserError, match=r"room\.sofa: has an impulse response with a channel out of all proportion"
    ):
        read_sofa(sofa_file(tmp_path / "room.sofa", Data_IR=impulses))


def test_responses_that_unpack_to_more_than_memory_holds_are_refused(tmp_path, monkeypatch):
    netCDF4 = pytest.importorskip("netCDF4")
    path = sofa_file(tmp_path / "room.sofa")
    with netCDF4.Dataset(path, "a") as file:
        file.createDimension("huge", 2**40)
        file.createVariable("Data.Extra", "f8", ("huge",), chunksizes=(2**16,), zlib=True)
    with pytest.raises(UserError, match=r"room\.sofa: announces .* numbers, at most .* are read"):
        read_sofa(path)
    folder = measured_folder(tmp_path / "room", [(0, 0), (90, 0)])
    monkeypatch.setattr("torchmcl.audio.responses.MOST", 2 * 4 * 400 - 1)
    with pytest.raises(UserError, match=r"room: has more than 3,199 samples"):
        read_folder(folder)


@pytest.mark.parametrize("rate", [1.0, 1e12, math.inf, math.nan, -48000.0])
def test_responses_at_impossible_rates_are_refused(rate, tmp_path):
    with pytest.raises(UserError, match=r"room.sofa: (the sample rate|cannot be read)"):
        read_sofa(sofa_file(tmp_path / "room.sofa", Data_SamplingRate=rate))


def test_responses_at_a_prime_rate_are_resampled_at_once(tmp_path):
    room = read_sofa(sofa_file(tmp_path / "room.sofa", Data_SamplingRate=479_909.0))
    before = time.process_time()
    place = room.place(RATE, np.random.default_rng(0))
    assert time.process_time() - before < 0.5
    assert place.response.shape[1] < 64


@pytest.mark.parametrize(
    "text", ["", "[]", '{"sources": 1}', '{"sources": {"1": {}}}', '{"sources": {"1": {"median": "x"}}}']
)
def test_measures_of_another_program_are_refused(text, tmp_path):
    settings = LocalizerTraining()
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "settings.json").write_text(json.dumps(asdict(settings)))
    (tmp_path / "run" / "metrics.json").write_text(text)
    with pytest.raises(UserError, match=r"metrics\.json"):
        train_with_bars(settings, tmp_path / "run")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("voices", 0),
        ("steps", 10**9),
        ("hypotheses", 10**6),
        ("learning_rate", math.nan),
        ("seed", -1),
        ("seed", 2**70),
    ],
)
def test_wrong_settings_are_named(name, value):
    with pytest.raises(UserError, match=f"{name} is .*, must be"):
        LocalizerTraining(**{name: value})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"response_format": "stereo"}, "convention is 'stereo', it must be"),
        ({"start": "nowhere"}, "nowhere: no trained model"),
        ({"sounds": "nowhere"}, "nowhere: there is no such folder of sounds"),
        ({"responses": ("nowhere",)}, "nowhere: no such file or folder of impulse responses"),
        ({"responses": ("high",)}, "places for 3 sources"),
        ({"responses": ("one",)}, "places for 3 sources"),
        ({"sounds": "sounds", "held_out": ("short",)}, "no sound of at least 0.8 s"),
        ({"sounds": "sounds", "held_out": ("silent",)}, "no sound of at least 0.8 s"),
    ],
)
def test_what_a_training_lacks_is_found_before_it_begins(changes, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("torchmcl.audio.voices.TRIES", 50)
    monkeypatch.setattr("torchmcl.audio.room_scenes.TRIES", 50)
    measured_folder(tmp_path / "one", [(0, 0)])
    measured_folder(tmp_path / "high", [(azimuth, 70) for azimuth in range(-180, 180, 60)])
    noise = np.random.default_rng(0).standard_normal((1000, 1)) / 9
    for name, sound in (("short", noise), ("silent", np.zeros((1000, 1)))):
        (tmp_path / "sounds" / name).mkdir(parents=True)
        for number in range(4):
            soundfile.write(tmp_path / "sounds" / name / f"{number}.wav", sound, RATE)
    with pytest.raises(UserError, match=message):
        train_localizer(LocalizerTraining(voices=1, steps=1, scenes=1, **changes), tmp_path / "run")
    assert not list((tmp_path / "run").glob("*"))


def test_measures_are_printed_line_by_line(monkeypatch, capsys):
    monkeypatch.setattr("torchmcl.audio.training.train_with_bars", lambda *_: "| a |\n|---|\n| 1 |")
    train_localizer_command(Path("nowhere"))
    assert capsys.readouterr().out.splitlines() == ["| a |", "|---|", "| 1 |"]


@pytest.mark.parametrize("name", ["sound.npy", "voices.json"])
@pytest.mark.parametrize(
    "content", [b"", b"[]", b'{"done": 99, "identity": 1}', "half", "no numbers", "no header"]
)
def test_voices_that_are_damaged_are_made_again(name, content, voices, tmp_path):
    arguments = {"rooms": SimulatedRooms(open_air=1.0), "count": 1, "seconds": 1.0, "seed": 3}
    wanted = make_voices(tmp_path, synthesized_clips(1), **arguments)
    sound = np.array(wanted.sound)
    path = tmp_path / name
    whole = path.read_bytes()
    damaged = {
        "half": whole[:-1],
        "no numbers": whole[:-2] + b"\xff\xff",
        "no header": whole.replace(b"}", b"(", 1),
    }
    path.write_bytes(damaged.get(content, content))
    found = make_voices(tmp_path, synthesized_clips(1), **arguments)
    np.testing.assert_array_equal(found.sound, sound)


def test_a_localizer_is_trained_on_own_rooms_and_used(tmp_path):
    room = measured_folder(tmp_path / "room", [(a, e) for a in range(-180, 180, 60) for e in (-20, 20)])
    settings = LocalizerTraining(
        responses=(str(room),), voices=2, steps=2, batch_size=2, scenes=1, hypotheses=3, filters=4, units=4
    )
    parts = []
    metrics = train_localizer(settings, tmp_path / "run", lambda part, share: parts.append(part))
    assert list(dict.fromkeys(parts)) == ["voices", "training", "calibration", "evaluation"]
    assert set(metrics["sources"]) == {"1", "2", "3"}
    files = {path.name for path in (tmp_path / "run").iterdir() if path.name[0] != "."}
    names = {"calibration.json", "config.json", "metrics.json", "model.safetensors", "settings.json"}
    assert files == names | {"README.md"}
    assert json.loads((tmp_path / "run" / "metrics.json").read_text()) == json.loads(json.dumps(metrics))
    found = Localizer.from_pretrained(tmp_path / "run")(np.zeros((4, RATE), np.float32), RATE)
    assert found.coverage == 0.9
    np.testing.assert_allclose(found.counts.sum(1), 1)
    assert train_localizer(settings, tmp_path / "run") == json.loads(json.dumps(metrics))
    other = LocalizerTraining(responses=(str(room),), voices=3)
    with pytest.raises(UserError, match="was started with voices 2, not 3; choose another folder"):
        train_localizer(other, tmp_path / "run")
