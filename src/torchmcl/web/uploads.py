"""Uploads: streamed to a file, bounded in size, duration and pauses."""

import asyncio
import re
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

from torchmcl.errors import UserError
from torchmcl.web.limits import Limits

__all__ = ["check_length", "disk_name", "display_name", "receive"]

ENDINGS = (".wav", ".flac", ".aiff", ".aif", ".caf", ".w64", ".csv", ".tsv", ".parquet", ".txt", ".ndjson")

LONGEST_NAME = 200
"""Bytes of a display name: file systems allow 255, and names of outputs are longer."""

RESERVE = 256 * 2**20
"""Bytes that stay free on the disk."""


def check_length(announced: str | None, limits: Limits, folder: Path) -> None:
    """Refuse an upload by its announced length, before anything of it is read.

    Args:
        announced: The header `Content-Length`, if there is one.
        limits: The bounds.
        folder: Where the upload would go.
    """
    if announced is None:
        return
    if not (announced.isascii() and announced.isdigit()):
        raise UserError(f"Content-Length is {announced[:20]!r}, must be a number")
    _check_size(int(announced), limits)
    if int(announced) + RESERVE > shutil.disk_usage(folder).free:
        raise UserError("there is not enough space on the disk of the server for this file")


async def receive(stream: AsyncIterator[bytes], path: Path, limits: Limits) -> int:
    """Write an upload to `path`; too much, too slow or nothing at all is a `UserError`.

    Args:
        stream: The body of the request.
        path: The file to write.
        limits: The bounds.

    Returns:
        The number of bytes.
    """
    size = 0
    parts = aiter(stream)
    try:
        async with asyncio.timeout(limits.upload_seconds):
            with path.open("wb") as file:
                while part := await _next(parts, limits.idle_seconds):
                    size += len(part)
                    _check_size(size, limits)
                    await asyncio.to_thread(file.write, part)
    except TimeoutError:
        raise UserError(
            f"the upload was too slow: it may take {limits.upload_seconds:g} s, and pause for {limits.idle_seconds:g} s"
        ) from None
    except OSError as error:
        raise UserError(f"the server could not keep the file ({error.strerror})") from None
    if size == 0:
        raise UserError("the file is empty")
    return size


def display_name(name: str) -> str:
    """The last part of a name given by a stranger, short and without control characters.

    >>> display_name("../../etc/pass\\x1bwd.wav")
    'passwd.wav'
    >>> display_name("..")
    'upload'
    """
    last = name.replace("\\", "/").rsplit("/", 1)[-1]
    kept = "".join(letter for letter in last if letter.isprintable()).strip(". ")
    return kept[-100:].encode()[-LONGEST_NAME:].decode(errors="ignore") or "upload"


def disk_name(name: str) -> str:
    """What a file of that display name is called on the disk: letters, digits and a known ending.

    >>> disk_name("my <img> houses.CSV")
    'my _img_ houses.csv'
    >>> disk_name("..php")
    'upload'
    """
    ending = Path(name).suffix.lower()
    stem = Path(name).stem if ending in ENDINGS else ""
    kept = re.sub(r"[^A-Za-z0-9_\- ]", "_", stem)[:60].strip(" _-")
    return f"{kept or 'upload'}{ending if ending in ENDINGS else ''}"


async def _next(parts: AsyncIterator[bytes], seconds: float) -> bytes:
    """The next part that is not empty; nothing at the end."""
    async with asyncio.timeout(seconds):
        async for part in parts:
            if part:
                return part
    return b""


def _check_size(size: int, limits: Limits) -> None:
    if size > limits.upload_bytes:
        raise UserError(f"the file is too large: at most {limits.upload_bytes // 2**20} MB are accepted")
