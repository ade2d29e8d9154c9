"""Windows and neighbors, against loops over a dense grid; nothing looks ahead."""

import dataclasses

import numpy as np
import pytest
import torch

from torchmcl.trajectories.tracks import Tracks
from torchmcl.trajectories.windows import Windows, histories, neighbors, windows_of
from trajectories.conftest import walkers


def dense(tracks: Tracks) -> np.ndarray:
    grid = np.full((len(tracks.instants), len(tracks.names), 2), np.nan)
    grid[tracks.index, tracks.agents] = tracks.positions
    return grid


def by_loops(tracks: Tracks) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The windows, whether shared, and the nearest neighbors: the definition, written out."""
    grid = dense(tracks)
    found, shared, around = [], [], []
    for start in range(len(grid) - 19):
        full = [a for a in range(grid.shape[1]) if np.isfinite(grid[start : start + 20, a]).all()]
        now = start + 7
        for agent in full:
            found.append(grid[start : start + 20, agent])
            shared.append(len(full) >= 2)
            rows = []
            for other in range(grid.shape[1]):
                if other == agent or not np.isfinite(grid[now - 1 : now + 1, other]).all():
                    continue
                last = grid[now, other] - grid[now - 1, other]
                known = np.isfinite(grid[now - 3 : now + 1, other]).all()
                mean = (grid[now, other] - grid[now - 3, other]) / 3 if known else last
                rows.append(np.concatenate([grid[now, other] - grid[now, agent], last, mean]))
            rows.sort(key=lambda row: np.hypot(*row[:2]))
            around.append(np.array([*rows, *[np.full(6, np.nan)] * 10])[:10])
    return np.array(found), np.array(shared), np.array(around)


@pytest.mark.parametrize("seed", range(4))
def test_windows_are_those_of_the_definition(seed):
    tracks = walkers(seed, frames=45, people=9)
    made = windows_of(tracks)
    found, shared, around = by_loops(tracks)
    assert len(made) == len(found) > 0
    whole = torch.cat([made.observed, made.future], 1) + made.origin[:, None].float()
    np.testing.assert_allclose(whole, found, atol=1e-5)
    np.testing.assert_array_equal(made.shared, shared)
    np.testing.assert_allclose(made.neighbors, around, atol=1e-5)


def test_a_lonely_window_is_not_shared():
    tracks = Tracks.of(range(20), [1] * 20, [[float(step), 0.0] for step in range(20)])
    made = windows_of(tracks)
    assert len(made) == 1
    assert not made.shared.any()
    assert made.neighbors.isnan().all()
    assert len(windows_of(Tracks.of(range(19), [1] * 19, np.zeros((19, 2))))) == 0


def test_nothing_looks_ahead():
    tracks = walkers(0)
    cut = int(tracks.instants[30])
    moved = np.where((tracks.frames > cut)[:, None], tracks.positions * -3 + 17, tracks.positions)
    changed = dataclasses.replace(tracks, positions=moved)
    for function in (histories, windows_of):
        before, after = function(tracks), function(changed)
        past = before.instants <= 30
        assert past.any()
        assert not past.all()
        torch.testing.assert_close(
            before.observed[past], after.observed[past], equal_nan=True, rtol=0, atol=0
        )
    before, after = windows_of(tracks), windows_of(changed)
    past = before.instants <= 30
    torch.testing.assert_close(before.neighbors[past], after.neighbors[past], equal_nan=True, rtol=0, atol=0)
    assert not torch.equal(before.future[past], after.future[past])


def test_rows_that_are_removed_from_the_future_change_no_history():
    tracks = walkers(1)
    cut = int(tracks.instants[30])
    kept = tracks.frames <= cut
    short = Tracks(tracks.frames[kept], tracks.agents[kept], tracks.positions[kept], tracks.names)
    before, after = histories(tracks), histories(short)
    past = before.frames <= cut
    torch.testing.assert_close(before.observed[past], after.observed, equal_nan=True, rtol=0, atol=0)


def test_histories_are_as_long_as_they_are():
    tracks = Tracks.of([0, 10, 20, 40, 50], [1] * 5, [[float(step), 0.0] for step in range(5)])
    with_gap = dataclasses.replace(tracks, grid=np.arange(0, 60, 10))
    assert histories(with_gap).steps.tolist() == [2, 3, 2]
    assert histories(tracks).steps.tolist() == [2, 3, 4, 5]


def test_neighbors_do_not_depend_on_the_order():
    observed = torch.randn(12, 8, 2)
    instants = torch.tensor([0, 1, 2] * 4)
    order = torch.randperm(12)
    torch.testing.assert_close(
        neighbors(observed, instants)[order], neighbors(observed[order], instants[order]), equal_nan=True
    )


def test_files_are_told_apart():
    parts = [windows_of(walkers(seed)) for seed in (0, 1)]
    together = Windows.cat(parts)
    assert together.files.bincount().tolist() == [len(part) for part in parts]
    assert torch.equal(together[together.files == 1].observed, parts[1].observed)


def test_neighbors_of_a_crowd_are_those_of_all_pairs(monkeypatch):
    random = torch.Generator().manual_seed(0)
    observed = torch.randn(30, 8, 2, generator=random)
    instants = torch.arange(30) % 2
    expected = neighbors(observed, instants)
    monkeypatch.setattr("torchmcl.trajectories.windows.PAIRS", 40)
    assert torch.equal(neighbors(observed, instants), expected)
