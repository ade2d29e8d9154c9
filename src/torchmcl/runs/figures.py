"""Figures as files."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from torchmcl.errors import printable
from torchmcl.runs.files import atomic

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["caption", "save_figure"]

METADATA: dict[str, dict[str, Any]] = {".pdf": {"CreationDate": None}, ".png": {"Software": None}}
"""Without dates and versions, so that the same figure gives the same bytes."""


LONGEST_CAPTION = 80


def caption(name: str) -> str:
    r"""A name of a person's file as text of a figure: short, printable, and no formula between dollars.

    Args:
        name: Of a file, a pedestrian, a class.

    Example:
        >>> caption("$x$")
        '\\$x\\$'
    """
    short = name if len(name) <= LONGEST_CAPTION else f"{name[:LONGEST_CAPTION]}..."
    return printable(short).replace("$", r"\$")


def save_figure(figure: "Figure", path: str | Path, *, dpi: int = 160) -> list[Path]:
    """Write a figure as PNG and PDF, each complete or absent; the same figure gives the same bytes.

    Args:
        figure: Of matplotlib.
        path: Without suffix, or with one, in whose place the two are put.
        dpi: Dots per inch of the PNG.

    Returns:
        The two files.
    """
    path = Path(path)
    base = path.with_suffix("") if path.suffix in METADATA else path
    written = []
    for suffix, metadata in METADATA.items():
        written.append(base.with_name(base.name + suffix))
        with atomic(written[-1]) as temporary:
            figure.savefig(temporary, dpi=dpi, metadata=metadata)
    return written
