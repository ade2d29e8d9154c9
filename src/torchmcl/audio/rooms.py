r"""Shoebox rooms and their first-order Ambisonics impulse responses, by the image-source method.

Each wall mirrors the source; an image whose sound was reflected $r$ times at walls of absorption $\alpha$
arrives from its own direction, after its own path $d$, with pressure $(1 - \alpha)^{r/2} / d$. All images
within the reverberation time are summed, each encoded as a plane wave from where it is. It is the model of
`pyroomacoustics` with a co-located omnidirectional and three figure-of-eight microphones, to which the tests
compare it, at a fraction of the time. Walls absorb all frequencies alike, path lengths are rounded to a
quarter of a sample, and what lies below 40 Hz is removed: there all images add up in phase, in no real room.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy.signal import butter, firwin, sosfilt, upfirdn

from torchmcl.audio.foa import unit_vectors

__all__ = ["ROOMS", "SPEED_OF_SOUND", "Room", "furthest", "impulse_response", "random_microphone"]

SPEED_OF_SOUND = 343.0
OVERSAMPLING = 4
CLEARANCE = 0.1
HIGH_PASS = 40.0
CROSSINGS = 6

_LOW_PASS = OVERSAMPLING * firwin(2 * CROSSINGS * OVERSAMPLING + 1, 1 / OVERSAMPLING, window=("kaiser", 4.0))

Point = Float[np.ndarray, "3"]


@dataclass(frozen=True)
class Room:
    """A shoebox room.

    Args:
        size: Along x, y and z, in meters.
        absorption: Of the walls, from 0 to 1.
        rt60: Reverberation time in seconds, measured on responses of the model as twice the decay by 30 dB;
            responses are as long. Eyring's formula is for diffuse fields and gives less.
    """

    size: tuple[float, float, float]
    absorption: float
    rt60: float


ROOMS = (
    Room((4.3, 3.6, 2.6), 0.265, 0.35),
    Room((5.8, 4.4, 2.8), 0.26, 0.45),
    Room((9.2, 3.4, 2.9), 0.325, 0.5),
    Room((7.4, 6.1, 3.2), 0.27, 0.55),
    Room((10.0, 8.0, 4.0), 0.315, 0.6),
)


def random_microphone(room: Room, rng: np.random.Generator) -> Point:
    """A random position of the microphone array near the middle of a room, at the height of a table or of a head.

    Args:
        room: The room.
        rng: Of the random numbers.

    Returns:
        (x, y, z) in meters.
    """
    x, y = np.array(room.size[:2]) * rng.uniform(0.42, 0.58, size=2)
    return np.array([x, y, rng.uniform(1.2, 1.6)])


def furthest(room: Room, microphone: Point, direction: Float[np.ndarray, "2"]) -> float:
    """The largest distance of a source that does not touch a wall.

    Args:
        room: The room.
        microphone: (x, y, z) in meters.
        direction: (azimuth, elevation) of the source in radians.

    Returns:
        Meters from the microphone.
    """
    ray = unit_vectors(direction)
    wall = np.where(ray > 0, np.array(room.size) - CLEARANCE, CLEARANCE)
    reach = np.divide(wall - microphone, ray, out=np.full(3, np.inf), where=np.abs(ray) > 1e-9)
    return float(reach.min())


def impulse_response(
    room: Room, source: Point, microphone: Point, sample_rate: int
) -> Float[np.ndarray, "4 samples"]:
    """The impulse response from a source to the microphone array in ACN/N3D.

    The first sample is the direct sound, with a gain of one over its distance in meters. The response ends after the
    reverberation time.

    Args:
        room: The room.
        source: (x, y, z) in meters.
        microphone: (x, y, z) in meters.
        sample_rate: In hertz.

    Returns:
        Four channels.
    """
    direct = float(np.linalg.norm(source - microphone))
    reach = direct + SPEED_OF_SOUND * room.rt60
    reflection = np.sqrt(1 - room.absorption)
    (x, bounces_x), (y, bounces_y), (z, bounces_z) = (
        _mirrored(room.size[axis], source[axis], microphone[axis], reach) for axis in range(3)
    )
    squared = np.square(x)[:, None, None] + np.square(y)[:, None] + np.square(z)
    within = squared < reach**2
    distance = np.sqrt(squared[within])
    bounces = bounces_x[:, None, None] + bounces_y[:, None] + bounces_z
    gains = np.power(reflection, np.arange(bounces.max() + 1), dtype=np.float32)
    pressure = gains[bounces[within]] / distance
    dipole = pressure * np.float32(3**0.5) / distance
    shape = squared.shape
    weights = (
        pressure,
        dipole * np.broadcast_to(y[:, None], shape)[within],
        dipole * np.broadcast_to(z, shape)[within],
        dipole * np.broadcast_to(x[:, None, None], shape)[within],
    )
    fine = sample_rate * OVERSAMPLING
    arrival = np.rint((distance - direct) * (fine / SPEED_OF_SOUND)).astype(np.intp).clip(min=0)
    dense = np.stack([np.bincount(arrival, weights=weight) for weight in weights])
    response = upfirdn(_LOW_PASS, dense, down=OVERSAMPLING)[:, CROSSINGS:-CROSSINGS]
    high_pass = butter(2, HIGH_PASS, "highpass", fs=sample_rate, output="sos")
    return sosfilt(high_pass, response).astype(np.float32)


def _mirrored(
    size: float, source: float, microphone: float, reach: float
) -> tuple[Float[np.ndarray, "images"], np.ndarray]:
    """Along one axis: where the images are, seen from the microphone, and how often they are reflected."""
    order = np.arange(-int(reach // size) - 2, int(reach // size) + 3)
    position = np.where(order % 2 == 0, order * size + source, (order + 1) * size - source) - microphone
    near = np.abs(position) < reach
    return position[near].astype(np.float32), np.abs(order[near])
