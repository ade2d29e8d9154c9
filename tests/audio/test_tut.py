import csv
import math
import struct
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from torchmcl.audio.datasets import TUT, read_dataset, scan
from torchmcl.audio.datasets.tut import label
from torchmcl.errors import UserError

SOUND, TEXT = "wav_ov1_split1_30db/train_0_desc_30_100.wav", "desc_ov1_split1/train_0_desc_30_100.csv"
HEADER = "sound_event_recording,start_time,end_time,ele,azi,dist"


def first_pair(root: Path) -> tuple[Path, Path]:
    return root / SOUND, root / TEXT


def complaint(root: Path) -> str:
    with pytest.raises(UserError) as error:
        read_dataset(root)
    return str(error.value)


def test_folds_are_those_of_the_reference(tut):
    catalogue = read_dataset(tut)
    assert len(catalogue.recordings) == 18
    for number in (1, 2, 3):
        fold = catalogue.fold(number)
        assert {(r.split, r.subset) for r in fold.test} == {(number, "train"), (number, "test")}
        others = {1, 2, 3} - {number}
        assert {(r.split, r.subset) for r in fold.train} == {(split, "train") for split in others}
        assert {(r.split, r.subset) for r in fold.validation} == {(split, "test") for split in others}
        for part in (fold.train, fold.validation, fold.test):
            assert Counter(r.overlap for r in part) == dict.fromkeys((1, 2, 3), 2)


def test_columns_are_taken_by_position_with_elevation_before_azimuth(tmp_path, write_pair):
    write_pair(*first_pair(tmp_path), ["speech012.wav,0.25,0.75,-30,170,2.5"])
    [recording] = read_dataset(tmp_path).recordings
    [event] = recording.events
    assert (event.name, event.label, event.start, event.end) == ("speech012.wav", "speech", 0.25, 0.75)
    assert (event.azimuth, event.elevation) == (math.radians(170), math.radians(-30))
    assert event.distance == 2.5
    assert (recording.duration, recording.sample_rate, recording.overlap) == (1.0, 44100, 1)


def test_classes():
    assert [label(name) for name in ("keysDrop051.wav", "phone003.wav", "97331-2-0-22.wav")] == [
        "keysDrop",
        "phone",
        "2",
    ]


def test_an_event_that_outlasts_its_recording_ends_with_it(tmp_path, write_pair):
    write_pair(*first_pair(tmp_path), ["speech012.wav,0.25,7,-30,170,2.5"])
    [recording] = read_dataset(tmp_path).recordings
    assert recording.events[0].end == 1.0


def test_a_recording_without_events_is_silence_not_a_problem(tmp_path, write_pair):
    write_pair(*first_pair(tmp_path), [])
    assert read_dataset(tmp_path).recordings[0].events == ()


def test_hidden_files_and_other_folders_do_not_matter(tut):
    (tut / "wav_ov1_split1_30db" / "._train_9.wav").write_bytes(b"resource fork")
    (tut / "notes").mkdir()
    (tut / "README.md").write_text("hello")
    assert len(read_dataset(tut).recordings) == 18


@pytest.mark.parametrize(
    ("row", "what"),
    [
        ("a001.wav,0.1,0.4,10,20", f"5 columns, must be 6 ({HEADER})"),
        ("a001.wav,0.1,0.4,10,20,1,9", f"7 columns, must be 6 ({HEADER})"),
        (",0.1,0.4,10,20,1", "sound_event_recording is empty"),
        ("a001.wav,soon,0.4,10,20,1", "start_time is 'soon', must be a finite number"),
        ("a001.wav,0.1,inf,10,20,1", "end_time is 'inf', must be a finite number"),
        ("a001.wav,0.1,0.4,nan,20,1", "ele is 'nan', must be a finite number"),
        ("a001.wav,0.1,0.4,10,,1", "azi is '', must be a finite number"),
        ("a001.wav,-0.1,0.4,10,20,1", "start_time is -0.1, must be at least 0"),
        ("a001.wav,0.1,0.4,100,20,1", "ele is 100, must be -90 to 90"),
        ("a001.wav,0.1,0.4,10,270,1", "azi is 270, must be -180 to 180"),
        ("a001.wav,0.1,0.4,10,20,-1", "dist is -1, must be at least 0"),
        ("a001.wav,0.4,0.1,10,20,1", "end_time is 0.1, must be after start_time 0.4"),
        ("a001.wav,0.4,0.4,10,20,1", "end_time is 0.4, must be after start_time 0.4"),
        ("a001.wav,1.5,2,10,20,1", "start_time is 1.5, must be before the end of the recording at 1.000"),
        ("a001.wav,0.55,0.7,10,20,1", "2 events sound at 0.550 s, ov1 announces at most 1"),
    ],
)
def test_a_broken_row_is_named_by_file_and_line(tmp_path, write_pair, row, what):
    _, text = write_pair(*first_pair(tmp_path), ["ok001.wav,0.5,0.6,10,20,1", row])
    assert complaint(tmp_path) == f"{text}:3: {what}"


def test_overlap_is_counted_over_all_pairs_of_events(tmp_path, write_pair):
    rows = ["a001.wav,0.6,0.9,0,0,1", "b001.wav,0.1,0.7,0,0,1", "c001.wav,0.65,0.66,0,0,1"]
    sound, text = (tmp_path / name.replace("ov1", "ov2") for name in (SOUND, TEXT))
    write_pair(sound, text, rows)
    assert complaint(tmp_path) == f"{text}:4: 3 events sound at 0.650 s, ov2 announces at most 2"


def test_touching_events_do_not_overlap(tmp_path, write_pair):
    write_pair(*first_pair(tmp_path), ["a001.wav,0.1,0.5003,0,0,1", "b001.wav,0.5,0.7,0,0,1"])
    assert len(read_dataset(tmp_path).recordings) == 1


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"a001.wav,0.1,0.4,10,20,1\n", f":1: the header is missing, must be {HEADER}"),
        (b"", f":1: the header is missing, must be {HEADER}"),
        (
            b"sound_event_recording,start_time,end_time,azi,ele,dist\n",
            f":1: the header has azimuth before elevation, must be {HEADER}",
        ),
        (b"\xff\xfe\x00", ": is not UTF-8 text"),
        (b"x" * (1 << 20) + b"y", ": is 1048577 bytes long, must be at most 1048576"),
        (b"x" * (1 << 18), ":1: is not CSV (field larger than field limit (131072))"),
    ],
)
def test_a_broken_description(tmp_path, write_pair, content, what):
    _, text = write_pair(*first_pair(tmp_path))
    text.write_bytes(content)
    assert complaint(tmp_path) == f"{text}{what}"


def test_a_byte_order_mark_and_empty_lines_are_read_over(tmp_path, write_pair):
    _, text = write_pair(*first_pair(tmp_path))
    text.write_bytes(b"\xef\xbb\xbf" + text.read_bytes().replace(b"\n", b"\r\n\r\n"))
    assert len(read_dataset(tmp_path).recordings[0].events) == 1
    with text.open("a") as stream:
        stream.write("broken\n")
    assert complaint(tmp_path) == f"{text}:5: 1 columns, must be 6 ({HEADER})"


def claims(frames: int) -> Callable[[bytes], bytes]:
    def change(content: bytes) -> bytes:
        at = content.index(b"data") + 4
        return content[:at] + struct.pack("<I", frames * 8) + content[at + 4 :]

    return change


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda wav: wav[:-80008], "truncated, 34099 of 44100 announced samples are there"),
        (claims(500_000_000), "truncated, 44100 of 500000000 announced samples are there"),
        (claims(0), "has no samples"),
        (lambda wav: wav[:30], "not a complete WAV file, its header ends before the samples"),
        (
            lambda wav: wav[:12] + b"\0" * 10_000,
            "not a complete WAV file, its header ends before the samples",
        ),
        (lambda wav: wav[:22] + b"\0\0" + wav[24:], "not a WAV file, its header has 0 channels at 44100 Hz"),
        (lambda wav: wav[:24] + struct.pack("<I", 4) + wav[28:], "announces 11025 s, must be at most 3600 s"),
        (lambda wav: b"hello", "not a sound file (Format not recognised)"),
        (lambda wav: b"", "not a sound file (Format not recognised)"),
    ],
)
def test_a_broken_sound_file(tmp_path, write_pair, change, what):
    sound, _ = write_pair(*first_pair(tmp_path))
    sound.write_bytes(change(sound.read_bytes()))
    assert complaint(tmp_path) == f"{sound}: {what}"


@pytest.mark.parametrize(("channels", "many"), [(1, "1 channel"), (2, "2 channels"), (16, "16 channels")])
def test_another_number_of_channels(tmp_path, write_pair, channels, many):
    sound, _ = write_pair(*first_pair(tmp_path), channels=channels)
    assert complaint(tmp_path) == f"{sound}: has {many}, first-order Ambisonics has 4"


def test_another_sample_rate_than_most(tut, write_pair):
    sound, _ = write_pair(tut / SOUND, tut / TEXT, rate=48000)
    assert complaint(tut) == f"{sound}: has 48000 Hz, most recordings have 16000 Hz"
    assert len(read_dataset(tut, skip_broken=True).recordings) == 18


def test_missing_pairs(tut, write_pair):
    sound, text = write_pair(tut / SOUND, tut / TEXT)
    text.unlink()
    assert complaint(tut) == f"{sound}: its description {text} is missing"
    sound, text = write_pair(tut / SOUND, tut / TEXT)
    sound.unlink()
    assert complaint(tut) == f"{text}: its recording {sound} is missing"


def test_a_folder_without_its_descriptions(tmp_path, write_sound):
    sound = write_sound(tmp_path / SOUND)
    assert complaint(tmp_path) == f"{sound}: its description {tmp_path / TEXT} is missing"


def test_unknown_names(tut, write_pair):
    sound, _ = write_pair(tut / "wav_ov1_split1_30db/foo.wav", tut / "desc_ov1_split1/foo.csv")
    assert complaint(tut) == f"{sound}: its name starts with neither train nor test"
    sound.unlink()
    (tut / "desc_ov1_split1/foo.csv").unlink()
    (tut / "wav_ov1_split1_20db").mkdir()
    assert complaint(tut) == (
        f"{tut / 'wav_ov1_split1_30db'}: is there beside wav_ov1_split1_20db, must be the only one "
        "(and 2 more problems)"
    )


def test_nothing_to_read(tmp_path):
    assert complaint(tmp_path / "nowhere") == f"{tmp_path / 'nowhere'}: no such folder"
    assert complaint(tmp_path) == (
        f"{tmp_path}: no recordings found, must be in wav_ov1_split1_30db/ and desc_ov1_split1/ "
        "(TUT Sound Events 2018) or foa_dev/ and metadata_dev/ (DCASE19)"
    )
    with pytest.raises(UserError, match="no recordings found, TUT Sound Events 2018 has them in wav_ov1"):
        scan(tmp_path, TUT)


def test_strict_names_the_first_problem_and_counts_the_rest(tut):
    first, second = sorted((tut / "desc_ov1_split1").iterdir())
    first.write_text(f"{HEADER}\na,b\nc,d\n")
    second.write_text(f"{HEADER}\na,b\n")
    assert complaint(tut) == f"{first}:2: 2 columns, must be 6 ({HEADER}) (and 2 more problems)"
    catalogue = read_dataset(tut, skip_broken=True)
    assert len(catalogue.recordings) == 16
    assert [(problem.path, problem.line) for problem in catalogue.left_out] == [
        (first, 2),
        (first, 3),
        (second, 2),
    ]


def test_nothing_is_left(tmp_path, write_pair):
    sound, _ = write_pair(*first_pair(tmp_path), channels=1)
    with pytest.raises(UserError) as error:
        read_dataset(tmp_path, skip_broken=True)
    assert str(error.value) == (
        f"{tmp_path}: no usable recording is left; {sound}: has 1 channel, first-order Ambisonics has 4"
    )


def test_a_fold_that_is_not_there(tut, tmp_path, write_pair):
    catalogue = read_dataset(tut)
    with pytest.raises(UserError, match=r"^fold is 4, must be 1 to 3 for TUT Sound Events 2018$"):
        catalogue.fold(4)
    write_pair(*first_pair(tmp_path))
    with pytest.raises(UserError, match=f"^{tmp_path}: fold 2 has no validation recordings$"):
        read_dataset(tmp_path).fold(2)


def test_every_row_of_the_file_is_an_event(tut):
    for recording in read_dataset(tut).recordings:
        with recording.description.open() as stream:
            rows = list(csv.DictReader(stream))
        assert [event.name for event in recording.events] == [row["sound_event_recording"] for row in rows]
        azimuths = [round(math.degrees(event.azimuth), 9) for event in recording.events]
        assert azimuths == [float(row["azi"]) for row in rows]
