"""Channel order and normalization from energies, in rooms and with arrays that lose first-order energy."""

import numpy as np
import pytest

from torchmcl.audio.clips import synthesized_clips
from torchmcl.audio.conventions import ConventionDetector
from torchmcl.audio.foa import CONVENTIONS, convert, encode
from torchmcl.audio.responses import SimulatedRooms
from torchmcl.audio.room_scenes import SceneLaw, room_scenes

RATE = 16000


def array_like(sound, random):
    """As a real array: first-order energy is lost below a corner of 20 to 350 Hz and above 4 kHz, gains differ."""
    samples = sound.shape[1]
    frequency = np.fft.rfftfreq(samples, 1 / RATE)
    corner, loss = np.exp(random.uniform(np.log(20), np.log(350))), random.uniform(0, 0.6)
    gain = 1 / np.sqrt(1 + (corner / frequency.clip(1)) ** 4)
    gain *= 1 - loss * ((frequency - 4000) / 4000).clip(0, 1)
    shaped = np.fft.irfft(np.fft.rfft(sound) * np.stack([np.ones_like(gain), gain, gain, gain]), samples)
    return shaped * 10 ** (random.normal(0, 0.2, (4, 1)) / 20)


def test_rooms_and_arrays():
    random = np.random.default_rng(0)
    law = SceneLaw(SimulatedRooms(rt60=(0.2, 1.5)), seconds=4.0)
    wrong = doubtful = 0
    for scene in room_scenes(synthesized_clips(9), [1, 2, 3] * 4, law, seed=5):
        sound = array_like(scene.sound, random)
        for convention in CONVENTIONS:
            detector = ConventionDetector(RATE)
            detector.add(convert(sound, "acn-n3d", convention))
            found = detector.result()
            doubtful += found.doubtful
            wrong += not found.doubtful and found.name != convention
    assert wrong == 0
    assert doubtful <= 2


@pytest.mark.parametrize("convention", CONVENTIONS)
def test_gain_and_blocks_do_not_matter(convention):
    sound = encode(np.random.default_rng(1).standard_normal(3 * RATE), 0.4, -0.3, convention)
    results = []
    for gain in (1e-3, 1.0, 10.0):
        detector = ConventionDetector(RATE)
        for block in np.array_split(gain * sound, 3, axis=1):
            detector.add(block)
        results.append(detector.result())
    assert {found.name for found in results} == {convention}
    assert np.ptp([found.ratio for found in results]) < 1e-9


@pytest.mark.parametrize("sound", [np.zeros((4, RATE)), np.zeros((4, 10)), np.full((4, RATE), np.nan)])
def test_nothing_is_doubtful_and_ambix(sound):
    detector = ConventionDetector(RATE)
    detector.add(sound)
    found = detector.result()
    assert found.doubtful
    assert found.name == "acn-sn3d"
    assert ConventionDetector(RATE).result().doubtful
