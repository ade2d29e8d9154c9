"""Batches of training windows: voices mixed at each step, each turned, mirrored and rotating by itself."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Float32
from torch import Tensor

from torchmcl.audio.foa import unit_vectors
from torchmcl.audio.voices import FRAMES_PER_SECOND, Voices

__all__ = ["MixedBatches", "Mixing"]

NOISE_SECONDS = 40
TRIES = 6
CLOSE = 25.0


@dataclass(frozen=True)
class Mixing:
    """How voices are mixed.

    Attributes:
        counts: Relative numbers of windows with 0, 1, 2 and 3 voices.
        frames: Frames of 20 ms in a window.
        apart: Degrees between two voices that sound at the same time.
        close: Share of the voices that are within `CLOSE` degrees of the azimuth of another one, as sources that
            pass each other are; `apart` is not for them.
        spread: Each voice has a gain drawn uniformly from +- so many decibels.
        noise: Range of the level of white or pink diffuse noise below the sound, decibels.
        rotating: Share of the voices that move about the vertical axis.
        rate: Their greatest speed, degrees per second.
    """

    counts: tuple[int, int, int, int] = (5, 35, 30, 30)
    frames: int = 25
    apart: float = 15.0
    close: float = 0.0
    spread: float = 3.0
    noise: tuple[float, float] = (15.0, 40.0)
    rotating: float = 0.25
    rate: float = 60.0


class MixedBatches:
    """`batches` batches of `batch_size` windows an epoch: waveform, targets, active.

    Args:
        voices: To mix.
        mixing: How.
        batches: Batches in an epoch.
        batch_size: Windows in a batch.
        seed: Epoch `e` depends on (seed, e) only.
        fixed: Give the same batches in each epoch, for validation.
    """

    def __init__(
        self,
        voices: Voices,
        mixing: Mixing,
        *,
        batches: int,
        batch_size: int = 64,
        seed: int = 0,
        fixed: bool = False,
    ) -> None:
        self.voices, self.mixing = voices, mixing
        self.batches, self.batch_size, self.seed, self.fixed = batches, batch_size, seed, fixed
        self.epoch = 0
        self.noises = _noises(voices.sample_rate, np.random.default_rng([seed, 0]))

    def __len__(self) -> int:
        return self.batches

    def set_epoch(self, epoch: int) -> None:
        """Go on with that epoch."""
        self.epoch = epoch

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        rng = np.random.default_rng([self.seed, 1, 0 if self.fixed else self.epoch])
        self.epoch += 1
        for _ in range(self.batches):
            yield self._batch(rng)

    def _batch(self, rng: np.random.Generator) -> tuple[Tensor, Tensor, Tensor]:
        mixing, hop = self.mixing, self.voices.sample_rate // FRAMES_PER_SECOND
        shares = np.array(mixing.counts) / sum(mixing.counts)
        size, frames, slots = self.batch_size, mixing.frames, len(shares) - 1
        sound = np.zeros((size, 4, frames * hop), np.float32)
        targets = np.zeros((size, frames, slots, 2), np.float32)
        active = np.zeros((size, frames, slots), bool)
        for item, count in enumerate(rng.choice(len(shares), size, p=shares)):
            taken: list[tuple[np.ndarray, np.ndarray]] = []
            for slot in range(count):
                wave, where, when = self._voice(taken, rng)
                taken.append((unit_vectors(where), when))
                sound[item] += wave
                targets[item, :, slot], active[item, :, slot] = where, when
            self._add_noise(sound[item], np.repeat(active[item].any(-1), hop), rng)
        return torch.from_numpy(sound), torch.from_numpy(targets), torch.from_numpy(active)

    def _voice(
        self, taken: list[tuple[np.ndarray, np.ndarray]], rng: np.random.Generator
    ) -> tuple[Float32[np.ndarray, "4 samples"], Float32[np.ndarray, "frames 2"], Bool[np.ndarray, "frames"]]:
        """A stretch of a random voice with something in it, away from those that are taken."""
        voices, mixing = self.voices, self.mixing
        frames, hop = mixing.frames, voices.sample_rate // FRAMES_PER_SECOND
        for _ in range(TRIES):
            index = int(rng.integers(len(voices.sound)))
            first = int(rng.integers(voices.active.shape[1] - frames))
            when = voices.active[index, first : first + frames]
            if when.any():
                break
        wave = voices.sound[index, :, first * hop : (first + frames) * hop].astype(np.float32)
        azimuth, elevation = voices.directions[index, first : first + frames].T
        side, up = (int(sign) for sign in rng.choice([-1, 1], 2))
        rate = math.radians(rng.uniform(-mixing.rate, mixing.rate)) if rng.random() < mixing.rotating else 0.0
        meeting = bool(taken) and rng.random() < mixing.close
        for _ in range(1 if meeting else TRIES):
            angle = rng.uniform(-math.pi, math.pi)
            if meeting:
                x, y, _ = taken[-1][0][frames // 2]
                offset = math.radians(rng.uniform(-CLOSE, CLOSE)) - rate * frames / FRAMES_PER_SECOND / 2
                angle = math.atan2(y, x) - float(azimuth[frames // 2]) * side + offset
            turns = angle + rate * (np.arange(frames) + 0.5) / FRAMES_PER_SECOND
            where = np.stack([azimuth * side + turns, elevation * up], -1)
            rays = unit_vectors(where)
            close = ((rays * other).sum(-1) > math.cos(math.radians(mixing.apart)) for other, _ in taken)
            if not any((near & when & there).any() for near, (_, there) in zip(close, taken, strict=True)):
                break
        where[:, 0] = (where[:, 0] + np.pi) % (2 * np.pi) - np.pi
        gain = 10 ** (rng.uniform(-mixing.spread, mixing.spread) / 20)
        angles = angle + rate * np.arange(frames * hop if rate else 1) / voices.sample_rate
        return _turned(wave * np.float32(gain), angles, side, up), where.astype(np.float32), when

    def _add_noise(
        self,
        sound: Float32[np.ndarray, "4 samples"],
        on: Bool[np.ndarray, "samples"],
        rng: np.random.Generator,
    ) -> None:
        power = np.square(sound[0][on] if on.any() else sound[0]).mean()
        noise = self.noises[int(rng.integers(len(self.noises)))]
        first = int(rng.integers(noise.shape[1] - sound.shape[1]))
        level = math.sqrt(max(power, 1e-6)) * 10 ** (-rng.uniform(*self.mixing.noise) / 20)
        sound += noise[:, first : first + sound.shape[1]] * np.float32(level)


def _turned(
    wave: Float32[np.ndarray, "4 samples"], angle: Float[np.ndarray, "_"], side: int, up: int
) -> Float32[np.ndarray, "4 samples"]:
    w, y, z, x = wave
    y = y * np.float32(side)
    cosine, sine = np.cos(angle).astype(np.float32), np.sin(angle).astype(np.float32)
    return np.stack([w, cosine * y + sine * x, z * np.float32(up), cosine * x - sine * y])


def _noises(sample_rate: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """White and pink noise, independent in four channels."""
    samples = NOISE_SECONDS * sample_rate
    white = rng.standard_normal((4, samples), dtype=np.float32)
    frequency = np.fft.rfftfreq(samples, 1 / sample_rate)
    pink = np.fft.irfft(np.fft.rfft(white) / np.sqrt(frequency.clip(30)), samples).astype(np.float32)
    return white, pink / pink.std()
