"""A recording as the page shows it: tracks, hypotheses, the number of sources, and sound in stereo."""

import csv
import json
import tempfile
from collections import defaultdict
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
from scipy.signal import resample_poly

from torchmcl.audio.datasets.sound import read_header
from torchmcl.audio.foa import Convention, convention_named, convert
from torchmcl.audio.localizer import Localizer, detect_convention
from torchmcl.audio.predictions import ENDINGS, write_predictions
from torchmcl.runs.files import atomic, write_json, write_text
from torchmcl.web.page import recording_page

__all__ = ["analyze_recording", "recording_view", "write_page", "write_playback"]

DRAWN = 6000
"""Hypotheses that the page draws at most."""

VIEW = "view.json"
"""The data of the page."""

PLAYBACK = 48_000
"""Hertz of the stereo sound; Opus knows this rate."""


def analyze_recording(
    source: Path,
    results: Path,
    name: str,
    convention: str | None,
    progress: Callable[[float], None] = lambda share: None,
) -> list[Path]:
    """Localize a recording and write all outputs, the data of the page, and stereo sound.

    Args:
        source: A four-channel recording.
        results: The folder of the outputs.
        name: The name of the recording.
        convention: Of its channels; detected if `None`.
        progress: Called with the share that is done.

    Returns:
        The outputs for a person: tables and pictures.
    """
    used = convention_named(convention) if convention else detect_convention(source).name
    localizer = Localizer.from_pretrained()
    blocks = localizer.blocks(source, convention=used, progress=lambda share: progress(0.9 * share))
    stem = Path(name).stem
    if stem in ("", Path(VIEW).stem):  # what the page reads must not be one of the outputs
        stem = "recording"
    about: dict[str, object] = {"recording": name, "model": localizer.method, "format": used}
    written = write_predictions(blocks, results, stem, about, partial(localizer.follow, hypotheses=False))
    write_json(results / VIEW, recording_view(results, stem, read_header(source).duration))
    write_playback(source, results / "playback.ogg", used)
    progress(1.0)
    return written


def recording_view(results: Path, stem: str, duration: float) -> dict[str, Any]:
    """What the page draws, from the outputs of a localized recording.

    Args:
        results: The folder of the outputs.
        stem: The name that they begin with.
        duration: Of the recording, in seconds.

    Returns:
        Tracks with points (time, azimuth, elevation, score, radius of the region) in seconds and degrees, the most
        probable number of sources over time with its probability, and a selection of hypotheses (time, azimuth,
        elevation, score).
    """
    found = json.loads((results / f"{stem}.json").read_text(encoding="utf-8"))
    tracks: dict[int, list[list[float]]] = defaultdict(list)
    for each in found["sources"]:
        point = [each["time"], each["azimuth"], each["elevation"], each["score"], each["radius"] or 0.0]
        tracks[each["track"]].append(point)
    return {
        "name": found["recording"],
        "duration": duration,
        "frame": found["frame"],
        "coverage": found["coverage"],
        "tracks": [{"id": index + 1, "points": tracks[key]} for index, key in enumerate(sorted(tracks))],
        "count": _counts(results / f"{stem}-counts.csv"),
        "hypotheses": _hypotheses(results / f"{stem}-hypotheses.csv"),
    }


def write_playback(source: Path, path: Path, convention: Convention) -> None:
    """Stereo for headphones and loudspeakers: two cardioids to the left and to the right, as Opus.

    Args:
        source: A four-channel recording.
        path: The file to write.
        convention: Of its channels.
    """
    header = read_header(source)
    up, down = _ratio(header.sample_rate)
    with (
        atomic(path) as temporary,
        soundfile.SoundFile(temporary, "w", PLAYBACK, 2, format="OGG", subtype="OPUS") as stream,
    ):
        for block in soundfile.blocks(str(source), blocksize=30 * header.sample_rate, dtype="float32"):
            w, y, _, _ = convert(block.T[:4].copy(), convention, "acn-sn3d")
            stereo = resample_poly(np.stack([w + y, w - y], -1) / 2, up, down, axis=0)
            stream.write(stereo.clip(-1, 1))


def write_page(source: Path, results: Path) -> Path:
    """One self-contained page for a recording that was localized.

    Args:
        source: The recording.
        results: The folder of the outputs of `torchmcl localize`.

    Returns:
        The path of the page.
    """
    stem = source.stem
    view = recording_view(results, stem, read_header(source).duration)
    convention = json.loads((results / f"{stem}.json").read_text(encoding="utf-8"))["format"]
    with tempfile.TemporaryDirectory() as folder:
        playback = Path(folder) / "playback.ogg"
        write_playback(source, playback, convention_named(convention))
        text = recording_page(view, playback, [results / f"{stem}{ending}" for ending in ENDINGS])
    write_text(results / f"{stem}.html", text)
    return results / f"{stem}.html"


def _counts(path: Path) -> list[list[float]]:
    """Time, the most probable number of sources, and its probability, of each frame."""
    with path.open(newline="") as stream:
        rows = [[float(value) for value in row] for row in list(csv.reader(stream))[1:]]
    return [[time, float(np.argmax(shares)), max(shares)] for time, *shares in rows]


def _hypotheses(path: Path) -> list[list[float]]:
    """Evenly drawn from those with a score that matters."""
    with path.open(newline="") as stream:
        rows = [
            [float(row["time"]), float(row["azimuth"]), float(row["elevation"]), float(row["score"])]
            for row in csv.DictReader(stream)
            if float(row["score"]) > 0.1
        ]
    step = max(1, -(-len(rows) // DRAWN))
    return rows[::step]


def _ratio(rate: int) -> tuple[int, int]:
    ratio = Fraction(PLAYBACK, rate).limit_denominator(1000)
    return ratio.numerator, ratio.denominator
