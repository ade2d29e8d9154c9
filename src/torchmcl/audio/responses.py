"""Where impulse responses come from: simulated rooms, or responses that were measured."""

import csv
import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, Float32
from scipy.signal import resample_poly

from torchmcl.audio.foa import Convention, convert, directions
from torchmcl.audio.reverberation import OpenAir, ReverberantRoom, random_room
from torchmcl.audio.streaming import check_rate, rate_ratio, read_file
from torchmcl.errors import UserError
from torchmcl.runs.files import check_file

__all__ = [
    "Measured",
    "Place",
    "Rooms",
    "SimulatedRooms",
    "Space",
    "read_folder",
    "read_responses",
    "read_sofa",
]

HIGHEST = math.radians(70)
TABLE = "directions.csv"
LARGEST, LONGEST = 2**30, 60.0
"""Bytes of a file of responses, and seconds of a response."""
MOST = LARGEST // 8
"""Numbers of one room, however well its files are compressed."""
LOUDEST = 100
"""Of any channel, in units of the first; that of a plane wave is at most the square root of 3."""
AUDIBLE = 10 ** (-20 / 20)
"""The direct sound begins where a response first exceeds so much of its largest sample."""


@dataclass(frozen=True)
class Place:
    """One source seen from the array: its direction in radians, its distance, and its response in ACN/N3D."""

    direction: Float[np.ndarray, "2"]
    distance: float
    response: Float32[np.ndarray, "4 samples"]


@runtime_checkable
class Space(Protocol):
    """One room in which sources are placed."""

    @property
    def rt60(self) -> float: ...

    def place(self, sample_rate: int, rng: np.random.Generator) -> Place: ...


@runtime_checkable
class Rooms(Protocol):
    """Draws a room."""

    def draw(self, rng: np.random.Generator) -> Space: ...


@dataclass(frozen=True)
class _Simulated:
    room: ReverberantRoom | OpenAir
    distances: tuple[float, float]

    @property
    def rt60(self) -> float:
        return self.room.rt60

    def place(self, sample_rate: int, rng: np.random.Generator) -> Place:
        nearest, furthest = self.distances
        while True:
            # Half of the sources uniform on the sphere, half near the horizon, where most real ones are.
            level = math.asin(rng.uniform(-math.sin(HIGHEST), math.sin(HIGHEST)))
            elevation = level if rng.random() < 0.5 else rng.uniform(-0.7, 0.7)
            direction = np.array([rng.uniform(-math.pi, math.pi), elevation])
            reach = self.room.reach(direction)
            if reach > nearest:
                break
        distance = math.exp(rng.uniform(math.log(nearest), math.log(max(min(furthest, reach), nearest))))
        return Place(direction, distance, self.room.response(direction, distance, sample_rate, rng))


@dataclass(frozen=True)
class SimulatedRooms:
    """Shoebox rooms with a diffuse tail, and open air.

    Attributes:
        rt60: Range of the reverberation time, seconds, log-uniform.
        distances: Range of the distance of a source, meters, log-uniform.
        open_air: Share of the draws without a room.
    """

    rt60: tuple[float, float] = (0.2, 1.5)
    distances: tuple[float, float] = (0.5, 4.0)
    open_air: float = 0.12

    def draw(self, rng: np.random.Generator) -> Space:
        """A room with an array in it."""
        room = OpenAir() if rng.random() < self.open_air else random_room(rng, self.rt60)
        return _Simulated(room, self.distances)


@dataclass(frozen=True)
class Measured:
    """Measured responses of one array position: each draw is this room."""

    responses: tuple[Float32[np.ndarray, "4 samples"], ...]
    directions: Float[np.ndarray, "places 2"]
    distances: Float[np.ndarray, "places"]
    sample_rate: int
    rt60: float = math.nan

    def draw(self, rng: np.random.Generator) -> Space:
        """The room itself."""
        return self

    def place(self, sample_rate: int, rng: np.random.Generator) -> Place:
        """One of the measured places."""
        index = int(rng.integers(len(self.responses)))
        response = _from_direct(_resampled(self.responses[index], self.sample_rate, sample_rate))
        return Place(self.directions[index], float(self.distances[index]), response)


@dataclass(frozen=True)
class Several:
    """Several measured rooms, drawn with equal chances."""

    rooms: tuple[Measured, ...]

    def draw(self, rng: np.random.Generator) -> Space:
        """One of the rooms."""
        return self.rooms[int(rng.integers(len(self.rooms)))]


def read_responses(paths: Iterable[str | Path], convention: Convention = "acn-sn3d") -> Rooms:
    """Rooms from SOFA files or folders, one room each.

    Args:
        paths: Files `*.sofa`, or folders as `read_folder` takes them.
        convention: Channel order and normalization of the responses; AmbiX by default.
    """
    rooms = []
    for path in map(Path, paths):
        if not path.exists():
            raise UserError(f"{path}: no such file or folder of impulse responses")
        rooms.append(read_folder(path, convention) if path.is_dir() else read_sofa(path, convention))
    if not rooms:
        raise UserError("no impulse responses were given")
    return Several(tuple(rooms))


def read_sofa(path: str | Path, convention: Convention = "acn-sn3d") -> Measured:
    """Responses of a SOFA file with first-order Ambisonics receivers, for example `SingleRoomSRIR`.

    Directions come from the positions of the sources and of the listener and from the listener's
    view, which is along x where the file has none. More than
    four receivers are taken for a higher order in ACN, of which the first four are used.

    Args:
        path: The file; it is read by `sofar`.
        convention: Channel order and normalization of the responses.
    """
    try:
        import sofar
        from netCDF4 import Dataset
    except ModuleNotFoundError:
        raise UserError(f"{path}: reading SOFA files needs sofar (pip install sofar)") from None
    path = Path(path)
    check_file(path, LARGEST)
    if path.suffix != ".sofa":  # sofar would read the file that has this ending
        raise UserError(f"{path}: the name of a SOFA file must end in .sofa")
    try:
        with Dataset(path) as file:
            announced = sum(math.prod(each.shape) for each in file.variables.values())
        if announced > MOST:
            raise UserError(f"{path}: announces {announced:,} numbers, at most {MOST:,} are read")
        sofa = sofar.read_sofa(str(path), verify=False, verbose=False)
        responses = np.asarray(sofa.Data_IR, dtype=float)
        rate = float(np.asarray(sofa.Data_SamplingRate, dtype=float).reshape(-1)[0])
        source = _cartesian(sofa.SourcePosition, sofa.SourcePosition_Type)
        listener = _cartesian(sofa.ListenerPosition, sofa.ListenerPosition_Type)
        view = _cartesian(
            getattr(sofa, "ListenerView", [1, 0, 0]), getattr(sofa, "ListenerView_Type", "cartesian")
        )
        up = _cartesian(getattr(sofa, "ListenerUp", [0, 0, 1]), "cartesian")
        seen = _seen(np.broadcast_to(source, (len(responses), 3)), listener, view, up)
    except UserError:
        raise
    except Exception as error:  # sofar raises whatever its reader meets
        raise UserError(f"{path}: cannot be read as a SOFA file of impulse responses ({error})") from None
    if responses.ndim != 3 or responses.shape[1] < 4:
        raise UserError(f"{path}: has responses of shape {responses.shape}, four receivers are needed")
    check_rate(rate, f"{path}: the sample rate")
    return _measured(path, list(responses[:, :4]), seen, round(rate), convention)


def read_folder(folder: str | Path, convention: Convention = "acn-sn3d") -> Measured:
    """Responses of a folder of four-channel sound files with the table `directions.csv`.

    The table has the columns `file,azimuth,elevation` (degrees, azimuth to the left) and, if known, `distance`
    (meters).

    Args:
        folder: With the files and the table.
        convention: Channel order and normalization of the responses.
    """
    folder = Path(folder)
    table = folder / TABLE
    if not table.is_file():
        raise UserError(f"{table}: no such file; it must have the columns file,azimuth,elevation")
    responses: list[np.ndarray] = []
    vectors: list[list[float]] = []
    rates: set[int] = set()
    total = 0
    for number, row in enumerate(_rows(table), 2):
        try:
            azimuth, elevation = (math.radians(float(row[name])) for name in ("azimuth", "elevation"))
            distance = float(row.get("distance") or 1.0)
            path = folder / row["file"]
            if (
                abs(elevation) > math.pi / 2
                or distance < 0
                or ".." in path.parts
                or folder not in path.parents
            ):
                raise ValueError
            flat = math.cos(elevation)
            ray = [flat * math.cos(azimuth), flat * math.sin(azimuth), math.sin(elevation)]
        except (KeyError, TypeError, ValueError):
            raise UserError(
                f"{table}: line {number} must have a file in this folder, a number azimuth, an elevation of -90 to 90 "
                "and no negative distance"
            ) from None
        sound, rate = _read(path)
        total += sound.size
        if total > MOST:
            raise UserError(f"{folder}: has more than {MOST:,} samples")
        responses.append(sound)
        rates.add(rate)
        vectors.append([distance * value for value in ray])
    if len(rates) != 1:
        raise UserError(f"{folder}: has responses at {sorted(rates)} Hz, one rate is needed")
    return _measured(folder, responses, np.array(vectors), rates.pop(), convention)


def _rows(table: Path) -> list[dict[str, str]]:
    check_file(table, LARGEST)
    try:
        with table.open(newline="", encoding="utf-8") as stream:
            return list(csv.DictReader(stream))
    except (UnicodeDecodeError, csv.Error):
        raise UserError(f"{table}: is not a table of text") from None


def _read(path: Path) -> tuple[np.ndarray, int]:
    try:
        check_file(path, LARGEST)
        read, frames, rate = read_file(path)
    except OSError:
        raise UserError(f"{path}: cannot be read as sound") from None
    check_rate(rate, f"{path}: the sample rate")
    if frames > LONGEST * rate:
        raise UserError(f"{path}: has {frames / rate:.0f} s, an impulse response has at most {LONGEST:.0f} s")
    return read(0, frames).astype(np.float64), rate


def _measured(
    path: Path, responses: list[np.ndarray], seen: np.ndarray, rate: int, convention: Convention
) -> Measured:
    if not all(np.isfinite(response).all() and np.abs(response[0]).max() > 0 for response in responses):
        raise UserError(f"{path}: has an impulse response that is silent or not finite")
    if any(np.abs(response).max() > LOUDEST * np.abs(response[0]).max() for response in responses):
        raise UserError(f"{path}: has an impulse response with a channel out of all proportion")
    with np.errstate(over="ignore", invalid="ignore"):
        distances = np.linalg.norm(seen, axis=-1)
    if not (np.isfinite(distances) & (distances > 0)).all():
        raise UserError(f"{path}: has a source at the place of the listener or without a position")
    loudest = max(
        np.abs(response[0]).max() * distance for response, distance in zip(responses, distances, strict=True)
    )
    ambix = tuple(
        (convert(response, convention, "acn-n3d") / loudest).astype(np.float32) for response in responses
    )
    return Measured(ambix, directions(seen), distances, rate)


def _cartesian(values: object, kind: str) -> Float[np.ndarray, "places 3"]:
    places = np.asarray(values, dtype=float).reshape(-1, 3)
    if kind != "spherical":
        return places
    azimuth, elevation = np.radians(places[:, 0]), np.radians(places[:, 1])
    flat = np.cos(elevation)
    ray = np.stack([flat * np.cos(azimuth), flat * np.sin(azimuth), np.sin(elevation)], -1)
    return ray * places[:, 2:]


def _seen(source: np.ndarray, listener: np.ndarray, view: np.ndarray, up: np.ndarray) -> np.ndarray:
    """Positions of the sources in the listener's own axes: front, left, up; not finite where the axes are none."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        front = view / np.linalg.norm(view, axis=-1, keepdims=True)
        left = np.cross(up, front)
        left = left / np.linalg.norm(left, axis=-1, keepdims=True)
        axes = np.stack(np.broadcast_arrays(front, left, np.cross(front, left)), axis=-2)
        return np.einsum("...ij,...j->...i", axes, source - listener)


def _from_direct(response: np.ndarray) -> Float32[np.ndarray, "4 samples"]:
    level = np.abs(response[0])
    first = int(np.argmax(level >= AUDIBLE * level.max()))
    return response[:, first:].astype(np.float32)


def _resampled(response: np.ndarray, source: int, target: int) -> np.ndarray:
    if source == target:
        return response
    return resample_poly(response, *rate_ratio(source, target), axis=-1)
