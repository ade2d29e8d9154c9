"""Directions over time in recordings of any length, by a trained network: inference alone."""

import math
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import partial
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float32
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from scipy.signal import resample_poly
from torch import Tensor, nn

import torchmcl
from torchmcl.audio.datasets.sound import open_sound, read_header
from torchmcl.audio.foa import Convention, convention_named, convert, detect_normalisation
from torchmcl.audio.predictions import ENDINGS, Localization, write_predictions
from torchmcl.audio.pretrained import load_pretrained
from torchmcl.audio.targets import HOP
from torchmcl.errors import UserError
from torchmcl.hypotheses import Hypotheses

__all__ = ["BUNDLED_MODEL", "Localizer", "detect_convention", "localize"]

BUNDLED_MODEL = Path(torchmcl.__file__).parent / "models" / "directions"
"""The pretrained model of the package; its README describes the training data."""

CHUNK = 0.5
BLOCK = 30.0
MARGIN = 0.25
"""Seconds around a block that are resampled with it and cut off again, so that blocks meet without a seam."""

BATCH = 8
"""Chunks in a forward pass: more are no faster, and take memory."""

RATES = (8000, 768_000)
"""Hertz that recordings may have."""


class Localizer:
    """Directions over time in first-order Ambisonics.

    Args:
        network: From waveforms `(batch, 4, samples)` of half a second in ACN, N3D to `Hypotheses` `(batch, 25)` with
            scores.
        sample_rate: Of the sound that the network takes, in hertz.
        method: The name of the method that the network was trained with.
        device: Where the network runs.

    Example:
        >>> localizer = Localizer.from_pretrained()
        >>> directions, scores, times = localizer(np.zeros((4, 48000), np.float32), 48000)
        >>> directions.shape, scores.shape, times[1]
        ((50, 5, 2), (50, 5), 0.02)
    """

    def __init__(
        self, network: nn.Module, sample_rate: int, *, method: str = "", device: str | torch.device = "cpu"
    ) -> None:
        self.network = network.to(device).eval()
        self.sample_rate = sample_rate
        self.method = method
        self.device = torch.device(device)

    @classmethod
    def from_pretrained(
        cls, folder: str | Path = BUNDLED_MODEL, *, device: str | torch.device = "cpu"
    ) -> "Localizer":
        """Read a trained model.

        Args:
            folder: Of a finished run or of a saved model; the bundled model by default.
            device: Where the network runs.

        Returns:
            A localizer with its network.
        """
        description, network = load_pretrained(folder)
        if description.scores is None or description.members > 1:
            raise UserError(
                f"{folder}: the method {description.method} has no scores; "
                "localization needs a scored method such as transport_rmcl"
            )
        return cls(network, description.sample_rate, method=description.method, device=device)

    def __call__(
        self, sound: np.ndarray | Tensor, sample_rate: int, *, convention: Convention = "acn-n3d"
    ) -> Localization:
        """Estimate directions in a recording.

        Args:
            sound: `(4, samples)`, floating-point or 16-bit.
            sample_rate: Of `sound`, in hertz; it is resampled where the network takes another rate.
            convention: Channel order and normalization of `sound`.

        Returns:
            Directions `(frames, K, 2)` as (azimuth, elevation) in radians, scores `(frames, K)` and the start times
            `(frames,)` of frames of 20 ms. They can be unpacked as a tuple.
        """
        samples = _checked(sound)
        _check_rate(sample_rate, "sample_rate")
        read = partial(_slice, samples)
        blocks = list(self._blocks(read, samples.shape[1], sample_rate, convention_named(convention)))
        return Localization(*map(np.concatenate, zip(*blocks, strict=True)))

    def blocks(
        self,
        path: str | Path,
        *,
        convention: Convention = "acn-n3d",
        progress: Callable[[float], None] = lambda share: None,
    ) -> Iterator[Localization]:
        """Estimate directions in a file, half a minute at a time: memory does not grow with its length.

        Args:
            path: A sound file with four channels.
            convention: Of its channels.
            progress: Called after each block with the share that is done.

        Yields:
            Successive pieces of the recording.
        """
        header = read_header(path)
        if header.channels != 4:
            raise UserError(f"{path}: has {header.channels} channels, first-order Ambisonics has 4")
        _check_rate(header.sample_rate, f"{path}: the sample rate")
        read = partial(_read, path)
        for block in self._blocks(read, header.frames, header.sample_rate, convention):
            yield block
            progress(min((block.times[-1] + HOP) / header.duration, 1.0))

    def _blocks(
        self, read: Callable[[int, int], np.ndarray], total: int, rate: int, convention: Convention
    ) -> Iterator[Localization]:
        step, margin = round(BLOCK * rate), round(MARGIN * rate)
        for start in range(0, total, step):
            before = min(start, margin)
            piece = _resample(read(start - before, start + step + margin), rate, self.sample_rate)
            skip = round(before / rate * self.sample_rate)
            length = min(step, total - start) / rate
            piece = convert(piece[:, skip : skip + round(length * self.sample_rate)], convention, "acn-n3d")
            yield self._localize(torch.from_numpy(piece), start / rate, length)

    def _localize(self, sound: Float32[Tensor, "4 samples"], start: float, length: float) -> Localization:
        """The last chunk is padded with silence, and its frames behind the end are dropped."""
        samples = round(CHUNK * self.sample_rate)
        chunks = max(math.ceil(sound.shape[-1] / samples - 1e-9), 1)
        padded = nn.functional.pad(sound, (0, chunks * samples - sound.shape[-1]))
        batches = padded.unflatten(-1, (chunks, samples)).transpose(0, 1).split(BATCH)
        with torch.no_grad():
            predicted = Hypotheses.cat(
                [self.network(batch.contiguous().to(self.device)) for batch in batches]
            )
        frames = max(math.ceil(length / HOP - 1e-9), 1)
        return Localization(
            predicted.points.flatten(0, 1)[:frames].cpu().numpy(),
            predicted.scores.flatten(0, 1)[:frames].cpu().numpy(),
            (round(start / HOP) + np.arange(frames)) * HOP,
        )


def detect_convention(path: str | Path, seconds: float = 60.0) -> tuple[Convention, bool]:
    """Detect channel order and normalization from the energies of the channels.

    FuMa has its channels in another order. A wrong order makes all directions wrong, a wrong scale few; FuMa is
    therefore only returned beyond doubt.

    Args:
        path: A sound file with four channels.
        seconds: How much of it is read.

    Returns:
        The likeliest convention, and whether that is doubtful.
    """
    header = read_header(path)
    if header.channels != 4:
        raise UserError(f"{path}: has {header.channels} channels, first-order Ambisonics has 4")
    found = detect_normalisation(np.asarray(open_sound(path)[: round(seconds * header.sample_rate)].T))
    if found.name == "fuma" and found.doubtful:
        return ("acn-n3d" if found.ratio > math.sqrt(3) else "acn-sn3d"), True
    known: dict[str, Convention] = {"n3d": "acn-n3d", "sn3d": "acn-sn3d", "fuma": "fuma"}
    return known[found.name], found.doubtful


def localize(
    recordings: Sequence[Path],
    out: Path,
    *,
    model: str | Path = BUNDLED_MODEL,
    convention: str | None = None,
) -> None:
    """Estimate directions in files, and write tables and pictures, with a progress bar.

    Args:
        recordings: Sound files with four channels.
        out: Folder of the tables and pictures.
        model: Folder of a finished run or of a saved model.
        convention: Of all recordings; detected for each if `None`.
    """
    _check_names(recordings)
    given = convention_named(convention) if convention else None
    localizer = Localizer.from_pretrained(model)
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console) as bar:
        for path in recordings:
            used, doubtful = (given, False) if given else detect_convention(path)
            if doubtful:
                sentence = (
                    f"{path}: the energies do not show its convention clearly; taken for {used}, see --format"
                )
                console.print(sentence, soft_wrap=True, markup=False, highlight=False)
            progress = partial(_advance, bar, bar.add_task(path.name, total=1.0))
            blocks = localizer.blocks(path, convention=used, progress=progress)
            about: dict[str, object] = {"recording": path.name, "model": localizer.method, "format": used}
            written = write_predictions(blocks, out, path.stem, read_header(path).duration, about)
            console.print(", ".join(map(str, written)), soft_wrap=True, markup=False)


def _advance(bar: Progress, task: TaskID, share: float) -> None:
    bar.update(task, completed=share)


def _check_names(recordings: Sequence[Path]) -> None:
    for path in recordings:
        if not path.is_file():
            raise UserError(f"{path}: no such file")
    owners: dict[str, Path] = {}
    for path in recordings:
        for ending in ENDINGS:
            name = f"{path.stem}{ending}"
            if name in owners:
                raise UserError(
                    f"{owners[name]} and {path} would both write {name}: "
                    "localize them one by one, with another --out"
                )
            owners[name] = path


def _check_rate(rate: int, name: str) -> None:
    if not RATES[0] <= rate <= RATES[1]:
        raise UserError(f"{name} is {rate} Hz, must be {RATES[0]} to {RATES[1]} Hz")


def _checked(sound: np.ndarray | Tensor) -> np.ndarray:
    samples = sound.detach().cpu().numpy() if isinstance(sound, Tensor) else sound
    if not isinstance(samples, np.ndarray):
        raise TypeError(f"sound is {type(sound).__name__}, must be an array or a tensor")
    if samples.ndim != 2 or samples.shape[0] != 4 or samples.shape[1] == 0:
        raise ValueError(f"sound has shape {samples.shape}, must be (4, samples)")
    if samples.dtype != np.int16 and not np.issubdtype(samples.dtype, np.floating):
        raise TypeError(f"sound is {samples.dtype}, must be floating-point or int16")
    if samples.dtype != np.int16 and not np.isfinite(samples).all():
        raise ValueError("sound has values that are not finite")
    return samples


def _slice(samples: np.ndarray, start: int, end: int) -> Float32[np.ndarray, "4 samples"]:
    piece = samples[:, start:end].astype(np.float32)
    return piece / np.float32(32768) if samples.dtype == np.int16 else piece


def _read(path: str | Path, start: int, end: int) -> Float32[np.ndarray, "4 samples"]:
    """Mapped anew for each block: the pages of a mapping that is kept would add up to the whole file."""
    return _slice(open_sound(path).T, start, end)


def _resample(
    sound: Float32[np.ndarray, "4 samples"], source: int, target: int
) -> Float32[np.ndarray, "4 longer"]:
    """Unusual rates are approximated by a ratio of small numbers, for the filter grows with them."""
    if source == target:
        return sound
    ratio = Fraction(target, source).limit_denominator(1000)
    return resample_poly(sound, ratio.numerator, ratio.denominator, axis=-1).astype(np.float32)
