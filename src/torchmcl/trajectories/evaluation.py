"""All measures of a forecaster on the windows of a test set."""

from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor

from torchmcl.hypotheses import Hypotheses
from torchmcl.trajectories.features import speed_unit
from torchmcl.trajectories.forecaster import Forecaster
from torchmcl.trajectories.measures import (
    brier_min_fde,
    calibration_error,
    calibration_floor,
    collisions,
    energy_displacement,
    kernel_nll,
    min_ade,
    min_fde,
    misses,
    nearest,
    single_answer,
)
from torchmcl.trajectories.windows import PREDICTED, Windows

__all__ = ["MEASURED", "constant_velocity", "evaluate", "measure"]

INSTANTS_PER_FILE = 10**9

MEASURED = frozenset(
    {
        *("min_ade", "min_fde", "ade", "fde", "most_probable_ade", "most_probable_fde", "energy", "nll"),
        *("miss_rate", "brier_min_fde", "collision_rate", "calibration_error", "calibration_floor"),
        *("top_stated", "top_right", "alone_min_ade", "alone_min_fde", "alone_ade", "alone_fde"),
        *("last_step_ade", "last_step_fde", "three_steps_ade", "three_steps_fde", "pedestrians"),
    }
)
"""What is told of each protocol."""


def evaluate(forecaster: Forecaster, test: Windows) -> dict[str, dict[str, float]]:
    """Measure a forecaster by both protocols.

    Args:
        forecaster: Trained.
        test: All windows of the test files.

    Returns:
        For `filtered` and `all` everything in `MEASURED`: the measures of `measure`, the errors without knowledge of
        the neighbors (`alone_*`), those of `constant_velocity`, and the number of pedestrians.
    """
    answers = forecaster.forecast_windows(test)
    alone = forecaster.forecast_windows(replace(test, neighbors=torch.full_like(test.neighbors, torch.nan)))
    widths = speed_unit(test.observed)[:, None] * torch.tensor(forecaster.adjustment.widths)
    every = torch.ones_like(test.shared)
    return {
        name: {
            **measure(answers[kept], test[kept], widths[kept]),
            **_alone(alone[kept], test[kept]),
            **constant_velocity(test[kept]),
            "pedestrians": int(kept.sum()),
        }
        for name, kept in (("filtered", test.shared), ("all", every))
    }


def measure(answers: Hypotheses, test: Windows, widths: Float[Tensor, "windows 12"]) -> dict[str, float]:
    """The mean measures over windows; lengths in meters.

    Args:
        answers: Futures relative to the last observed position.
        test: The windows they answer.
        widths: Of the kernels, meters.

    Returns:
        By name; `ade` and `fde` are those of the single answer, `most_probable_*` those of the hypothesis with the
        greatest score.
    """
    single = single_answer(answers)
    best = answers.points.take_along_dim(answers.log_probs.argmax(-1)[:, None, None], 1)[:, 0]
    instants = test.files * INSTANTS_PER_FILE + test.instants
    values = {
        "min_ade": min_ade(answers, test.future),
        "min_fde": min_fde(answers, test.future),
        "ade": _error(single, test.future).mean(-1),
        "fde": _error(single, test.future)[:, -1],
        "most_probable_ade": _error(best.unflatten(-1, (PREDICTED, 2)), test.future).mean(-1),
        "most_probable_fde": _error(best.unflatten(-1, (PREDICTED, 2)), test.future)[:, -1],
        "energy": energy_displacement(answers, test.future),
        "nll": kernel_nll(answers, test.future, widths),
        "miss_rate": misses(answers, test.future),
        "brier_min_fde": brier_min_fde(answers, test.future),
        "collision_rate": collisions(single + test.origin[:, None], instants),
    }
    means = {name: float(value.double().mean()) for name, value in values.items()}
    return {
        **means,
        "calibration_error": float(calibration_error(answers, test.future)),
        "calibration_floor": float(calibration_floor(answers)),
        **_top(answers, test),
    }


def _alone(answers: Hypotheses, test: Windows) -> dict[str, float]:
    single = _error(single_answer(answers), test.future)
    values = {
        "alone_min_ade": min_ade(answers, test.future),
        "alone_min_fde": min_fde(answers, test.future),
        "alone_ade": single.mean(-1),
        "alone_fde": single[:, -1],
    }
    return {name: float(value.double().mean()) for name, value in values.items()}


def _top(answers: Hypotheses, test: Windows) -> dict[str, float]:
    """How sure the most probable hypothesis is of being the nearest, and how often it is."""
    stated, which = answers.probs.max(-1)
    right = (which == nearest(answers, test.future)).double()
    return {"top_stated": float(stated.double().mean()), "top_right": float(right.mean())}


def constant_velocity(test: Windows) -> dict[str, float]:
    """The errors of walking on: with the velocity of the last step, and with that of the last three.

    Args:
        test: Windows.

    Returns:
        Meters.
    """
    steps = torch.arange(1, PREDICTED + 1)[:, None]
    found: dict[str, float] = {}
    for name, back in (("last_step", 1), ("three_steps", 3)):
        velocity = (test.observed[:, -1] - test.observed[:, -1 - back]) / back
        error = _error(velocity[:, None] * steps, test.future)
        found |= {f"{name}_ade": float(error.mean()), f"{name}_fde": float(error[:, -1].mean())}
    return found


def _error(futures: Tensor, truth: Tensor) -> Tensor:
    return (futures - truth).norm(dim=-1)
