"""Files that are complete or absent."""

import errno
import fcntl
import json
import math
import os
import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from torchmcl.errors import UserError

__all__ = [
    "atomic",
    "check_file",
    "check_root",
    "check_space",
    "locked",
    "make_folder",
    "read_json",
    "resolved",
    "sweep",
    "write_json",
    "write_text",
]

PARTIAL = ".torchmcl-partial-"
"""How the name of a file begins that is being written, or that a killed process left half written."""

ENDING = 1.0
"""Seconds for which a process that was just killed may still hold a lock, through a child that ends after it."""
LONGEST_ENDING = 50
"""Characters of a name that its temporary name keeps: file systems allow 255 bytes, and a character has up to four."""


@contextmanager
def atomic(path: str | Path) -> Iterator[Path]:
    """A temporary path beside `path` that takes its place when the block ends, and vanishes when it fails.

    The temporary name ends as that of `path` does, for writers that choose a format by it. An `OSError` of the block
    names `path`, also where the system call knew no name, as on a full disk. A symbolic link is replaced, not
    written through; a folder, a pipe or a device in its place is a `UserError`.

    Args:
        path: The file to write; folders above it are made.

    Yields:
        The temporary path, of an empty file.
    """
    path = Path(path)
    if path.name in ("", ".."):
        raise UserError(f"{path}: is a folder, it must be a file")
    check_file(path)
    make_folder(path.parent)
    temporary = path.with_name(f"{PARTIAL}{secrets.token_hex(4)}-{path.name[-LONGEST_ENDING:]}")
    handle = -1
    try:
        handle = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
        with suppress(OSError):  # where files cannot be locked, `sweep` must not be called meanwhile
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield temporary
        with temporary.open("rb") as stream:
            os.fsync(stream.fileno())
        temporary.replace(path)
    except OSError as error:
        if error.filename is not None and Path(os.fsdecode(error.filename)) != temporary:
            raise
        raise OSError(error.errno, error.strerror or str(error), str(path)) from None
    finally:
        temporary.unlink(missing_ok=True)
        if handle >= 0:
            os.close(handle)


def make_folder(folder: Path) -> None:
    """Make a folder and those above it; a file in its place is a `UserError`.

    Args:
        folder: The folder; it may exist.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise UserError(f"{folder}: is a file, it must be a folder") from None


@contextmanager
def locked(folder: str | Path, busy: str | None = None) -> Iterator[int]:
    """Be the only process that works in `folder`.

    The lock ends with the last process that has the handle, however that ends.

    Args:
        folder: The folder; it is made where missing.
        busy: What the `UserError` says where another process has the folder; without it, the call waits.

    Yields:
        The handle that holds the lock.
    """
    folder = Path(folder)
    make_folder(folder)
    how = fcntl.LOCK_EX | (0 if busy is None else fcntl.LOCK_NB)
    until = time.monotonic() + ENDING
    while (handle := _try_lock(folder, how)) is None:
        if time.monotonic() > until:
            raise UserError(f"{folder}: {busy}")
        time.sleep(0.02)
    try:
        yield handle
    finally:
        os.close(handle)


def _try_lock(folder: Path, how: int) -> int | None:
    """The handle, or `None` where another process has the folder."""
    try:
        return _flocked(folder, os.O_RDONLY, how)
    except BlockingIOError:
        return None


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


def sweep(folder: str | Path) -> None:
    """Remove what a killed process left half written in `folder`, which must be locked.

    Only files whose names `atomic` makes are removed; those in folders below, and those that a process is writing,
    are left alone.

    Args:
        folder: The folder; it may be absent.
    """
    for stale in Path(folder).glob(f"{PARTIAL}{'[0-9a-f]' * 8}-*"):
        if not _is_being_written(stale):
            stale.unlink(missing_ok=True)


def _is_being_written(path: Path) -> bool:
    """Whether a process holds the lock of `atomic`, which ends with the process."""
    if path.is_symlink() or not path.is_file():
        return False
    try:
        handle = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False


def resolved(path: Path) -> Path:
    """The path without links; one that leads to itself is a `UserError`.

    Args:
        path: It may be absent.
    """
    try:
        return path.resolve()
    except RuntimeError:
        raise UserError(f"{path}: is a link that leads to itself") from None


def check_root(folder: Path) -> None:
    """Refuse the root folder, in which nobody wants files.

    Args:
        folder: The folder; it may be absent.
    """
    place = resolved(folder)
    if place == Path(place.anchor):
        raise UserError(f"{folder}: is the root folder, choose another one")


def write_text(path: str | Path, text: str) -> None:
    """Write `text` to `path` at once, as UTF-8.

    Args:
        path: The file to make or to replace.
        text: All of its content.
    """
    with atomic(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: str | Path, value: Any) -> None:
    """Write `value` as indented JSON to `path` at once.

    Args:
        path: The file to make or to replace.
        value: Plain values; NaN and infinity are a `ValueError`, for JSON has none.
    """
    with atomic(path) as temporary, temporary.open("w", encoding="utf-8") as stream:
        # Piece by piece: the text of an hour of sound is large.
        json.dump(value, stream, indent=2, allow_nan=False)
        stream.write("\n")


def check_file(path: Path, limit: int | None = None) -> None:
    """Refuse folders, pipes and devices, which may never end, and files that are too large.

    Args:
        path: What is to be read; where there is nothing, opening it says so.
        limit: The most bytes.

    Raises:
        UserError: It is something else than a file, or larger.
    """
    if "\0" in str(path):
        raise UserError(f"{path}: is no name of a file")
    if path.exists() and not path.is_file():
        raise UserError(f"{path}: is no file")
    if limit is not None and (size := path.stat().st_size) > limit:
        raise UserError(f"{path}: has {size} bytes, at most {limit} are read")


def check_space(folder: Path, needed: int) -> None:
    """Refuse what would fill the disk, before it is begun.

    Args:
        folder: Where it is written; it may be absent.
        needed: Bytes.
    """
    there = next(each for each in (folder, *folder.absolute().parents) if each.is_dir())
    free = shutil.disk_usage(there).free
    if needed > free:
        raise UserError(f"{folder}: {needed / 1e6:.0f} MB are needed there, {free / 1e6:.0f} MB are free")


def read_json(path: str | Path, *, limit: int = 64 * 2**20) -> Any:
    """Read a file that may come from anybody; what is wrong with it is a `UserError` of one sentence.

    Args:
        path: A JSON file.
        limit: Bytes above which it is refused.

    Returns:
        Plain values, nested at most 100 deep; numbers are finite, and whole ones have at most 64 bits.
    """
    path = Path(path)
    check_file(path, limit)
    try:
        value = json.loads(path.read_text(encoding="utf-8"), parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path}: is not JSON ({str(error).splitlines()[0]})") from None
    _check_plain(value, path, 0)
    return value


def _refuse_constant(name: str) -> None:
    raise ValueError(f"it holds {name}")


def _check_plain(value: Any, path: Path, depth: int) -> None:
    if depth > 100:
        raise UserError(f"{path}: is nested more than 100 deep")
    if isinstance(value, float) and not math.isfinite(value):
        raise UserError(f"{path}: holds a number that is not finite")
    if isinstance(value, int) and abs(value) >= 2**64:
        raise UserError(f"{path}: holds a whole number of more than 64 bits")
    children = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for child in children:
        _check_plain(child, path, depth + 1)
