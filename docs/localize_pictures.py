"""Draw the pictures of the pages on localization: the sample recording, and three ways to fail."""

import tempfile
from pathlib import Path

import numpy as np
import soundfile
from scipy.signal import oaconvolve

from torchmcl.audio.foa import convert, encode
from torchmcl.audio.localizer import localize
from torchmcl.audio.reverberation import random_room

HERE = Path(__file__).parent
RATE = 16000
SECONDS = 6


def main() -> None:
    """Write `docs/images/localize-*.png`."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        _draw(HERE / "data" / "two-sounds.flac", "timeline", "timeline", place)
        _draw(HERE / "data" / "two-sounds.flac", "map", "map", place)
        for name, sound in (("steady", steady()), ("close", close()), ("convention", misread())):
            path = place / f"{name}.wav"
            soundfile.write(path, convert(sound, "acn-n3d", "acn-sn3d").T, RATE, "FLOAT")
            _draw(path, "timeline", name, place, "fuma" if name == "convention" else "acn-sn3d")


def steady() -> np.ndarray:
    """Noise from one place, 3.5 m away, in a room with a reverberation time of 1.5 s."""
    random = np.random.default_rng(27)
    room = random_room(random, (1.4, 1.5))
    response = room.response(np.radians([40.0, 10.0]), 3.5, RATE, random)
    return _leveled(oaconvolve(_noise(random)[None], response, axes=-1)[:, : SECONDS * RATE])


def close() -> np.ndarray:
    """Two noises in the open, 12 degrees apart, the second one later."""
    random = np.random.default_rng(6)
    first = encode(_noise(random), np.radians(30.0), 0.0)
    second = encode(_noise(random) * (np.arange(SECONDS * RATE) > 2 * RATE), np.radians(42.0), 0.0)
    return _leveled(first + second)


def misread() -> np.ndarray:
    """Noise in the open from azimuth 40, elevation 10 degrees."""
    return _leveled(encode(_noise(np.random.default_rng(7)), np.radians(40.0), np.radians(10.0)))


def _noise(random: np.random.Generator) -> np.ndarray:
    noise = random.standard_normal(SECONDS * RATE)
    noise[: RATE // 2] = 0
    noise[-RATE:] = 0
    return noise


def _leveled(sound: np.ndarray) -> np.ndarray:
    noise = np.random.default_rng(8).standard_normal(sound.shape) * np.abs(sound[0]).mean() * 0.02
    sound = sound + noise
    return (0.3 * sound / np.abs(sound).max()).astype(np.float32)


def _draw(path: Path, ending: str, name: str, place: Path, convention: str = "acn-sn3d") -> None:
    localize([path], place / "out", convention=convention)
    picture = place / "out" / f"{path.stem}-{ending}.png"
    (HERE / "images" / f"localize-{name}.png").write_bytes(picture.read_bytes())


if __name__ == "__main__":
    main()
