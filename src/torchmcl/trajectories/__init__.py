"""Pedestrian trajectories: K futures with probabilities."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torchmcl.trajectories.forecaster import BUNDLED, Forecaster
    from torchmcl.trajectories.metrics import (
        BrierMinFDE,
        Calibration,
        CollisionRate,
        EnergyDisplacement,
        KernelNLL,
        MinADE,
        MinFDE,
        MissRate,
    )
    from torchmcl.trajectories.recipe import Recipe
    from torchmcl.trajectories.tracks import Tracks, read_tracks
    from torchmcl.trajectories.windows import Histories, Windows, histories, windows_of

__all__ = [
    "BUNDLED",
    "BrierMinFDE",
    "Calibration",
    "CollisionRate",
    "EnergyDisplacement",
    "Forecaster",
    "Histories",
    "KernelNLL",
    "MinADE",
    "MinFDE",
    "MissRate",
    "Recipe",
    "Tracks",
    "Windows",
    "histories",
    "read_tracks",
    "windows_of",
]

# Imported when used: reading tracks needs no network, and torchmetrics takes seconds.
_LATE = {
    **dict.fromkeys(("BUNDLED", "Forecaster"), "forecaster"),
    **dict.fromkeys(
        (
            "BrierMinFDE", "Calibration", "CollisionRate", "EnergyDisplacement", "KernelNLL", "MinADE", "MinFDE",
            "MissRate",
        ),
        "metrics",
    ),
    "Recipe": "recipe",
    **dict.fromkeys(("Tracks", "read_tracks"), "tracks"),
    **dict.fromkeys(("Histories", "Windows", "histories", "windows_of"), "windows"),
}  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _LATE:
        return getattr(import_module(f"torchmcl.trajectories.{_LATE[name]}"), name)
    raise AttributeError(f"module 'torchmcl.trajectories' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
