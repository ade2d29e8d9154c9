"""Candidates: places where the scores of the hypotheses gather."""

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from torchmcl.audio.foa import unit_vectors
from torchmcl.audio.signatures import signatures

__all__ = ["Candidates", "candidates"]


@dataclass(frozen=True, slots=True)
class Candidates:
    """Places where score gathers in one output frame.

    Attributes:
        vectors: Unit vectors, the strongest first.
        scores: Their scores.
        signatures: Their spectra, see `signatures`, if known.
    """

    vectors: Float[np.ndarray, "candidates 3"]
    scores: Float[np.ndarray, "candidates"]
    signatures: Float[np.ndarray, "candidates bands"] | None = None


def candidates(
    points: Float[np.ndarray, "frames hypotheses 2"],
    scores: Float[np.ndarray, "frames hypotheses"],
    spectra: Float[np.ndarray, "frames bands 10"] | None = None,
    *,
    stride: int = 5,
    near: float = 18.0,
    most: int = 4,
    least: float = 0.08,
) -> list[Candidates]:
    """Merge hypotheses by their scores: the masses of score within `near` degrees, for each `stride` frames.

    The strongest mass is where most score lies within `near`; its direction is the mean of that score, which is then
    used up.

    Args:
        points: (azimuth, elevation) in radians.
        scores: Of the hypotheses.
        spectra: Covariances of the channels, for the signatures of the candidates.
        stride: Frames merged into one output frame; the last one may have fewer.
        near: Degrees.
        most: Candidates in an output frame at most.
        least: Mass of a candidate.

    Returns:
        Candidates of each output frame.
    """
    frames, count = scores.shape
    outputs = -(-frames // stride)
    missing = outputs * stride - frames
    rays = np.pad(unit_vectors(points), ((0, missing), (0, 0), (0, 0))).astype(np.float32)
    left = np.pad(scores, ((0, missing), (0, 0))).astype(np.float32)
    rays, left = rays.reshape(outputs, stride * count, 3), left.reshape(outputs, stride * count)
    left /= np.r_[np.full(outputs - 1, stride), stride - missing][:, None] if outputs else 1
    close = rays @ rays.swapaxes(1, 2) > math.cos(math.radians(near))
    vectors, masses = np.zeros((outputs, most, 3)), np.zeros((outputs, most))
    every = np.arange(outputs)
    for number in range(most):
        mass = np.einsum("fkj,fj->fk", close, left)
        best = mass.argmax(-1)
        share = close[every, best] * left
        masses[:, number] = mass[every, best]
        vectors[:, number] = np.einsum("fk,fkc->fc", share, rays)
        left = left - share
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    vectors = vectors / np.maximum(lengths, 1e-12)
    kept = (masses >= least) & (lengths[..., 0] > 0)
    masses = masses.clip(max=1.0)
    if spectra is None:
        return [Candidates(vectors[f][kept[f]], masses[f][kept[f]]) for f in every]
    sums = np.add.reduceat(spectra, np.arange(0, frames, stride)) if frames else spectra
    sounds = signatures(sums, vectors, kept)
    return [Candidates(vectors[f][kept[f]], masses[f][kept[f]], sounds[f][kept[f]]) for f in every]
