"""Files are complete or absent."""

import json
import os

import pytest

from torchmcl.files import atomic, write_json, write_text


def test_a_file_takes_its_place_when_complete(tmp_path):
    path = tmp_path / "deep" / "result.json"
    with atomic(path) as temporary:
        temporary.write_text("half")
        assert not path.exists()
        assert temporary.suffix == ".json"
        assert temporary.parent == path.parent
    assert path.read_text() == "half"
    assert os.listdir(path.parent) == ["result.json"]


def test_a_failure_leaves_what_was_there(tmp_path):
    path = tmp_path / "result.txt"
    write_text(path, "before")

    def fail():
        with atomic(path) as temporary:
            temporary.write_text("after")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert path.read_text() == "before"
    assert os.listdir(tmp_path) == ["result.txt"]


def test_permissions_are_those_of_any_new_file(tmp_path):
    write_text(tmp_path / "ours", "")
    (tmp_path / "theirs").write_text("")
    assert (tmp_path / "ours").stat().st_mode == (tmp_path / "theirs").stat().st_mode


def test_json_has_no_nan(tmp_path):
    write_json(tmp_path / "a.json", {"x": [1, 2.5]})
    assert json.loads((tmp_path / "a.json").read_text()) == {"x": [1, 2.5]}
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(tmp_path / "a.json", {"x": float("nan")})
    assert json.loads((tmp_path / "a.json").read_text()) == {"x": [1, 2.5]}
