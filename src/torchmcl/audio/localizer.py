"""Directions over time of a recording of any length, by a trained network."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, Float32
from scipy.signal import resample_poly
from torch import Tensor, nn

from torchmcl.audio.datasets import open_sound
from torchmcl.audio.datasets.sound import read_header
from torchmcl.audio.foa import Convention, convert, detect_normalisation, directions, unit_vectors
from torchmcl.audio.targets import HOP
from torchmcl.errors import UserError
from torchmcl.hypotheses import Hypotheses

__all__ = ["Block", "detect_convention", "localize_blocks", "sources"]

CHUNK = 0.5
BLOCK = 30.0
MARGIN = 0.25
"""Seconds around a block that are resampled with it and cut off again, so that blocks meet without a seam."""

BATCH = 8
"""Chunks that the network hears at once: more are no faster, and take memory."""

NEAR = math.radians(20)
"""Hypotheses within this angle of a better one speak of the same source."""


@dataclass(frozen=True)
class Block:
    """Half a minute of answers: directions and scores of the K hypotheses of each frame of 20 ms."""

    start: float
    directions: Float32[np.ndarray, "frames hypotheses 2"]
    scores: Float32[np.ndarray, "frames hypotheses"]


def localize_blocks(
    path: str | Path,
    network: nn.Module,
    sample_rate: int,
    convention: Convention,
    progress: Callable[[float], None] = lambda share: None,
) -> Iterator[Block]:
    """Localise in blocks of half a minute, so that memory does not grow with the length of the recording.

    The network hears chunks of half a second at its own `sample_rate`, in ACN, N3D; the last chunk is padded
    with silence, and its frames behind the end are dropped.
    """
    header = read_header(path)
    if header.channels != 4:
        raise UserError(f"{path}: has {header.channels} channels, first-order Ambisonics has 4")
    if header.sample_rate < 8000:
        raise UserError(f"{path}: has {header.sample_rate} Hz, at least 8000 Hz are needed")
    total = len(open_sound(path))
    step, margin = round(BLOCK * header.sample_rate), round(MARGIN * header.sample_rate)
    for start in range(0, total, step):
        before = min(start, margin)
        # Mapped anew for each block: the pages of a mapping that is kept would add up to the whole file.
        samples = open_sound(path)[start - before : start + step + margin]
        piece = samples.T.astype(np.float32) / np.float32(32768)
        del samples
        piece = _resample(piece, header.sample_rate, sample_rate)
        skip = round(before / header.sample_rate * sample_rate)
        length = min(step, total - start) / header.sample_rate
        piece = convert(piece[:, skip : skip + round(length * sample_rate)], convention, "acn-n3d")
        yield _answer(network, torch.from_numpy(piece), start / header.sample_rate, length, sample_rate)
        progress(min((start + step) / total, 1.0))


def detect_convention(path: str | Path, seconds: float = 60.0) -> tuple[Convention, bool]:
    """The convention that the energies of the first minute speak for, and whether that is doubtful.

    FuMa, which has its channels in another order, must be beyond doubt: a wrong order ruins all directions, a wrong
    scale few.
    """
    header = read_header(path)
    if header.channels != 4:
        raise UserError(f"{path}: has {header.channels} channels, first-order Ambisonics has 4")
    found = detect_normalisation(np.asarray(open_sound(path)[: round(seconds * header.sample_rate)].T))
    if found.name == "fuma" and found.doubtful:
        return ("acn-n3d" if found.ratio > math.sqrt(3) else "acn-sn3d"), True
    known: dict[str, Convention] = {"n3d": "acn-n3d", "sn3d": "acn-sn3d", "fuma": "fuma"}
    return known[found.name], found.doubtful


def sources(
    points: Float[np.ndarray, "frames hypotheses 2"], scores: Float[np.ndarray, "frames hypotheses"]
) -> list[Float[np.ndarray, "found 3"]]:
    """The sources of each frame as (azimuth, elevation, score), the strongest first.

    As many as the scores add up to, rounded. The strongest is where most score lies within 20 degrees; it is the
    mean direction of that score, which is then used up.
    """
    vectors = unit_vectors(points)
    near = np.einsum("fkc,fjc->fkj", vectors, vectors) > math.cos(NEAR)
    left = scores.copy()
    counts = np.rint(scores.sum(-1)).astype(int)
    found: list[list[np.ndarray]] = [[] for _ in counts]
    for number in range(int(counts.max(initial=0))):
        mass = (near * left[:, None, :]).sum(-1)
        best = mass.argmax(-1)
        share = near[np.arange(len(best)), best] * left
        mean = directions(np.einsum("fk,fkc->fc", share, vectors) + 1e-12)
        for frame in np.nonzero((counts > number) & (mass.max(-1) > 0.05))[0]:
            found[frame].append(np.append(mean[frame], min(share[frame].sum(), 1.0)))
        left = left - share
    return [np.array(rows).reshape(-1, 3) for rows in found]


def _answer(network: nn.Module, sound: Tensor, start: float, length: float, sample_rate: int) -> Block:
    samples = round(CHUNK * sample_rate)
    chunks = max(math.ceil(sound.shape[-1] / samples - 1e-9), 1)
    padded = nn.functional.pad(sound, (0, chunks * samples - sound.shape[-1]))
    with torch.no_grad():
        pieces = padded.unflatten(-1, (chunks, samples)).transpose(0, 1).split(BATCH)
        answer = Hypotheses.cat([network(piece.contiguous()) for piece in pieces])
    if answer.logits is None:
        raise UserError("the model has no scores; localising needs a scored method such as transport_rmcl")
    frames = math.ceil(length / HOP - 1e-9)
    return Block(
        start,
        answer.points.flatten(0, 1)[:frames].numpy(),
        answer.scores.flatten(0, 1)[:frames].numpy(),
    )


def _resample(
    sound: Float32[np.ndarray, "4 samples"], source: int, target: int
) -> Float32[np.ndarray, "4 longer"]:
    if source == target:
        return sound
    divisor = math.gcd(source, target)
    return resample_poly(sound, target // divisor, source // divisor, axis=-1).astype(np.float32)
