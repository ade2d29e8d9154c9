import math

import pytest

from torchmcl.audio.datasets import DCASE19, read_dataset
from torchmcl.errors import UserError


def test_evaluation_set_tests_and_one_development_split_validates(dcase19):
    catalogue = read_dataset(dcase19)
    assert catalogue.layout is DCASE19
    assert len(catalogue.recordings) == 10
    for number in (1, 2, 3, 4):
        fold = catalogue.fold(number)
        assert {r.split for r in fold.validation} == {number}
        assert {r.split for r in fold.train} == {1, 2, 3, 4} - {number}
        assert {(r.split, r.subset, r.audio.parent.name) for r in fold.test} == {(0, "test", "foa_eval")}


def test_events(dcase19):
    recording = read_dataset(dcase19).recordings[1]
    assert recording.audio.name == "split1_ir0_ov2_2.wav"
    assert recording.overlap == 2
    assert [event.label for event in recording.events] == ["knock", "speech"]
    assert recording.events[1].elevation == math.radians(-10)
    assert recording.events[1].azimuth == math.radians(20)


def test_evaluation_names_without_overlap(dcase19, write_pair):
    write_pair(dcase19 / "foa_eval/split0_7.wav", dcase19 / "metadata_eval/split0_7.csv", rate=16000)
    recording = read_dataset(dcase19).recordings[-1]
    assert (recording.audio.name, recording.overlap, recording.split) == ("split0_7.wav", 2, 0)


def test_problems_are_named_by_file_and_line(dcase19):
    text = dcase19 / "metadata_dev/split2_ir0_ov1_1.csv"
    text.write_text(text.read_text() + "speech,0.2,0.6,0,0,1\n")
    with pytest.raises(UserError) as error:
        read_dataset(dcase19)
    assert str(error.value) == f"{text}:3: 2 events sound at 0.200 s, ov1 announces at most 1"
    odd = dcase19 / "foa_dev/foo.wav"
    text.write_text("")
    odd.write_bytes(b"")
    catalogue = read_dataset(dcase19, skip_broken=True)
    assert [str(problem) for problem in catalogue.left_out] == [
        f"{odd}: its name is not like split1_ir0_ov1_1",
        f"{text}:1: the header is missing, must be sound_event_recording,start_time,end_time,ele,azi,dist",
    ]
    assert len(catalogue.recordings) == 9


def test_without_the_evaluation_set_nothing_can_be_tested(dcase19):
    for path in [*(dcase19 / "foa_eval").iterdir(), *(dcase19 / "metadata_eval").iterdir()]:
        path.unlink()
    with pytest.raises(UserError, match=r"fold 1 has no test recordings$"):
        read_dataset(dcase19).fold(1)
