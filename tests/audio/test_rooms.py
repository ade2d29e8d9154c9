"""Impulse responses of rooms, compared with pyroomacoustics."""

import numpy as np
import pytest
from pyroomacoustics import Material, MicrophoneArray, ShoeBox
from pyroomacoustics.directivities import DirectionVector, FigureEight, Omnidirectional
from scipy.signal import butter, sosfiltfilt

from torchmcl.audio.foa import directions, unit_vectors
from torchmcl.audio.rooms import (
    HIGH_PASS,
    ROOMS,
    SPEED_OF_SOUND,
    Room,
    furthest,
    impulse_response,
    random_microphone,
)

RATE = 16000


def pyroom(room: Room, source: np.ndarray, microphone: np.ndarray) -> np.ndarray:
    """An omnidirectional and three figure-of-eight microphones in one place, W, Y, Z, X in N3D."""
    order = int(SPEED_OF_SOUND * room.rt60 / min(room.size)) + 2
    shoebox = ShoeBox(room.size, fs=RATE, materials=Material(room.absorption), max_order=order)
    shoebox.rir_hpf_enable = False
    shoebox.set_sound_speed(SPEED_OF_SOUND)
    towards = [(90, 90), (0, 0), (0, 90)]
    eights = [FigureEight(DirectionVector(azimuth=a, colatitude=c, degrees=True)) for a, c in towards]
    places = np.tile(microphone[:, None], (1, 4))
    shoebox.add_microphone_array(MicrophoneArray(places, RATE, directivity=[Omnidirectional(), *eights]))
    shoebox.add_source(source)
    shoebox.compute_rir()
    length = min(len(shoebox.rir[channel][0]) for channel in range(4))
    return np.stack([shoebox.rir[channel][0][:length] for channel in range(4)]) * [
        [1],
        [3**0.5],
        [3**0.5],
        [3**0.5],
    ]


def test_responses_are_those_of_pyroomacoustics():
    room = Room((4.1, 3.3, 2.7), 0.5, 0.12)
    microphone, source = np.array([2.0, 1.5, 1.3]), np.array([3.1, 0.9, 1.9])
    distance = np.linalg.norm(source - microphone)
    ours = impulse_response(room, source, microphone, RATE)
    theirs = pyroom(room, source, microphone)
    delay = distance / SPEED_OF_SOUND * RATE + 40
    grid = np.fft.rfftfreq(4096)
    theirs = np.fft.irfft(np.fft.rfft(theirs, 4096) * np.exp(2j * np.pi * grid * delay))[:, : ours.shape[1]]
    band = butter(4, [200, 2000], "bandpass", fs=RATE, output="sos")
    ours, theirs = sosfiltfilt(band, ours), sosfiltfilt(band, theirs)
    scale = (ours * theirs).sum() / (theirs * theirs).sum()
    error = np.linalg.norm(ours - scale * theirs, axis=1) / np.linalg.norm(ours, axis=1)
    assert scale == pytest.approx(1, rel=0.05)
    assert (error < 0.04).all()


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: f"{room.rt60:g}s")
def test_the_direct_sound_comes_first_and_from_the_direction_of_the_source(room):
    rng = np.random.default_rng(1)
    microphone = random_microphone(room, rng)
    direction = np.radians([rng.uniform(-180, 180), rng.uniform(-60, 50)])
    distance = furthest(room, microphone, direction) * 0.9
    response = impulse_response(room, microphone + distance * unit_vectors(direction), microphone, RATE)
    assert response[0, 0] == pytest.approx(1 / distance, rel=0.05)
    found = directions(response[[3, 1, 2], 0].astype(float))
    np.testing.assert_allclose(unit_vectors(found), unit_vectors(direction), atol=0.02)


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: f"{room.rt60:g}s")
def test_rooms_reverberate_as_long_as_they_say(room):
    """Schroeder's backward integration, twice the time from -5 to -35 dB, on a longer response."""
    rng = np.random.default_rng(2)
    times = []
    for _ in range(2):
        microphone = random_microphone(room, rng)
        source = microphone + unit_vectors(np.array([rng.uniform(-np.pi, np.pi), 0.1]))
        longer = Room(room.size, room.absorption, 1.3 * room.rt60)
        response = impulse_response(longer, source, microphone, RATE)[0].astype(float)
        decay = np.cumsum(np.square(response)[::-1])[::-1]
        level = 10 * np.log10(decay / decay[0])
        times.append(2 * (np.argmax(level < -35) - np.argmax(level < -5)) / RATE)
    assert np.mean(times) == pytest.approx(room.rt60, rel=0.1)
    assert impulse_response(room, source, microphone, RATE).shape[1] == pytest.approx(room.rt60 * RATE, abs=2)


def test_reverberation_is_diffuse_above_the_high_pass():
    room = ROOMS[3]
    response = impulse_response(room, np.array([2.0, 4.0, 1.1]), np.array([3.6, 3.1, 1.4]), RATE)
    late = response[:, RATE // 20 :].astype(float)
    assert np.square(late[1:]).sum() / np.square(late[0]).sum() == pytest.approx(3, rel=0.15)
    spectrum = np.abs(np.fft.rfft(response[0])) ** 2
    frequency = np.fft.rfftfreq(response.shape[1], 1 / RATE)
    assert spectrum[frequency < HIGH_PASS / 4].max() < 0.1 * spectrum.mean()


def test_sources_stay_in_the_room_and_the_nearest_distance_fits_everywhere():
    rng = np.random.default_rng(3)
    for room in ROOMS:
        microphone = random_microphone(room, rng)
        for azimuth in range(-180, 180, 30):
            for elevation in (-60, 0, 50):
                direction = np.radians([azimuth, elevation])
                reach = furthest(room, microphone, direction)
                assert reach > 1
                place = microphone + reach * unit_vectors(direction)
                assert (place > 0).all()
                assert (place < room.size).all()
                assert np.minimum(place, room.size - place).min() == pytest.approx(0.1)
