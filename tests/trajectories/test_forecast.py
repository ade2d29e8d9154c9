"""`torchmcl forecast`: one frame, a whole file, and what is refused."""

import csv
import json
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import torch

from torchmcl.cli import main
from torchmcl.errors import UserError
from torchmcl.hypotheses import Hypotheses
from torchmcl.runs.outputs import LIST
from torchmcl.trajectories import forecast, pictures
from torchmcl.trajectories.forecast import forecast_all, forecast_frame, forecasts
from torchmcl.trajectories.rows import iter_rows
from torchmcl.trajectories.stream import Source, instant_at, instants
from torchmcl.trajectories.tracks import Tracks, read_tracks
from torchmcl.trajectories.windows import histories
from trajectories.conftest import walkers, write


@pytest.fixture
def path(tmp_path) -> Path:
    write(walkers(0), tmp_path / "tracks.txt")
    return tmp_path / "tracks.txt"


def table(path: Path) -> list[dict[str, str]]:
    with path.open() as stream:
        return list(csv.DictReader(stream))


def test_streamed_histories_are_those_of_the_tracks(path):
    known = histories(read_tracks(path))
    names = read_tracks(path).names
    found = list(instants(Source(path)))
    assert sum(len(each.names) for each in found) == len(known)
    for each in found:
        at = known.frames == each.frame
        expected = {
            names[agent]: past for agent, past in zip(known.agents[at], known.observed[at], strict=True)
        }
        assert set(expected) == set(each.names)
        for name, past in zip(each.names, each.observed, strict=True):
            torch.testing.assert_close(past, expected[name], equal_nan=True)
        again = instant_at(read_tracks(path), each.frame)
        order = [again.names.index(name) for name in each.names]
        torch.testing.assert_close(again.observed[order], each.observed, equal_nan=True)


@pytest.mark.parametrize("fps", [25.0, 30.0, 24.0])
def test_a_stream_of_any_rate_has_steps_of_0_4_seconds(tmp_path, fps):
    frames = np.arange(200)
    straight = Tracks.of(frames, ["a"] * 200, frames[:, None] / fps * np.array([1.0, 2.0]))
    write(straight, tmp_path / "t.txt")
    found = [each for each in instants(Source(tmp_path / "t.txt", fps)) if each.observed[0, 0, 0].isfinite()]
    assert len(found) == pytest.approx((200 / fps - 2.8) / 0.4, abs=1.1)
    for each in found:
        torch.testing.assert_close(
            each.observed[0].diff(dim=0), torch.tensor([[0.4, 0.8]]).double().expand(7, 2), atol=1e-4, rtol=0
        )


def test_a_stream_does_not_look_ahead(path, tmp_path):
    every = list(instants(Source(path)))
    cut = every[len(every) // 2].frame
    rows = [line for line in path.read_text().splitlines() if float(line.split()[0]) <= cut]
    (tmp_path / "early.txt").write_text("\n".join(rows) + "\n")
    early = list(instants(Source(tmp_path / "early.txt")))
    assert [each.frame for each in early] == [each.frame for each in every if each.frame <= cut]
    for before, after in zip(every, early, strict=False):
        torch.testing.assert_close(before.observed, after.observed, equal_nan=True, rtol=0, atol=0)


def test_a_frame(path, tmp_path, untrained):
    written = forecast_frame(Source(path), tmp_path / "out", frame=300, forecaster=untrained)
    assert {each.name for each in written} == {
        "futures.csv", "answers.csv", "futures.ndjson", "plan.png", "plan.pdf",
    }  # fmt: skip
    rows = table(tmp_path / "out" / "futures.csv")
    people = {row["id"] for row in rows}
    past = histories(read_tracks(path))
    complete = (past.frames == 300) & (past.steps == 8)
    assert len(people) == int(complete.sum()) > 1
    for person in people:
        own = [row for row in rows if row["id"] == person]
        chances = [float(row["probability"]) for row in own]
        assert chances == sorted(chances, reverse=True)
        assert sum(chances) == pytest.approx(1, abs=0.002)
        assert [int(row["future"]) for row in own] == list(range(1, 21))
    told = untrained(past.observed[past.frames == 300], frames=past.instants[past.frames == 300])
    told = told[complete[past.frames == 300]]
    best = told.points[0, told.probs[0].argmax()]
    first = rows[0]
    np.testing.assert_allclose([float(first["x12"]), float(first["y12"])], best[-2:], atol=1e-3)
    answers = table(tmp_path / "out" / "answers.csv")
    assert [row["id"] for row in answers] == list(dict.fromkeys(row["id"] for row in rows))


def test_ndjson_is_read_back_as_what_was_observed(path, tmp_path, untrained):
    forecast_frame(Source(path), tmp_path / "out", frame=300, forecaster=untrained)
    lines = [json.loads(line) for line in (tmp_path / "out" / "futures.ndjson").read_text().splitlines()]
    scenes = [line["scene"] for line in lines if "scene" in line]
    predicted = [line["track"] for line in lines if "prediction_number" in line.get("track", {})]
    assert len(predicted) == len(scenes) * 20 * 12
    assert {track["f"] for track in predicted} == set(range(310, 430, 10))
    read = {(row.agent, row.frame): (row.x, row.y) for row in iter_rows(tmp_path / "out" / "futures.ndjson")}
    truth = {(row.agent, row.frame): (row.x, row.y) for row in iter_rows(path)}
    assert len(read) == 8 * len(scenes)
    for key, position in read.items():
        np.testing.assert_allclose(position, truth[key], atol=1e-4)


def test_probabilities_are_computed_for_all_pedestrians_at_once(path, tmp_path, untrained, monkeypatch):
    calls = []
    once = Hypotheses.probs.fget
    monkeypatch.setattr(Hypotheses, "probs", property(lambda own: calls.append(len(own)) or once(own)))
    forecast_frame(Source(path), tmp_path / "out", frame=300, forecaster=untrained)
    assert len(calls) < 10


def test_a_whole_file(path, tmp_path, untrained):
    parts: list[float] = []
    written = forecast_all(
        Source(path), tmp_path / "out", forecaster=untrained, top=3, page=True, progress=parts.append
    )
    assert sum(parts) == pytest.approx(1)
    assert len(parts) > 10
    assert min(parts) > 0
    assert [each.name for each in written] == ["futures.csv", "answers.csv", "scene.html"]
    rows = table(tmp_path / "out" / "futures.csv")
    complete = histories(read_tracks(path)).steps == 8
    assert len(rows) == 3 * int(complete.sum())
    forecast_frame(Source(path), tmp_path / "one", frame=300, forecaster=untrained)
    one = table(tmp_path / "one" / "answers.csv")
    same = [row for row in table(tmp_path / "out" / "answers.csv") if row["frame"] == "300"]
    assert sorted(one, key=str) == sorted(same, key=str)


def test_memory_does_not_grow_with_the_file(tmp_path, untrained):
    """Peak memory of streaming, for a file and for one four times as long."""
    peaks = []
    for copies in (2, 8):
        path = tmp_path / f"{copies}.txt"
        lines = [
            f"{10 * (40 * copy + step)} {3 * copy + person} {0.4 * step} {person}"
            for copy in range(copies)
            for step in range(38)
            for person in range(3)
        ]
        path.write_text("\n".join(lines) + "\n")
        tracemalloc.start()
        assert sum(1 for _ in instants(Source(path))) > 30 * copies
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.3 * peaks[0]


BROKEN = {
    "no track": ("hello world\n", "line 1: is neither"),
    "two rows": ("10 1 0 0\n20 1 1 0\n", "line 2: the file ends, and nobody has 8 positions"),
    "NaN": ("10 1 0 0\n20 1 nan 0\n", "line 2: x is nan"),
    "duplicate": ("10 1 0 0\n10 1 1 0\n", "line 2: pedestrian 1 is at frame 10 already in line 1"),
    "far away": ("10 1 0 0\n20 1 1e308 0\n", "line 2: the position is more than"),
}


@pytest.mark.parametrize("whole", [False, True], ids=["frame", "all frames"])
@pytest.mark.parametrize(("content", "message"), BROKEN.values(), ids=BROKEN.keys())
def test_broken_files(tmp_path, untrained, content, message, whole):
    path = tmp_path / "t.txt"
    path.write_text(content)
    act = forecast_all if whole else forecast_frame
    with pytest.raises(UserError, match=message):
        act(Source(path), tmp_path / "out", forecaster=untrained)
    left = {path.name for path in (tmp_path / "out").glob("*")}
    assert left <= {LIST}, "the names of what was to be written, and nothing half written"


def test_other_refusals(path, tmp_path, untrained):
    for settings, message in (
        ({"frame": 301}, "has no frame 301; its frames are between"),
        ({"frame": 50}, "nobody at frame 50 has 8 positions"),
        ({"history": 1}, "history is 1, must be from 2 to 8"),
    ):
        with pytest.raises(UserError, match=message):
            forecast_frame(Source(path), tmp_path / "out", forecaster=untrained, **settings)
    with pytest.raises(UserError, match="/dev/zero: is no file"):
        forecast_all(Source(Path("/dev/zero")), tmp_path / "out", forecaster=untrained)
    with pytest.raises(UserError, match="fps is -3"):
        forecast_frame(Source(path, fps=-3.0), tmp_path / "out", forecaster=untrained)
    lines = path.read_text().splitlines()
    path.write_text("\n".join([lines[-1], *lines[:-1]]))
    with pytest.raises(UserError, match=r"line 2: frame \d+ comes after frame .* sort the file"):
        forecast_all(Source(path), tmp_path / "out", forecaster=untrained)


def test_the_command_ends_with_one_sentence(path, tmp_path, monkeypatch, capsys):
    (tmp_path / "H.txt").write_text("1 2 3\n2 4 6\n0 0 1\n")
    for words, message in (
        (["--homography", str(tmp_path / "H.txt")], "the homography cannot be inverted"),
        (["--model", str(tmp_path)], "is missing, the folder holds no forecaster"),
        (["--frame", "10", "--all-frames"], "give one of the two"),
        (["--page"], "--page and --top need --all-frames"),
    ):
        monkeypatch.setattr(
            sys, "argv", ["torchmcl", "forecast", str(path), *words, "--out", str(tmp_path / "out")]
        )
        with pytest.raises(SystemExit) as ended:
            main()
        assert ended.value.code == 2
        sentence = capsys.readouterr().err
        assert message in sentence
        assert len(sentence.splitlines()) == 1


def test_the_first_rows_of_a_crowd_are_of_one_frame(tmp_path, monkeypatch):
    """The usual distance of frames is found nevertheless, in a time that does not grow with the square of the crowd."""
    monkeypatch.setattr("torchmcl.trajectories.stream.LOOK_AT", 40)
    path = tmp_path / "tracks.txt"
    path.write_text("".join(f"{10 * step} {who} {step} {who}\n" for step in range(8) for who in range(50)))
    *_, last = instants(Source(path))
    assert (last.stride, len(last.names)) == (10.0, 50)
    assert last.observed.isfinite().all()


@pytest.mark.parametrize("fps", [None, 20.0, 33.0])
@pytest.mark.parametrize("history", [2, 5, 8])
def test_the_present_is_the_last_frame_with_enough_history(tmp_path, fps, history, monkeypatch):
    draw = np.random.default_rng(history)
    path, asked = tmp_path / "tracks.txt", []
    rows = [(10 * k, who) for who in range(6) for k in range(9 * who, 9 * who + 12) if draw.random() < 0.9]
    path.write_text(
        "".join(f"{frame} {who} {frame} 0\n" for frame, who in rows + [(900 + k, k) for k in range(9)])
    )
    tracks = read_tracks(path)
    every = ((frame, instant_at(tracks, frame, fps)) for frame in tracks.instants.tolist())
    enough = [
        frame
        for frame, found in every
        if found is not None and found.observed[..., 0].isfinite().sum(-1).max() >= history
    ]
    monkeypatch.setattr(forecast, "instant_at", lambda *given: asked.append(given[1]) or instant_at(*given))
    if enough:
        assert forecast._chosen(tracks, Source(path, fps), None, history).frame == enough[-1]
    else:
        with pytest.raises(UserError, match=f"nobody has {history} positions"):
            forecast._chosen(tracks, Source(path, fps), None, history)
    assert not set(asked) & set(range(900, 909))


@pytest.mark.parametrize("name", ["$\\frac{$", "²", "--1", "x" * 10_000])
def test_any_name_of_a_pedestrian_is_written(name, tmp_path, untrained):
    path, out = tmp_path / "tracks.txt", tmp_path / "out"
    path.write_text("".join(f"{10 * step} {name} {step} 0\n" for step in range(8)))
    forecast_frame(Source(path), out, forecaster=untrained)
    assert json.loads((out / "futures.ndjson").read_text().splitlines()[0])["scene"]["p"] == name


def test_a_name_does_not_end_a_line(tmp_path, untrained):
    path, name = tmp_path / "tracks.ndjson", 'a\rb,"c"\nd'
    rows = [{"track": {"f": 10 * step, "p": name, "x": step, "y": 0}} for step in range(8)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    forecast_frame(Source(path), tmp_path / "out", forecaster=untrained)
    with (tmp_path / "out" / "answers.csv").open(newline="") as stream:
        assert [row["id"] for row in csv.DictReader(stream)] == [name]
    path.write_text(path.read_text().replace(json.dumps(name), '"a\\rb"'))
    forecast_frame(Source(path), tmp_path / "out", forecaster=untrained)
    assert len((tmp_path / "out" / "answers.csv").read_bytes().split(b'"a\rb"')) == 2


def test_a_crowd_is_drawn_in_part(tmp_path, untrained, monkeypatch):
    monkeypatch.setattr(pictures, "DRAWN", 2)
    path, out = tmp_path / "tracks.txt", tmp_path / "out"
    path.write_text("".join(f"{10 * step} {who} {step} {who}\n" for step in range(8) for who in range(5)))
    forecast_frame(Source(path), out, forecaster=untrained)
    assert len((out / "answers.csv").read_text().splitlines()) == 6
    tracks = read_tracks(path)
    [made] = forecasts(untrained, [instant_at(tracks, 70)])
    figure = pictures.plan(made)
    assert "2 of 5 pedestrians" in figure.axes[0].get_title()
    assert {text.get_text() for text in figure.axes[0].texts} == {"0", "1"}


def test_an_earlier_answer_is_not_replaced_while_it_is_read(path, tmp_path, untrained):
    out = tmp_path / "out"
    forecast_frame(Source(path), out, forecaster=untrained)
    before = (out / "futures.ndjson").read_bytes()
    with pytest.raises(UserError, match=r"futures\.ndjson: is read as well"):
        forecast_frame(Source(out / "futures.ndjson"), out, forecaster=untrained)
    assert (out / "futures.ndjson").read_bytes() == before
