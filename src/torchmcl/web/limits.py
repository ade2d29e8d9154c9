"""What the server accepts, and what it gives: bounds of uploads, and types of files."""

from dataclasses import dataclass
from pathlib import Path

__all__ = ["Limits", "media_type"]

TYPES = {
    ".csv": "text/csv",
    ".flac": "audio/flac",
    ".html": "text/html",
    ".json": "application/json",
    ".jsonl": "application/x-ndjson",
    ".ndjson": "application/x-ndjson",
    ".ogg": "audio/ogg",
    ".png": "image/png",
    ".txt": "text/plain",
}


@dataclass(frozen=True)
class Limits:
    """Bounds of the server; all times in seconds.

    Args:
        upload_bytes: The largest upload.
        upload_seconds: The longest time that an upload may take.
        idle_seconds: The longest pause within an upload.
        uploads: Uploads at the same time.
        running: Analyses at the same time, each in a process of its own.
        waiting: Analyses that wait for their turn.
        analysis_seconds: The longest time that an analysis may take.
        analysis_bytes: The largest memory that an analysis may take.
        lease_seconds: An analysis whose progress nobody asks for is cancelled after this time.
        keep_seconds: Results are removed when nobody has asked for them for this time.
        live: Pages that follow live sound at the same time.
    """

    upload_bytes: int = 512 * 2**20
    upload_seconds: float = 600.0
    idle_seconds: float = 15.0
    uploads: int = 16
    running: int = 2
    waiting: int = 32
    analysis_seconds: float = 1800.0
    analysis_bytes: int = 4 * 2**30
    lease_seconds: float = 20.0
    keep_seconds: float = 900.0
    live: int = 32


def media_type(path: Path) -> str:
    """The media type of an output, by the ending of its name.

    >>> media_type(Path("concert.csv"))
    'text/csv'
    """
    return TYPES.get(path.suffix, "application/octet-stream")
