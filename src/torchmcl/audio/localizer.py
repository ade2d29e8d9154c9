"""Directions over time in recordings of any length, by a trained network: inference alone."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float32, Float64
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from torch import Tensor, nn

import torchmcl
from torchmcl.audio.calibration import Calibration, load_calibration, save_calibration
from torchmcl.audio.conventions import ConventionDetector, DetectedConvention
from torchmcl.audio.foa import Convention, convention_named, convert
from torchmcl.audio.predictions import ENDINGS, Frames, Localization, follow, write_predictions
from torchmcl.audio.pretrained import NetworkDescription, load_pretrained, save_pretrained
from torchmcl.audio.roomnet import COUNTS, CountedHypotheses
from torchmcl.audio.signatures import covariances
from torchmcl.audio.streaming import (
    LOUDEST,
    ORDERS,
    Blender,
    Reader,
    check_rate,
    read_array,
    read_file,
    resampled,
    windows,
)
from torchmcl.audio.targets import HOP
from torchmcl.audio.tracks import OPERATING_POINTS, Prefer
from torchmcl.errors import (
    UserError,
    check_choice,
    check_device,
    check_flag,
    check_number,
    printable,
)
from torchmcl.runs.files import check_file
from torchmcl.runs.outputs import claim_outputs
from torchmcl.sharing.hub import Shared, fetched

__all__ = [
    "BUNDLED_MODEL",
    "DEFAULT",
    "Listening",
    "Localizer",
    "checked_sound",
    "detect_convention",
    "listening_named",
    "localize",
    "whole_rate",
]

BUNDLED_MODEL = Path(torchmcl.__file__).parent / "models" / "directions"
"""The pretrained model of the package; its README describes the training data."""

WINDOW, STEP = 25, 13
"""Frames of 20 ms in a window, and between two windows: every frame is covered twice, but for the ends."""

BLOCK = 30.0
"""Seconds that are read and answered at a time; answers do not depend on it."""

BATCH = 8
"""Windows in a forward pass: more are no faster, and take memory."""

COPIES = ((0.0, 1, 1), (math.pi / 2, -1, 1), (math.pi, 1, -1), (-math.pi / 2, -1, -1))
"""Turned copies of a window: angle about the vertical axis, mirrored left to right, mirrored upside down.

Errors of the network depend on the direction, so that copies that are turned back and pooled are more exact. Windows
take turns: as two of them cover each frame, one pass has two copies already.
"""


@dataclass(frozen=True)
class Listening:
    """How a recording is localized.

    Attributes:
        prefer: `"recall"` fills pauses and keeps faint sources; `"precision"` tells a source only where it is heard.
        turns: 1 to 4 turned copies of each window whose hypotheses are pooled; more are more exact and slower.
        causal: Tracks use the past only, as they would live.
    """

    prefer: Prefer = "recall"
    turns: int = 1
    causal: bool = False

    def __post_init__(self) -> None:
        check_choice("prefer", self.prefer, tuple(OPERATING_POINTS))
        if not isinstance(self.turns, int) or not 1 <= self.turns <= len(COPIES):
            raise UserError(f"turns is {self.turns!r}, must be 1 to {len(COPIES)}")
        check_flag("causal", self.causal)


DEFAULT = Listening()


def listening_named(prefer: str, *, turns: int = 1, causal: bool = False) -> Listening:
    """How a recording is localized, from the words of a command line.

    Args:
        prefer: `"recall"` or `"precision"`.
        turns: 1 to 4.
        causal: Whether tracks use the past only.
    """
    for known in OPERATING_POINTS:
        if known == prefer:
            return Listening(known, turns, causal)
    raise UserError(f"prefer is {prefer!r}, must be one of {', '.join(OPERATING_POINTS)}")


class Localizer(Shared):
    """Directions over time in first-order Ambisonics.

    Args:
        network: From waveforms `(batch, 4, samples)` of half a second in ACN, N3D to `Hypotheses` `(batch, 25)` with
            scores; `CountedHypotheses` where it counts too.
        sample_rate: Of the sound that the network takes, in hertz.
        method: The name of the method that the network was trained with.
        device: Where the network runs.
        calibration: What its scores and counts are worth; without, sources have no regions and the counts are those
            of the network.

    Example:
        >>> localizer = Localizer.from_pretrained()
        >>> found = localizer(np.zeros((4, 48000), np.float32), 48000)
        >>> found.sources
        ((), (), (), (), (), (), (), (), (), ())
        >>> directions, scores, times = found
        >>> directions.shape == (*scores.shape, 2), float(times[1])
        (True, 0.02)
    """

    def __init__(
        self,
        network: nn.Module,
        sample_rate: int,
        *,
        method: str = "",
        device: str | torch.device = "cpu",
        calibration: Calibration | None = None,
    ) -> None:
        self.device = check_device(device)
        self.network = network.to(self.device).eval()
        self.sample_rate = sample_rate
        self.method = method
        self.calibration = calibration
        self.description: NetworkDescription | None = None

    @classmethod
    def from_pretrained(
        cls,
        folder: str | Path = BUNDLED_MODEL,
        *,
        device: str | torch.device = "cpu",
        revision: str | None = None,
    ) -> "Localizer":
        """Read a trained model.

        Args:
            folder: Of a finished run or of a saved model, or `"owner/name"` on the Hugging Face Hub; the bundled model
                by default.
            device: Where the network runs.
            revision: A branch, tag or commit on the Hub.

        Returns:
            A localizer with its network.
        """
        folder, device = fetched(folder, revision), check_device(device)
        description, network = load_pretrained(folder)
        if description.scores is None or description.members > 1:
            raise UserError(
                f"{folder}: the method {description.method} has no scores; "
                "localization needs a scored method such as transport_rmcl"
            )
        made = cls(
            network,
            description.sample_rate,
            method=description.method,
            device=device,
            calibration=load_calibration(folder),
        )
        made.description = description
        return made

    def save(self, folder: str | Path) -> None:
        """Write `model.safetensors`, `config.json`, `calibration.json` where there is one, and a card, `README.md`.

        Args:
            folder: Made where it is missing.
        """
        if self.description is None:
            raise UserError(
                "the localizer cannot be saved: its network has no description, as those of a folder have"
            )
        save_pretrained(folder, self.description, self.network)
        if self.calibration is not None:
            save_calibration(folder, self.calibration)

    def __call__(
        self,
        sound: np.ndarray | Tensor,
        sample_rate: int | float,
        *,
        convention: Convention = "acn-n3d",
        listening: Listening = DEFAULT,
    ) -> Localization:
        """Estimate directions in a recording.

        Args:
            sound: `(4, samples)`, floating-point or 16-bit; of higher orders in ACN the first four channels.
            sample_rate: Of `sound`, in hertz; it is resampled where the network takes another rate.
            convention: Channel order and normalization of `sound`.
            listening: How it is localized.

        Returns:
            Hypotheses of frames of 20 ms, and sources with tracks, regions and counts of frames of 100 ms. It unpacks
            to directions `(frames, K, 2)` as (azimuth, elevation) in radians, scores `(frames, K)` and the start
            times `(frames,)` of the hypotheses.
        """
        samples = checked_sound(sound)
        sample_rate = whole_rate(sample_rate)
        if not isinstance(listening, Listening):
            raise TypeError(f"listening must be a Listening, got {type(listening).__name__}")
        read, total = read_array(samples), samples.shape[1]
        blocks = self._blocks(read, total, sample_rate, convention_named(convention), listening)
        return self.follow(blocks, listening)

    def blocks(
        self,
        path: str | Path,
        *,
        convention: Convention = "acn-n3d",
        listening: Listening = DEFAULT,
        progress: Callable[[float], None] = lambda share: None,
    ) -> Iterator[Frames]:
        """Estimate directions in a file, half a minute at a time: memory does not grow with its length.

        Args:
            path: A sound file with four channels, or more in ACN order.
            convention: Of its channels.
            listening: How it is localized.
            progress: Called after each block with the share that is done.

        Yields:
            The hypotheses of successive pieces of the recording.
        """
        read, total, rate = read_file(path)
        check_rate(rate, f"{path}: the sample rate")
        for block in self._blocks(read, total, rate, convention_named(convention), listening):
            yield block
            progress(min((block.times[-1] + HOP) / (total / rate), 1.0))

    def follow(
        self, blocks: Iterable[Frames], listening: Listening = DEFAULT, *, hypotheses: bool = True
    ) -> Localization:
        """Link the hypotheses of successive blocks to tracks.

        Args:
            blocks: Of one recording.
            listening: How it is localized.
            hypotheses: Whether they are kept; without, a long recording takes little memory.
        """
        return follow(
            blocks,
            OPERATING_POINTS[listening.prefer],
            calibration=self.calibration,
            causal=listening.causal,
            hypotheses=hypotheses,
        )

    def _blocks(
        self, read: Reader, total: int, rate: int, convention: Convention, listening: Listening
    ) -> Iterator[Frames]:
        """Pieces of `BLOCK` seconds of frames."""
        frames = max(math.ceil(total / rate / HOP - 1e-9), 1)
        hop = round(HOP * self.sample_rate)
        sound = resampled(read, total, rate, self.sample_rate, block=BLOCK)
        converted = (convert(piece, convention, "acn-n3d") for piece in sound)
        size = round(BLOCK / HOP)
        kept: list[Frames] = []
        first = 0
        for piece in self.answers(windows(converted, WINDOW * hop, STEP * hop), turns=listening.turns):
            kept.append(piece)
            while sum(map(len, kept)) >= size and first + size < frames:
                joined = Frames.join(kept)
                yield joined[:size].starting(first)
                kept, first = [joined[size:]], first + size
        yield Frames.join(kept)[: frames - first].starting(first)

    def answers(
        self, pieces: Iterable[Float32[np.ndarray, "windows 4 samples"]], *, turns: int = 1
    ) -> Iterator[Frames]:
        """The blended hypotheses of overlapping windows, as soon as no later window can change them.

        Args:
            pieces: Successive windows of half a second at the rate of the network, `STEP` frames apart, ACN and N3D.
            turns: Turned copies of each window whose hypotheses are pooled.

        Yields:
            Successive frames.
        """
        blender = Blender(WINDOW, STEP)
        first, hop = 0, round(HOP * self.sample_rate)
        for piece in pieces:
            spectra = self._spectra(piece[..., : (STEP + 1) * hop])
            yield _pooled(*blender.push(*self._answers(piece, first, turns)), spectra)
            first, last = first + len(piece), piece[-1:, :, STEP * hop :]
        yield _pooled(*blender.finish(), self._spectra(np.pad(last, ((0, 0), (0, 0), (0, hop)))))

    def _spectra(
        self, piece: Float32[np.ndarray, "windows 4 samples"]
    ) -> Float64[np.ndarray, "frames bands 10"]:
        """Of the frames of successive pieces of sound."""
        hop = round(HOP * self.sample_rate)
        batches = torch.from_numpy(piece.copy()).split(BATCH)
        found = [covariances(batch, self.sample_rate, hop) for batch in batches]
        return torch.cat(found).flatten(0, 1).numpy()

    def _answers(
        self, piece: Float32[np.ndarray, "windows 4 samples"], first: int, turns: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Directions, scores and probabilities of counts, the hypotheses of turned copies side by side.

        Args:
            piece: Windows.
            first: Number of the first one in the recording: successive windows are turned differently.
            turns: Copies of each window.
        """
        points, scores, counts = [], [], []
        for batch in torch.from_numpy(piece.copy()).split(BATCH):
            own, copies = first + np.arange(len(batch)), range(turns)
            turned = [[COPIES[(turns * window + copy) % len(COPIES)] for window in own] for copy in copies]
            with torch.no_grad():
                found = [self.network(_each(_turned, batch, turn).to(self.device)) for turn in turned]
            back = [
                _each(_turned_back, each.points.cpu(), turn) for each, turn in zip(found, turned, strict=True)
            ]
            points.append(torch.cat(back, -2))
            scores.append(torch.cat([each.scores.cpu() for each in found], -1) / turns)
            counts.append(torch.stack([_count_probabilities(each).cpu() for each in found]).mean(0))
            first += len(batch)
        return torch.cat(points).numpy(), torch.cat(scores).numpy(), torch.cat(counts).numpy()


def detect_convention(path: str | Path) -> DetectedConvention:
    """Detect channel order and normalization from the energies of the channels of the whole recording.

    Args:
        path: A sound file with four channels, or more in ACN order.

    Returns:
        The convention with its confidence; AmbiX where none is sure.
    """
    read, total, rate = read_file(path)
    check_rate(rate, f"{path}: the sample rate")
    detector = ConventionDetector(rate)
    step = round(BLOCK * rate)
    for start in range(0, total, step):
        detector.add(read(start, start + step))
    return detector.result()


def localize(
    recordings: Sequence[Path],
    out: Path,
    *,
    model: str | Path = BUNDLED_MODEL,
    convention: str | None = None,
    listening: Listening = DEFAULT,
    overwrite: bool = False,
    page: bool = False,
) -> None:
    """Estimate directions in files, and write tables and pictures, with a progress bar.

    Args:
        recordings: Sound files with four channels, or more in ACN order.
        out: Folder of the tables and pictures.
        model: Folder of a finished run or of a saved model.
        convention: Of all recordings; detected for each if `None`.
        listening: How they are localized.
        overwrite: Replace files in `out` that this program did not write as well.
        page: Whether NAME.html will be written there afterwards, which must not replace a person's file.
    """
    names = _output_names(recordings) + ([f"{path.stem}.html" for path in recordings] if page else [])
    given = convention_named(convention) if convention else None
    localizer = Localizer.from_pretrained(model)
    claim_outputs(out, names, overwrite=overwrite, inputs=recordings)
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console) as bar:
        for path in recordings:
            used, confidence = (given, 1.0) if given else _detected(path, console)
            progress = partial(_advance, bar, bar.add_task(printable(path.name), total=1.0))
            blocks = localizer.blocks(path, convention=used, listening=listening, progress=progress)
            about: dict[str, object] = {
                "recording": path.name,
                "model": localizer.method,
                "format": used,
                "format_confidence": round(confidence, 4),
                "prefer": listening.prefer,
            }
            written = write_predictions(
                blocks,
                out,
                path.stem,
                about,
                partial(localizer.follow, listening=listening, hypotheses=False),
            )
            console.print(printable(", ".join(map(str, written))), soft_wrap=True, markup=False)


def _detected(path: Path, console: Console) -> tuple[Convention, float]:
    found = detect_convention(path)
    if found.doubtful:
        sentence = (
            f"{path}: its convention is not clear (dipoles over W: {found.ratio:.2f}; {found.likeliest} with "
            f"probability {found.confidence:.2f}); taken for {found.name} (AmbiX), see --format"
        )
        console.print(printable(sentence), soft_wrap=True, markup=False, highlight=False)
    return found.name, found.confidence


def _pooled(weights: np.ndarray, answers: list[np.ndarray], spectra: np.ndarray) -> Frames:
    points, scores, counts = answers
    frames = len(points)
    return Frames(
        points.reshape(frames, -1, 2),
        (scores * weights[..., None]).reshape(frames, -1),
        np.arange(frames) * HOP,
        (counts * weights[..., None]).sum(1),
        spectra,
    )


def _count_probabilities(found: object) -> Tensor:
    """By the count head or, where the network has none, a count that is the sum of the scores, rounded."""
    if isinstance(found, CountedHypotheses):
        return found.counts.softmax(-1)
    rounded = found.scores.sum(-1).round().clamp(max=COUNTS - 1).long()  # type: ignore[attr-defined]
    return nn.functional.one_hot(rounded, COUNTS).float()


def _each(
    turn: Callable[[Tensor, float, int, int], Tensor],
    values: Tensor,
    copies: Sequence[tuple[float, int, int]],
) -> Tensor:
    """Turn each window in its own way."""
    return torch.cat([turn(value[None], *copy) for value, copy in zip(values, copies, strict=True)])


def _turned(sound: Tensor, angle: float, side: int, up: int) -> Tensor:
    if (angle, side, up) == COPIES[0]:
        return sound
    w, y, z, x = sound.unbind(1)
    y = y * side
    cosine, sine = round(math.cos(angle)), round(math.sin(angle))
    return torch.stack([w, cosine * y + sine * x, z * up, cosine * x - sine * y], 1)


def _turned_back(points: Tensor, angle: float, side: int, up: int) -> Tensor:
    azimuth, elevation = points.unbind(-1)
    azimuth = torch.remainder((azimuth - angle) * side + math.pi, 2 * math.pi) - math.pi if angle else azimuth
    return torch.stack([azimuth, elevation * up], -1)


def _advance(bar: Progress, task: TaskID, share: float) -> None:
    bar.update(task, completed=share)


def _output_names(recordings: Sequence[Path]) -> list[str]:
    for path in recordings:
        check_file(path)
        if not path.exists():
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
    return list(owners)


def whole_rate(rate: int | float) -> int:
    """The argument `sample_rate`, checked.

    Args:
        rate: Hertz.
    """
    check_number("sample_rate", rate)
    check_rate(rate, "sample_rate")
    if rate != int(rate):
        raise ValueError(f"sample_rate is {rate} Hz, must be a whole number")
    return int(rate)


def _array(sound: Tensor) -> np.ndarray:
    if sound.layout != torch.strided or sound.is_quantized or sound.is_meta:
        raise TypeError("sound is a sparse, quantized or meta tensor, must be a plain one")
    return (sound.float() if sound.dtype == torch.bfloat16 else sound).detach().cpu().numpy()


def checked_sound(sound: np.ndarray | Tensor) -> np.ndarray:
    """The argument `sound`, checked: its first four channels.

    Args:
        sound: `(4, samples)`, floating-point or 16-bit, or more channels in ACN order.
    """
    samples = _array(sound) if isinstance(sound, Tensor) else sound
    if not isinstance(samples, np.ndarray):
        raise TypeError(f"sound is {type(sound).__name__}, must be an array or a tensor")
    if samples.ndim != 2 or samples.shape[0] not in (4, *ORDERS) or samples.shape[1] == 0:
        raise ValueError(f"sound has shape {samples.shape}, must be (4, samples)")
    if samples.dtype != np.int16 and not np.issubdtype(samples.dtype, np.floating):
        raise TypeError(f"sound is {samples.dtype}, must be floating-point or int16")
    if samples.dtype != np.int16 and not np.isfinite(samples).all():
        raise ValueError("sound has values that are not finite")
    if samples.dtype != np.int16 and max(samples.max(), -samples.min()) > LOUDEST:
        raise ValueError(f"sound has values beyond {LOUDEST:g}, full scale is 1")
    return samples[:4]
