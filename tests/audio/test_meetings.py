"""Sources that pass each other."""

import numpy as np
import pytest

from torchmcl.audio.candidates import Candidates
from torchmcl.audio.foa import directions, unit_vectors
from torchmcl.audio.meetings import Meeting, Passing, approaching
from torchmcl.audio.motion import Motion, Path
from torchmcl.audio.signatures import BANDS
from torchmcl.audio.tracks import Tracker, link


def at(*azimuths):
    return unit_vectors(np.radians([(azimuth, 0.0) for azimuth in azimuths]))


def moving(first, speed, frames=15):
    path = Path(Motion(), at(first)[0], 1.0)
    for frame in range(1, frames):
        path.predict()
        path.update(at(first + 0.1 * speed * frame)[0], 1.0)
    return path


def test_sources_approach_each_other_if_their_distance_shrinks():
    law, place = Passing(), at(0)[0]
    assert approaching(moving(-60, 30), moving(60, -30), place, law) is not None
    assert approaching(moving(-10, -15), moving(10, 15), place, law) is None, "they go apart"
    assert approaching(moving(-10, 0), moving(10, 0), place, law) is None, "they stand still"
    assert approaching(moving(-60, 30), moving(60, -30), at(70)[0], law) is None, "the candidate is elsewhere"


def test_those_who_leave_are_told_apart_by_their_velocity():
    law, velocity = Passing(), np.array([0.0, 1.0, 0.0])
    meeting = Meeting((3, 7), at(0)[0], at(0)[0], velocity, 0)
    vectors = at(-20, 20)
    assert meeting.leave(vectors, np.array([0.9, 0.8]), law) == (1, 0), "the first track moves to the left"
    assert meeting.leave(vectors[::-1], np.array([0.9, 0.8]), law) == (0, 1)
    assert meeting.leave(at(-5, 5), np.array([0.9, 0.8]), law) is None, "still together"
    assert meeting.leave(vectors, np.array([0.9, 0.1]), law) is None, "the second one is not heard"
    assert meeting.leave(vectors[:1], np.array([0.9]), law) is None


def meeting_sources(speed, seed, *, back=False, sounds=None):
    """With noise, one candidate within 30 degrees, and a faint ghost between them."""
    random = np.random.default_rng(seed)
    half = 25
    for frame in range(2 * half):
        one = 0.1 * speed * (-abs(frame - half) if back else frame - half)
        ghost = random.uniform(-10, 10)
        if abs(2 * one) < 30:
            places, scores = random.normal([0], 2), [0.95]
        else:
            places, scores = random.normal([one, -one, ghost], [3, 3, 1]), [0.9, 0.85, 0.16]
        heard = None
        if sounds is not None:
            heard = random.normal([*sounds, np.mean(sounds, 0)][-len(scores) :], 0.4)
        yield Candidates(at(*places), np.array(scores), heard)


def ends(told, first, last):
    """The tracks that are nearest to the azimuths of both sources, at the beginning and at the end."""
    for moment, azimuth in ((15, first), (48, last)):
        places = {each.track: np.degrees(directions(each.vector)[0]) for each in told[moment]}
        yield [
            min(places, key=lambda track, side=side: abs(places[track] - side))
            for side in (azimuth, -azimuth)
        ]


@pytest.mark.parametrize("speed", [20.0, 30.0, 45.0])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_crossing_sources_keep_their_numbers(speed, causal, seed):
    frames, tracker = list(meeting_sources(speed, seed)), Tracker()
    told = [tracker.step(each) for each in frames] if causal else link(frames)
    before, after = ends(told, -speed, 2.3 * speed)
    assert before == after
    assert before[0] != before[1]


@pytest.mark.parametrize("back", [False, True])
@pytest.mark.parametrize("seed", range(2))
def test_sources_that_sound_differently_keep_their_numbers_whether_they_cross_or_turn_back(back, seed):
    sounds = [np.linspace(1.0, -1.0, BANDS), np.linspace(-1.0, 1.0, BANDS)]
    frames = list(meeting_sources(30.0, seed, back=back, sounds=sounds))
    live, forgetful = Tracker(), Tracker(remember=False)
    causal = [live.step(each) for each in frames]
    for told in (link(frames), causal):
        before, after = ends(told, -30.0, -69.0 if back else 69.0)
        assert before == after
        assert before[0] != before[1]
    for told, each in zip(causal, frames, strict=True):
        same = forgetful.step(each)
        assert [each.track for each in told] == [each.track for each in same]
        assert all(np.array_equal(a.vector, b.vector) for a, b in zip(told, same, strict=True))


def test_without_signatures_sources_that_meet_are_taken_for_crossing():
    before, after = ends(link(meeting_sources(30.0, 0, back=True)), -30.0, -69.0)
    assert before == after[::-1]


def test_close_sources_that_stand_still_never_meet():
    random = np.random.default_rng(0)
    tracker = Tracker()
    for _ in range(80):
        both = at(*random.normal([-14, 14], 4))
        heard = both if random.random() < 0.7 else both[[random.integers(2)]]
        tracker.step(Candidates(heard, np.full(len(heard), 0.8)))
        assert not tracker.meetings


def test_a_source_that_falls_silent_at_a_meeting_ends_it():
    tracker = Tracker()
    for frame in range(25):
        one = 3.0 * (frame - 25)
        tracker.step(Candidates(at(one, -one), np.array([0.9, 0.9])))
    for _ in range(tracker.settings.passing.longest + 3):
        tracker.step(Candidates(at(0), np.array([0.9])))
    assert not tracker.meetings
