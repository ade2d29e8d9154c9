"""Files are complete or absent."""

import errno
import fcntl
import json
import os
import stat
import threading

import pytest

from torchmcl.errors import UserError
from torchmcl.runs.files import atomic, check_root, locked, read_json, sweep, write_json, write_text


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


def test_only_one_process_has_a_folder(tmp_path):
    with locked(tmp_path / "a") as handle:
        assert os.path.samestat(os.fstat(handle), (tmp_path / "a").stat())
        with pytest.raises(UserError, match="a: is taken"), locked(tmp_path / "a", "is taken"):
            pass
    with locked(tmp_path / "a", "is taken"):
        assert os.listdir(tmp_path / "a") == []


def test_a_lock_that_ends_in_a_moment_is_waited_for(tmp_path):
    held = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    threading.Timer(0.1, os.close, [held]).start()
    with locked(tmp_path, "is taken"):
        pass


def test_where_folders_cannot_be_locked_a_file_is(tmp_path, monkeypatch):
    """As on network file systems, which want what is locked to be open for writing."""
    lock = fcntl.flock

    def picky(handle, how):
        if stat.S_ISDIR(os.fstat(handle).st_mode):
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        lock(handle, how)

    monkeypatch.setattr(fcntl, "flock", picky)
    with (
        locked(tmp_path),
        pytest.raises(UserError, match="is taken"),
        locked(tmp_path, "is taken"),
    ):
        pass
    with locked(tmp_path, "is taken"):
        assert os.listdir(tmp_path) == [".lock"]


def test_what_was_half_written_is_swept_away_and_nothing_else(tmp_path):
    own = [".own.json", ".git.csv", ".last.abc.ckpt", ".torchmcl-partial-mine.json", "last.ckpt"]
    for name in own:
        (tmp_path / name).touch()
    with atomic(tmp_path / "half.json") as temporary:
        left = temporary.name
    (tmp_path / "below").mkdir()
    (tmp_path / left).touch()
    (tmp_path / "below" / left).touch()
    sweep(tmp_path)
    assert sorted(os.listdir(tmp_path)) == sorted([*own, "below", "half.json"])
    assert os.listdir(tmp_path / "below") == [left]
    sweep(tmp_path / "absent")


def test_a_link_is_replaced_not_written_through(tmp_path):
    (tmp_path / "outside").write_text("mine")
    (tmp_path / "link").symlink_to(tmp_path / "outside")
    write_text(tmp_path / "link", "ours")
    assert (tmp_path / "outside").read_text() == "mine"
    assert (tmp_path / "link").read_text() == "ours"


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"\xff",
        b"NaN",
        b'{"x": Infinity}',
        b"1e999",
        b"[" * 150 + b"]" * 150,
        b"[" * 100_000,
        b" " * 2000,
    ],
)
def test_json_of_others_is_read_or_refused_with_one_sentence(content, tmp_path):
    (tmp_path / "a.json").write_bytes(content)
    with pytest.raises(UserError, match=r"a\.json: [^\n]+$"):
        read_json(tmp_path / "a.json", limit=1000 if content.isspace() else 2**20)


def test_an_error_without_a_name_gets_that_of_the_file(tmp_path):
    def fail():
        with atomic(tmp_path / "a.txt"):
            raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(OSError, match=r"No space left on device: '.*a\.txt'"):
        fail()
    assert os.listdir(tmp_path) == []


def test_only_a_file_is_replaced(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("folder")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "device").symlink_to("/dev/full")
    for name in ("folder", "link", "pipe", "device", ".", "..", "folder/.."):
        with pytest.raises(UserError, match=r"is no file|must be a file"):
            write_text(tmp_path / name, "text")
    for name in (".", "", "/"):
        with pytest.raises(UserError, match="is a folder, it must be a file"):
            write_text(name, "text")
    assert sorted(os.listdir(tmp_path)) == ["device", "folder", "link", "pipe"]


def test_what_is_being_written_is_not_swept_away(tmp_path):
    with atomic(tmp_path / "a.txt") as temporary:
        temporary.write_text("new")
        sweep(tmp_path)
    assert (tmp_path / "a.txt").read_text() == "new"
    assert os.listdir(tmp_path) == ["a.txt"]


def test_a_link_that_leads_to_itself_is_one_sentence(tmp_path):
    (tmp_path / "loop").symlink_to("loop")
    for name in ("loop", "loop/below"):
        with pytest.raises(UserError, match="leads to itself"):
            check_root(tmp_path / name)


def test_a_long_name_of_letters_with_several_bytes_is_written(tmp_path):
    path = tmp_path / f"{'音' * 80}.json"
    write_json(path, [])
    assert read_json(path) == []
