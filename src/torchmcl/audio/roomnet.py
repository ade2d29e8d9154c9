"""The network of the bundled localizer: SELDNet with level normalization and a count head."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from torchmcl.audio.features import StftFeatures
from torchmcl.audio.seldnet import Output, SELDNet
from torchmcl.heads import Scores
from torchmcl.hypotheses import Hypotheses

__all__ = ["COUNTS", "CountedHypotheses", "RoomNet"]

COUNTS = 4
"""Classes of the count head: 0, 1, 2, and 3 or more sources."""

LEVEL = 0.06
"""Root mean square of W to which each window is scaled."""

SILENCE = 1e-12
"""Quieter windows are digital silence and are not amplified further."""


class CountedHypotheses(Hypotheses):
    """Hypotheses with the logits of the number of sources, `(*batch, 4)`: 0, 1, 2, and 3 or more."""

    counts: Float[Tensor, "*batch 4"]

    @classmethod
    def of(cls, hypotheses: Hypotheses, counts: Float[Tensor, "*batch 4"]) -> "CountedHypotheses":
        """Attach counts.

        Args:
            hypotheses: Directions with scores.
            counts: Logits.
        """
        found = cls(hypotheses.points, hypotheses.logits, hypotheses.link)
        object.__setattr__(found, "counts", counts)
        return found


class RoomNet(nn.Module):
    """A window of first-order Ambisonics (ACN/N3D) to K directions and a count at each frame of 20 ms.

    Each window is scaled to one root mean square of W, so that the answer does not depend on the gain of a
    recording. Features are normalized over the window with one scale and offset a feature, so that a window may have
    any length.

    Args:
        features: The first layer.
        hypotheses: K.
        scores: How logits become scores.
        output: What the head predicts, see `DirectionHead`.
        spread: Whether hypotheses start all over the sphere.
        filters: Channels of each convolution.
        pools: Max-pooling over frequency after each convolution.
        units: Of each recurrent layer and direction.
        layers: Recurrent layers.

    Example:
        >>> features = StftFeatures(16000, nfft=640, stride=4, bins=64, content="band_intensity")
        >>> predicted = RoomNet(features, 5, filters=8, pools=(8, 2), units=8, layers=1)(torch.zeros(2, 4, 8000))
        >>> predicted.points.shape, predicted.counts.shape
        (torch.Size([2, 25, 5, 2]), torch.Size([2, 25, 4]))
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
        pools: Sequence[int] = (8, 2, 1),
        units: int = 128,
        layers: int = 2,
    ) -> None:
        super().__init__()
        base = SELDNet(
            features,
            hypotheses,
            scores=scores,
            output=output,
            spread=spread,
            filters=filters,
            pools=pools,
            units=units,
            layers=layers,
            frames=1,
        )
        self.features, self.convolutions = features, base.convolutions
        self.recurrence, self.head = base.recurrence, base.head
        self.scale = nn.Parameter(torch.ones(base.recurrence.input_size))
        self.offset = nn.Parameter(torch.zeros(base.recurrence.input_size))
        self.count = nn.Linear(2 * units, COUNTS)

    def forward(self, waveform: Float[Tensor, "batch 4 samples"]) -> CountedHypotheses:
        """Hypotheses and counts `(batch, frames)`."""
        loudness = waveform[:, :1].square().mean(-1, keepdim=True).sqrt()
        spectrogram = self.features(waveform * (LEVEL / loudness.clamp(min=SILENCE)))
        maps = self.convolutions(spectrogram.contiguous(memory_format=torch.channels_last))
        sequence = maps.permute(0, 2, 1, 3).flatten(2)
        variance, mean = torch.var_mean(sequence, (1, 2), correction=0, keepdim=True)
        sequence = (sequence - mean) * torch.rsqrt(variance + 1e-5) * self.scale + self.offset
        states, _ = self.recurrence(sequence)
        return CountedHypotheses.of(self.head(states), self.count(states))
