"""IDX files: what was written is read, and nothing else."""

import gzip
import random

import numpy as np
import pytest

from mnist import encode, replace_labels, write_set
from torchmcl.errors import UserError
from torchmcl.images.data import load_mnist
from torchmcl.images.idx import read_idx


@pytest.mark.parametrize("zipped", [False, True])
@pytest.mark.parametrize("dotted", [False, True])
def test_what_was_written_is_read(tmp_path, zipped, dotted):
    data = load_mnist(write_set(tmp_path, zipped=zipped, dotted=dotted))
    assert data.train[0].shape == (60, 8, 8)
    assert data.test[1].tolist() == [number % 10 for number in range(20)]
    draw = np.random.default_rng(0)
    assert np.array_equal(data.train[0].numpy(), draw.integers(0, 256, (60, 8, 8)))
    assert (data.classes, data.available) == (10, 60)


IMAGES = "train-images-idx3-ubyte"
DAMAGES = {
    "cut short": (IMAGES, lambda content: content[:-1], "bytes, but there are only"),
    "cut in the header": (IMAGES, lambda content: content[:9], "ends inside of its header"),
    "empty": (IMAGES, lambda content: b"", "begins with nothing"),
    "too long": (IMAGES, lambda content: content + b"\x00", "but there are more"),
    "wrong magic": (IMAGES, lambda content: b"\x00\x00\x08\x01" + content[4:], "must begin with 00000803"),
    "floats": (IMAGES, lambda content: b"\x00\x00\x0d\x03" + content[4:], "begins with 00000d03"),
    "huge": (IMAGES, lambda content: content[:4] + b"\xff" * 12, "it must be 1 to 1073741824"),
    "many pixels": (
        IMAGES,
        lambda content: gzip.compress(encode(np.zeros((60, 1, 2**16 + 1), np.uint8)), 1),
        "images of 65537 pixels; at most 65536 are read",
    ),
    "no pixels": (IMAGES, lambda content: content[:8] + b"\x00" * 8, "which is 0 bytes"),
    "damaged gzip": (IMAGES, lambda content: gzip.compress(content)[:-20], "gzip compression is damaged"),
    "gzip of noise": (IMAGES, lambda content: b"\x1f\x8b\x08" + b"\x07" * 40, "gzip compression is damaged"),
    "bomb": (IMAGES, lambda content: gzip.compress(content + b"\x00" * 10**7), "but there are more"),
    "labels for others": ("train-labels-idx1-ubyte", lambda _: encode(np.arange(7)), "holds 7 labels"),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_damaged_files_are_refused_by_name(tmp_path, name):
    write_set(tmp_path)
    file, damage, message = DAMAGES[name]
    path = tmp_path / file
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(UserError, match=message) as caught:
        load_mnist(tmp_path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_missing_files_and_folders_are_named(tmp_path):
    with pytest.raises(UserError, match="no such folder"):
        load_mnist(tmp_path / "nowhere")
    with pytest.raises(UserError, match="there is no train-images-idx3-ubyte or"):
        load_mnist(tmp_path)


def test_labels_must_make_sense(tmp_path):
    write_set(tmp_path)
    replace_labels(tmp_path, "train", [3] * 60)
    with pytest.raises(UserError, match="all training labels are 3; there must be at least two classes"):
        load_mnist(tmp_path)
    replace_labels(tmp_path, "train", [3, 4] * 30)
    with pytest.raises(UserError, match=r"test label 0 is not among the training labels \[3, 4\]"):
        load_mnist(tmp_path)


def test_five_hundred_damaged_files_are_read_or_refused(tmp_path):
    draw = random.Random(0)
    array = np.random.default_rng(0).integers(0, 256, (5, 3, 4))
    originals = [encode(array), gzip.compress(encode(array), mtime=0)]
    path = tmp_path / "file"
    refused = 0
    for number in range(500):
        content = bytearray(originals[number % 2])
        for _ in range(draw.randint(1, 3)):
            at = draw.randrange(len(content))
            kind = draw.randrange(3)
            if kind == 0:
                content[at] = draw.randrange(256)
            elif kind == 1 and at:
                del content[at:]
            else:
                content[at:at] = draw.randbytes(draw.randint(1, 9))
        path.write_bytes(bytes(content))
        try:
            assert read_idx(path, 3).ndim == 3
            said = str(path)
        except UserError as error:
            refused += 1
            said = str(error)
        assert str(path) in said
    assert 50 < refused < 500
