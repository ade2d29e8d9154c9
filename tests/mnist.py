"""MNIST files made anew, by an independent writer of their format."""

import gzip
import struct

import numpy as np


def encode(array: np.ndarray) -> bytes:
    """An independent writer of the format, as its description has it."""
    head = b"\x00\x00\x08" + bytes([array.ndim]) + b"".join(struct.pack(">I", size) for size in array.shape)
    return head + array.astype(np.uint8).tobytes()


def write_set(folder, *, zipped=False, dotted=False, train=60, test=20, size=8):
    draw = np.random.default_rng(0)
    for part, count in (("train", train), ("t10k", test)):
        labels = np.arange(count) % 10
        images = draw.integers(0, 256, (count, size, size))
        for kind, array in (("images", images), ("labels", labels)):
            mark = "." if dotted else "-"
            content = encode(array)
            name = f"{part}-{kind}{mark}idx{array.ndim}-ubyte" + (".gz" if zipped else "")
            (folder / name).write_bytes(gzip.compress(content) if zipped else content)
    return folder


def replace_labels(folder, part, labels):
    (folder / f"{part}-labels-idx1-ubyte").write_bytes(encode(np.asarray(labels)))
