"""Eleven kinds of everyday sounds, made of noise, resonances and glottal pulses, no two alike."""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float
from scipy.signal import butter, lfilter, sosfilt

__all__ = ["SOUNDS", "synthesize"]

Signal = Float[np.ndarray, "_samples"]

VOWELS = np.array(
    [
        [730.0, 1090.0, 2440.0, 3400.0],
        [270.0, 2290.0, 3010.0, 3700.0],
        [300.0, 870.0, 2240.0, 3300.0],
        [530.0, 1840.0, 2480.0, 3500.0],
        [570.0, 840.0, 2410.0, 3300.0],
        [660.0, 1720.0, 2410.0, 3500.0],
    ]
)


def synthesize(label: str, rng: np.random.Generator, sample_rate: int) -> Signal:
    """One sound of that kind, of arbitrary level; `SOUNDS` has the kinds."""
    return SOUNDS[label](rng, sample_rate)


def clear_throat(rng: np.random.Generator, rate: int) -> Signal:
    """One to three growls: a low, rough voice under noise, closing with a hum."""
    syllables = []
    for _ in range(rng.integers(1, 4)):
        length = int(rate * rng.uniform(0.22, 0.45))
        voice = _glottis(rng, rate, length, rng.uniform(75, 125) * np.array([1.1, 1.0, 0.8]), roughness=0.25)
        growl = 1 + 0.8 * np.sin(2 * np.pi * rng.uniform(22, 38) * _time(len(voice), rate))
        breath = 0.12 * rng.standard_normal(len(voice))
        sound = _formants(
            (voice + breath) * growl, rate, np.array([480.0, 1150.0, 2300.0]) * rng.uniform(0.9, 1.15)
        )
        syllables.append(sound * _swell(len(sound), rate, 0.04, 0.1))
    return _sequence(syllables, rng.uniform(0.03, 0.1, size=len(syllables)), rate)


def cough(rng: np.random.Generator, rate: int) -> Signal:
    """One to four explosive bursts of throat noise, each with a short voiced tail."""
    bursts = []
    mouth = np.array([620.0, 1350.0, 2600.0]) * rng.uniform(0.85, 1.3)
    for _ in range(rng.integers(1, 5)):
        length = int(rate * rng.uniform(0.18, 0.32))
        noise = rng.standard_normal(length) * _decay(length, rate, rng.uniform(0.025, 0.05))
        voice = _glottis(rng, rate, length, rng.uniform(130, 260) * np.array([1.2, 0.8]), roughness=0.1)
        tail = voice * _decay(length, rate, 0.07) * rng.uniform(0.2, 0.6)
        sound = _formants(noise + tail, rate, mouth) + 0.3 * noise
        bursts.append(sound * _swell(length, rate, 0.003, 0.04))
    return _sequence(bursts, rng.uniform(0.04, 0.2, size=len(bursts)), rate)


def door_slam(rng: np.random.Generator, rate: int) -> Signal:
    """A heavy thud of low modes under a burst of noise, with the latch rattling after it."""
    count = 9
    modes = rng.uniform(45, 110) * np.cumprod(np.r_[1.0, rng.uniform(1.15, 1.6, size=count - 1)])
    thud = _strike(rng, rate, modes, decay=rng.uniform(0.09, 0.2), tilt=0.6)
    noise = rng.standard_normal(len(thud)) * _decay(len(thud), rate, rng.uniform(0.02, 0.06))
    slam = thud + 0.8 * _band(noise, rate, 80.0, 2500.0)
    latch = _strike(rng, rate, rng.uniform(900, 3800, size=5), decay=0.012)
    rattles = np.sort(rng.uniform(0.03, 0.3, size=rng.integers(1, 5)))
    return _overlay([slam, *[0.2 * latch] * len(rattles)], np.r_[0.0, rattles], rate)


def drawer(rng: np.random.Generator, rate: int) -> Signal:
    """Wood that slides with a rumble of rollers, then stops with a knock."""
    length = int(rate * rng.uniform(0.5, 1.3))
    speed = np.hanning(length) ** 0.5
    rollers = 1 + 0.7 * np.sin(2 * np.pi * np.cumsum(speed) * rng.uniform(15, 35) / rate)
    low = rng.uniform(150, 350)
    slide = _band(rng.standard_normal(length), rate, low, rng.uniform(1500, 3500)) * speed * rollers
    stop = _strike(rng, rate, rng.uniform(110, 900, size=8), decay=rng.uniform(0.02, 0.05))
    rattle = _strike(rng, rate, rng.uniform(1200, 4500, size=6), decay=0.015)
    end = length / rate - 0.06
    return _overlay([0.35 * slide, stop, 0.25 * rattle], [0.0, end, end + rng.uniform(0.01, 0.06)], rate)


def keyboard(rng: np.random.Generator, rate: int) -> Signal:
    """Typing: clicks of keys going down, softer ones coming up, in an uneven rhythm."""
    count = int(rng.integers(6, 19))
    onsets = np.cumsum(rng.gamma(4.0, rng.uniform(0.11, 0.2) / 4, size=count))
    plastic, board = rng.uniform(1800, 5200, size=6), rng.uniform(180, 420, size=2)
    sounds, times = [], []
    for onset in onsets:
        force, tuned = rng.uniform(0.5, 1.0), plastic * rng.uniform(0.85, 1.2)
        sounds += [
            force * _strike(rng, rate, tuned, decay=0.003),
            0.7 * force * _strike(rng, rate, board, decay=0.008),
            0.3 * force * _strike(rng, rate, 1.15 * tuned, decay=0.002),
        ]
        times += [onset, onset, onset + rng.uniform(0.05, 0.09)]
    return _overlay(sounds, times, rate)


def keys(rng: np.random.Generator, rate: int) -> Signal:
    """A bunch of keys: many small metal bars that ring high and inharmonic, in shakes."""
    bunch = [
        _strike(rng, rate, rng.uniform(2300, 9500, size=7), decay=rng.uniform(0.02, 0.08))
        for _ in range(rng.integers(3, 7))
    ]
    shakes = np.cumsum(rng.uniform(0.12, 0.3, size=rng.integers(3, 8)))
    times = (shakes[:, None] + rng.exponential(0.035, size=(len(shakes), rng.integers(4, 9)))).ravel()
    sounds = [bunch[rng.integers(len(bunch))] * rng.uniform(0.2, 1.0) for _ in times]
    return _overlay(sounds, times, rate)


def knock(rng: np.random.Generator, rate: int) -> Signal:
    """Two to six knuckles on a wooden door."""
    modes = np.r_[rng.uniform(110, 260), rng.uniform(260, 1300, size=7)]
    decay = rng.uniform(0.015, 0.04)
    times = np.cumsum(rng.uniform(0.14, 0.3) * rng.uniform(0.9, 1.1, size=rng.integers(2, 7)))
    sounds = [
        _strike(rng, rate, modes * rng.uniform(0.97, 1.03), decay) * rng.uniform(0.6, 1.0) for _ in times
    ]
    return _overlay(sounds, times, rate)


def laughter(rng: np.random.Generator, rate: int) -> Signal:
    """A run of breathy syllables of one vowel whose pitch and strength fall."""
    pitch, vowel = rng.uniform(150, 380), VOWELS[rng.choice([0, 3, 5])] * rng.uniform(0.95, 1.2)
    count = int(rng.integers(4, 11))
    syllables = []
    for progress in np.linspace(0, 1, count):
        length = int(rate * rng.uniform(0.09, 0.15))
        contour = pitch * (1.15 - 0.35 * progress) * np.array([0.9, 1.1, 0.85])
        voice = _glottis(rng, rate, length, contour, roughness=0.03)
        puff = int(rate * rng.uniform(0.04, 0.08))
        source = np.r_[0.25 * rng.standard_normal(puff) * np.hanning(2 * puff)[:puff], voice]
        sound = _formants(source + 0.03 * rng.standard_normal(len(source)), rate, vowel)
        syllables.append(sound * _swell(len(sound), rate, 0.03, 0.03) * (1 - 0.6 * progress))
    return _sequence(syllables, np.full(count, rng.uniform(0.02, 0.06)), rate)


def page_turn(rng: np.random.Generator, rate: int) -> Signal:
    """Paper: a rustle whose brightness sweeps, grains of crackle, and a flap at the end."""
    length = int(rate * rng.uniform(0.45, 1.1))
    noise = rng.standard_normal(length)
    sweep = np.linspace(0, 1, length) ** rng.uniform(0.6, 1.6)
    rustle = (1 - sweep) * _band(noise, rate, 700.0, 2600.0) + sweep * _band(noise, rate, 2500.0, 8500.0)
    grains = np.repeat(rng.gamma(0.5, 1.0, size=length // (rate // 150) + 1), rate // 150)[:length]
    swell = np.sin(np.pi * np.linspace(0, 1, length)) ** rng.uniform(0.7, 2.0)
    flap = _band(rng.standard_normal(rate // 8), rate, 250.0, 1800.0) * _decay(rate // 8, rate, 0.02)
    return _overlay([rustle * grains * swell, flap], [0.0, length / rate * rng.uniform(0.8, 0.95)], rate)


def phone(rng: np.random.Generator, rate: int) -> Signal:
    """A telephone: the struck bells of an old one, or the warble of a newer one."""
    length = int(rate * rng.uniform(0.6, 1.3))
    time = _time(length, rate)
    tones = rng.uniform(800, 1700) * np.array([1.0, rng.uniform(1.15, 1.4)])
    beat = rng.uniform(16, 26)
    if rng.random() < 0.5:
        bells = [
            _strike(rng, rate, tone * np.array([1.0, 2.73, 4.1, 5.4]), decay=0.09, tilt=0.7) for tone in tones
        ]
        strokes = np.arange(0, length / rate, 1 / beat)
        ring = _overlay([bells[stroke % 2] for stroke in range(len(strokes))], strokes, rate)
    else:
        chosen = tones[(time * beat * 0.7).astype(int) % 2]
        phase = 2 * np.pi * np.cumsum(chosen) / rate
        ring = sum(np.sin(overtone * phase) / overtone for overtone in (1, 2, 3)) * _swell(
            length, rate, 0.01, 0.02
        )
    return _sequence([ring] * int(rng.integers(1, 4)), np.full(3, rng.uniform(0.2, 0.4)), rate)


def speech(rng: np.random.Generator, rate: int) -> Signal:
    """A few syllables: vowels of one voice whose formants glide, with hisses and stops between them."""
    tract, pitch = rng.uniform(0.88, 1.2), rng.uniform(90, 240)
    count = int(rng.integers(4, 10))
    melody = pitch * np.linspace(1.12, 0.85, count + 1) * rng.uniform(0.9, 1.12, size=count + 1)
    spoken = VOWELS[rng.integers(len(VOWELS), size=count + 1)] * tract
    syllables = []
    for index in range(count):
        voice = _glottis(
            rng, rate, int(rate * rng.uniform(0.12, 0.26)), melody[index : index + 2], roughness=0.02
        )
        glide = np.linspace(0, 1, len(voice)) ** 2
        vowel = (1 - glide) * _formants(voice, rate, spoken[index]) + glide * _formants(
            voice, rate, spoken[index + 1]
        )
        consonant = int(rate * rng.uniform(0.03, 0.09))
        low = rng.uniform(1500, 4500)
        hiss = _band(rng.standard_normal(consonant), rate, low, low * 1.9) * _swell(
            consonant, rate, 0.01, 0.01
        )
        sounded = vowel * _swell(len(vowel), rate, 0.025, 0.05)
        scale = rng.uniform(0.05, 0.35) * np.abs(sounded).max() / np.abs(hiss).max()
        syllables.append(np.r_[hiss * scale, sounded])
    return _sequence(syllables, rng.choice([0.0, 0.02, 0.09], size=count), rate)


SOUNDS: dict[str, Callable[[np.random.Generator, int], Signal]] = {
    "clearthroat": clear_throat,
    "cough": cough,
    "doorslam": door_slam,
    "drawer": drawer,
    "keyboard": keyboard,
    "keys": keys,
    "knock": knock,
    "laughter": laughter,
    "pageturn": page_turn,
    "phone": phone,
    "speech": speech,
}


def _time(length: int, rate: int) -> Signal:
    return np.arange(length) / rate


def _decay(length: int, rate: int, seconds: float) -> Signal:
    return np.exp(-_time(length, rate) / seconds)


def _swell(length: int, rate: int, attack: float, release: float) -> Signal:
    time = _time(length, rate)
    return np.minimum(1.0, np.minimum(time / attack, time[::-1] / release))


def _band(signal: Signal, rate: int, low: float, high: float) -> Signal:
    top = 0.45 * rate
    edges = [min(low, 0.5 * top), min(high, top)]
    return sosfilt(butter(2, edges, "bandpass", fs=rate, output="sos"), signal)


def _strike(
    rng: np.random.Generator, rate: int, modes: Float[np.ndarray, "modes"], decay: float, tilt: float = 0.3
) -> Signal:
    """A body struck once: damped modes, the higher the shorter and weaker, after a click of noise."""
    modes = modes[modes < 0.45 * rate]
    relative = modes / modes.min(initial=0.45 * rate)
    strengths = rng.uniform(0.3, 1.0, size=len(modes)) * relative**-tilt
    radii = np.exp(-(relative**tilt) / (decay * rate))
    blow = np.zeros(int(rate * 7 * decay) + rate // 100)
    blow[0] = 1.0
    sound = np.zeros_like(blow)
    click = rate // 100
    sound[:click] = 0.5 * rng.standard_normal(click) * _decay(click, rate, 0.0015)
    for radius, angle, strength in zip(radii, 2 * np.pi * modes / rate, strengths, strict=True):
        sound += lfilter(
            [0.0, strength * radius * np.sin(angle)], [1.0, -2 * radius * np.cos(angle), radius**2], blow
        )
    return sound


def _glottis(
    rng: np.random.Generator, rate: int, length: int, contour: Float[np.ndarray, "points"], roughness: float
) -> Signal:
    """Pulses of the vocal folds: a train whose pitch follows `contour` and trembles by `roughness`."""
    knots = np.arange(0, length + rate // 50, rate // 100)
    tremble = np.interp(np.arange(length), knots, rng.standard_normal(len(knots)))
    pitch = np.interp(np.linspace(0, 1, length), np.linspace(0, 1, len(contour)), contour)
    phase = np.cumsum(pitch * (1 + roughness * tremble)) / rate
    pulses = np.diff(np.floor(phase), prepend=0.0)
    return lfilter([1.0], [1.0, -1.6, 0.64], pulses)


def _formants(source: Signal, rate: int, frequencies: Float[np.ndarray, "formants"]) -> Signal:
    """The source through resonances of the vocal tract, side by side, the higher ones weaker."""
    total = np.zeros_like(source)
    for index, frequency in enumerate(frequencies[frequencies < 0.45 * rate]):
        radius = np.exp(-np.pi * (70 + 0.05 * frequency) / rate)
        poles = [1.0, -2 * radius * np.cos(2 * np.pi * frequency / rate), radius**2]
        total += lfilter([1 - radius, 0.0, radius - 1], poles, source) * 0.8**index
    return total


def _sequence(sounds: list[Signal], gaps: Float[np.ndarray, "gaps"], rate: int) -> Signal:
    """Sounds one after another, each followed by its gap in seconds."""
    pieces = [np.r_[sound, np.zeros(int(gap * rate))] for sound, gap in zip(sounds, gaps, strict=False)]
    return np.concatenate(pieces)


def _overlay(sounds: list[Signal], times: list[float] | Float[np.ndarray, "sounds"], rate: int) -> Signal:
    """Sounds that start at `times` in seconds, added."""
    starts = [int(time * rate) for time in times]
    total = np.zeros(max(start + len(sound) for start, sound in zip(starts, sounds, strict=True)))
    for start, sound in zip(starts, sounds, strict=True):
        total[start : start + len(sound)] += sound
    return total
