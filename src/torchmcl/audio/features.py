"""Short-time Fourier features, computed on the fly as the first layer of a network."""

import math
from functools import reduce
from typing import Literal, get_args

import torch
from jaxtyping import Float, Int16
from torch import Tensor, nn

__all__ = ["Content", "StftFeatures"]

Content = Literal["magnitude_phase", "log_magnitude_phase", "intensity", "band_intensity"]

_FLOOR = 1e-6
"""Below the quantisation noise of 16-bit sound, so that the logarithm of silence is finite and constant."""

_LEVEL, _RANGE = -9.0, 3.0
"""Mean and deviation of the logarithm of amplitudes in recordings of full scale, roughly."""

_BLOCK = 8
"""Waveforms transformed at a time on a CPU: larger temporaries leave its cache, at three times the cost."""


class StftFeatures(nn.Module):
    r"""The short-time Fourier transform of first-order Ambisonics (ACN, N3D) as the first layer of a network.

    Frames of `window` seconds start every half window; sample $n$ of frame $i$ is $x_i[n]$ and $w$ the Hann
    window, so that the value in bin $b$ is

    $$X_i[b] = \frac{1}{\sum_n w[n]} \sum_n w[n]\, x_i[n]\, e^{-2 \pi j\, b\, n / \mathrm{nfft}}.$$

    This is `scipy.signal.stft` (zeros beyond both ends) without its first bin and its last frame. The features are,
    depending on `content`:

    - `"magnitude_phase"`: the magnitudes of all channels, then their phases, as in the paper;
    - `"log_magnitude_phase"`: the logarithms of the magnitudes, and phases in units of pi;
    - `"intensity"`: the logarithm of the energy $E = (|W|^2 + |V|^2 / 3) / 2$ with $V = (Y, Z, X)$, then the
      active and the reactive intensity, the real and the imaginary part of $W^* V / E$. For a plane wave the
      active one points to the source, at any frequency and level, which shortens training;
    - `"band_intensity"`: the same for bands of `stride` adjacent bins; energies and products are averaged over a band
      before the quotient is taken.

    Args:
        sample_rate: In hertz.
        window: Seconds.
        nfft: Length of the transform.
        stride: Only every so many bins are kept, or bands of so many bins are averaged.
        bins: The lowest so many of the kept bins or bands; all of them if `None`.
        content: Which features.

    Example:
        >>> features = StftFeatures(44100)
        >>> features(torch.zeros(2, 4, 22050, dtype=torch.int16)).shape
        torch.Size([2, 8, 25, 1024])
    """

    window: Tensor

    def __init__(
        self,
        sample_rate: int = 44100,
        *,
        window: float = 0.04,
        nfft: int = 2048,
        stride: int = 1,
        bins: int | None = None,
        content: Content = "magnitude_phase",
    ) -> None:
        super().__init__()
        if content not in get_args(Content):
            raise ValueError(f"content is {content!r}, must be one of {', '.join(get_args(Content))}")
        self.hop = round(sample_rate * window / 2)
        if self.hop == 0 or not math.isclose(self.hop, sample_rate * window / 2, abs_tol=1e-6):
            raise ValueError(
                f"half a window of {window} s is not a whole number of samples at {sample_rate} Hz"
            )
        if nfft < 2 * self.hop:
            raise ValueError(f"nfft is {nfft}, must be at least the {2 * self.hop} samples of a window")
        if stride < 1 or nfft % stride:
            raise ValueError(f"stride is {stride}, must divide nfft {nfft}")
        most = nfft // stride // 2
        self.bins = most if bins is None else bins
        if not 1 <= self.bins <= most:
            raise ValueError(f"bins is {bins}, must be 1 to {most}")
        self.sample_rate = sample_rate
        self.nfft = nfft
        self.content = content
        self.channels = 7 if "intensity" in content else 8
        self.folds, self.band = (1, stride) if content == "band_intensity" else (stride, 1)
        hann = torch.hann_window(2 * self.hop, periodic=True, dtype=torch.float64)
        window_of_frame = nn.functional.pad(hann / hann.sum(), (0, nfft - 2 * self.hop))
        self.register_buffer("window", window_of_frame.float(), persistent=False)

    def forward(
        self, waveform: Float[Tensor, "*batch channels samples"] | Int16[Tensor, "*batch channels samples"]
    ) -> Float[Tensor, "*batch features frames bins"]:
        """Compute the features.

        Args:
            waveform: 16-bit or floating-point sound with four channels.

        Returns:
            The features of each frame.
        """
        flat = waveform.flatten(end_dim=-3) if waveform.ndim > 2 else waveform[None]
        blocks = flat.split(_BLOCK) if flat.device.type == "cpu" else (flat,)
        features = torch.cat([self._features(block) for block in blocks])
        return features.reshape(*waveform.shape[:-2], *features.shape[1:])

    def _features(self, waveform: Tensor) -> Tensor:
        return self.features_of(torch.view_as_real(self.spectrum(waveform)))

    def features_of(self, spectrum: Float[Tensor, "batch channels frames bins 2"]) -> Tensor:
        """The features of a transform.

        Args:
            spectrum: Real and imaginary parts.

        Returns:
            `(batch, features, frames, bins)`.
        """
        if "intensity" in self.content:
            return _intensity(spectrum, self.band)
        real, imaginary = spectrum.movedim(-1, 0).contiguous()
        magnitude, phase = self._magnitude(real, imaginary), torch.atan2(imaginary, real)
        if self.content == "log_magnitude_phase":
            magnitude, phase = (magnitude + _FLOOR).log(), phase / math.pi
        return torch.cat([magnitude, phase], dim=-3)

    def _magnitude(self, real: Tensor, imaginary: Tensor) -> Tensor:
        return torch.hypot(real, imaginary)

    def spectrum(self, waveform: Tensor) -> Tensor:
        """The complex transform, before features are computed from it.

        Args:
            waveform: 16-bit or floating-point sound `(*batch, channels, samples)`.

        Returns:
            Complex values `(*batch, channels, frames, bins)`.
        """
        samples = waveform.shape[-1]
        if samples == 0 or samples % self.hop:
            raise ValueError(
                f"waveform has {samples} samples, must have a multiple of {self.hop}"
                f" ({1000 * self.hop / self.sample_rate:g} ms at {self.sample_rate} Hz)"
            )
        unit = 1 if waveform.is_floating_point() else 1 / 32768
        beyond = self.nfft - 2 * self.hop
        sound = nn.functional.pad(waveform.to(self.window.dtype), (self.hop, beyond))
        frames = sound.unfold(-1, self.nfft, self.hop)
        # Every s-th bin of a long transform is a short transform of the signal folded s times.
        length = self.nfft // self.folds
        first, *others = zip(frames.split(length, -1), (self.window * unit).split(length), strict=True)
        folded = reduce(lambda total, part: torch.addcmul(total, *part), others, torch.mul(*first))
        return torch.fft.rfft(folded)[..., 1 : self.bins * self.band + 1]


def _intensity(spectrum: Tensor, band: int) -> Tensor:
    # Sums of products of complex numbers, as dot products of twice as many real ones.
    parts = spectrum.unflatten(-2, (-1, band))
    channels = parts.movedim(-5, 0)
    pressure, dipoles = channels[:1], channels[1:]
    turned = torch.stack([-pressure[..., 1], pressure[..., 0]], dim=-1)
    power, active, reactive = (
        (x * y).flatten(-2).mean(-1)
        for x, y in ((channels, channels), (pressure, dipoles), (turned, dipoles))
    )
    energy = power[:1] + power[1:].sum(0, keepdim=True) / 3 + _FLOOR**2
    level = (energy.log() / 2 - _LEVEL) / _RANGE
    return torch.cat([level, 2 * active / energy, 2 * reactive / energy]).movedim(0, -3)
