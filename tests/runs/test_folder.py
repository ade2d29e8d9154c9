"""A run's folder: one process, one set of settings, and nobody else's files."""

import os
from dataclasses import dataclass
from typing import ClassVar

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from torchmcl.errors import UserError
from torchmcl.runs import Record, RunFolder
from torchmcl.runs.files import PARTIAL


@dataclass(frozen=True)
class Sizes:
    units: int = 8
    layers: tuple[int, ...] = (1, 2)


@dataclass(frozen=True)
class Settings:
    seed: int = 0
    sizes: Sizes = Sizes()


@dataclass(frozen=True)
class Metrics(Record):
    file: ClassVar[str] = "metrics.json"
    emd: float


def snapshot(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_run_goes_through_its_states(tmp_path):
    network = nn.Linear(2, 3)
    with RunFolder.open(tmp_path / "deep" / "run", Settings()) as run:
        assert run.state == "new"
        run.checkpoint.touch()
        assert run.state == "training"
        run.save_model(network, {"features": 2})
        assert run.state == "trained"
        assert not run.checkpoint.exists()
        assert run.read(Metrics) is None
        run.write(Metrics(0.5))
        assert run.state == "evaluated"
    with RunFolder.open(tmp_path / "deep" / "run", Settings()) as run:
        assert run.read(Metrics) == Metrics(0.5)
        assert torch.equal(load_file(run.model)["weight"], network.weight)
    assert sorted(os.listdir(run.path)) == [
        "config.json",
        "metrics.json",
        "model.safetensors",
        "settings.json",
    ]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (Settings(seed=1), "seed is 1, this run was made with 0"),
        (Settings(sizes=Sizes(9)), "sizes.units is 9, this run was made with 8"),
        (Settings(sizes=Sizes(8, (1,))), r"sizes.layers is \[1\], this run was made with \[1, 2\]"),
        ({"seed": 0}, "sizes.layers is nothing, this run was made with"),
    ],
)
def test_a_changed_setting_is_named_and_nothing_is_touched(changed, said, tmp_path):
    with RunFolder.open(tmp_path, Settings()):
        pass
    before = snapshot(tmp_path)
    with pytest.raises(UserError, match=said), RunFolder.open(tmp_path, changed):
        pass
    assert snapshot(tmp_path) == before
    with RunFolder.open(tmp_path, changed, ignore=("seed", "sizes")):
        pass


def test_a_second_process_is_told(tmp_path):
    with (
        RunFolder.open(tmp_path, {}),
        pytest.raises(UserError, match="another process works there"),
        RunFolder.open(tmp_path, {}),
    ):
        pass


@pytest.mark.parametrize("name", ["notes.txt", ".own.json", "last.ckpt", "model.safetensors", "config.yaml"])
def test_the_files_of_a_person_are_refused_and_untouched(name, tmp_path):
    (tmp_path / name).write_text("mine")
    with pytest.raises(UserError, match=f"holds files .{name}. and is no run"), RunFolder.open(tmp_path, {}):
        pass
    assert snapshot(tmp_path) == {name: b"mine"}


def test_the_root_folder_and_files_are_refused(tmp_path):
    with pytest.raises(UserError, match="is the root folder"), RunFolder.open("/", {}):
        pass
    with pytest.raises(UserError, match="is the root folder"), RunFolder.open("/usr/..", {}):
        pass
    (tmp_path / "file").write_text("mine")
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(UserError, match="file"), RunFolder.open(path, {}):
            pass
    assert snapshot(tmp_path) == {"file": b"mine"}


def test_a_folder_in_place_of_a_file_is_found_before_the_work(tmp_path):
    with RunFolder.open(tmp_path, {}):
        (tmp_path / "metrics.json").mkdir()
    with (
        pytest.raises(UserError, match=r"metrics\.json: is a folder, it must be a file"),
        RunFolder.open(tmp_path, {}),
    ):
        pass


def test_a_pipe_in_place_of_a_file_is_found_before_the_work(tmp_path):
    with RunFolder.open(tmp_path, {}):
        os.mkfifo(tmp_path / "metrics.json")
    with pytest.raises(UserError, match=r"metrics\.json: is no file"), RunFolder.open(tmp_path, {}):
        pass


def test_nothing_is_written_through_links(tmp_path):
    outside, run = tmp_path / "outside", tmp_path / "run"
    outside.mkdir()
    with RunFolder.open(run, {}):
        (run / "logs").symlink_to(outside)
    with pytest.raises(UserError, match="logs: is a link"), RunFolder.open(run, {}):
        pass
    (run / "logs").unlink()
    (outside / "mine.json").write_text("mine")
    (run / "metrics.json").symlink_to(outside / "mine.json")
    with RunFolder.open(run, {}) as opened:
        opened.write(Metrics(1.0))
    assert snapshot(outside) == {"mine.json": b"mine"}


def test_what_a_killed_process_left_is_removed(tmp_path):
    with RunFolder.open(tmp_path, {}):
        pass
    half = f"{PARTIAL}0123abcd-model.safetensors"
    (tmp_path / half).touch()
    (tmp_path / ".mine").touch()
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / half).touch()
    with RunFolder.open(tmp_path, {}):
        assert sorted(os.listdir(tmp_path)) == [".mine", "logs", "settings.json"]
        assert not os.listdir(tmp_path / "logs")


def test_a_first_process_that_died_at_once_leaves_a_usable_folder(tmp_path):
    (tmp_path / f"{PARTIAL}0123abcd-settings.json").touch()
    with RunFolder.open(tmp_path, {}) as run:
        assert run.state == "new"
        assert os.listdir(tmp_path) == ["settings.json"]


def test_weights_that_are_shared_are_written(tmp_path):
    layer = nn.Linear(2, 2)
    RunFolder(tmp_path, {}).save_model(nn.Sequential(layer, layer))
    weights = load_file(tmp_path / "model.safetensors")
    assert torch.equal(weights["0.weight"], layer.weight)
    assert torch.equal(weights["1.weight"], layer.weight)
