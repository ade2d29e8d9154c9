r"""First-order Ambisonics: four channels that hold the pressure and its direction.

Arrays have the channels on the last axis but one, `(*batch, 4, samples)`. Directions are (azimuth, elevation)
in radians; x points to the front, y to the left, z up: azimuth grows to the left and elevation upwards.
"""

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from jaxtyping import Bool, Float, Num

from torchmcl.directions import unit_vectors
from torchmcl.directions import vector_directions as directions
from torchmcl.errors import UserError

__all__ = [
    "CONVENTIONS",
    "Convention",
    "Normalization",
    "convention_named",
    "conversion_matrix",
    "convert",
    "detect_normalization",
    "directions",
    "encode",
    "intensity_directions",
    "steering",
    "unit_vectors",
]

Convention = Literal["acn-n3d", "acn-sn3d", "fuma"]
CONVENTIONS: tuple[Convention, ...] = get_args(Convention)

_ORDER: dict[Convention, str] = {"acn-n3d": "WYZX", "acn-sn3d": "WYZX", "fuma": "WXYZ"}
_PRESSURE: dict[Convention, float] = {"acn-n3d": 1.0, "acn-sn3d": 1.0, "fuma": 0.5**0.5}
_DIPOLE: dict[Convention, float] = {"acn-n3d": 3**0.5, "acn-sn3d": 1.0, "fuma": 1.0}
_RATIO: dict[str, float] = {"sn3d": 1.0, "fuma": 2.0, "n3d": 3.0}


def convention_named(name: str) -> Convention:
    """The convention of a name.

    Args:
        name: One of `CONVENTIONS`.

    Returns:
        The same name; any other is a `UserError` that lists them all.
    """
    for convention in CONVENTIONS:
        if convention == name:
            return convention
    raise UserError(f"convention is {name!r}, it must be one of {', '.join(CONVENTIONS)}")


def steering(
    directions: Float[np.ndarray, "*batch 2"], convention: Convention = "acn-n3d"
) -> Float[np.ndarray, "*batch 4"]:
    r"""The gains of the four channels for plane waves.

    With unit vector $u$ the pressure is $a$ and the dipoles are $b\,u$: ACN/SN3D has $a = b = 1$, ACN/N3D has
    $b = \sqrt 3$, FuMa has $a = 1/\sqrt 2$ and the order W, X, Y, Z in place of W, Y, Z, X.

    Args:
        directions: (azimuth, elevation) from which the waves arrive, in radians.
        convention: Of the four channels.

    Returns:
        A gain for each channel.
    """
    dipoles = unit_vectors(directions) * _DIPOLE[convention]
    pressure = np.full_like(dipoles[..., :1], _PRESSURE[convention])
    return np.concatenate([pressure, dipoles], axis=-1)[..., _from_wxyz(convention)]


def encode(
    signal: Float[np.ndarray, "*batch samples"],
    azimuth: float | Float[np.ndarray, "*batch"],
    elevation: float | Float[np.ndarray, "*batch"],
    convention: Convention = "acn-n3d",
) -> Float[np.ndarray, "*batch 4 samples"]:
    """Encode plane waves.

    Args:
        signal: What each wave carries.
        azimuth: Where it arrives from, in radians.
        elevation: Where it arrives from, in radians.
        convention: Of the four channels.

    Returns:
        Four channels for each wave.

    Example:
        >>> encode(np.array([1.0]), np.pi / 2, 0.0, "acn-sn3d").round(3).ravel() + 0.0
        array([1., 1., 0., 0.])
    """
    gains = steering(np.stack(np.broadcast_arrays(azimuth, elevation), axis=-1), convention)
    return signal[..., None, :] * gains[..., None].astype(signal.dtype)


def conversion_matrix(source: Convention, target: Convention) -> Float[np.ndarray, "4 4"]:
    """The matrix that converts between conventions.

    Args:
        source: Convention of the input channels.
        target: Convention of the output channels.

    Returns:
        A row for each output channel.

    Example:
        >>> conversion_matrix("fuma", "acn-sn3d").diagonal().round(3)
        array([1.414, 0.   , 0.   , 0.   ])
    """
    pressure = _PRESSURE[target] / _PRESSURE[source]
    dipole = _DIPOLE[target] / _DIPOLE[source]
    gains = np.diag([pressure, dipole, dipole, dipole])
    return gains[_from_wxyz(target)][:, _from_wxyz(source)]


def convert(
    audio: Float[np.ndarray, "*batch 4 samples"], source: Convention, target: Convention
) -> Float[np.ndarray, "*batch 4 samples"]:
    """The same sound field in another convention.

    Args:
        audio: Four channels.
        source: Their convention.
        target: The convention of the result.

    Returns:
        New channels.
    """
    if source == target:
        return audio.copy()
    matrix = conversion_matrix(source, target)
    origin = matrix.argmax(axis=1)
    gains = matrix.max(axis=1).astype(audio.dtype)
    return audio[..., origin, :] * gains[:, None]


@dataclass(frozen=True)
class Normalization:
    """The normalization that the energies of a recording indicate.

    Args:
        name: The most likely of `sn3d`, `fuma` and `n3d`.
        ratio: Energy of the three dipoles over that of W.
        doubtful: Whether the energies do not decide clearly.
    """

    name: str
    ratio: float
    doubtful: bool


def detect_normalization(audio: Num[np.ndarray, "4 samples"], tolerance: float = 0.15) -> Normalization:
    r"""Detect the normalization from the energy of the three dipoles over that of W.

    For plane waves and for diffuse fields the ratio is 1 in SN3D, 2 in FuMa and 3 in N3D. The nearest of the three on a
    logarithmic scale is chosen. Energies do not show the order of the dipoles.

    Args:
        audio: Four channels.
        tolerance: The result is doubtful where the ratio is off by more than a factor `1 + tolerance`, and for silence.

    Returns:
        The normalization.

    Example:
        >>> detect_normalization(encode(np.ones(9), 0.3, 0.2, "fuma")).name
        'fuma'
    """
    energies = np.square(audio.astype(np.float64)).mean(axis=-1)
    if energies[0] == 0 or not np.isfinite(energies).all():
        return Normalization("n3d", float("nan"), doubtful=True)
    ratio = float(energies[1:].sum() / energies[0])
    distance = {name: abs(np.log(max(ratio, 1e-12) / value)) for name, value in _RATIO.items()}
    name = min(distance, key=lambda key: distance[key])
    return Normalization(name, ratio, doubtful=bool(distance[name] > np.log1p(tolerance)))


def intensity_directions(
    audio: Num[np.ndarray, "4 samples"],
    frame: int,
    convention: Convention = "acn-n3d",
    floor: float = -30.0,
) -> tuple[Float[np.ndarray, "frames 2"], Bool[np.ndarray, "frames"]]:
    r"""Directions of the acoustic intensity in successive frames.

    The active intensity $\sum_t w_t\,(x_t, y_t, z_t)$ points to where the energy comes from.

    Args:
        audio: Four channels.
        frame: Samples in a frame.
        convention: Of the channels.
        floor: A frame is active if its energy in W is at most so many decibels below that of the loudest frame.

    Returns:
        (azimuth, elevation) of each frame in radians, and whether it is active.
    """
    frames = audio.shape[-1] // frame
    blocks = audio[:, : frames * frame].astype(np.float64).reshape(4, frames, frame)
    pressure, *dipoles = blocks[np.argsort(_from_wxyz(convention))]
    intensity = np.stack([(pressure * dipole).sum(axis=-1) for dipole in dipoles], axis=-1)
    energy = np.square(pressure).sum(axis=-1)
    active = (energy > 0) & (energy >= energy.max(initial=0.0) * 10 ** (floor / 10))
    return directions(intensity), active


def _from_wxyz(convention: Convention) -> list[int]:
    return ["WXYZ".index(letter) for letter in _ORDER[convention]]
