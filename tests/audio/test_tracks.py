"""Tracks on the sphere: identity, gaps, births and deaths."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchmcl.audio.candidates import Candidates
from torchmcl.audio.foa import unit_vectors
from torchmcl.audio.tracks import OPERATING_POINTS, Tracker, Tracking, link


def seen(*places, scores=None):
    """Candidates at (azimuth, elevation) in degrees."""
    vectors = unit_vectors(np.radians(np.array(places, float).reshape(-1, 2)))
    return Candidates(vectors, np.full(len(vectors), 0.9) if scores is None else np.array(scores, float))


def path_of(frames, track):
    """Azimuths of a track, by frame."""
    return {
        told.frame: math.degrees(math.atan2(told.vector[1], told.vector[0]))
        for frame in frames
        for told in frame
        if told.track == track
    }


@given(st.floats(-179, 179), st.floats(-80, 80))
def test_a_fixed_source_is_one_track_where_it_is(azimuth, elevation):
    frames = link([seen((azimuth, elevation))] * 20)
    assert [[told.track for told in frame] for frame in frames] == [[0]] * 20
    expected = unit_vectors(np.radians([azimuth, elevation]))
    for frame in frames:
        assert frame[0].vector @ expected > 1 - 1e-9


def test_the_order_of_candidates_does_not_swap_tracks():
    random = np.random.default_rng(0)
    frames = [seen(*random.permutation([(0, 0), (60, 10), (-120, -20)])) for _ in range(50)]
    linked = link(frames)
    for track in range(3):
        azimuths = list(path_of(linked, track).values())
        assert len(azimuths) == 50
        assert np.ptp(azimuths) < 1e-6


def test_crossing_sources_keep_their_identity():
    """They pass each other at 60 degrees a second; for a while both are one candidate."""
    frames = []
    for frame in range(40):
        one, two = -60 + 3 * frame, 60 - 3 * frame
        frames.append(seen((one, 0), (two, 0)) if abs(one - two) > 15 else seen(((one + two) / 2, 0)))
    linked = link(frames)
    for track in (0, 1):
        azimuths = path_of(linked, track)
        assert azimuths[0] * azimuths[39] < 0, "a track that ends where it began has been swapped"
        assert azimuths[39] == pytest.approx(-azimuths[0], abs=12)


def test_a_gap_is_filled_and_a_long_pause_keeps_the_number():
    settings = OPERATING_POINTS["recall"]
    frames = [seen((30, 0))] * 10 + [seen()] * 8 + [seen((30, 0))] * 10
    assert all(len(frame) == 1 for frame in link(frames, settings))
    precise = link(frames, OPERATING_POINTS["precision"])
    assert [len(frame) for frame in precise] == [1] * 10 + [0] * 8 + [1] * 10
    long = [seen((30, 0))] * 10 + [seen()] * (settings.gap + 5) + [seen((30, 0))] * 10
    numbers = {told.track for frame in link(long, settings) for told in frame}
    assert numbers == {0}
    other = [seen((30, 0))] * 10 + [seen()] * (settings.gap + 5) + [seen((90, 0))] * 10
    assert {told.track for frame in link(other, settings) for told in frame} == {0, 1}


def test_what_never_is_confirmed_is_not_told():
    settings = Tracking()
    weak = [seen((0, 0), scores=[settings.confirm - 0.01])] * 20
    assert not any(link(weak, settings))
    once = [*weak[:10], seen((0, 0), scores=[settings.confirm + 0.01]), *weak[:9]]
    assert all(link(once, settings)), "with hindsight a track is told from its first frame"
    tracker = Tracker(settings)
    told = [len(tracker.step(each)) for each in once]
    assert told == [0] * 10 + [1] * 10, "live it is told from its confirmation on"


def test_live_tracks_use_the_past_only():
    random = np.random.default_rng(1)
    frames = [seen(*random.normal([(0, 0), (90, 30)], 3)) for _ in range(30)]
    whole, half = Tracker(), Tracker()
    all_frames = [whole.step(each) for each in frames]
    first = [half.step(each) for each in frames[:15]]
    for one, two in zip(all_frames, first, strict=False):
        assert [(t.track, t.score) for t in one] == [(t.track, t.score) for t in two]


def test_smoothing_is_nearer_than_the_candidates():
    random = np.random.default_rng(2)
    places = random.normal(0, 6, (100, 2))
    linked = link([seen(place) for place in places])
    told = np.array([frame[0].vector for frame in linked])
    raw = np.array([seen(place).vectors[0] for place in places])
    assert np.arccos(told[:, 0]).mean() < 0.5 * np.arccos(raw[:, 0]).mean()


def test_at_most_so_many_are_told_and_the_strongest_first():
    frames = [seen((0, 0), (60, 0), (120, 0), (180, 0), scores=[0.9, 0.8, 0.7, 0.6])] * 20
    for frame in link(frames):
        assert len(frame) == 3
        assert [told.score for told in frame] == sorted((told.score for told in frame), reverse=True)
        assert {told.track for told in frame} == {0, 1, 2}


def test_nothing_is_nothing():
    assert link([]) == []
    assert link([seen()] * 3) == [[], [], []]
