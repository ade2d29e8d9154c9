"""Metrics over a whole data set: each accumulates a function of one batch, and adds up over processes."""

from torchmcl.metrics.calibration import Coverage, ProbabilityIntegralTransform, ScoreCalibration
from torchmcl.metrics.means import (
    EarthMoversDistance,
    EnergyScore,
    ItemMean,
    NegativeLogLikelihood,
    OracleError,
)
from torchmcl.metrics.winners import CountRecall, WinnerHistogram

__all__ = [
    "CountRecall",
    "Coverage",
    "EarthMoversDistance",
    "EnergyScore",
    "ItemMean",
    "NegativeLogLikelihood",
    "OracleError",
    "ProbabilityIntegralTransform",
    "ScoreCalibration",
    "WinnerHistogram",
]
