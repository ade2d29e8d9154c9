"""Each example runs as it is, draws its picture, and shows what it says."""

import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from matplotlib.image import imread

ROOT = Path(__file__).parents[1]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


def three_branches(names: dict[str, Any]) -> None:
    middle = names["middle"]
    for branch in (0.22, 0.5, 0.78):
        near = (middle.points[:, 0] - branch).abs() < 0.12
        assert 0.2 < middle.probs[near].sum() < 0.5


def scores_are_shares(names: dict[str, Any]) -> None:
    torch.testing.assert_close(names["answer"].probs, names["share"], atol=0.04, rtol=0)


def four_out_of_five(names: dict[str, Any]) -> None:
    likelier = names["answer"].probs.amax(-1)
    torch.testing.assert_close(likelier, torch.full_like(likelier, 0.8), atol=0.15, rtol=0)


def ships_are_counted(names: dict[str, Any]) -> None:
    right = names["answer"].count.round() == names["active"].sum(-1)
    assert right.float().mean() > 0.8


def the_lane_tells_the_way(names: dict[str, Any]) -> None:
    assert names["right"] > 0.5 > names["left"]


def both_loudspeakers_are_found(names: dict[str, Any]) -> None:
    upper = names["answer"].points[:, 1] > 0.1
    assert 0.6 < names["answer"].probs[upper].sum() < 0.9


def pruning_mends(names: dict[str, Any]) -> None:
    assert names["errors"]["mean after pruning"] < 0.1 < names["errors"]["least squares"]


def four_are_enough_and_collapse_is_seen(names: dict[str, Any]) -> None:
    assert names["sizes"][torch.tensor(names["likelihood"]).argmax()] in (4, 8)
    never = [metric.never for metric in names["winners"].values()]
    assert never[0] > 10
    assert max(never[1:]) < 5


def one_answer_is_not_enough(names: dict[str, Any]) -> None:
    single, mixture, scored = (each.mean() for each in names["distances"].values())
    assert max(mixture, scored) < single / 2


def regions_keep_their_promise(names: dict[str, Any]) -> None:
    assert all(0.87 < share < 0.93 for share in names["coverage"].values())
    assert names["size"]["density"] < 0.7 * min(names["size"]["quantile"], names["size"]["distance"])
    two = ~names["pieces"][2:, :, 0].isnan()
    assert (two.sum(-1) == 2).all()


CLAIMS: dict[str, Callable[[dict[str, Any]], None]] = {
    "ambiguous_regression": three_branches,
    "cells_and_scores": scores_are_shares,
    "choosing_k": four_are_enough_and_collapse_is_seen,
    "comparison": one_answer_is_not_enough,
    "directions": both_loudspeakers_are_found,
    "forking_futures": the_lane_tells_the_way,
    "outliers": pruning_mends,
    "own_network": four_out_of_five,
    "regions": regions_keep_their_promise,
    "several_targets": ships_are_counted,
}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_it_runs_and_shows_what_it_says(path, tmp_path, monkeypatch, unchecked):
    picture = tmp_path / "picture.png"
    monkeypatch.setattr(sys, "argv", [str(path), str(picture)])
    names = runpy.run_path(str(path), run_name="__main__")
    assert imread(picture).std() > 0.02
    CLAIMS[path.stem](names)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_gallery_shows_it(path):
    assert f"{path.stem}.png" in (ROOT / "docs" / "gallery.md").read_text()
    page = (ROOT / "docs" / "examples" / f"{path.stem}.md").read_text()
    assert f"../../examples/{path.name}" in page
