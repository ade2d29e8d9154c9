"""The measures of the DCASE challenge on cases that can be done by hand."""

import math

import pytest

from torchmcl.audio.doa import evaluate_doa
from torchmcl.errors import UserError


def file(path, rows):
    path.write_text("".join(",".join(map(str, row)) + "\n" for row in rows))
    return path


def steady(azimuth, frames=range(10), track=0, elevation=0, label=0):
    return [(frame, label, track, azimuth, elevation) for frame in frames]


@pytest.mark.parametrize(
    ("predicted", "truth", "expected"),
    [
        # the same: nothing wrong
        (steady(30), steady(30), (0.0, 1.0, 1.0, 0.0)),
        # 10 degrees off: still found
        (steady(40), steady(30), (10.0, 1.0, 1.0, 0.0)),
        # 30 degrees off: localized, but a false positive within 20 degrees; F = 0, one insertion
        (steady(60), steady(30), (30.0, 1.0, 0.0, 1.0)),
        # nothing predicted: one deletion
        ([], steady(30), (math.nan, 0.0, 0.0, 1.0)),
        # one of two found: F = 1 / (1 + 1/2)
        (steady(30), steady(30) + steady(120, track=1), (0.0, 0.5, 2 / 3, 0.5)),
        # one too many
        (steady(30) + steady(120, track=1), steady(30), (0.0, 1.0, 2 / 3, 1.0)),
        # two tracks whose numbers are swapped: numbers do not matter
        (
            steady(120) + steady(30, track=1),
            steady(30) + steady(120, track=1),
            (0.0, 1.0, 1.0, 0.0),
        ),
        # half of the frames of a segment 0 and half 30 degrees off: 15 on the average, found
        (steady(30, range(5)) + steady(60, range(5, 10)), steady(30), (15.0, 1.0, 1.0, 0.0)),
        # two segments, the second without a prediction
        (steady(30), steady(30, range(20)), (0.0, 0.5, 2 / 3, 0.5)),
    ],
)
def test_by_hand(predicted, truth, expected, tmp_path):
    found = evaluate_doa(file(tmp_path / "p.csv", predicted), file(tmp_path / "t.csv", truth))
    values = (found.localization_error, found.localization_recall, found.f_score, found.error_rate)
    assert values == pytest.approx(expected, abs=1e-6, nan_ok=True)


def test_formats_of_2019_and_of_descriptions(tmp_path):
    truth = file(tmp_path / "t.csv", steady(30, range(10, 20), elevation=10))
    fine = [(frame, 0, 30, 10) for frame in range(50, 100)]
    described = tmp_path / "d.csv"
    described.write_text(
        "sound_event_recording,start_time,end_time,ele,azi,dist\nknock001.wav,1.0,2.0,10,30,1\n"
    )
    for predicted in (file(tmp_path / "p.csv", fine), described):
        found = evaluate_doa(predicted, truth)
        assert (found.f_score, found.references) == (1.0, 1)
        assert found.localization_error == pytest.approx(0, abs=1e-6)


def test_classes_count_if_wanted(tmp_path):
    predicted, truth = file(tmp_path / "p.csv", steady(30, label=1)), file(tmp_path / "t.csv", steady(30))
    assert evaluate_doa(predicted, truth).f_score == 1
    assert evaluate_doa(predicted, truth, classes=True).f_score == 0


def test_folders_are_summed_and_wrong_input_is_named(tmp_path):
    for folder in ("p", "t"):
        (tmp_path / folder).mkdir()
    file(tmp_path / "p" / "a.csv", steady(30))
    file(tmp_path / "t" / "a.csv", steady(30))
    file(tmp_path / "t" / "b.csv", steady(30))
    with pytest.raises(UserError, match=r"p/b.csv: no such file, .*t/b.csv has no prediction"):
        evaluate_doa(tmp_path / "p", tmp_path / "t")
    file(tmp_path / "p" / "b.csv", [])
    assert evaluate_doa(tmp_path / "p", tmp_path / "t").localization_recall == 0.5
    with pytest.raises(UserError, match="must both be files or both be folders"):
        evaluate_doa(tmp_path / "p", tmp_path / "t" / "a.csv")
    with pytest.raises(UserError, match="nothing: no such file"):
        evaluate_doa(tmp_path / "nothing", tmp_path / "t")
    with pytest.raises(UserError, match="line 1 is not of a DCASE file: hello"):
        evaluate_doa(file(tmp_path / "x.csv", [("hello", 1)]), tmp_path / "t" / "a.csv")


def test_what_would_not_fit_into_memory_is_refused(tmp_path, monkeypatch):
    long = tmp_path / "long.csv"
    long.write_text("sound_event_recording\n" + "a,0,86400,0,0,1\n" * 3)
    with pytest.raises(UserError, match=r"long.csv: has more than 1,000,000 directions"):
        evaluate_doa(long, long)
    crowd = file(tmp_path / "crowd.csv", [(1, 0, track, 0, 0) for track in range(101)])
    with pytest.raises(UserError, match=r"crowd.csv: frame 1 has more than 100 directions"):
        evaluate_doa(crowd, crowd)
    monkeypatch.setattr("torchmcl.audio.doa.LARGEST", 10)
    with pytest.raises(UserError, match=r"crowd.csv: has .* bytes, at most 10 are read"):
        evaluate_doa(crowd, crowd)


def test_columns_in_another_order_are_refused(tmp_path):
    swapped = file(tmp_path / "x.csv", [(0, 0, 0, 10, 120)])
    with pytest.raises(UserError, match="line 1 is not of a DCASE file"):
        evaluate_doa(swapped, swapped)


TIMES = [("0", "1e12"), ("0", "-inf"), ("0", "nan"), ("-1.7e308", "1"), ("1.7e308", "1")]


@pytest.mark.parametrize(
    "text",
    [
        "a" * 200_000,
        "1e300,0,0,0,0\n",
        *(f"sound_event_recording\na,{start},{end},0,0,1\n" for start, end in TIMES),
    ],
)
def test_times_and_frames_beyond_a_day_are_refused(text, tmp_path):
    (tmp_path / "x.csv").write_text(text)
    with pytest.raises(UserError, match=r"x.csv: (line 1|line 2|cannot be read)"):
        evaluate_doa(tmp_path / "x.csv", tmp_path / "x.csv")
