"""Sources that come back: recognized by their signature where they moved, by their place where they did not."""

import numpy as np
import pytest

from torchmcl.audio.candidates import Candidates
from torchmcl.audio.foa import unit_vectors
from torchmcl.audio.motion import Motion
from torchmcl.audio.recognition import Track
from torchmcl.audio.signatures import BANDS
from torchmcl.audio.tracks import Tracker, link

LOW, HIGH = np.linspace(1.5, -1.5, BANDS), np.linspace(-1.5, 1.5, BANDS)


def frame(*sources, seed=0):
    """Candidates at azimuths in degrees, with their signatures and noise."""
    rng = np.random.default_rng(seed)
    azimuths = rng.normal([azimuth for azimuth, _ in sources], 1.0)
    vectors = unit_vectors(np.radians([(azimuth, 0.0) for azimuth in azimuths]).reshape(-1, 2))
    sounds = np.array([sound for _, sound in sources]).reshape(-1, BANDS)
    return Candidates(vectors, np.full(len(vectors), 0.9), sounds + rng.normal(0, 0.3, sounds.shape))


def numbers(frames, causal):
    """The number of the first source that is told at the beginning, and at the end."""
    if causal:
        tracker = Tracker()
        told = [tracker.step(each) for each in frames]
    else:
        told = link(frames)
    return told[15][0].track, told[-1][0].track


def pause(speed, gap, place, sound):
    """A source that moves, is not heard for some frames, and one that is heard elsewhere."""
    before = [frame((-60 + 0.1 * speed * k, LOW), seed=k) for k in range(20)]
    silence = [Candidates(np.zeros((0, 3)), np.zeros(0), np.zeros((0, BANDS)))] * gap
    return [*before, *silence, *(frame((place + 0.1 * speed * k, sound), seed=k) for k in range(10))]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("gap", [8, 15, 30])
def test_a_moving_source_is_recognized_where_it_comes_back(gap, causal):
    first, last = numbers(pause(30, gap, 3.0 * gap + 30, LOW), causal)
    assert first == last


@pytest.mark.parametrize("causal", [False, True])
def test_another_sound_is_another_source(causal):
    first, last = numbers(pause(30, 15, 110, HIGH), causal)
    assert first != last


@pytest.mark.parametrize("causal", [False, True])
def test_a_source_that_stood_still_is_not_recognized_elsewhere(causal):
    first, last = numbers(pause(0, 15, 0, LOW), causal)
    assert first != last


@pytest.mark.parametrize("causal", [False, True])
def test_a_source_that_stood_still_is_recognized_where_it_was(causal):
    first, last = numbers(pause(0, 30, -60, HIGH), causal)
    assert first == last


def test_a_source_does_not_come_back_from_far_away_at_once():
    first, last = numbers(pause(20, 3, 160, LOW), causal=False)
    assert first != last


def test_no_source_is_told_twice():
    rng = np.random.default_rng(3)
    frames = [
        frame(*((rng.uniform(-180, 180), LOW) for _ in range(rng.integers(1, 4))), seed=k) for k in range(60)
    ]
    for told in link(frames):
        assert len({each.track for each in told}) == len(told)


def test_tracks_exchange_their_last_frames():
    tracks = []
    for number, azimuth in enumerate((-50.0, 50.0)):
        vector = unit_vectors(np.radians([azimuth, 0.0]))
        track = Track(number, 0, vector, 0.9, Motion())
        for later in range(1, 10):
            track.path.predict()
            track.scores.append(0.0)
            track.path.update(vector, 0.9)
            track.hear(later, 0.5 + 0.1 * number, clear=0.3)
        tracks.append(track)
    one, two = tracks
    one.exchange(two, 4)
    assert one.scores == [0.9, *[0.5] * 5, *[0.6] * 4]
    assert np.array([state[0, 0, 1] for state in one.path.states]) == pytest.approx(
        [*[-0.77] * 6, *[0.77] * 4], abs=0.01
    )
    assert one.path.position[1] > 0 > two.path.position[1]
