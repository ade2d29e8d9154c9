"""What an analysis does, in a process of its own: it reads one upload and writes the files of a result."""

import errno
import json
import resource
import sys
import traceback
from collections.abc import Callable, Mapping
from importlib.resources import files
from multiprocessing.connection import Connection
from pathlib import Path

import torch

from torchmcl.errors import UserError
from torchmcl.web.recordings import analyze_recording

__all__ = ["KINDS", "example_recording", "perform", "prepare"]

Progress = Callable[[float], None]

TOO_LARGE = "the file is too large for the memory that an analysis may take"


def example_recording() -> Path:
    """The bundled recording."""
    return Path(str(files("torchmcl.web") / "static" / "example.flac"))


def prepare() -> None:
    """Do nothing: the process that all others are forked from is there once this has run."""


def perform(
    kind: str,
    name: str,
    folder: str,
    options: Mapping[str, str],
    sender: Connection,
    *,
    most_bytes: int = resource.RLIM_INFINITY,
) -> None:
    """Do the work of one analysis and tell how it ends.

    Args:
        kind: A key of `KINDS`.
        name: The name of the upload, for display and for the names of the outputs.
        folder: Holds the upload in `source`; the outputs go to `results`.
        options: Options of the analysis.
        sender: Takes pairs of a state and a value as JSON: `progress` and a share, `done`, or `failed` and a sentence.
        most_bytes: Memory that this process may take from now on.
    """

    def tell(state: str, value: float | str = "") -> None:
        sender.send_bytes(json.dumps([state, value]).encode())

    torch.set_num_threads(1)
    resource.setrlimit(resource.RLIMIT_DATA, (most_bytes, most_bytes))
    place = Path(folder)
    try:
        [source] = (place / "source").iterdir()
        KINDS[kind](source, place / "results", name, options, lambda share: tell("progress", share))
        tell("done")
    except (UserError, ValueError) as error:
        # The upload has a name of ours on the disk; its owner knows it by another.
        tell("failed", str(error).replace(str(source), name))
    except Exception as error:
        if _lacks_memory(error):
            tell("failed", TOO_LARGE)
            return
        traceback.print_exc(file=sys.stderr)
        tell("failed", "the analysis failed; the log of the server says why")


def _lacks_memory(error: Exception) -> bool:
    """As Python, the system or torch says it."""
    said = isinstance(error, RuntimeError) and "allocate memory" in str(error)
    return said or isinstance(error, MemoryError) or getattr(error, "errno", None) == errno.ENOMEM


def _recording(
    source: Path, results: Path, name: str, options: Mapping[str, str], progress: Progress
) -> None:
    analyze_recording(source, results, name, options.get("format") or None, progress)


def _table(source: Path, results: Path, name: str, options: Mapping[str, str], progress: Progress) -> None:
    from torchmcl.web.tables import analyze_table

    analyze_table(source, results, options["targets"].split("\n"), progress)


def _prediction(
    source: Path, results: Path, name: str, options: Mapping[str, str], progress: Progress
) -> None:
    from torchmcl.web.tables import predict_rows

    predict_rows(source, results, Path(options["model"]), progress)


def _tracks(source: Path, results: Path, name: str, options: Mapping[str, str], progress: Progress) -> None:
    from torchmcl.web.tracks import analyze_tracks

    analyze_tracks(source, results, progress)


KINDS: dict[str, Callable[[Path, Path, str, Mapping[str, str], Progress], None]] = {
    "recordings": _recording,
    "tables": _table,
    "predictions": _prediction,
    "tracks": _tracks,
}
