"""A trained SELDNet in a folder: `config.json` describes the network, `model.safetensors` holds its weights.

Both files may come from anywhere: every value is checked before anything is allocated, and no pickle is read.
"""

import json
import math
from dataclasses import MISSING, asdict, dataclass, fields
from pathlib import Path
from typing import Any, get_args

from safetensors.torch import save
from torch import nn

from torchmcl.audio.features import Content, StftFeatures
from torchmcl.audio.roomnet import COUNTS, RoomNet
from torchmcl.audio.seldnet import Output, SELDNet
from torchmcl.ensemble import Ensemble
from torchmcl.errors import UserError
from torchmcl.heads import Scores
from torchmcl.runs.files import atomic, write_json
from torchmcl.runs.weights import MOST_PARAMETERS, load_weights, single_precision
from torchmcl.sharing.cards import Card, check_own, write_card

__all__ = ["CONFIG", "WEIGHTS", "NetworkDescription", "load_pretrained", "save_pretrained", "sound_card"]

CONFIG, WEIGHTS = "config.json", "model.safetensors"

LARGEST_CONFIG = 1 << 16
"""Bytes of `config.json`."""

FRAMES = 25
"""Frames of 20 ms in a chunk."""

LIMITS: dict[str, tuple[int, int]] = {
    "sample_rate": (8000, 192_000),
    "hypotheses": (1, 10_000),
    "nfft": (2, 2**17),
    "stride": (1, 2**10),
    "bins": (1, 2**16),
    "filters": (1, 1024),
    "units": (1, 2048),
    "layers": (1, 32),
    "members": (1, 1000),
}
CHOICES: dict[str, tuple[str | None, ...]] = {
    "architecture": ("SELDNet", "RoomNet"),
    "scores": ("sigmoid", "softmax", None),
    "output": get_args(Output),
    "content": get_args(Content),
}


@dataclass(frozen=True)
class NetworkDescription:
    """Everything that is needed to build a `SELDNet` or `RoomNet` with its features, or an ensemble of several.

    Args:
        method: The name of the method that it was trained with.
        sample_rate: Of the sound that the network takes, in hertz.
        hypotheses: K.
        scores: How logits become scores, `None` for a network without scores.
        output: What the head predicts, see `DirectionHead`.
        nfft: Length of the Fourier transform, see `StftFeatures`.
        stride: Bins that are skipped or averaged, see `StftFeatures`.
        bins: Frequencies that are kept; all of them if `None`.
        content: What is computed from the transform, see `StftFeatures`.
        filters: Channels of each convolution.
        pools: Pooling over frequency after each convolution.
        units: Of each recurrent layer and direction.
        layers: Recurrent layers.
        members: Networks of an ensemble; 1 is a single network.
        architecture: `"SELDNet"`, the network of the paper, or `"RoomNet"`, that of the bundled model.
    """

    method: str
    sample_rate: int
    hypotheses: int
    scores: Scores = "sigmoid"
    output: Output = "sphere"
    nfft: int = 2048
    stride: int = 1
    bins: int | None = None
    content: Content = "magnitude_phase"
    filters: int = 64
    pools: tuple[int, ...] = (8, 8, 2)
    units: int = 128
    layers: int = 4
    members: int = 1
    architecture: str = "SELDNet"

    def __post_init__(self) -> None:
        for name, (low, high) in LIMITS.items():
            value = getattr(self, name)
            optional = name == "bins" and value is None
            if not optional and not (_is_whole(value) and low <= value <= high):
                raise UserError(f"{name} is {_short(value)}, must be a whole number from {low} to {high}")
        for name, choices in CHOICES.items():
            if getattr(self, name) not in choices:
                known = ", ".join(map(str, choices))
                raise UserError(f"{name} is {_short(getattr(self, name))}, must be one of {known}")
        if not (isinstance(self.method, str) and 0 < len(self.method) <= 100 and self.method.isprintable()):
            raise UserError(f"method is {_short(self.method)}, must be a name of at most 100 characters")
        if not 1 <= len(self.pools) <= 10 or not all(_is_whole(p) and 1 <= p <= 1024 for p in self.pools):
            raise UserError(f"pools is {_short(self.pools)}, must be 1 to 10 whole numbers from 1 to 1024")

    @classmethod
    def from_json(cls, values: Any) -> "NetworkDescription":
        """The description that a JSON file holds.

        Args:
            values: What the file holds, of any type.

        Returns:
            The description; a missing or unknown key and a value out of its limits are `UserError`s.
        """
        if not isinstance(values, dict):
            raise UserError(f"holds {type(values).__name__}, must hold an object that describes a network")
        if "train_seconds" in values and "slots" in values:
            raise UserError("is of a run of version 0.1; `torchmcl evaluate RUN` updates the run")
        known = {field.name: field for field in fields(cls)}
        unknown = [key for key in values if key not in known]
        missing = [name for name, f in known.items() if f.default is MISSING and name not in values]
        if unknown or missing:
            what = f"{_short(unknown[0])} is not a key" if unknown else f"{missing[0]} is missing"
            raise UserError(f"{what}; the keys of a network are {', '.join(known)}")
        pools = values.get("pools", cls.pools)
        if not isinstance(pools, list | tuple):
            raise UserError(f"pools is {_short(pools)}, must be a list of whole numbers")
        return cls(**{**values, "pools": tuple(pools)})

    def build(self, *, spread: bool = False) -> nn.Module:
        """The network with new weights, or an `Ensemble` of `members` networks.

        Args:
            spread: Whether hypotheses start all over the sphere.

        Returns:
            A network from waveforms `(batch, 4, samples)` to `Hypotheses` `(batch, frames)`.
        """
        networks = [self.build_member(spread=spread) for _ in range(self.members)]
        return networks[0] if len(networks) == 1 else Ensemble(networks)

    def build_member(self, *, spread: bool = False) -> SELDNet | RoomNet:
        """One network with new weights.

        Args:
            spread: Whether hypotheses start all over the sphere.

        Returns:
            A network from waveforms `(batch, 4, samples)` to `Hypotheses` `(batch, frames)`.
        """
        self.check_size()
        try:
            with single_precision():
                return self._network(spread)
        except ValueError as error:
            raise UserError(f"network: {error}") from None

    @property
    def parameters(self) -> int:
        """How many parameters all members have, computed without allocating any."""
        bins = (self.nfft // self.stride // 2 if self.bins is None else self.bins) // math.prod(self.pools)
        channels = [7 if "intensity" in self.content else 8] + [self.filters] * len(self.pools)
        convolutions = sum(self.filters * (9 * before + 3) for before in channels[:-1])
        sequence = self.filters * bins
        inputs = [sequence] + [2 * self.units] * (self.layers - 1)
        recurrence = sum(6 * self.units * (width + self.units + 2) for width in inputs)
        outputs = self.hypotheses * ((2 if self.output == "angles" else 3) + (self.scores is not None))
        head = outputs * (2 * self.units + 1)
        room = self.architecture == "RoomNet"
        norm = 2 * sequence * (1 if room else FRAMES)
        count = COUNTS * (2 * self.units + 1) if room else 0
        return self.members * (convolutions + norm + recurrence + head + count)

    def check_size(self) -> None:
        """Refuse a network that would fill the memory, before it is built."""
        if self.parameters > MOST_PARAMETERS:
            raise UserError(
                f"network: {self.parameters:,} parameters, must be at most {MOST_PARAMETERS:,}: "
                "take fewer filters, units, layers or members"
            )

    def _network(self, spread: bool) -> SELDNet | RoomNet:
        features = StftFeatures(
            self.sample_rate, nfft=self.nfft, stride=self.stride, bins=self.bins, content=self.content
        )
        sizes: dict[str, Any] = {
            "scores": self.scores,
            "output": self.output,
            "spread": spread,
            "filters": self.filters,
            "pools": self.pools,
            "units": self.units,
            "layers": self.layers,
        }
        if self.architecture == "RoomNet":
            return RoomNet(features, self.hypotheses, **sizes)
        return SELDNet(features, self.hypotheses, frames=FRAMES, **sizes)


def load_pretrained(folder: str | Path) -> tuple[NetworkDescription, nn.Module]:
    """Read a trained network.

    Args:
        folder: With `config.json` and `model.safetensors`: a bundled model or the folder of a finished run.

    Returns:
        The description and the network, in evaluation mode.
    """
    folder = Path(folder)
    for name in (CONFIG, WEIGHTS):
        if not (folder / name).is_file():
            raise UserError(f"{folder}: no trained model, {name} is missing")
    path = folder / CONFIG
    try:
        description = NetworkDescription.from_json(_read_json(path))
        network = description.build()
    except UserError as error:
        raise UserError(f"{path}: {error}") from None
    load_weights(network, folder / WEIGHTS)
    return description, network.eval()


def save_pretrained(folder: str | Path, description: NetworkDescription, network: nn.Module) -> None:
    """Write a trained network and its card; the weights come after the description: a folder with them is complete.

    Args:
        folder: Made where missing.
        description: What `network` was built from.
        network: The network to save.
    """
    check_own(folder)
    folder = Path(folder)
    write_json(folder / CONFIG, asdict(description))
    content = save({name: value.cpu().contiguous() for name, value in network.state_dict().items()})
    with atomic(folder / WEIGHTS) as temporary:
        temporary.write_bytes(content)
    write_card(folder, sound_card(description))


def sound_card(description: NetworkDescription) -> Card:
    """The card of a trained network.

    Args:
        description: Of the network.
    """
    return Card(
        f"Directions of sounds ({description.architecture}, {description.method})",
        "other",
        f"{description.hypotheses} hypotheses for the directions of sources at each frame of 20 ms, from first-order "
        f"Ambisonics (ACN, N3D) at {description.sample_rate} Hz.",
        'from torchmcl.audio import Localizer\n\nlocalizer = Localizer.from_pretrained("FOLDER")\n'
        "directions, scores, times = localizer(sound, sample_rate)",
        "It knows rooms and sounds like those it was trained on: measure it on recordings of your own before you "
        "rely on it.",
        ("sound-source-localization", "ambisonics"),
    )


def _read_json(path: Path) -> Any:
    if path.stat().st_size > LARGEST_CONFIG:
        raise UserError(f"is larger than {LARGEST_CONFIG} bytes")
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        raise UserError("is not JSON") from None


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
