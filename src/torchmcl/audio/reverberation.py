r"""Random reverberant rooms: image sources for the early reflections, a diffuse tail for the rest.

An image-source model of a long reverberation is slow, and its late part is more regular than that of a real room.
Here the images that arrive within the first 30 to 70 ms are summed, with walls of different absorption; later sound
is Gaussian noise, independent in the four channels (a diffuse field in N3D), whose energy follows from the
reverberation time and the volume and decays in three frequency bands at their own rates:

$$e(t) = \frac{16 \pi}{A}\,\frac{13.8}{T_{60}}\,e^{-13.8\,t / T_b}, \qquad A = 0.161\,V / T_{60}.$$
"""

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Float32
from scipy.fft import irfft, next_fast_len, rfft
from scipy.signal import butter, sosfilt

from torchmcl.audio.foa import directions, steering, unit_vectors
from torchmcl.audio.rooms import SPEED_OF_SOUND

__all__ = ["OpenAir", "ReverberantRoom", "random_room"]

LONGEST = 1.5
"""Seconds of a response at most."""

WALL = 0.15
"""Meters between a source and a wall at least."""

SCATTER = 0.1
"""Standard deviation of the direction of a reflection, radians: walls are not mirrors."""

Point = Float[np.ndarray, "3"]
Response = Float32[np.ndarray, "4 samples"]


@dataclass(frozen=True)
class ReverberantRoom:
    """A shoebox room with one microphone array.

    Attributes:
        size: Length, width and height, meters.
        rt60: Reverberation time at middle frequencies, seconds.
        absorption: Energy absorption of the six walls, two for each axis.
        decay: Factors of the reverberation time below 400 Hz, between, and above 2.5 kHz.
        microphone: Position of the array, meters.
        facing: Gain of all reflections relative to an omnidirectional source; below 1 the sources face the array.
    """

    size: tuple[float, float, float]
    rt60: float
    absorption: tuple[float, ...]
    decay: tuple[float, float, float]
    microphone: tuple[float, float, float]
    facing: float

    def reach(self, direction: Float[np.ndarray, "2"]) -> float:
        """Distance at which a ray from the array comes close to a wall, meters."""
        ray = unit_vectors(direction)
        wall = np.where(ray > 0, np.array(self.size) - WALL, WALL) - self.microphone
        return float(np.divide(wall, ray, out=np.full(3, np.inf), where=np.abs(ray) > 1e-9).min())

    def response(
        self, direction: Float[np.ndarray, "2"], distance: float, sample_rate: int, rng: np.random.Generator
    ) -> Response:
        """Impulse response of a source in ACN/N3D, from the arrival of the direct sound on.

        Args:
            direction: (azimuth, elevation) of the source, radians.
            distance: From the array, meters; the direct sound has gain 1 / distance.
            sample_rate: Hz.
            rng: Scatters the reflections and draws the diffuse tail.
        """
        mixing = rng.uniform(0.03, 0.07)
        samples = int(sample_rate * min(1.1 * self.rt60, LONGEST)) + 200
        early = self._early(direction, distance, mixing, samples, sample_rate, rng)
        late = self._late(distance, mixing, samples, sample_rate, rng)
        high_pass = butter(1, 40, "highpass", fs=sample_rate, output="sos")
        return sosfilt(high_pass, early + late).astype(np.float32)

    def _early(
        self,
        direction: Float[np.ndarray, "2"],
        distance: float,
        mixing: float,
        samples: int,
        sample_rate: int,
        rng: np.random.Generator,
    ) -> Float[np.ndarray, "4 samples"]:
        reach = distance + SPEED_OF_SOUND * mixing
        source = np.array(self.microphone) + distance * unit_vectors(direction)
        axes = [self._images(axis, source[axis], reach) for axis in range(3)]
        place = np.stack(np.meshgrid(*(place for place, _ in axes), indexing="ij"), -1).reshape(-1, 3)
        gain = np.einsum("i,j,k->ijk", *(gain for _, gain in axes)).reshape(-1)
        path = np.linalg.norm(place, axis=-1)
        near = path < reach
        place, path, gain = place[near], path[near], gain[near] / path[near]
        reflected = np.arange(len(path)) != path.argmin()
        gain *= np.where(reflected, self.facing * 10 ** (rng.normal(0, 2, len(path)) / 20), 1.0)
        ray = place / path[:, None] + reflected[:, None] * rng.normal(0, SCATTER, place.shape)
        weights = gain[:, None] * steering(directions(ray))
        arrival = (path - distance) / SPEED_OF_SOUND * sample_rate
        first = np.floor(arrival).astype(int).clip(0, samples - 2)
        share = (arrival - first).clip(0, 1)
        response = np.empty((4, samples))
        for channel, weight in enumerate(weights.T):
            response[channel] = np.bincount(first, weight * (1 - share), samples)
            response[channel] += np.bincount(first + 1, weight * share, samples)
        return response

    def _images(self, axis: int, source: float, reach: float) -> tuple[np.ndarray, np.ndarray]:
        """Positions of the images along one axis, seen from the array, and the gains of their reflections."""
        size = self.size[axis]
        order = np.arange(-int(reach // size) - 2, int(reach // size) + 3)
        place = np.where(order % 2 == 0, order * size + source, (order + 1) * size - source)
        place = place - self.microphone[axis]
        low, high = np.sqrt(1 - np.array(self.absorption[2 * axis : 2 * axis + 2]))
        bounces = np.abs(order)
        gain = low ** np.where(order < 0, (bounces + 1) // 2, bounces // 2)
        gain *= high ** np.where(order > 0, (bounces + 1) // 2, bounces // 2)
        near = np.abs(place) < reach
        return place[near], gain[near]

    def _late(
        self, distance: float, mixing: float, samples: int, sample_rate: int, rng: np.random.Generator
    ) -> Float[np.ndarray, "4 samples"]:
        length = next_fast_len(samples, real=True)
        time = np.arange(samples) / sample_rate
        frequency = np.fft.rfftfreq(length, 1 / sample_rate)
        low, high = 1 / (1 + (frequency / 400) ** 4), 1 - 1 / (1 + (frequency / 2500) ** 4)
        noise = rfft(rng.standard_normal((4, samples)), length)
        onset = (2 * time / mixing - 1).clip(0, 1)
        absorbing = 0.161 * math.prod(self.size) / self.rt60
        start = 16 * math.pi / absorbing * 13.8 / self.rt60 / sample_rate * self.facing**2
        tail = np.zeros((4, samples))
        for band, factor in zip((low, (1 - low - high).clip(0, 1), high), self.decay, strict=True):
            energy = start * np.exp(-13.8 * (time + distance / SPEED_OF_SOUND) / (self.rt60 * factor))
            tail += irfft(noise * np.sqrt(band), length)[:, :samples] * np.sqrt(energy) * onset
        return tail


@dataclass(frozen=True)
class OpenAir:
    """No walls: the direct sound alone."""

    rt60: float = 0.0

    def reach(self, direction: Float[np.ndarray, "2"]) -> float:
        """Nothing is in the way."""
        return math.inf

    def response(
        self, direction: Float[np.ndarray, "2"], distance: float, sample_rate: int, rng: np.random.Generator
    ) -> Response:
        """One sample, the gains of a plane wave over the distance."""
        return (steering(direction)[:, None] / distance).astype(np.float32)


def random_room(rng: np.random.Generator, rt60: tuple[float, float] = (0.2, 1.5)) -> ReverberantRoom:
    """A room of 3 to 10 meters with a reverberation time drawn log-uniformly from `rt60`.

    >>> room = random_room(np.random.default_rng(0))
    >>> room.response(np.zeros(2), 1.0, 16000, np.random.default_rng(0)).shape[0]
    4
    """
    size = rng.uniform([3.5, 3.0, 2.4], [10.0, 8.5, 4.2])
    time = float(np.exp(rng.uniform(*np.log(rt60))))
    surface = 2 * (size[0] * size[1] + size[0] * size[2] + size[1] * size[2])
    mean = min(1 - np.exp(-0.161 * size.prod() / time / surface), 0.95)
    uneven = np.exp(rng.normal(0, 0.5, 6))
    absorption = (mean * uneven / uneven.mean()).clip(0.02, 0.97)
    margin = np.minimum(1.0, 0.4 * size)
    x, y = rng.uniform(margin[:2], size[:2] - margin[:2])
    return ReverberantRoom(
        size=(float(size[0]), float(size[1]), float(size[2])),
        rt60=time,
        absorption=tuple(absorption.tolist()),
        decay=(rng.uniform(0.9, 1.4), 1.0, rng.uniform(0.45, 1.0)),
        microphone=(float(x), float(y), rng.uniform(1.0, 1.8)),
        facing=10 ** (-rng.uniform(0, 6) / 20),
    )
