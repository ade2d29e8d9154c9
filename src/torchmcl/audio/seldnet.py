"""SELDNet: convolutions over the spectrogram, recurrence over time, hypotheses at each frame."""

from collections.abc import Sequence
from typing import Literal

import torch
from jaxtyping import Float, Int16
from torch import Tensor, nn

from torchmcl.audio.features import StftFeatures
from torchmcl.directions import from_vectors, to_vectors
from torchmcl.heads import HypothesisHead, Scores
from torchmcl.hypotheses import Hypotheses
from torchmcl.voronoi.supports import Sphere

__all__ = ["DirectionHead", "Output", "SELDNet"]

Output = Literal["angles", "sphere"]


class DirectionHead(nn.Module):
    """K directions as (azimuth, elevation) in radians.

    Args:
        features: Of each input vector.
        hypotheses: K.
        scores: How logits become scores, `None` for no scores.
        output: `"angles"` predicts the two angles, as the paper does. `"sphere"` predicts vectors and takes their
            directions, so that there is no discontinuity at azimuth 180 degrees.
        spread: Whether the hypotheses start all over the sphere.

    Example:
        >>> DirectionHead(16, hypotheses=5)(torch.randn(25, 16)).points.shape
        torch.Size([25, 5, 2])
    """

    def __init__(
        self,
        features: int,
        hypotheses: int,
        scores: Scores = "sigmoid",
        output: Output = "sphere",
        spread: bool = False,
    ) -> None:
        super().__init__()
        if output not in ("angles", "sphere"):
            raise ValueError(f"output must be 'angles' or 'sphere', got {output!r}")
        self.output = output
        dim = 2 if output == "angles" else 3
        self.head = HypothesisHead(features, hypotheses, dim, scores)
        if spread:
            start = Sphere().sample((hypotheses,))
            start = start if output == "angles" else to_vectors(start)
            with torch.no_grad():
                self.head.projection.bias[: hypotheses * dim] = start.flatten()

    def forward(self, features: Float[Tensor, "*batch features"]) -> Hypotheses:
        """Predict K directions.

        Args:
            features: Vectors.

        Returns:
            K directions for each vector.
        """
        hypotheses = self.head(features)
        if self.output == "angles":
            return hypotheses
        return Hypotheses(from_vectors(hypotheses.points, least=1e-6), hypotheses.logits, hypotheses.link)


class SELDNet(nn.Module):
    """A network from a waveform of first-order Ambisonics to K directions at each frame.

    Blocks of convolution, batch norm, max-pooling over frequency and ReLU (after the pooling: the same result on fewer
    values); layer norm; bidirectional GRUs; a `DirectionHead`. The defaults are those of the paper, with about 1.5
    million parameters.

    Args:
        features: The first layer.
        hypotheses: K.
        scores: How logits become scores, `None` for no scores.
        output: See `DirectionHead`.
        spread: Whether the hypotheses start all over the sphere.
        filters: Channels of each convolution.
        pools: Pooling over frequency after each convolution.
        units: Of each recurrent layer and direction.
        layers: Recurrent layers.
        frames: In a chunk.

    Example:
        >>> network = SELDNet(StftFeatures(16000, nfft=640, stride=4, bins=64), pools=(4, 4, 2), hypotheses=5)
        >>> network(torch.zeros(2, 4, 8000, dtype=torch.int16)).points.shape
        torch.Size([2, 25, 5, 2])
    """

    def __init__(
        self,
        features: StftFeatures,
        hypotheses: int,
        *,
        scores: Scores = "sigmoid",
        output: Output = "sphere",
        spread: bool = False,
        filters: int = 64,
        pools: Sequence[int] = (8, 8, 2),
        units: int = 128,
        layers: int = 4,
        frames: int = 25,
    ) -> None:
        super().__init__()
        bins = features.bins
        channels = features.channels
        blocks: list[nn.Module] = []
        for pool in pools:
            if bins % pool:
                raise ValueError(f"pools is {tuple(pools)}: {bins} bins cannot be pooled by {pool}")
            blocks.append(_block(channels, filters, pool))
            channels, bins = filters, bins // pool
        self.features = features
        self.convolutions = nn.Sequential(*blocks).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.norm = nn.LayerNorm((frames, filters * bins))
        self.recurrence = nn.GRU(filters * bins, units, layers, batch_first=True, bidirectional=True)
        self.head = DirectionHead(2 * units, hypotheses, scores, output, spread)

    def forward(
        self, waveform: Int16[Tensor, "batch 4 samples"] | Float[Tensor, "batch 4 samples"]
    ) -> Hypotheses:
        """Predict K directions at each frame.

        Args:
            waveform: Chunks in ACN, N3D.

        Returns:
            Hypotheses `(batch, frames)`.
        """
        spectrogram = self.features(waveform).contiguous(memory_format=torch.channels_last)
        maps = self.convolutions(spectrogram)
        sequence = maps.permute(0, 2, 1, 3).flatten(2)
        if sequence.shape[1:] != self.norm.normalized_shape:
            frames, given = self.norm.normalized_shape[0], sequence.shape[1]
            raise ValueError(f"waveform has {given} frames, the network takes chunks of {frames}")
        states, _ = self.recurrence(self.norm(sequence))
        return self.head(states)


def _block(channels: int, filters: int, pool: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(channels, filters, 3, padding=1),
        nn.BatchNorm2d(filters),
        nn.MaxPool2d((1, pool)) if pool > 1 else nn.Identity(),
        nn.ReLU(),
    )
