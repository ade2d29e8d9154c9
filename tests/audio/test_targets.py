import csv
from decimal import Decimal
from math import radians

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from torchmcl.audio.datasets import Event, read_dataset
from torchmcl.audio.targets import HOP, frame_counts, frame_targets, stack_targets

milliseconds = st.integers(0, 700)


@st.composite
def events(draw):
    spans = draw(st.lists(st.tuples(milliseconds, st.integers(1, 300)), max_size=6))
    return [
        Event(f"a{i}", "a", start / 1000, (start + length) / 1000, 0.1 * i, -0.1 * i, 1.0)
        for i, (start, length) in enumerate(spans)
    ]


def loop(events, frames):
    """The frame rule, read aloud in exact arithmetic."""
    found = []
    for frame in range(frames):
        begin, end = Decimal(frame) / 50, Decimal(frame + 1) / 50
        sounding = [e for e in events if Decimal(str(e.start)) < end and Decimal(str(e.end)) > begin]
        found.append([(e.azimuth, e.elevation) for e in sorted(sounding, key=lambda e: e.start)])
    return found


def as_lists(targets, active):
    return [frame[mask].tolist() for frame, mask in zip(targets, active, strict=True)]


def same(found, expected):
    assert [len(frame) for frame in found] == [len(frame) for frame in expected]
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(np.reshape(one, (-1, 2)), np.reshape(other, (-1, 2)), atol=1e-6)


@given(events())
def test_targets_are_those_of_a_loop_over_frames(events):
    frames = 40
    targets, active = frame_targets(events, frames)
    same(as_lists(targets, active), loop(events, frames))
    assert (targets[~active] == 0).all()
    assert active.shape[1] == active.sum(dim=1).max()
    assert (active[:, :-1] >= active[:, 1:]).all()


@given(st.lists(events(), max_size=4))
def test_many_recordings_are_the_single_ones_stacked(recordings):
    frames = 30
    counts = frame_counts(recordings, frames)
    targets, active = stack_targets(recordings, frames, slots=6)
    assert torch.equal(active.sum(dim=-1), counts)
    for i, single in enumerate(recordings):
        one, mask = frame_targets(single, frames, slots=6)
        assert torch.equal(targets[i], one)
        assert torch.equal(active[i], mask)


def test_edges_of_frames_are_exact():
    edges = [round(i * HOP, 2) for i in range(1, 1500)]
    assert any(i * HOP != edge for i, edge in enumerate(edges, 1))
    _, active = stack_targets([[Event("a", "a", e, e + 0.02, 0.0, 0.0, 1.0)] for e in edges], 1501, 1)
    assert (active.squeeze(-1).sum(dim=1) == 1).all()
    assert active.squeeze(-1).int().argmax(dim=1).tolist() == list(range(1, 1500))


def test_events_that_touch_within_a_frame_both_have_a_slot():
    one, other = (Event("a", "a", s, e, a, 0.0, 1.0) for s, e, a in ((0.0, 0.03, 1.0), (0.03, 0.06, 2.0)))
    targets, active = frame_targets([other, one], 3)
    assert active.tolist() == [[True, False], [True, True], [True, False]]
    assert targets[:, 0, 0].tolist() == [1.0, 1.0, 2.0]
    assert targets[1, 1, 0] == 2.0
    with pytest.raises(ValueError, match=r"^slots is 1, must be at least 2: so many events share a frame$"):
        frame_targets([one, other], 3, slots=1)


def test_events_beyond_the_last_frame_are_cut():
    _, active = frame_targets([Event("a", "a", 0.05, 9.0, 0.0, 0.0, 1.0)], 4)
    assert active.squeeze(-1).tolist() == [False, False, True, True]
    _, active = frame_targets([Event("a", "a", 5.0, 9.0, 0.0, 0.0, 1.0)], 4, slots=1)
    assert not active.any()


def test_no_events():
    targets, active = frame_targets([], 5, slots=3)
    assert targets.shape == (5, 3, 2)
    assert not active.any()


def test_files_give_the_targets_of_an_independent_loop_over_the_csv(tut):
    for recording in read_dataset(tut).recordings:
        with recording.description.open() as stream:
            rows = list(csv.DictReader(stream))
        expected = []
        for frame in range(60):
            begin, end = Decimal(frame) / 50, Decimal(frame + 1) / 50
            rows.sort(key=lambda row: Decimal(row["start_time"]))
            expected.append(
                [
                    (radians(float(row["azi"])), radians(float(row["ele"])))
                    for row in rows
                    if Decimal(row["start_time"]) < end and Decimal(row["end_time"]) > begin
                ]
            )
        same(as_lists(*frame_targets(recording.events, 60)), expected)
