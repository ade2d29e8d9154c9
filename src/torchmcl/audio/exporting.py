"""A network for sound as a self-contained graph: from the waveform to directions."""

import copy
import math
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim

from torchmcl.audio.features import StftFeatures
from torchmcl.audio.pretrained import NetworkDescription, load_pretrained
from torchmcl.audio.roomnet import CountedHypotheses, RoomNet
from torchmcl.audio.targets import HOP
from torchmcl.directions import unit_vectors
from torchmcl.ensemble import Ensemble
from torchmcl.export.graph import Graph, Value

__all__ = ["ProductFeatures", "sound_graph"]

FRAMES = 25
"""Frames of a window of half a second."""


class ProductFeatures(StftFeatures):
    """`StftFeatures` whose Fourier transform is a product with windowed waves, for runtimes without transforms.

    Args:
        features: That it is to equal.
    """

    waves: Tensor

    def __init__(self, features: StftFeatures) -> None:
        nn.Module.__init__(self)
        for name in ("hop", "bins", "sample_rate", "nfft", "content", "channels", "folds", "band"):
            setattr(self, name, getattr(features, name))
        length = 2 * self.hop
        bins = self.folds * torch.arange(1, self.bins * self.band + 1, dtype=torch.float64)
        # Reduced before the product with 2 pi, so that large angles lose no digits.
        turns = torch.remainder(bins[:, None] * torch.arange(length, dtype=torch.float64), self.nfft)
        angle = 2 * math.pi * turns / self.nfft
        hann = torch.hann_window(length, periodic=True, dtype=torch.float64)
        waves = torch.stack([angle.cos(), -angle.sin()], 1).flatten(0, 1) * hann / hann.sum()
        self.register_buffer("waves", waves.T.contiguous().float(), persistent=False)

    def forward(self, waveform: Tensor) -> Tensor:
        """Features of floating-point sound `(batch, channels, samples)`."""
        return self.features_of(self.parts(waveform))

    def parts(self, waveform: Tensor) -> Tensor:
        """Real and imaginary parts `(batch, channels, frames, bins, 2)`."""
        halves = waveform.unflatten(-1, (-1, self.hop))
        before = torch.cat([torch.zeros_like(halves[..., :1, :]), halves[..., :-1, :]], -2)
        return (torch.cat([before, halves], -1) @ self.waves).unflatten(-1, (-1, 2))

    def _magnitude(self, real: Tensor, imaginary: Tensor) -> Tensor:
        # ONNX has no `hypot`.
        return (real.square() + imaginary.square()).sqrt()


class Recurrence(nn.Module):
    """A bidirectional GRU that is one `GRU` of ONNX for each layer when it is exported.

    Args:
        recurrence: That it is to equal, with the batch first.
    """

    def __init__(self, recurrence: nn.GRU) -> None:
        super().__init__()
        self.recurrence = recurrence
        self.units = recurrence.hidden_size
        for layer in range(recurrence.num_layers):
            weights = self._weights(layer)
            for name, value in weights.items():
                self.register_buffer(f"{name}{layer}", value, persistent=False)

    def forward(self, sequence: Tensor) -> tuple[Tensor, None]:
        """States `(batch, steps, 2 x units)`, and nothing for the last ones."""
        if not torch.compiler.is_exporting():
            return self.recurrence(sequence)[0], None
        states = sequence.transpose(0, 1)
        for layer in range(self.recurrence.num_layers):
            steps, batch = states.shape[:2]
            weights = [getattr(self, f"{name}{layer}") for name in ("inputs", "states", "biases")]
            states = torch.onnx.ops.symbolic(
                "GRU",
                [states, *weights],
                {"hidden_size": self.units, "direction": "bidirectional", "linear_before_reset": 1},
                dtype=states.dtype,
                shape=(steps, 2, batch, self.units),
            )
            states = states.transpose(1, 2).flatten(2)
        return states.transpose(0, 1), None

    def _weights(self, layer: int) -> dict[str, Tensor]:
        """Of both directions; ONNX has the update gate first, PyTorch the reset gate."""
        found: dict[str, list[Tensor]] = {"weight_ih": [], "weight_hh": [], "bias_ih": [], "bias_hh": []}
        for name, values in found.items():
            for end in ("", "_reverse"):
                reset, update, new = getattr(self.recurrence, f"{name}_l{layer}{end}").detach().chunk(3)
                values.append(torch.cat([update, reset, new]))
        stacked = {name: torch.stack(values) for name, values in found.items()}
        biases = torch.cat([stacked["bias_ih"], stacked["bias_hh"]], 1)
        return {"inputs": stacked["weight_ih"], "states": stacked["weight_hh"], "biases": biases}


class SoundGraph(nn.Module):
    """A network with its scores and, where it counts, the probabilities of the number of sources.

    Args:
        network: A trained network from waveforms to hypotheses.
    """

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = copy.deepcopy(network)
        members = self.network.members if isinstance(self.network, Ensemble) else [self.network]
        for member in members:
            member.features = ProductFeatures(member.features)  # type: ignore[arg-type]
            member.recurrence = Recurrence(member.recurrence)  # type: ignore[arg-type]

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        """Directions, scores and, where there are any, counts."""
        found = self.network(*inputs)
        if isinstance(found, CountedHypotheses):
            return found.points, found.scores, found.counts.softmax(-1)
        return found.points, found.scores


def sound_graph(folder: str | Path) -> Graph:
    """A localizer or another trained network for sound, for export.

    Args:
        folder: Of a finished run or of a saved model.

    Returns:
        Input `sound`; outputs `directions`, `scores` and, where the network counts, `counts`.
    """
    description, network = load_pretrained(folder)
    rate = description.sample_rate
    hop = round(HOP * rate)
    axes = ("windows", "frames")
    dynamic: dict[str, Any] = {"windows": Dim("windows")}
    outputs = [
        Value(
            "directions", (*axes, "hypotheses", "angles"), "(azimuth, elevation), radians", 1.0, unit_vectors
        ),
        Value("scores", (*axes, "hypotheses"), "probability that a source is in the cell of a hypothesis"),
    ]
    if isinstance(network, RoomNet):
        about = "probability of 0, 1, 2, and 3 or more sources"
        outputs.append(Value("counts", (*axes, "numbers"), about))
        dynamic["samples"] = hop * Dim("frames", min=2)
        lengths = (FRAMES, 10, 40)
    else:
        # The layer norm of this network has a weight for each frame.
        lengths = (FRAMES,) * 3
    length = "any number of" if "samples" in dynamic else FRAMES
    about = (
        f"first-order Ambisonics at {rate} Hz, ACN order (W, Y, Z, X), N3D; {length} frames of {hop} samples, "
        f"windows of {FRAMES} were trained on"
    )
    return Graph(
        "Localizer",
        SoundGraph(network),
        (Value("sound", ("windows", "channels", "samples"), about),),
        tuple(outputs),
        dynamic,
        _examples(description, lengths),
        _details(description),
    )


def _details(description: NetworkDescription) -> dict[str, Any]:
    return {
        "method": description.method,
        "sample_rate": description.sample_rate,
        "frame_seconds": HOP,
        "window_seconds": FRAMES * HOP,
    }


def _examples(description: NetworkDescription, lengths: tuple[int, ...]) -> tuple[tuple[Tensor, ...], ...]:
    """Noise from all directions."""
    random = torch.Generator().manual_seed(0)
    hop = round(HOP * description.sample_rate)
    return tuple(
        (0.1 * torch.randn(windows, 4, frames * hop, generator=random),)
        for windows, frames in zip((3, 2, 5), lengths, strict=True)
    )
