"""Intervals and regions that hold an outcome with a stated probability."""

from torchmcl.regions.conformal import Conformal
from torchmcl.regions.intervals import central_interval, quantiles, shortest_interval
from torchmcl.regions.sets import BallRegion, BoxRegion, HighestDensityRegion, Region

__all__ = [
    "BallRegion",
    "BoxRegion",
    "Conformal",
    "HighestDensityRegion",
    "Region",
    "central_interval",
    "quantiles",
    "shortest_interval",
]
