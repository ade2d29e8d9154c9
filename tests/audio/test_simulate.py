"""Folders of recordings: layout, determinism, interruption, and the command."""

import csv
import hashlib
import json
import multiprocessing
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile
from typer.testing import CliRunner

from torchmcl.audio.clips import folder_clips, synthesized_clips
from torchmcl.audio.datasets import read_dataset
from torchmcl.audio.scenes import SceneSettings, compose
from torchmcl.audio.simulate import _undisturbed, simulate
from torchmcl.audio.targets import overlap_shares
from torchmcl.cli import app
from torchmcl.errors import UserError

TINY = SceneSettings(recordings=2, duration=1.5, sample_rate=8000)


def contents(folder: Path) -> dict[str, str]:
    """Every file below a folder, hidden ones too, with a hash of its bytes."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def events_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as stream:
        return list(csv.DictReader(stream))


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder made by one process."""
    folder = tmp_path_factory.mktemp("made") / "scenes"
    assert simulate(folder, TINY) == 18
    return folder


def test_the_layout_is_that_of_tut_sound_events_2018(made):
    expected = {"simulation.json"}
    for overlap in (1, 2, 3):
        for split in (1, 2, 3):
            for name in ("train_0_desc_30_100", "test_0_desc_30_100"):
                expected.add(f"wav_ov{overlap}_split{split}_30db/{name}.wav")
                expected.add(f"desc_ov{overlap}_split{split}/{name}.csv")
    assert contents(made).keys() == expected
    for path in made.rglob("*.wav"):
        header = soundfile.info(path)
        assert (header.channels, header.samplerate, header.subtype) == (4, 8000, "PCM_16")
        assert header.frames == 12000
    for path in made.rglob("*.csv"):
        first, *rows = path.read_text().splitlines()
        assert first == "sound_event_recording,start_time,end_time,ele,azi,dist"
        assert rows
        for row in rows:
            assert re.fullmatch(r"[a-z]+\d{3}\.wav,\d+\.\d{3},\d+\.\d{3},-?\d+,-?\d+,[\d.]+", row)


def test_the_layout_of_dcase19(tmp_path):
    simulate(tmp_path, replace(TINY, layout="dcase19", condition="reverberant"))
    names = contents(tmp_path).keys()
    assert sum(name.startswith("foa_dev/") for name in names) == 16
    assert sum(name.startswith("metadata_eval/") for name in names) == 4
    assert {"foa_dev/split1_ir0_ov1_1.wav", "foa_dev/split4_ir1_ov2_4.wav", "foa_eval/split0_4.wav"} <= names
    labels = {row["sound_event_recording"] for row in events_of(tmp_path / "metadata_eval/split0_1.csv")}
    assert all(label.isalpha() for label in labels)
    assert SceneSettings.for_layout("dcase19", seed=1) == SceneSettings(
        layout="dcase19", duration=60.0, sample_rate=48000, seed=1
    )


def test_four_of_five_recordings_are_for_training():
    counts = {
        part: sum(spec.pool == (2, part) for spec in SceneSettings(recordings=300).specs)
        for part in ("train", "test")
    }
    assert counts == {"train": 3 * 240, "test": 3 * 60}


def test_no_sound_occurs_in_two_splits_or_in_train_and_test(tmp_path):
    simulate(tmp_path, replace(TINY, recordings=3, duration=4.0))
    heard: dict[tuple[str, str], set[str]] = {}
    for path in tmp_path.rglob("*.csv"):
        key = (path.parent.name[-1], path.name.split("_")[0])
        heard.setdefault(key, set()).update(row["sound_event_recording"] for row in events_of(path))
    assert len(heard) == 6
    assert sum(map(len, heard.values())) == len(set.union(*heard.values()))


def test_overlaps_are_reached_and_never_exceeded(made):
    table = overlap_shares(read_dataset(made).recordings)
    assert sorted(table) == [1, 2, 3]
    for overlap, shares in table.items():
        assert shares[overlap] > 0.1
        assert not shares[overlap + 1 :].any()


@pytest.mark.parametrize("condition", ["anechoic", "reverberant"])
def test_the_same_seed_gives_the_same_bytes_whatever_the_number_of_workers(tmp_path, made, condition):
    chosen = replace(TINY, condition=condition)
    one = made if condition == "anechoic" else tmp_path / "one"
    simulate(one, chosen)
    simulate(tmp_path / "two", chosen, workers=2)
    assert contents(one) == contents(tmp_path / "two")


def test_another_seed_gives_other_recordings(tmp_path, made):
    simulate(tmp_path, replace(TINY, seed=1))
    others = contents(tmp_path)
    assert all(others[name] != digest for name, digest in contents(made).items())


def test_what_is_there_is_kept_and_what_is_missing_is_made_again(made):
    before = contents(made)
    one = next(made.rglob("*.csv"))
    other = next(made.rglob("test*.wav"))
    kept = {path: path.stat().st_mtime_ns for path in made.rglob("train*.wav") if path.stem != one.stem}
    one.unlink()
    other.unlink()
    (other.parent / ".torchmcl-partial-0123abcd-test_0_desc_30_100.wav").write_bytes(b"half")
    (made / ".torchmcl-partial-89abcdef-simulation.json").write_text("{")
    assert simulate(made, TINY) in (1, 2)
    assert contents(made) == before
    assert kept == {path: path.stat().st_mtime_ns for path in kept}
    assert simulate(made, TINY) == 0


def test_a_folder_grows_with_the_number_of_recordings(tmp_path):
    simulate(tmp_path / "grown", TINY)
    assert simulate(tmp_path / "grown", replace(TINY, recordings=4)) == 18
    simulate(tmp_path / "at once", replace(TINY, recordings=4))
    assert contents(tmp_path / "grown") == contents(tmp_path / "at once")


def test_killed_and_restarted_it_makes_the_same_folder(tmp_path):
    chosen = replace(TINY, recordings=5, duration=3.0)
    enough = random.randrange(1, 20)
    simulate(tmp_path / "undisturbed", chosen)
    script = (
        "from torchmcl.audio.scenes import SceneSettings\n"
        "from torchmcl.audio.simulate import simulate\n"
        "if __name__ == '__main__':\n"
        f"    simulate({str(tmp_path / 'killed')!r}, {chosen!r}, workers=2)\n"
    )
    (tmp_path / "run.py").write_text(script)
    process = subprocess.Popen([sys.executable, tmp_path / "run.py"], stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 300
    while len(list((tmp_path / "killed").rglob("[!.]*.csv"))) < enough and time.monotonic() < deadline:
        time.sleep(0.001)
    process.kill()
    process.wait()
    finished = list((tmp_path / "killed").rglob("[!.]*.csv"))
    assert 0 < len(finished) < len(chosen.specs)
    for description in finished:
        audio = f"{description.parent.name.replace('desc', 'wav')}_30db/{description.stem}.wav"
        assert soundfile.info(tmp_path / "killed" / audio).frames == chosen.samples
    assert simulate(tmp_path / "killed", chosen) >= len(chosen.specs) - len(finished) - 2
    assert contents(tmp_path / "killed") == contents(tmp_path / "undisturbed")


def test_an_interruption_while_workers_start_is_silent(tmp_path):
    """Ctrl-C goes to all processes of the terminal at once."""
    chosen = replace(TINY, recordings=50)
    script = (
        "from torchmcl.audio.scenes import SceneSettings\n"
        "from torchmcl.audio.simulate import simulate\n"
        "if __name__ == '__main__':\n"
        "    try:\n"
        f"        simulate({str(tmp_path / 'out')!r}, {chosen!r}, workers=2)\n"
        "    except KeyboardInterrupt:\n"
        "        print('caught')\n"
    )
    (tmp_path / "run.py").write_text(script)
    process = subprocess.Popen(
        [sys.executable, tmp_path / "run.py"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    while not (tmp_path / "out" / "simulation.json").exists():
        time.sleep(0.001)
    time.sleep(0.2)
    os.killpg(process.pid, signal.SIGINT)
    assert process.communicate(timeout=120) == ("caught\n", "")


def test_hidden_files_of_a_person_are_kept(tmp_path):
    simulate(tmp_path, TINY)
    mine = tmp_path / "wav_ov1_split1_30db" / ".mine.wav"
    mine.write_bytes(b"precious")
    (tmp_path / ".own.json").write_text("{}")
    simulate(tmp_path, TINY)
    assert mine.read_bytes() == b"precious"
    assert (tmp_path / ".own.json").exists()


def test_two_processes_may_make_the_same_folder(tmp_path, made):
    context = multiprocessing.get_context("forkserver")
    processes = [context.Process(target=simulate, args=(tmp_path / "shared", TINY)) for _ in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        assert process.exitcode == 0
    assert contents(tmp_path / "shared") == contents(made)


def test_own_sounds_are_used_and_a_change_of_them_is_noticed(tmp_path):
    rng = np.random.default_rng(0)
    for label in ("dog", "rain"):
        (tmp_path / "sounds" / label).mkdir(parents=True)
        for number in range(8):
            soundfile.write(tmp_path / f"sounds/{label}/{number}.wav", 0.1 * rng.standard_normal(4000), 8000)
    chosen = replace(TINY, events=tmp_path / "sounds")
    simulate(tmp_path / "out", chosen)
    names = {row["sound_event_recording"][:-7] for path in tmp_path.rglob("*.csv") for row in events_of(path)}
    assert names == {"dog", "rain"}
    assert json.loads((tmp_path / "out/simulation.json").read_text())["events"]["dog003.wav"] == [
        "3.wav",
        8044,
    ]
    assert str(tmp_path) not in (tmp_path / "out/simulation.json").read_text()
    (tmp_path / "sounds").rename(tmp_path / "moved")
    assert simulate(tmp_path / "out", replace(chosen, events=str(tmp_path / "moved"))) == 0
    (tmp_path / "moved/dog/3.wav").unlink()
    with pytest.raises(UserError, match="out: was made with other sounds; choose another folder"):
        simulate(tmp_path / "out", replace(chosen, events=tmp_path / "moved"))


def test_a_broken_sound_ends_the_work_with_its_name_also_in_workers(tmp_path):
    for number in range(8):
        (tmp_path / "sounds" / "dog").mkdir(parents=True, exist_ok=True)
        soundfile.write(tmp_path / f"sounds/dog/{number}.wav", np.zeros(4000), 8000)
    with pytest.raises(UserError, match=r"dog/\d\.wav: is silent"):
        simulate(tmp_path / "out", replace(TINY, events=tmp_path / "sounds"), workers=2)


def test_a_temporary_folder_too_long_for_sockets_is_refused_before_anything_is_written(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", f"/{'x' * 80}")
    with pytest.raises(UserError, match=r"TMPDIR is /x+, must have at most 75 bytes"):
        simulate(tmp_path, TINY, workers=2)
    assert not list(tmp_path.iterdir())
    assert simulate(tmp_path, TINY, workers=1)


def test_a_recording_that_cannot_be_written_is_one_sentence(tmp_path):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, before[1]))
    try:
        with pytest.raises(OSError, match=r"cannot be written .*\.wav'") as refused:
            simulate(tmp_path / "a", TINY)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert refused.value.filename.endswith(".wav")
    assert not list(tmp_path.rglob("*.wav"))


def test_a_full_disk_is_noticed_before_the_work_begins(tmp_path, monkeypatch):
    monkeypatch.setattr(
        shutil, "disk_usage", lambda folder: shutil._ntuple_diskusage(10**9, 10**9 - 10**6, 10**6)
    )
    with pytest.raises(UserError, match=r"2 MB are needed there, 1 MB are free"):
        simulate(tmp_path, TINY)
    assert not list(tmp_path.iterdir())


def test_folders_that_are_something_else_are_left_alone(tmp_path, made):
    with pytest.raises(UserError, match=r"was made with snr 30\.0, not 20\.0; choose another folder"):
        simulate(made, replace(TINY, snr=20.0))
    (tmp_path / "more").mkdir()
    more = json.loads((made / "simulation.json").read_text()) | {"recordings": 3}
    (tmp_path / "more" / "simulation.json").write_text(json.dumps(more))
    with pytest.raises(UserError, match="more: was made with recordings 3, not 2; choose another folder"):
        simulate(tmp_path / "more", TINY)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("important")
    with pytest.raises(UserError, match=r"mine: is not empty and has no simulation\.json"):
        simulate(tmp_path / "mine", TINY)
    with pytest.raises(UserError, match=r"thesis\.tex: is a file, it must be a folder"):
        simulate(tmp_path / "mine" / "thesis.tex", TINY)
    numbers = json.dumps(more | {"recordings": [1, 2]})
    for content in ("[]", "[" * 100_000, numbers):
        (tmp_path / "mine" / "simulation.json").write_text(content)
        with pytest.raises(
            UserError, match=r"simulation\.json: is not a description of simulated recordings"
        ):
            simulate(tmp_path / "mine", TINY)
    assert (tmp_path / "mine" / "thesis.tex").read_text() == "important"
    with pytest.raises(UserError, match="workers is 0, must be at least 1"):
        simulate(tmp_path / "none", TINY, workers=0)


def test_the_command_makes_recordings_and_prints_the_overlaps(tmp_path, made):
    arguments = [str(tmp_path / "out"), "--recordings", "2", "--duration", "1.5", "--sample-rate", "8000"]
    result = CliRunner().invoke(app, ["simulate", *arguments, "--workers", "1"])
    assert result.exit_code == 0, result.output
    assert "18 recordings of 1.5 s made" in result.stdout
    assert re.search(r"ov3: \d+% with 0, \d+% with 1, \d+% with 2, \d+% with 3", result.stdout)
    assert contents(tmp_path / "out") == contents(made)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--condition", "dry"], "condition is 'dry', it must be one of anechoic, reverberant, mixed"),
        (["--layout", "wav"], "layout is 'wav', it must be one of tut, dcase19"),
        (["--duration", "0"], "duration is 0, it must be between 1 and 3600"),
        (["--workers", "0"], "workers is 0, must be at least 1"),
        (
            ["--workers", "99999"],
            f"workers is 99999, must be at most {8 * (os.cpu_count() or 1)}, eight for each core",
        ),
        (["--events", "/nowhere"], "/nowhere: there is no such folder of sounds"),
    ],
)
def test_a_wrong_value_ends_with_one_sentence(tmp_path, monkeypatch, capsys, arguments, sentence):
    monkeypatch.setattr(sys, "argv", ["torchmcl", "simulate", str(tmp_path / "out"), *arguments])
    from torchmcl.cli import main

    with pytest.raises(SystemExit) as ending:
        main()
    assert ending.value.code == 2
    assert capsys.readouterr().err == f"torchmcl: {sentence}\n"
    assert not (tmp_path / "out").exists()


def test_mixed_recordings_are_half_in_rooms_and_half_of_synthesised_sounds(tmp_path):
    for number in range(30):
        (tmp_path / "events" / "beep").mkdir(parents=True, exist_ok=True)
        tone = np.sin(np.arange(4000) * (0.1 + number / 100)).astype(np.float32)
        soundfile.write(tmp_path / "events" / "beep" / f"{number}.wav", tone, 8000)
    settings = SceneSettings(
        "mixed", recordings=10, duration=2.0, sample_rate=8000, events=tmp_path / "events", synthesised=True
    )
    clips = (*folder_clips(tmp_path / "events"), *synthesized_clips(0))
    indoors = [
        compose(settings, clips, 1, 0, np.random.default_rng(seed)).room is not None for seed in range(100)
    ]
    assert 30 < sum(indoors) < 70
    simulate(tmp_path / "scenes", settings)
    labels = {
        row.split(",")[0][:-7]
        for path in (tmp_path / "scenes").rglob("*.csv")
        for row in path.read_text().splitlines()[1:]
    }
    assert "beep" in labels
    assert len(labels) > 5


def test_workers_start_though_another_thread_takes_the_interruption():
    """A mask of signals holds for one thread only; a worker that starts when its parent is gone prints a traceback."""
    done = []
    sleeper = threading.Thread(target=time.sleep, args=(0.5,))
    sleeper.start()

    def work():
        with _undisturbed():
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.1)
            done.append("all")

    with pytest.raises(KeyboardInterrupt):
        work()
    sleeper.join()
    assert done == ["all"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
