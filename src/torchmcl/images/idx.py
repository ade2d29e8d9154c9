"""Strict reader of IDX files, the format of MNIST."""

import gzip
import struct
import zlib
from io import BufferedReader
from math import prod
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from torchmcl.errors import UserError

__all__ = ["LIMIT", "find_idx", "read_idx"]

LIMIT = 2**30
"""The most bytes that a file may hold: twenty times MNIST. The header is checked before anything is allocated."""

MOST_PIXELS = 2**16
"""Of an image: a network has weights for each of them."""

UNSIGNED_BYTES = 0x08


def find_idx(folder: Path, stem: str, axes: int) -> Path:
    """The file of MNIST's name in `folder`, compressed or not, with a hyphen or a dot before `idx`."""
    names = [f"{stem}{mark}idx{axes}-ubyte{end}" for mark in "-." for end in ("", ".gz")]
    found = [folder / name for name in names if (folder / name).is_file()]
    if not found:
        raise UserError(f"{folder}: there is no {names[0]} or {names[1]}")
    return found[0]


def read_idx(path: str | Path, axes: int) -> NDArray[np.uint8]:
    """The array of unsigned bytes in an IDX file, compressed or not.

    Args:
        path: Of the file; one that begins with the bytes of gzip is decompressed, whatever its name.
        axes: How many the array must have: 3 for images, 1 for labels.

    Returns:
        The array in the shape that the header states.

    Raises:
        UserError: A wrong magic number or number of axes, a file that is longer or shorter than its header says,
            damaged compression, more than 1 GiB, or more than 65,536 pixels.
    """
    path = Path(path)
    try:
        with path.open("rb") as raw:
            compressed = raw.read(2) == b"\x1f\x8b"
        with gzip.open(path, "rb") if compressed else path.open("rb") as stream:
            return _read(stream, path, axes)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise UserError(f"{path}: the gzip compression is damaged ({error})") from None
    except OSError as error:
        raise UserError(f"{path}: {error.strerror or error}") from None


def _read(stream: gzip.GzipFile | BufferedReader, path: Path, axes: int) -> NDArray[np.uint8]:
    head = stream.read(4 + 4 * axes)
    magic = bytes([0, 0, UNSIGNED_BYTES, axes])
    if head[:4] != magic:
        raise UserError(f"{path}: begins with {head[:4].hex() or 'nothing'}, must begin with {magic.hex()}")
    if len(head) < 4 + 4 * axes:
        raise UserError(f"{path}: ends inside of its header")
    shape = struct.unpack(f">{axes}I", head[4:])
    size = prod(shape)
    if not 0 < size <= LIMIT:
        raise UserError(f"{path}: its header says {shape}, which is {size} bytes; it must be 1 to {LIMIT}")
    if (pixels := prod(shape[1:])) > MOST_PIXELS:
        raise UserError(
            f"{path}: its header says {shape}, images of {pixels} pixels; at most {MOST_PIXELS} are read"
        )
    content = stream.read(size + 1)
    if len(content) != size:
        more = "more" if len(content) > size else f"only {len(content)}"
        raise UserError(f"{path}: its header says {shape}, which is {size} bytes, but there are {more}")
    return np.frombuffer(content, dtype=np.uint8).reshape(shape)
