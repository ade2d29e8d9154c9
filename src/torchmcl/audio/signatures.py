r"""Signatures: the spectrum of each source, by which its track is recognized.

In each band of frequencies, the covariance of the four channels is that of plane waves from the candidates plus a
diffuse rest:

$$C \approx \sum_k p_k\, a(u_k)\, a(u_k)^\top + d\, I, \qquad a(u) = (1, \sqrt3\, u).$$

The powers $p_k$ are a least-squares fit; their logarithms, less the mean over the bands, are the signature. It does
not depend on the gain.
"""

import math
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Float32, Float64
from torch import Tensor

__all__ = ["BANDS", "Voice", "covariances", "signatures"]

BANDS = 14
LOWEST, HIGHEST = 100.0, 8000.0
"""Hertz."""

PAIRS = tuple((one, two) for one in range(4) for two in range(one, 4))
"""Entries of a symmetric matrix that are kept."""

WEIGHTS = np.array([1.0 if one == two else math.sqrt(2.0) for one, two in PAIRS])
"""So that a product of kept entries is the product of whole matrices."""

FLOOR = 0.01
"""Share of the pressure in a band below which a power cannot be told from an error of the fit."""

DIFFUSE = np.array([float(one == two) for one, two in PAIRS])
RIDGE = 0.05


def covariances(
    sound: Float[Tensor, "*windows 4 samples"], sample_rate: int, hop: int
) -> Float64[Tensor, "*windows frames bands 10"]:
    """Real parts of the covariance of the channels in bands, in frames of two hops that start at every hop.

    Args:
        sound: ACN and N3D; only whole frames count.
        sample_rate: Hertz.
        hop: Samples.
    """
    size = 2 * hop
    sound = sound.double()  # Squares of what a float file may hold are not finite otherwise.
    window = torch.hann_window(size, dtype=sound.dtype)
    spectrum = torch.fft.rfft(sound.unfold(-1, size, hop) * window)
    edges = np.geomspace(LOWEST, min(HIGHEST, sample_rate / 2), BANDS + 1) * size / sample_rate
    first = np.round(edges).astype(int)
    parts = torch.view_as_real(spectrum)
    found = []
    for start, end in zip(first[:-1], np.maximum(first[1:], first[:-1] + 1), strict=True):
        band = parts[..., start:end, :].flatten(-2).movedim(-3, -2)
        found.append((band @ band.mT).flatten(-2))
    kept = [4 * one + two for one, two in PAIRS]
    return torch.stack(found, -2)[..., kept]


def signatures(
    spectra: Float[np.ndarray, "outputs bands 10"],
    vectors: Float[np.ndarray, "outputs candidates 3"],
    present: Bool[np.ndarray, "outputs candidates"],
) -> Float32[np.ndarray, "outputs candidates bands"]:
    """The signature of each candidate.

    Args:
        spectra: Covariances.
        vectors: Directions of the candidates.
        present: Which of them exist.
    """
    x, y, z = np.moveaxis(vectors, -1, 0)
    waves = np.stack([np.ones_like(x), *(math.sqrt(3.0) * axis for axis in (y, z, x))], -1)
    one, two = np.array(PAIRS).T
    shapes = waves[..., one] * waves[..., two] * present[..., None]
    diffuse = np.broadcast_to(DIFFUSE, (len(shapes), 1, len(PAIRS)))
    model = np.concatenate([shapes, diffuse], 1) * WEIGHTS
    gram = model @ model.swapaxes(1, 2) + RIDGE * np.eye(model.shape[1])
    powers = np.linalg.solve(gram, model @ (spectra * WEIGHTS).swapaxes(1, 2))[:, :-1]
    pressure = spectra[:, None, :, 0]
    floor = FLOOR * (pressure + 0.01 * pressure.mean(-1, keepdims=True)) + np.finfo(float).tiny
    levels = np.log(np.maximum(powers, floor))
    return (levels - levels.mean(-1, keepdims=True)).astype(np.float32)


MEMORY = 20.0
"""Weight of the past in a voice: about so many frames with score 1."""


@dataclass
class Voice:
    """The mean signature of a track.

    Attributes:
        mean: `None` before anything was heard.
        weight: Sum of the scores that it is a mean of, at most `MEMORY`.
        frames: In which it was heard.
    """

    mean: Float[np.ndarray, "bands"] | None = None
    weight: float = 0.0
    frames: int = 0

    def hear(self, signature: Float[np.ndarray, "bands"] | None, score: float, frames: int = 1) -> None:
        """Take one more signature into the mean.

        Args:
            signature: Of a candidate.
            score: Of that candidate.
            frames: That it was heard in.
        """
        if signature is None:
            return
        self.weight += score
        mean = 0.0 if self.mean is None else self.mean
        self.mean = mean + (signature - mean) * (score / self.weight)
        self.weight, self.frames = min(self.weight, MEMORY), self.frames + frames

    def distance(self, other: "Voice") -> float:
        """Mean square over the bands, in nepers of power; NaN where one of both was never heard."""
        if self.mean is None or other.mean is None:
            return math.nan
        return float(np.square(self.mean - other.mean).mean())
