import json
import math
import sys
from collections import Counter

import numpy as np
import pytest
import soundfile
from matplotlib.image import imread

from torchmcl import cli
from torchmcl.audio.datasets import read_dataset, read_recording
from torchmcl.audio.foa import encode
from torchmcl.audio.inspect import inspect, summarize
from torchmcl.audio.targets import overlap_shares
from torchmcl.errors import printable


def call(monkeypatch, *arguments) -> int:
    """Run the command line and give its exit code."""
    monkeypatch.setattr(sys, "argv", ["torchmcl", "inspect", *map(str, arguments)])
    with pytest.raises(SystemExit) as end:
        cli.main()
    return end.value.code or 0


def test_summary_of_a_data_set(tut):
    summary = summarize(read_dataset(tut).recordings)
    assert (summary.recordings, summary.events, summary.sample_rate) == (18, 36, 16000)
    assert summary.seconds == pytest.approx(21.6)
    assert summary.parts == {f"split {n} {part}": 3 for n in (1, 2, 3) for part in ("train", "test")}
    assert summary.seconds_by_class == pytest.approx({"knock": 18.0})
    assert summary.normalization == "n3d"
    assert summary.dipoles_over_w == pytest.approx(3, rel=0.02)


def test_overlap_shares_are_those_of_a_loop(tut):
    recordings = read_dataset(tut).recordings
    for overlap, shares in overlap_shares(recordings).items():
        counts: Counter[int] = Counter()
        for recording in (r for r in recordings if r.overlap == overlap):
            for frame in range(60):
                begin, end = frame * 20, frame * 20 + 20
                counts[sum(e.start * 1000 < end and e.end * 1000 > begin for e in recording.events)] += 1
        assert shares.tolist() == pytest.approx([counts[n] / counts.total() for n in range(4)])


def test_frames_beyond_the_end_of_a_shorter_recording_do_not_count(tut, write_pair):
    before = overlap_shares(read_dataset(tut).recordings)[3]
    write_pair(
        tut / "wav_ov1_split1_30db/test_9.wav", tut / "desc_ov1_split1/test_9.csv", rate=16000, seconds=9.0
    )
    assert overlap_shares(read_dataset(tut).recordings)[3].tolist() == before.tolist()


def test_command_prints_numbers_and_writes_pictures(tut, tmp_path, monkeypatch, capsys):
    assert call(monkeypatch, tut, "--out", tmp_path / "out") == 0
    printed = capsys.readouterr().out
    for expected in ("18 (21.6 s)", "16000 Hz", "36 of 1 classes", "n3d (dipoles over W", "ov3", "knock"):
        assert expected in printed
    written = json.loads((tmp_path / "out/summary.json").read_text())
    assert written["recordings"] == 18
    for name in ("directions.png", "recording.png"):
        picture = imread(tmp_path / "out" / name)
        assert min(picture.shape[:2]) > 400
        assert picture[..., :3].std() > 0.05


def test_command_leaves_broken_files_out_on_request(tut, tmp_path, monkeypatch, capsys):
    sound = tut / "wav_ov1_split1_30db/train_1_desc_30_100.wav"
    sound.write_bytes(sound.read_bytes()[:-1000])
    out = tmp_path / "out"
    assert call(monkeypatch, tut, "--out", out) == 2
    what = f"{sound}: truncated, 19075 of 19200 announced samples are there"
    assert capsys.readouterr().err == f"torchmcl: {what}\n"
    assert not out.exists()
    assert call(monkeypatch, tut, "--out", out, "--skip-broken") == 0
    assert f"left out: {what}\n" in capsys.readouterr().out
    assert json.loads((out / "summary.json").read_text())["recordings"] == 17


def test_command_says_what_is_wrong_in_one_sentence(tmp_path, monkeypatch, capsys):
    assert call(monkeypatch, tmp_path / "nowhere") == 2
    assert capsys.readouterr().err == f"torchmcl: {tmp_path / 'nowhere'}: no such file or folder\n"
    assert call(monkeypatch, tmp_path, "--convention", "b-format") == 2
    assert "b-format" in capsys.readouterr().err
    text = tmp_path / "notes.txt"
    text.write_text("hello")
    assert call(monkeypatch, text) == 2
    assert capsys.readouterr().err == f"torchmcl: {text}: not a sound file (Format not recognised)\n"
    soundfile.write(tmp_path / "slow.wav", np.zeros((10, 4)), 1)
    assert call(monkeypatch, tmp_path / "slow.wav") == 2
    assert "slow.wav: the sample rate is 1 Hz, must be 8000 to 768000 Hz" in capsys.readouterr().err


def test_help_has_an_example(monkeypatch, capsys):
    assert call(monkeypatch, "--help") == 0
    assert "torchmcl inspect scenes --out pictures" in capsys.readouterr().out


def test_a_recording_is_found_in_its_data_set(tut, dcase19, monkeypatch):
    for root in (tut, dcase19):
        for recording in read_dataset(root).recordings:
            assert read_recording(recording.audio) == recording
    recording = read_dataset(tut).recordings[0]
    monkeypatch.chdir(recording.audio.parent)
    assert read_recording(recording.audio.name) == recording


def test_a_recording_with_a_description_beside_it(tmp_path, write_pair):
    rows = ["a001.wav,0.1,0.9,0,10,1", "b001.wav,0.2,0.8,0,20,1"]
    sound, text = write_pair(tmp_path / "room.wav", tmp_path / "room.csv", rows)
    recording = read_recording(sound)
    assert (recording.description, recording.overlap) == (text, 2)
    assert [event.label for event in recording.events] == ["a", "b"]


@pytest.mark.parametrize("silent", [False, True])
def test_a_recording_without_description(tmp_path, write_sound, silent, capsys):
    sound = write_sound(tmp_path / "room.wav", seconds=0.5)
    if silent:
        soundfile.write(sound, np.zeros((22050, 4), np.int16), 44100)
    summary = inspect(sound, tmp_path / "out")
    assert (summary.recordings, summary.events) == (1, 0)
    assert (summary.normalization == "unclear") == silent
    assert {path.name for path in (tmp_path / "out").glob("[!.]*")} == {"recording.png", "summary.json"}


def test_a_long_recording_and_a_moment_can_be_pictured(tmp_path, write_sound):
    for name, seconds in (("long.wav", 61.0), ("short.wav", 0.001)):
        inspect(
            write_sound(tmp_path / name, seconds=seconds, rate=8000), tmp_path / name.removesuffix(".wav")
        )
        assert (tmp_path / name.removesuffix(".wav") / "recording.png").stat().st_size > 10_000


def test_the_picture_shows_the_directions_that_the_sound_has(tmp_path):
    from torchmcl.audio.plots import recording_figure

    noise = np.random.default_rng(0).normal(0, 0.1, 16000)
    path = tmp_path / "a.wav"
    soundfile.write(path, encode(noise, math.radians(70), math.radians(-30)).T, 16000)
    (tmp_path / "a.csv").write_text(
        "sound_event_recording,start_time,end_time,ele,azi,dist\nnoise001.wav,0,1,-30,70,1\n"
    )
    figure = recording_figure(read_recording(path), "acn-n3d", "a")
    for axes, angle in zip(figure.axes[1:3], (70, -30), strict=True):
        [dots] = axes.lines
        assert len(dots.get_ydata()) == 50
        np.testing.assert_allclose(dots.get_ydata(), angle, atol=0.5)
        [bars] = axes.collections
        [segment] = bars.get_segments()
        np.testing.assert_allclose(segment, [[0, angle], [1, angle]])


def test_the_map_has_every_second_of_sound_where_it_comes_from(tut):
    from torchmcl.audio.plots import directions_figure

    events = [event for recording in read_dataset(tut).recordings for event in recording.events]
    [mesh] = directions_figure(events, "tut").axes[0].collections
    seconds = mesh.get_array()
    assert seconds.sum() == pytest.approx(sum(event.end - event.start for event in events))
    assert seconds[9, 18] == pytest.approx(9.0)
    assert seconds[10, 16] == pytest.approx(6.0)


@pytest.mark.parametrize("name", ["[/bold]", "[red]", "a\x1b[31mb", "$\\frac{$"])
def test_names_are_printed_as_they_are(name, tmp_path, write_sound, monkeypatch, capsys):
    path = write_sound(tmp_path / f"x{name}.wav", seconds=0.5) if "/" not in name else None
    if path is None:
        (tmp_path / "x[").mkdir()
        path = write_sound(tmp_path / "x[" / "bold].wav", seconds=0.5)
    monkeypatch.setenv("COLUMNS", "300")
    assert call(monkeypatch, path, "--out", tmp_path / "out") == 0
    printed = capsys.readouterr().out
    assert "\x1b" not in printed
    assert printable(path.name) in printed


def test_a_file_of_a_person_is_found_before_the_work(tmp_path, write_sound, monkeypatch, capsys):
    path = write_sound(tmp_path / "x.wav", seconds=0.5)
    (tmp_path / "summary.json").write_text("mine")
    assert call(monkeypatch, path, "--out", tmp_path) == 2
    printed = capsys.readouterr()
    assert not printed.out
    assert "summary.json: is there and was not written by this program" in printed.err
