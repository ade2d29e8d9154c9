"""Hostile arguments for every public name, built from the signatures themselves."""

import inspect
import math
import signal
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import nn

import torchmcl
from torchmcl.hypotheses import Hypotheses

BATCH, TARGETS, K, DIM = 4, 3, 5, 2
SECONDS = 10.0
"""Which no call of a small problem may exceed."""


@cache
def good_values() -> dict[str, Any]:
    """An argument that fits for each name of a parameter; everything fits together."""
    random = torch.Generator().manual_seed(0)
    points = torch.rand(BATCH, K, DIM, generator=random)
    targets = torch.rand(BATCH, TARGETS, DIM, generator=random)
    hypotheses = Hypotheses(points, torch.randn(BATCH, K, generator=random), widths=torch.ones(BATCH, K))
    return {
        "points": points,
        "logits": hypotheses.logits,
        "widths": hypotheses.widths,
        "link": "sigmoid",
        "hypotheses": hypotheses,
        "targets": targets,
        "active": torch.ones(BATCH, TARGETS, dtype=torch.bool),
        "labels": torch.zeros(BATCH, TARGETS, dtype=torch.long),
        "owners": torch.zeros(DIM, dtype=torch.long),
        "distance": torchmcl.euclidean,
        "assign": torchmcl.winner_takes_all,
        "cost": torch.rand(BATCH, TARGETS, K, generator=random),
        "positive": torch.ones(BATCH, K, dtype=torch.bool),
        "mass": torch.full((BATCH, K), 1 / K),
        "weights": torch.full((BATCH, TARGETS, K), 1 / K),
        "winners": torch.ones(BATCH, TARGETS, K, dtype=torch.bool),
        "x": torch.rand(BATCH, DIM, generator=random),
        "y": torch.rand(BATCH, DIM, generator=random),
        "value": torch.rand(BATCH, DIM, generator=random),
        "features": 3,
        "inputs": torch.rand(BATCH, 3, generator=random),
        "dim": DIM,
        "model": nn.Linear(3, DIM),
        "members": [nn.Linear(3, DIM), nn.Linear(3, DIM)],
        "build": lambda: nn.Linear(3, DIM),
        "low": [0.0] * DIM,
        "high": [1.0] * DIM,
        "law": torchmcl.Uniform(torchmcl.Box([0.0] * DIM, [1.0] * DIM)),
        "support": torchmcl.Box([0.0] * DIM, [1.0] * DIM),
        "spread": torchmcl.Box([0.0] * DIM, [1.0] * DIM),
        "scale": 0.5,
        "n": 2,
        "epsilon": 0.1,
        "temperature": 0.5,
        "threshold": 0.1,
        "beta": 1.0,
        "negatives": None,
        "reweight": True,
        "best_target_only": False,
        "stochastic": False,
        "kernel": "gaussian",
        "detach": False,
        "top": 1,
        "bins": 4,
        "keep": 0.7,
        "n_hypotheses": K,
        "n_classes": DIM,
        "coverage": 0.8,
        "samples": 8,
        "draws": 8,
        "shape": (3,),
        "generator": None,
        "scores": "sigmoid",
        "index": 0,
        "prediction": hypotheses.mixture(),
        "level": None,
        "count": 3,
        "sample_shape": torch.Size([2]),
        "center": torch.rand(BATCH, DIM, generator=random),
        "batch_shape": torch.Size([BATCH]),
        "region": torchmcl.Box([0.0] * DIM, [0.5] * DIM),
    }


def inside(points: torch.Tensor) -> torch.Tensor:
    """A region: half of the plane."""
    return points[..., 0] < 0.5


FLAT = Hypotheses(torch.zeros(BATCH, K, 1), widths=torch.ones(BATCH, K))
"""In one dimension, where quantiles and the CRPS exist."""

OWN: dict[str, dict[str, Any]] = {
    "HypothesisHead": {"hypotheses": K, "widths": False},
    "HypothesisHead.forward": {"features": torch.zeros(BATCH, 3)},
    "multi_hypothesis": {"hypotheses": K, "widths": False},
    "mixture_crps": {"hypotheses": FLAT, "targets": torch.zeros(BATCH, TARGETS, 1)},
    "Conformal": {"weights": torch.ones(BATCH), "groups": torch.zeros(BATCH, dtype=torch.long)},
    "FeatureSharing.forward": {"features": torch.zeros(BATCH, K, DIM)},
    "KernelMixture": {"hypotheses": FLAT},
    "KernelMixture.cdf": {"value": torch.zeros(BATCH, 1)},
    "KernelMixture.icdf": {"value": torch.full((BATCH, 1), 0.5)},
    "KernelMixture.log_prob": {"value": torch.zeros(BATCH, 1)},
    "probability_integral_transform": {"hypotheses": FLAT, "targets": torch.zeros(BATCH, TARGETS, 1)},
    "ProbabilityIntegralTransform.update": {"hypotheses": FLAT, "targets": torch.zeros(BATCH, TARGETS, 1)},
    "EnergyScore.update": {"hypotheses": FLAT, "targets": torch.zeros(BATCH, TARGETS, 1)},
    "EnergyScore.values": {"hypotheses": FLAT, "targets": torch.zeros(BATCH, TARGETS, 1)},
    "covered": {"hypotheses": FLAT, "targets": torch.zeros(BATCH, TARGETS, 1), "region": None},
    "Coverage": {"region": None},
    "Coverage.update": {"hypotheses": FLAT, "targets": torch.zeros(BATCH, TARGETS, 1)},
    "HighestDensityRegion.volume": {"support": torchmcl.Box([0.0] * DIM, [1.0] * DIM)},
    "VoronoiMixture.prob": {"region": inside},
    "StackedEnsemble": {"members": 2},
    "pit_loss": {
        "activity_logits": torch.zeros(BATCH, TARGETS),
        "points": torch.zeros(BATCH, TARGETS, DIM),
    },
    "FeatureSharing": {"dim": -2},
    "cross_entropy": {"x": torch.tensor([0.3, 0.7])},
}
"""Arguments of one name that mean something else there."""

HOSTILE: dict[str, Any] = {
    "None": None,
    "text": "text",
    "number": 3.5,
    "minus one": -1,
    "nan": math.nan,
    "inf": math.inf,
    "large": 10**12,
    "huge": 10**30,
    "true": True,
    "empty list": [],
    "list": [[0.0, 1.0]],
    "dict": {},
    "object": object(),
    "array": np.zeros((BATCH, K, DIM)),
    "integers": torch.zeros(BATCH, K, DIM, dtype=torch.long),
    "complex": torch.zeros(BATCH, K, DIM, dtype=torch.complex64),
    "booleans": torch.zeros(BATCH, K, DIM, dtype=torch.bool),
    "scalar": torch.zeros(()),
    "empty": torch.zeros(0),
    "one axis": torch.zeros(7),
    "other batch": torch.zeros(BATCH + 1, TARGETS, DIM),
    "other dim": torch.zeros(BATCH, TARGETS, DIM + 1),
    "nans": torch.full((BATCH, TARGETS, DIM), math.nan),
}


@dataclass(frozen=True)
class Case:
    """A call of a public name with one argument replaced by a hostile one."""

    name: str
    parameter: str
    hostile: str
    tensor: bool

    def __str__(self) -> str:
        return f"{self.name}({self.parameter}={self.hostile})"


ESTIMATORS = ("MCLClassifier", "MCLRegressor")
"""scikit-learn's rules differ: settings are checked by `fit`. Their tests are in tests/tabular."""


REFUSING = ("Dirac.log_kernel",)
"""Which have no answer, whatever the arguments: points have no density."""


@cache
def subjects() -> dict[str, Any]:
    """Everything public that can be called: functions, classes, and the methods of classes."""
    names = [name for name in torchmcl.__all__ if name not in ESTIMATORS]
    found = {name: getattr(torchmcl, name) for name in names if callable(getattr(torchmcl, name))}
    for name, each in list(found.items()):
        if not inspect.isclass(each) or issubclass(each, tuple):
            continue
        for method, function in inspect.getmembers(each, inspect.isfunction):
            if (
                function.__module__.startswith("torchmcl")
                and not method.startswith("_")
                and parameters(function)
            ):
                found[f"{name}.{method}"] = function
    return found


def parameters(call: Any) -> list[inspect.Parameter]:
    """Those that a caller may name."""
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    found = [each for each in inspect.signature(call).parameters.values() if each.kind in kinds]
    return [each for each in found if each.name != "self" and not each.name.startswith("_")]


def arguments(name: str, call: Any) -> dict[str, Any]:
    """Arguments that fit: of the required parameters, and of the others where a fitting one is known."""
    good = {**good_values(), **OWN.get(name.split(".")[0], {}), **OWN.get(name, {})}
    missing = [
        each.name
        for each in parameters(call)
        if each.name not in good and each.default is inspect.Parameter.empty
    ]
    assert not missing, f"{name}: tests/surface.py knows no good value of {missing}"
    return {each.name: good[each.name] for each in parameters(call) if each.name in good}


def cases() -> Iterator[Case]:
    """Each parameter of each subject, with each hostile value."""
    for name, call in subjects().items():
        if name in REFUSING:
            continue
        for parameter in parameters(call):
            kind = str(parameter.annotation)
            tensor = (
                "Tensor" in kind and "None" not in kind and "Callable" not in kind and name != "Assignment"
            )
            for hostile in HOSTILE:
                yield Case(name, parameter.name, hostile, tensor)


def instance(name: str) -> Any:
    """An object of a public class, ready for all of its methods."""
    made = getattr(torchmcl, name)
    built = made(**arguments(name, made))
    if name == "Conformal":
        built.calibrate(good_values()["prediction"], good_values()["y"], **OWN[name])
    return built


def call(case: Case) -> Any:
    """Make the call of a case."""
    return called(case.name, {case.parameter: HOSTILE[case.hostile]})


def called(name: str, changes: dict[str, Any]) -> Any:
    """Call a subject with arguments that fit, but for some."""
    subject = subjects()[name]
    chosen = {**arguments(name, subject), **changes}
    if "." in name:
        owner, method = name.split(".")
        return getattr(instance(owner), method)(**chosen)
    return subject(**chosen)


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Raise `TimeoutError` after so many seconds; for the main thread."""

    def stop(*_: Any) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def complaint(case: Case) -> str | None:
    """What is wrong with how a case ends; `None` where it is right.

    A hostile argument is taken where it can be, or refused by a `ValueError` or a `TypeError` that names it.
    """
    with warnings.catch_warnings(), limited(SECONDS):
        warnings.simplefilter("ignore")
        try:
            call(case)
        except TimeoutError:
            return f"{case}: takes more than {SECONDS} s"
        except (ValueError, TypeError) as error:
            named = case.parameter.replace("_", " ") in str(error).replace("_", " ")
            return None if named else f"{case}: {type(error).__name__} does not name it: {str(error)[:150]}"
        except Exception as error:
            return f"{case}: {type(error).__name__}: {str(error).splitlines()[0][:150] if str(error) else ''}"
    value = HOSTILE[case.hostile]
    if case.tensor and not isinstance(value, torch.Tensor):
        return f"{case}: was taken in place of a tensor"
    return None
