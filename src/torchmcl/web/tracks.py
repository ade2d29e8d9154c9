"""Tracks as the page shows them: futures of all pedestrians, with a slider over time."""

from collections.abc import Callable
from pathlib import Path

from torchmcl.trajectories.forecast import forecast_all
from torchmcl.trajectories.forecaster import Forecaster
from torchmcl.trajectories.stream import Source

__all__ = ["analyze_tracks"]


def analyze_tracks(
    source: Path, results: Path, progress: Callable[[float], None] = lambda share: None
) -> list[Path]:
    """Forecast all frames of a file of tracks.

    Args:
        source: Lines of frame, id, x and y in meters, 0.4 s apart; or TrajNet++ ndjson.
        results: The folder of the outputs.
        progress: Called with the share that is done.

    Returns:
        The outputs: tables, and `scene.html`, a page with a slider.
    """
    progress(0.05)
    written = forecast_all(Source(source), results, forecaster=Forecaster.from_pretrained(), page=True)
    progress(1.0)
    return written
