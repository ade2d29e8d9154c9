r"""Which channel order and normalization a recording has, judged from the whole of it.

The energy of the three dipoles over that of W is 1 in SN3D, 2 in FuMa and 3 in N3D, for plane waves and for diffuse
fields alike. Real arrays lose first-order energy at low frequencies and are inexact at high ones, so the ratio is
taken between 0.9 and 5.5 kHz, in cells of a band and a third of a second that all weigh the same. The order of channels
follows from the normalization: FuMa is W, X, Y, Z, the others are W, Y, Z, X.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from jaxtyping import Float

from torchmcl.audio.foa import CONVENTIONS, Convention

__all__ = ["SURE", "ConventionDetector", "DetectedConvention"]

SURE = 0.99
"""Probability below which AmbiX is assumed."""

RATIOS: dict[Convention, float] = {"acn-n3d": 3.0, "acn-sn3d": 1.0, "fuma": 2.0}
LOWEST, HIGHEST = 900.0, 5500.0
BANDS, FRAMES = 24, 8
"""Of a cell: one band of frequencies, so many frames of 64 ms that overlap by half."""

DEVIATION = 0.06
"""Standard deviation of the logarithm of the ratio over recordings of simulated rooms with imperfect arrays."""

LOUD = 1e-4
"""Cells within 40 dB of the loudest one of their band take part."""

FARTHEST = 5.0
"""Deviations from the nearest ratio beyond which no convention explains the recording."""

AMBIX: Convention = "acn-sn3d"


@dataclass(frozen=True)
class DetectedConvention:
    """The convention of a recording.

    Attributes:
        name: The convention to use: the likeliest one, or AmbiX (acn-sn3d) where none is sure.
        likeliest: The likeliest one.
        confidence: Its probability.
        ratio: Energy of the dipoles over that of W; NaN for silence.
    """

    name: Convention
    likeliest: Convention
    confidence: float
    ratio: float

    @property
    def doubtful(self) -> bool:
        """Whether the likeliest convention is less probable than `SURE`."""
        return self.confidence < SURE


class ConventionDetector:
    """Gathers the energies of a recording block by block.

    Args:
        sample_rate: Hz.

    Example:
        >>> from torchmcl.audio.foa import encode
        >>> detector = ConventionDetector(16000)
        >>> detector.add(encode(np.random.default_rng(0).standard_normal(16000), 0.3, 0.2, "fuma"))
        >>> detector.result().name
        'fuma'
    """

    def __init__(self, sample_rate: int) -> None:
        self.sample_rate = sample_rate
        self.window = max(2 * round(0.032 * sample_rate), 64)
        edges = np.geomspace(LOWEST, min(HIGHEST, 0.45 * sample_rate), BANDS + 1)
        frequency = np.fft.rfftfreq(self.window, 1 / sample_rate)
        bands = np.stack([(frequency >= low) & (frequency < high) for low, high in pairwise(edges)])
        self.bands = bands[bands.any(1)].T.astype(float)
        self.cells: list[Float[np.ndarray, "2 cells bands"]] = []

    def add(self, sound: Float[np.ndarray, "4 samples"]) -> None:
        """Take the next block, in any convention; what is shorter than a cell is left out."""
        half = self.window // 2
        halves = sound[:, : sound.shape[1] // half * half].reshape(4, -1, half)
        frames = np.concatenate([halves[:, :-1], halves[:, 1:]], -1)
        count = frames.shape[1] // FRAMES
        if not count:
            return
        spectrum = np.fft.rfft(frames[:, : count * FRAMES] * np.hanning(self.window))
        power = (np.square(np.abs(spectrum)) @ self.bands).reshape(4, count, FRAMES, -1).sum(2)
        self.cells.append(np.stack([power[0], power[1:].sum(0)]))

    def extend(self, blocks: Iterable[Float[np.ndarray, "4 samples"]]) -> None:
        """Take several blocks."""
        for block in blocks:
            self.add(block)

    def result(self) -> DetectedConvention:
        """What the blocks so far say."""
        nothing = DetectedConvention(AMBIX, AMBIX, 1 / len(CONVENTIONS), math.nan)
        if not self.cells:
            return nothing
        pressure, dipoles = np.concatenate(self.cells, 1)
        energy = pressure + dipoles / 2
        loud = (energy >= LOUD * energy.max(0)) & (energy > 0)
        if not loud.any() or not np.isfinite(energy).all():
            return nothing
        # The share of the dipoles is bounded, so that no single cell decides.
        share = float((dipoles / 2 / np.where(loud, energy, 1.0))[loud].mean())
        ratio = 2 * share / max(1 - share, 1e-12)
        errors = {name: math.log(max(ratio, 1e-12) / RATIOS[name]) / DEVIATION for name in CONVENTIONS}
        likeliest = min(errors, key=lambda name: abs(errors[name]))
        least = errors[likeliest] ** 2
        confidence = 1 / sum(math.exp((least - error**2) / 2) for error in errors.values())
        if abs(errors[likeliest]) > FARTHEST:
            confidence = 1 / len(CONVENTIONS)
        name = likeliest if confidence >= SURE else AMBIX
        return DetectedConvention(name, likeliest, confidence, ratio)
