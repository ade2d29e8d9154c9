"""Files that are complete or absent."""

import errno
import fcntl
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from torchmcl.errors import UserError

__all__ = ["atomic", "locked", "make_folder", "sweep", "write_json", "write_text"]


@contextmanager
def atomic(path: str | Path) -> Iterator[Path]:
    """A temporary path beside `path` that takes its place when the block ends, and vanishes when it fails.

    The temporary name keeps the suffix of `path`, for writers that choose a format by it. An `OSError` of the block
    names `path`, also where the system call knew no name, as on a full disk.
    """
    path = Path(path)
    make_folder(path.parent)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.stem}.", suffix=path.suffix)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        temporary.chmod(0o666 & ~_umask())
        with temporary.open("rb") as stream:
            os.fsync(stream.fileno())
        temporary.replace(path)
    except OSError as error:
        if error.filename is not None and Path(os.fsdecode(error.filename)) != temporary:
            raise
        raise OSError(error.errno, error.strerror or str(error), str(path)) from None
    finally:
        temporary.unlink(missing_ok=True)


def make_folder(folder: Path) -> None:
    """Make a folder and those above it; a file in its place is a `UserError`."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise UserError(f"{folder}: is a file, it must be a folder") from None


@contextmanager
def locked(folder: str | Path, busy: str | None = None) -> Iterator[int]:
    """Be the only process that works in `folder`; yields the handle that holds the lock.

    Without `busy` it waits for its turn; with it, a folder that is in use is a `UserError` that says so. The lock
    ends with the last process that has the handle, however that ends.
    """
    folder = Path(folder)
    make_folder(folder)
    how = fcntl.LOCK_EX | (0 if busy is None else fcntl.LOCK_NB)
    try:
        handle = _flocked(folder, os.O_RDONLY, how)
    except BlockingIOError:
        raise UserError(f"{folder}: {busy}") from None
    try:
        yield handle
    finally:
        os.close(handle)


def _flocked(path: Path, flags: int, how: int) -> int:
    """Open and lock; network file systems lock only what is open for writing, which a folder cannot be."""
    handle = os.open(path, flags)
    try:
        fcntl.flock(handle, how)
    except OSError as error:
        os.close(handle)
        if error.errno != errno.EBADF or not path.is_dir():
            raise
        return _flocked(path / ".lock", os.O_RDWR | os.O_CREAT, how)
    return handle


def sweep(folder: str | Path, *names: str) -> None:
    """Remove what a killed process left half written of files of these names in `folder`, which must be locked."""
    for path in map(Path, names):
        for stale in Path(folder).glob(f".{path.stem}.*{path.suffix}"):
            stale.unlink(missing_ok=True)


def _umask() -> int:
    value = os.umask(0)
    os.umask(value)
    return value


def write_text(path: str | Path, text: str) -> None:
    """Write `text` to `path` at once."""
    with atomic(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: str | Path, value: Any) -> None:
    """Write `value` as indented JSON to `path` at once; NaN is an error, for JSON has none."""
    write_text(path, json.dumps(value, indent=2, allow_nan=False) + "\n")
