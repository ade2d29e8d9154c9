"""Files that are complete or absent."""

import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

__all__ = ["atomic", "write_json", "write_text"]


@contextmanager
def atomic(path: str | Path) -> Iterator[Path]:
    """A temporary path beside `path` that takes its place when the block ends, and vanishes when it fails.

    The temporary name keeps the suffix of `path`, for writers that choose a format by it.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.stem}.", suffix=path.suffix)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        temporary.chmod(0o666 & ~_umask())
        with temporary.open("rb") as stream:
            os.fsync(stream.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


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
