"""Images with labels: scikit-learn's digits, a folder of MNIST files, and the tasks made of them."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor

from torchmcl.errors import UserError
from torchmcl.images.idx import find_idx, read_idx
from torchmcl.runs.files import resolved

__all__ = ["TASKS", "ImageSet", "Split", "Task", "load_digits", "load_mnist", "split"]

Task = Literal["few", "ambiguous", "noisy"]
TASKS: tuple[Task, ...] = ("few", "ambiguous", "noisy")

DIGITS_TEST = 797
"""Images of digits that are kept for testing, the same for all seeds; the other 1,000 are there to train from."""

HELD_OUT = 5000
"""Training images by which settings are chosen, at most."""

WRONG_LABELS = 0.3
"""The share of training labels that are replaced by any class in the task `noisy`."""


@dataclass(frozen=True, eq=False)
class ImageSet:
    """Images `(n, height, width)` of bytes with labels, to train from and to test with.

    Args:
        name: Of the data set.
        train: To draw training images from.
        test: The same for all seeds.
        classes: Labels are below.
        white: The byte of a white pixel.
        bundled: Whether these are the digits that need no file.
    """

    name: str
    train: tuple[UInt8[Tensor, "n height width"], Int[Tensor, "n"]]
    test: tuple[UInt8[Tensor, "m height width"], Int[Tensor, "m"]]
    classes: int
    white: int = 255
    bundled: bool = False

    @property
    def available(self) -> int:
        """How many images there are to train from."""
        return len(self.train[1])


@dataclass(frozen=True, eq=False)
class Split:
    """Training and test images with values in [0, 1], and their labels."""

    train_images: Float[Tensor, "n height width"]
    train_labels: Int[Tensor, "n"]
    test_images: Float[Tensor, "m height width"]
    test_labels: Int[Tensor, "m"]


def load_digits() -> ImageSet:
    """The 1,797 digits of 8 x 8 pixels that scikit-learn brings along."""
    from sklearn.datasets import load_digits as bundled

    data = bundled()
    images, labels = torch.from_numpy(data.images.astype(np.uint8)), torch.from_numpy(data.target)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    test, train = order[:DIGITS_TEST], order[DIGITS_TEST:]
    parts = (images[train], labels[train]), (images[test], labels[test])
    return ImageSet("digits", *parts, 10, white=16, bundled=True)


def load_mnist(folder: str | Path) -> ImageSet:
    """The four IDX files of MNIST, or of a data set in the same format, compressed or not."""
    folder = Path(folder)
    if not folder.is_dir():
        raise UserError(f"{folder}: there is no such folder with the four IDX files")
    train, test = _read_pair(folder, "train"), _read_pair(folder, "t10k")
    if train[0].shape[1:] != test[0].shape[1:]:
        raise UserError(
            f"{folder}: training images are {tuple(train[0].shape[1:])}, test images {tuple(test[0].shape[1:])}"
        )
    known = set(train[1].unique().tolist())
    if len(known) < 2:
        raise UserError(f"{folder}: all training labels are {min(known)}; there must be at least two classes")
    unknown = set(test[1].unique().tolist()) - known
    if unknown:
        raise UserError(
            f"{folder}: test label {min(unknown)} is not among the training labels {sorted(known)}"
        )
    return ImageSet(resolved(folder).name, train, test, max(known) + 1)


def split(data: ImageSet, task: Task, images: int, seed: int, *, validation: bool = False) -> Split:
    """So many training images, drawn by the seed, and all test images of a task.

    In `ambiguous` the label of an image of class c is c or c + 1, each with probability 1/2, also in testing: two
    answers are right, and one of them was given. In `noisy` 30 % of the training labels are replaced by any class.
    With `validation` training images that were not drawn, up to 5,000, take the place of the test images.
    """
    if not 1 <= images <= data.available:
        raise UserError(f"--images must be between 1 and {data.available}, got {images}")
    random = torch.Generator().manual_seed(seed)
    (pixels, labels), (test_pixels, test_labels) = data.train, data.test
    order = torch.randperm(len(labels), generator=random)
    if validation:
        held = order[images:][:HELD_OUT]
        test_pixels, test_labels = pixels[held], labels[held]
    pixels, labels = pixels[order[:images]], labels[order[:images]]
    if task == "ambiguous":
        labels, test_labels = (_one_of_two(each, data.classes, random) for each in (labels, test_labels))
    elif task == "noisy":
        wrong = torch.rand(len(labels), generator=random) < WRONG_LABELS
        labels = torch.where(wrong, torch.randint(data.classes, labels.shape, generator=random), labels)
    return Split(pixels / data.white, labels, test_pixels / data.white, test_labels)


def _one_of_two(labels: Tensor, classes: int, random: torch.Generator) -> Tensor:
    return (labels + torch.randint(2, labels.shape, generator=random)) % classes


def _read_pair(folder: Path, part: str) -> tuple[Tensor, Tensor]:
    image_file = find_idx(folder, f"{part}-images", 3)
    label_file = find_idx(folder, f"{part}-labels", 1)
    images, labels = read_idx(image_file, 3), read_idx(label_file, 1)
    if len(images) != len(labels):
        raise UserError(f"{label_file}: holds {len(labels)} labels, {image_file.name} {len(images)} images")
    return torch.from_numpy(images.copy()), torch.from_numpy(labels.astype(np.int64))
