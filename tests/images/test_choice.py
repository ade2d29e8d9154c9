"""Settings are chosen on training images that no run is measured by."""

import json

import pytest
import torch
from rich.console import Console

from mnist import replace_labels, write_set
from torchmcl.errors import UserError
from torchmcl.images import choice
from torchmcl.images.choice import CANDIDATES, choose
from torchmcl.images.data import load_digits, split

QUIET = Console(quiet=True)


def rows(images: torch.Tensor) -> set[bytes]:
    return {image.tobytes() for image in images.numpy()}


def test_held_out_images_are_neither_learned_nor_tested():
    digits = load_digits()
    tested = rows(split(digits, "few", 300, 0).test_images)
    for seed in range(3):
        plain, held = (split(digits, "few", 300, seed, validation=each) for each in (False, True))
        assert torch.equal(held.train_images, plain.train_images)
        assert rows(plain.test_images) == tested
        assert len(held.test_images) == 700
        assert not rows(held.test_images) & (tested | rows(held.train_images))


@pytest.fixture
def few(monkeypatch):
    """Three candidates in place of nine."""
    monkeypatch.setattr(choice, "HIDDEN", (32,))
    monkeypatch.setattr(choice, "CANDIDATES", tuple(each for each in CANDIDATES if each[1] == 32))


def test_the_choice_does_not_see_the_test_images(tmp_path, few, monkeypatch):
    files = write_set(tmp_path, size=8, train=60)
    found = choose(files, out=tmp_path / "one", seeds=1, images=30, console=QUIET)
    replace_labels(files, "t10k", [0, 1] * 10)
    again = choose(files, out=tmp_path / "two", seeds=1, images=30, console=QUIET)
    assert [row["values"] for row in found["candidates"]] == [row["values"] for row in again["candidates"]]
    assert [row["scaling"] for row in found["candidates"]] == ["none", "image", "pixel"]
    assert len({tuple(row["values"]) for row in found["candidates"]}) > 1
    assert json.loads((tmp_path / "one" / "choice.json").read_text()) == found
    best = min(found["candidates"], key=lambda row: row["mean"])
    assert found["best"] == {key: best[key] for key in ("scaling", "hidden")}
    lines = (tmp_path / "one" / "choice.md").read_text().splitlines()
    assert sum(line.startswith(("| as they", "| all", "| each")) for line in lines) == 3
    # a finished choice is read
    monkeypatch.setattr("torchmcl.images.study._train", None)
    assert choose(files, out=tmp_path / "two", seeds=1, images=30, console=QUIET) == again


def test_a_file_of_a_person_is_found_before_the_work(tmp_path, few):
    (tmp_path / "choice.json").write_text("mine")
    with pytest.raises(UserError, match=r"choice\.json: is there and was not written by this program"):
        choose(write_set(tmp_path, size=8, train=60), out=tmp_path, seeds=1, images=30, console=QUIET)
    assert (tmp_path / "choice.json").read_text() == "mine"


def test_nothing_to_choose_on(tmp_path):
    files = write_set(tmp_path, size=8, train=60)
    with pytest.raises(UserError, match="--images must be at most 59: the others are held out, got 60"):
        choose(files, out=tmp_path / "out", seeds=1, images=60, console=QUIET)
    assert not (tmp_path / "out").exists()
