"""Wrong values for every argument of the core's functions: a sentence that names the argument, or a right answer."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import torchmcl
from torchmcl import directions, mixtures
from torchmcl.hypotheses import Hypotheses
from torchmcl.transport import transport_cost
from torchmcl.voronoi.supports import Space

WRONG = [
    None, [1.0], "x", -3, 2.5, math.nan, math.inf, object(), {}, np.zeros((2, 3)), torch.zeros(()), torch.zeros(7),
    torch.zeros(7, 7, 7), *(torch.zeros(2, 3, dtype=d) for d in (torch.long, torch.bool, torch.complex64)),
]  # fmt: skip
Call = tuple[Callable[..., Any], dict[str, Any]]


def calls() -> dict[str, Call]:
    """Each function with arguments that it takes."""
    torch.manual_seed(0)
    h = Hypotheses(torch.randn(2, 3, 1), torch.randn(2, 3), "softmax", torch.rand(2, 3) + 0.1)
    sigmoid = Hypotheses(h.points, h.logits)
    data = {"targets": torch.randn(2, 4, 1), "active": torch.ones(2, 4).bool()}
    near = {**data, "distance": torchmcl.euclidean}
    mixture, density, box = h.mixture(), h.density(torchmcl.Gaussian(1.0)), torchmcl.Box(-1, 1)
    size = {"sample_shape": (2,), "generator": None}
    pair, angles = ({"x": torch.rand(2, n), "y": torch.rand(2, n)} for n in (3, 2))
    cost, kernel = {"cost": torch.rand(2, 3)}, {"kernel": "gaussian"}
    rule = {"assign": torchmcl.winner_takes_all}
    points, line = {"points": torch.randn(3, 1)}, {"value": torch.randn(2, 1)}
    classes = Hypotheses(torch.randn(2, 3, 4))
    return {
        "Hypotheses": (
            Hypotheses,
            {"points": h.points, "logits": h.logits, "link": "softmax", "widths": h.widths},
        ),
        "prune": (h.prune, {"threshold": 0.1}),
        "cells": (h.cells, {"y": torch.randn(2, 1), "distance": torchmcl.euclidean}),
        "sample": (h.sample, {"shape": (3,), "generator": None}),
        "density": (h.density, {"law": torchmcl.Dirac()}),
        "mixture": (h.mixture, kernel),
        "reduce": (h.reduce, {"count": 2, "distance": torchmcl.euclidean}),
        "pool": (Hypotheses.pool, {"parts": [h, h], "weights": [1.0, 2.0]}),
        "cat": (Hypotheses.cat, {"parts": [h, h]}),
        "stack": (Hypotheses.stack, {"parts": [h, h]}),
        "KernelMixture": (torchmcl.KernelMixture, {"hypotheses": h, **kernel}),
        "KernelMixture.log_prob": (mixture.log_prob, line),
        "KernelMixture.cdf": (mixture.cdf, line),
        "KernelMixture.icdf": (mixture.icdf, {"value": torch.rand(2)}),
        "KernelMixture.sample": (mixture.sample, size),
        "KernelMixture.rsample": (mixture.rsample, size),
        "KernelMixture.rsample_components": (mixture.rsample_components, size),
        "KernelMixture.expand": (mixture.expand, {"batch_shape": (5, 2)}),
        "KernelMixture.entropy": (mixture.entropy, {"samples": 10, "generator": None}),
        "VoronoiMixture": (torchmcl.VoronoiMixture, {"hypotheses": h, "law": torchmcl.Dirac()}),
        "VoronoiMixture.log_prob": (density.log_prob, line),
        "VoronoiMixture.sample": (density.sample, size),
        "VoronoiMixture.expand": (density.expand, {"batch_shape": (5, 2)}),
        "VoronoiMixture.prob": (
            density.prob,
            {"region": lambda y: y[..., 0] > 0, "samples": 9, "generator": None},
        ),
        "Box": (torchmcl.Box, {"low": [0.0, 0.0], "high": [1.0, 1.0], "samples": 10, "seed": 0}),
        "Box.contains": (box.contains, {"y": torch.randn(2, 1)}),
        "Box.sample": (box.sample, {"shape": (2,), "generator": None}),
        "Box.cells": (box.cells, {**points, "scale": 1.0}),
        "Box.cell_volumes": (box.cell_volumes, points),
        "Sphere.contains": (torchmcl.Sphere().contains, {"y": torch.rand(2, 2)}),
        "Sphere.cells": (torchmcl.Sphere().cells, {"points": torch.rand(3, 2), "scale": 1.0}),
        "Space": (Space, {"dim": 2}),
        "Uniform": (torchmcl.Uniform, {"support": box}),
        "Gaussian": (torchmcl.Gaussian, {"scale": 1.0, "support": box}),
        "StudentKernel": (mixtures.StudentKernel, {"df": 3.0}),
        "HypothesisHead": (
            torchmcl.HypothesisHead,
            {"features": 3, "hypotheses": 2, "dim": 2, "scores": "sigmoid", "spread": None, "widths": False},
        ),
        "HypothesisHead.forward": (torchmcl.HypothesisHead(3, 2, 1), {"features": torch.randn(2, 3)}),
        "multi_hypothesis": (
            torchmcl.multi_hypothesis,
            {"model": nn.Linear(2, 2), "hypotheses": 2, "scores": "sigmoid", "spread": None, "widths": False},
        ),
        "mcl_loss": (torchmcl.mcl_loss, {"hypotheses": h, **near, **rule, "best_target_only": False}),
        "rmcl_loss": (
            torchmcl.rmcl_loss,
            {"hypotheses": sigmoid, **near, **rule, "beta": 1.0, "negatives": 1, "reweight": True},
        ),
        "scoring_loss": (
            torchmcl.scoring_loss,
            {"logits": h.logits, "positive": torch.ones(2, 3).bool(), "negatives": 1, "reweight": True},
        ),
        "cell_loss": (torchmcl.cell_loss, {"logits": h.logits, "mass": torch.rand(2, 3)}),
        "transport_loss": (torchmcl.transport_loss, {"hypotheses": h, **near}),
        "pit_loss": (
            torchmcl.pit_loss,
            {"points": torch.randn(2, 4, 1), "activity_logits": torch.randn(2, 4), **near},
        ),
        "energy_loss": (torchmcl.energy_loss, {"hypotheses": h, **near}),
        "energy_score": (torchmcl.energy_score, {"hypotheses": h, **near}),
        "mixture_energy_loss": (torchmcl.mixture_energy_loss, {"hypotheses": h, **data, **kernel}),
        "mixture_crps": (torchmcl.mixture_crps, {"hypotheses": h, **data, **kernel}),
        "likelihood_loss": (torchmcl.likelihood_loss, {"hypotheses": h, **data, **kernel, "detach": False}),
        "log_likelihood": (torchmcl.log_likelihood, {"hypotheses": h, **data, **kernel}),
        "emd": (torchmcl.emd, {"hypotheses": h, **near, "target_weights": torch.rand(2, 4)}),
        "oracle_error": (torchmcl.oracle_error, {"hypotheses": h, **near}),
        "members_loss": (torchmcl.members_loss, {"hypotheses": h, **near, "best_target_only": True}),
        "transport_cost": (
            transport_cost,
            {**cost, "target_weights": torch.rand(2), "weights": torch.rand(3)},
        ),
        "winner_takes_all": (torchmcl.winner_takes_all, cost),
        "top_n": (torchmcl.top_n, {**cost, "n": 2}),
        "relaxed": (torchmcl.relaxed, {**cost, "epsilon": 0.1}),
        "annealed": (torchmcl.annealed, {**cost, "temperature": 1.0}),
        "euclidean": (torchmcl.euclidean, pair),
        "squared_euclidean": (torchmcl.squared_euclidean, pair),
        "cross_entropy": (torchmcl.cross_entropy, pair),
        "great_circle": (torchmcl.great_circle, angles),
        "great_circle_swapped": (torchmcl.great_circle_swapped, angles),
        "chordal": (torchmcl.chordal, angles),
        "to_vectors": (directions.to_vectors, {"angles": torch.rand(3, 2)}),
        "from_vectors": (directions.from_vectors, {"vectors": torch.rand(3, 3), "least": 0.0}),
        "Ensemble": (torchmcl.Ensemble, {"members": [nn.Linear(2, 2)]}),
        "StackedEnsemble": (torchmcl.StackedEnsemble, {"build": lambda: nn.Linear(2, 2), "members": 2}),
        "covered": (torchmcl.covered, {"hypotheses": h, **data, "coverage": 0.9}),
        "brier_score": (torchmcl.brier_score, {"hypotheses": h, **data}),
        "probability_integral_transform": (
            torchmcl.probability_integral_transform,
            {"hypotheses": h, **data},
        ),
        "cmcl_loss": (
            torchmcl.cmcl_loss,
            {"hypotheses": classes, "labels": torch.tensor([0, 1]), "beta": 0.1},
        ),
        "WinnerHistogram": (torchmcl.WinnerHistogram, {"n_hypotheses": 3}),
    }


CALLS = calls()


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("name", CALLS)
def test_a_wrong_argument_is_named(name):
    function, arguments = CALLS[name]
    function(**arguments)
    for argument in arguments:
        for wrong in WRONG:
            said = complaint(function, {**arguments, argument: wrong})
            # Where the value is a tensor of a right kind, the argument that it does not fit may be named instead.
            named = [argument.rstrip("s"), *(other for other in arguments if isinstance(wrong, torch.Tensor))]
            assert said is None or any(word in said for word in named), f"{argument}={wrong!r}: {said}"


def complaint(function: Callable[..., Any], arguments: dict[str, Any]) -> str | None:
    try:
        function(**arguments)
    except (TypeError, ValueError) as error:
        return str(error)
    return None
