"""Multiple Choice Learning for PyTorch: K scored hypotheses in place of one averaged answer."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from torchmcl.assignment import Assignment, annealed, relaxed, top_n, winner_takes_all
from torchmcl.classification import (
    FeatureSharing,
    class_error,
    class_probs,
    class_targets,
    cmcl_loss,
    oracle_class_error,
)
from torchmcl.crps import mixture_crps, mixture_energy_loss
from torchmcl.distances import (
    chordal,
    cross_entropy,
    euclidean,
    great_circle,
    great_circle_swapped,
    squared_euclidean,
)
from torchmcl.energy import energy_loss, energy_score
from torchmcl.ensemble import Ensemble, StackedEnsemble, members_loss
from torchmcl.heads import HypothesisHead, multi_hypothesis
from torchmcl.hypotheses import Hypotheses
from torchmcl.likelihood import likelihood_loss, log_likelihood
from torchmcl.losses import cell_loss, mcl_loss, pit_loss, rmcl_loss, scoring_loss, transport_loss
from torchmcl.mixtures import KernelMixture
from torchmcl.regions import Conformal, HighestDensityRegion
from torchmcl.regions.calibration import brier_score, covered, probability_integral_transform
from torchmcl.transport import emd, oracle_error
from torchmcl.voronoi.laws import Dirac, Gaussian, Uniform
from torchmcl.voronoi.mixture import VoronoiMixture
from torchmcl.voronoi.supports import Box, Sphere

if TYPE_CHECKING:
    from torchmcl.classification.metrics import (
        ClassError,
        ClassOwnership,
        EntropyHistogram,
        OracleClassError,
    )
    from torchmcl.metrics import (
        CountRecall,
        Coverage,
        EarthMoversDistance,
        EnergyScore,
        NegativeLogLikelihood,
        OracleError,
        ProbabilityIntegralTransform,
        ScoreCalibration,
        WinnerHistogram,
    )
    from torchmcl.tabular.classifier import MCLClassifier
    from torchmcl.tabular.regressor import MCLRegressor

__version__ = "0.2.0"

__all__ = [
    "Assignment",
    "Box",
    "ClassError",
    "ClassOwnership",
    "Conformal",
    "CountRecall",
    "Coverage",
    "Dirac",
    "EarthMoversDistance",
    "EnergyScore",
    "Ensemble",
    "EntropyHistogram",
    "FeatureSharing",
    "Gaussian",
    "HighestDensityRegion",
    "Hypotheses",
    "HypothesisHead",
    "KernelMixture",
    "MCLClassifier",
    "MCLRegressor",
    "NegativeLogLikelihood",
    "OracleClassError",
    "OracleError",
    "ProbabilityIntegralTransform",
    "ScoreCalibration",
    "Sphere",
    "StackedEnsemble",
    "Uniform",
    "VoronoiMixture",
    "WinnerHistogram",
    "annealed",
    "brier_score",
    "cell_loss",
    "chordal",
    "class_error",
    "class_probs",
    "class_targets",
    "cmcl_loss",
    "covered",
    "cross_entropy",
    "emd",
    "energy_loss",
    "energy_score",
    "euclidean",
    "great_circle",
    "great_circle_swapped",
    "likelihood_loss",
    "log_likelihood",
    "mcl_loss",
    "members_loss",
    "mixture_crps",
    "mixture_energy_loss",
    "multi_hypothesis",
    "oracle_class_error",
    "oracle_error",
    "pit_loss",
    "probability_integral_transform",
    "relaxed",
    "rmcl_loss",
    "scoring_loss",
    "squared_euclidean",
    "top_n",
    "transport_loss",
    "winner_takes_all",
]

# torchmetrics, scikit-learn and Lightning take seconds to import: only who uses them waits for them.
_LATE = {
    "ClassError": "classification.metrics",
    "ClassOwnership": "classification.metrics",
    "EntropyHistogram": "classification.metrics",
    "OracleClassError": "classification.metrics",
    "CountRecall": "metrics",
    "Coverage": "metrics",
    "EnergyScore": "metrics",
    "NegativeLogLikelihood": "metrics",
    "ProbabilityIntegralTransform": "metrics",
    "ScoreCalibration": "metrics",
    "EarthMoversDistance": "metrics",
    "OracleError": "metrics",
    "WinnerHistogram": "metrics",
    "MCLClassifier": "tabular.classifier",
    "MCLRegressor": "tabular.regressor",
}


def __getattr__(name: str) -> Any:
    if name in _LATE:
        return getattr(import_module(f"torchmcl.{_LATE[name]}"), name)
    raise AttributeError(f"module 'torchmcl' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
