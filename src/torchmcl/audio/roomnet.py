"""The network of the bundled localizer: SELDNet with level normalization and a count head."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from torchmcl.audio.features import StftFeatures
from torchmcl.audio.seldnet import SELDNet
from torchmcl.hypotheses import Hypotheses

__all__ = ["COUNTS", "RoomNet", "RoomNetSettings"]

COUNTS = 4
"""Classes of the count head: 0, 1, 2, and 3 or more sources."""

LEVEL = 0.06
"""Root mean square of W to which each window is scaled."""

SILENCE = 1e-12
"""Windows below are digital silence and are not amplified further."""


@dataclass(frozen=True)
class RoomNetSettings:
    """Size of a `RoomNet`.

    Attributes:
        hypotheses: K.
        sample_rate: Hz, of the sound that the network takes.
        bands: Frequency bands up to 6.4 kHz.
        filters: Channels of the convolutions.
        pools: Max-pooling over frequency after each convolution.
        units: Units of the recurrent layers, in each direction of time.
        layers: Number of recurrent layers.
    """

    hypotheses: int = 8
    sample_rate: int = 16000
    bands: int = 64
    filters: int = 48
    pools: Sequence[int] = (8, 2, 1)
    units: int = 96
    layers: int = 2

    def plain(self) -> dict[str, object]:
        """As it is written to JSON."""
        return {**asdict(self), "pools": list(self.pools)}


class RoomNet(nn.Module):
    """A window of first-order Ambisonics (ACN/N3D) to K directions and a count at each frame of 20 ms.

    Each window is scaled to one root mean square of W, so that the answer does not depend on the gain of a
    recording. Features are normalized over the window with one scale and offset a feature, so that a window may have
    any length.

    >>> network = RoomNet(RoomNetSettings(hypotheses=5))
    >>> hypotheses, counts = network(torch.zeros(2, 4, 8000))
    >>> hypotheses.points.shape, counts.shape
    (torch.Size([2, 25, 5, 2]), torch.Size([2, 25, 4]))
    """

    def __init__(self, settings: RoomNetSettings) -> None:
        super().__init__()
        self.settings = settings
        nfft = settings.sample_rate // 25
        features = StftFeatures(
            settings.sample_rate,
            nfft=nfft,
            stride=256 // settings.bands,
            bins=settings.bands,
            content="band_intensity",
        )
        base = SELDNet(
            features,
            settings.hypotheses,
            spread=True,
            filters=settings.filters,
            pools=settings.pools,
            units=settings.units,
            layers=settings.layers,
        )
        self.features, self.convolutions = features, base.convolutions
        self.recurrence, self.head = base.recurrence, base.head
        width = base.recurrence.input_size
        self.scale, self.offset = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))
        self.count = nn.Linear(2 * settings.units, COUNTS)

    def forward(self, waveform: Float[Tensor, "batch 4 samples"]) -> tuple[Hypotheses, Tensor]:
        """Hypotheses `(batch, frames)` and the logits of the count `(batch, frames, 4)`."""
        loudness = waveform[:, :1].square().mean(-1, keepdim=True).sqrt()
        spectrogram = self.features(waveform * (LEVEL / loudness.clamp(min=SILENCE)))
        maps = self.convolutions(spectrogram.contiguous(memory_format=torch.channels_last))
        sequence = maps.permute(0, 2, 1, 3).flatten(2)
        variance, mean = torch.var_mean(sequence, (1, 2), correction=0, keepdim=True)
        sequence = (sequence - mean) * torch.rsqrt(variance + 1e-5) * self.scale + self.offset
        states, _ = self.recurrence(sequence)
        return self.head(states), self.count(states)
