"""Hostile arguments for every public name: taken, or refused by an error that names them."""

import pytest

import surface

NOT_YET = frozenset({
    "Box.log_kernel", "Conformal.calibrate", "Conformal.region", "Conformal.strangeness", "Conformal.threshold",
    "Coverage.update", "Dirac.cells", "Dirac.contains", "Dirac.log_kernel", "Gaussian.cells", "Gaussian.log_kernel",
    "HighestDensityRegion", "HighestDensityRegion.contains", "HighestDensityRegion.volume", "Hypotheses",
    "Hypotheses.cells", "HypothesisHead", "KernelMixture.entropy", "KernelMixture.entropy_estimate",
    "ProbabilityIntegralTransform", "ScoreCalibration", "Sphere.log_kernel", "StackedEnsemble",
    "StackedEnsemble.forward", "Uniform.log_kernel", "VoronoiMixture.log_prob", "VoronoiMixture.prob",
    "WinnerHistogram", "annealed", "chordal", "cmcl_loss", "covered", "cross_entropy", "emd", "euclidean",
    "great_circle", "great_circle_swapped", "mixture_energy_loss", "multi_hypothesis", "pit_loss", "relaxed",
    "rmcl_loss", "scoring_loss", "squared_euclidean", "top_n", "winner_takes_all",
})  # fmt: skip
"""Names of which some argument still ends in another error, or does not say which argument is wrong.

`python -m benchmarks fuzz` lists them. Nothing may be added.
"""

CHECKED = sorted(set(surface.subjects()) - NOT_YET)


def test_what_is_not_yet_checked_exists():
    assert set(surface.subjects()) >= NOT_YET


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("name", CHECKED)
def test_hostile_arguments_are_taken_or_named(name):
    complaints = [surface.complaint(case) for case in surface.cases() if case.name == name]
    assert [each for each in complaints if each] == []
