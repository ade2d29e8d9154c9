"""Readers: formats, units, frame rates, and what is refused."""

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from torchmcl.errors import UserError
from torchmcl.trajectories.rows import iter_rows, read_homography, to_meters
from torchmcl.trajectories.tracks import Tracks, read_tracks

ROWS = [(10, "1", 0.5, -1.0), (10, "2", 3.0, 4.0), (20, "1", 0.75, -1.25)]


def text(separator: str, header: str = "") -> str:
    return header + "".join(separator.join(map(str, row)) + "\n" for row in ROWS)


FORMATS = {
    "tabs": text("\t"),
    "floats": text(" ").replace("10 1", "10.0 1.0"),
    "spaces": "# a remark\n\n" + text("   "),
    "commas": text(", "),
    "header": text(",", "frame,id,x,y\n"),
    "other order": "y;x;note;track_id;frame\n" + "".join(f"{y};{x};a;{i};{f}\n" for f, i, x, y in ROWS),
    "ndjson": '{"scene": {"id": 0, "p": 1, "s": 10, "e": 20, "fps": 2.5}}\n'
    + "".join(json.dumps({"track": {"f": f, "p": int(i), "x": x, "y": y}}) + "\n" for f, i, x, y in ROWS)
    + '{"track": {"f": 30, "p": 1, "x": 9, "y": 9, "prediction_number": 0, "scene_id": 0}}\n',
    "comma at the end": text(",").replace("\n", ",\n"),
    "byte order mark": "\ufeff" + text(","),
}


@pytest.mark.parametrize("content", FORMATS.values(), ids=FORMATS.keys())
def test_formats_hold_the_same_rows(tmp_path, content):
    path = tmp_path / "tracks"
    path.write_text(content, encoding="utf-8")
    assert [(row.frame, row.agent, row.x, row.y) for row in iter_rows(path)] == ROWS
    tracks = read_tracks(path)
    assert tracks.names == ("1", "2")
    np.testing.assert_array_equal(tracks.frames, [10, 20, 10])
    np.testing.assert_array_equal(tracks.positions, [[0.5, -1.0], [0.75, -1.25], [3.0, 4.0]])


def test_a_name_in_quotes_may_hold_the_separator(tmp_path):
    path = tmp_path / "tracks.csv"
    path.write_text('frame,id,x,y\n10,"Lee, Ann",1,2\n20,"the ""tall"" one",3,4\n')
    assert [(row.agent, row.x) for row in iter_rows(path)] == [("Lee, Ann", 1.0), ('the "tall" one', 3.0)]


def test_columns_of_other_names(tmp_path):
    path = tmp_path / "tracks.csv"
    path.write_text("t,who,east,north\n10,anna,1,2\n20,anna,3,4\n")
    tracks = read_tracks(path, columns={"frame": "t", "id": "who", "x": "east", "y": "north"})
    assert tracks.names == ("anna",)
    with pytest.raises(UserError, match=r"line 1: .* missing: frame"):
        read_tracks(path)


BROKEN = {
    "prose": ("It was a dark\nand stormy night\n", "line 1: is neither"),
    "one column": ("10 1 2 3\n5\n", "line 2: has 1 column, at least 4"),
    "word for a number": ("10 1 2 3\n20 1 two 3\n", "line 2: x is 'two', must be a number"),
    "NaN": ("10 1 2 3\n20 1 2 nan\n", "line 2: y is nan, must be finite"),
    "half a frame": ("10 1 2 3\n20.5 1 2 3\n", "line 2: frame is 20.5, must be a whole number"),
    "no id": ("frame,id,x,y\n10,,2,3\n", "line 2: id is '', must name"),
    "duplicate": (
        "10 1 2 3\n10 2 2 3\n20 1 4 4\n10 1 5 5\n",
        "line 4: pedestrian 1 is at frame 10 already in line 1",
    ),
    "empty": ("", "line 1: the file has no rows"),
    "broken JSON": ('{"track": {"f": 1, "p": 1, "x": 1, "y": 1}}\n{"track": \n', "line 2: is not JSON"),
    "JSON without y": ('{"track": {"f": 1, "p": 1, "x": 1}}\n', "line 1: the track has no 'y'"),
    "JSON list": ('{"track": [1, 2]}\n', "line 1: must be an object"),
    "JSON without an end": ('{"track": ' * 100_000, "line 1: is not JSON"),
    "number of 5,000 digits": (
        '{"track": {"f": ' + "1" * 5000 + ', "p": 1, "x": 1, "y": 1}}',
        "line 1: is not JSON",
    ),
    "far away": ("10 1 2 3\n20 1 1e9 3\n", r"line 2: the position is more than 1e\+08 m from the origin"),
    "more columns than names": ("frame,id,x,y\n10,1,2,5,3,5\n", "line 2: has 6 columns, the header has 4"),
    "more columns, no header": ("10 1 2 0 3 0 0 0\n", "line 1: has 8 columns and no header"),
    "a name twice": ("frame,id,x,y,X\n10,1,2,3,4\n", "line 1: has two columns named 'x'"),
    "long cell": ('10,"' + "a" * 200_000 + '",2,3\n', "line 1: field larger than field limit"),
    "open quote": ('frame,id,x,y\n10,"a,2,3\n', "line 2: has 2 columns"),
}


@pytest.mark.parametrize(("content", "message"), BROKEN.values(), ids=BROKEN.keys())
def test_broken_lines_are_named(tmp_path, content, message):
    path = tmp_path / "tracks.txt"
    path.write_text(content)
    with pytest.raises(UserError, match=message) as caught:
        read_tracks(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


@settings(max_examples=40)
@given(st.binary(max_size=200))
def test_any_bytes_are_tracks_or_a_sentence(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("bytes") / "tracks.txt"
    path.write_bytes(content)
    try:
        found = f"{len(read_tracks(path))} rows, line by line"
    except UserError as error:
        found = str(error)
    assert ", line " in found


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"fps": -1.0}, "fps is -1"),
        ({"fps": 0.0}, "fps is 0"),
        ({"unit": 0.0}, "unit is 0"),
        ({"gaps": -1.0}, "gaps is -1"),
    ],
)
def test_wrong_settings(tmp_path, wrong, message):
    path = tmp_path / "tracks.txt"
    path.write_text(text(" "))
    with pytest.raises(UserError, match=message):
        read_tracks(path, **wrong)


def test_homography(tmp_path):
    path = tmp_path / "H.txt"
    path.write_text("0.02 0.001 -3\n-0.002 0.03 1\n0.0001 0.0002 1\n")
    matrix = read_homography(path)
    x, y = 120.0, 80.0
    scale = 0.0001 * x + 0.0002 * y + 1
    expected = [(0.02 * x + 0.001 * y - 3) / scale, (-0.002 * x + 0.03 * y + 1) / scale]
    np.testing.assert_allclose(to_meters(np.array([[x, y]]), matrix), [expected])
    np.testing.assert_allclose(to_meters(np.array([[x, y]]), 7 * matrix), [expected])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("1 0 0\n0 1 0\n", "line 2: ends after 2 of the three rows"),
        ("1 0 0\n0 1\n0 0 1\n", "line 2: is '0 1'"),
        ("1 0 0\n0 a 1\n0 0 1\n", "line 2: is '0 a 1'"),
        ("1 0 0\n0 nan 1\n0 0 1\n", "line 2: a homography must be finite"),
        ("1 2 3\n2 4 6\n0 0 1\n", "cannot be inverted"),
    ],
)
def test_wrong_homography(tmp_path, content, message):
    path = tmp_path / "H.txt"
    path.write_text(content)
    with pytest.raises(UserError, match=message):
        read_homography(path)


def test_what_never_ends_is_not_read(tmp_path):
    """`/dev/zero` would fill the memory."""
    with pytest.raises(UserError, match="/dev/zero: is no file"):
        read_homography("/dev/zero")
    with pytest.raises(UserError, match="/dev/zero: is no file"):
        next(iter_rows("/dev/zero"))
    (tmp_path / "H.txt").write_text("1 0 0\n" * 20_000)
    with pytest.raises(UserError, match=r"H\.txt: has 120000 bytes, at most 65536 are read"):
        read_homography(tmp_path / "H.txt")


def test_homography_to_infinity_names_the_line(tmp_path):
    path = tmp_path / "tracks.txt"
    path.write_text("10 1 2 3\n20 1 0 3\n")
    with pytest.raises(UserError, match="line 2: the homography maps this position to infinity"):
        read_tracks(path, homography=np.array([[1.0, 0, 0], [0, 1, 0], [1, 0, 0]]))


@pytest.mark.parametrize("fps", [25.0, 30.0, 24.0, 5.0, 2.5, 1.0])
def test_resampling_of_straight_walks_is_exact(fps):
    frames = np.arange(0, int(20 * fps) + 1)
    velocity = np.array([1.2, -0.4])
    tracks = Tracks.of(frames, np.zeros(len(frames)), frames[:, None] / fps * velocity)
    new = tracks.resampled(fps)
    assert len(new) == 51
    np.testing.assert_allclose(new.positions, 0.4 * np.arange(51)[:, None] * velocity, atol=1e-9)
    np.testing.assert_array_equal(new.index, np.arange(51))


def test_gaps_are_interpolated_only_where_asked():
    frames = np.array([0, 10, 20, 50, 60])
    tracks = Tracks.of(frames, np.zeros(5), np.stack([frames, frames], -1) / 10)
    np.testing.assert_array_equal(tracks.resampled().frames, frames)
    np.testing.assert_array_equal(tracks.resampled().index, [0, 1, 2, 5, 6])
    filled = tracks.resampled(gaps=1.2)
    np.testing.assert_array_equal(filled.frames, np.arange(0, 61, 10))
    np.testing.assert_allclose(filled.positions[:, 0], np.arange(7))
    np.testing.assert_array_equal(tracks.resampled(gaps=1.1).frames, frames)


def test_two_positions_at_one_frame_are_refused():
    with pytest.raises(UserError, match="pedestrian a has two positions at frame 3"):
        Tracks.of([3, 3], ["a", "a"], [[0, 0], [1, 1]])


def test_identifiers_are_not_merged(tmp_path):
    """Floats cannot tell large numbers apart, Python reads underscores over, and bytes may be of any encoding."""
    names = [b"1_12", b"11_2", b"9007199254740993", b"9007199254740992", b"\xe9", b"\xe8", b"7"]
    path = tmp_path / "t.txt"
    path.write_bytes(b"frame id x y\n" + b"".join(b"0 %s 1 2\n" % name for name in [*names[:-1], b"7.0"]))
    assert len({row.agent for row in iter_rows(path)}) == len(names)
    assert list(iter_rows(path))[-1].agent == "7"
    path.write_text("frame id x y\n0 1 1_0 2\n")
    with pytest.raises(UserError, match="line 2: x is '1_0', must be a number"):
        list(iter_rows(path))


@pytest.mark.parametrize(
    ("frames", "agents", "positions", "message"),
    [
        ([1.5], [1], [[0, 0]], "frames must be whole numbers of at most 2"),
        ([math.nan], [1], [[0, 0]], "frames must be whole numbers"),
        (["1"], [1], [[0, 0]], "frames must be whole numbers"),
        ([2**63], [1], [[0, 0]], "frames must be whole numbers"),
        ([1, 2], [1], [[0, 0]], "as many rows as each other, got 2, 1 and 1"),
        ([1, 2], [1, 1], [[0, 0, 0], [1, 1, 1]], r"positions must be \(rows, 2\), got \(2, 3\)"),
        ([1], [1], [[0, 0, 1, 1]], r"positions must be \(rows, 2\)"),
        ([1], [1], [[0, math.nan]], "positions must be finite"),
        ([1], [1], [[1j, 0]], "positions must be real numbers"),
        ([1, 1], [None, "b"], [[0, 0], [1, 1]], "agents must be labels"),
    ],
)
def test_columns_that_are_no_tracks_are_refused(frames, agents, positions, message):
    with pytest.raises((TypeError, ValueError), match=message):
        Tracks.of(frames, agents, positions)


def test_a_grid_that_would_fill_the_memory_is_refused():
    tracks = Tracks.of([0, 2**53], [1, 2], [[0, 0], [1, 1]])
    for arguments in ({"fps": 2.5}, {"fps": 1e-300}):
        with pytest.raises(UserError, match=r"must be at most 1e[+]07: is fps right"):
            tracks.resampled(**arguments)
    for arguments in ({"fps": 0.0}, {"fps": math.nan}, {"gaps": math.nan}):
        with pytest.raises(UserError, match="must be a"):
            tracks.resampled(**arguments)
