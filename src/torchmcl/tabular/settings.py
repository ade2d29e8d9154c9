"""What `MCLRegressor` and `MCLClassifier` may be told; everything else is refused by name."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from sklearn.utils import check_random_state
from torch import nn

from torchmcl.assignment import winner_takes_all
from torchmcl.distances import chordal, euclidean, great_circle, great_circle_swapped
from torchmcl.errors import check_choice, check_integer, check_number
from torchmcl.tabular.network import ACTIVATIONS
from torchmcl.tabular.objectives import LOSSES

__all__ = ["DIRECTIONAL", "check_settings", "check_size", "check_training", "is_directional", "read_seed"]

MOST_UNITS, MOST_WEIGHTS = 1_000_000, 200_000_000
"""Of all members together."""

DIRECTIONAL = (great_circle, great_circle_swapped, chordal)
"""Distances of directions (azimuth, elevation), whose angles must not be shifted or scaled."""


def check_settings(model: Any) -> None:
    """Raise a `ValueError` or `TypeError` that names the first wrong setting."""
    check_choice("loss", model.loss, LOSSES)
    check_training(model)
    for name in ("members", "negatives"):
        _optional_integer(name, getattr(model, name))
    check_choice("scores", model.scores, ("sigmoid", "softmax", None))
    check_choice("target_transform", model.target_transform, (None, "auto", "yeo-johnson"))
    check_number("beta", model.beta, 0)
    for name in ("distance", "assign"):
        if not callable(getattr(model, name)):
            raise TypeError(f"{name} must be a function, got {getattr(model, name)!r}")
    if not (model.network is None or isinstance(model.network, nn.Module) or callable(model.network)):
        raise TypeError(f"network must be None, a module or a function that makes one, got {model.network!r}")
    _check_loss(model)
    check_size(model.members or 1, (*model.hidden, model.n_hypotheses))


def check_training(model: Any) -> None:
    """The settings of training that regressor and classifier share."""
    check_integer("n_hypotheses", model.n_hypotheses)
    for name in ("max_epochs", "batch_size", "patience"):
        _optional_integer(name, getattr(model, name))
    _check_hidden(model.hidden)
    check_choice("activation", model.activation, tuple(ACTIVATIONS))
    _finite("learning_rate", model.learning_rate)
    _finite("weight_decay", model.weight_decay, zero=True)
    check_number("validation_fraction", model.validation_fraction, 0, 0.5)
    if not isinstance(model.device, str) or not model.device:
        raise TypeError(f"device must be a name such as 'auto', 'cpu' or 'cuda', got {model.device!r}")
    if not isinstance(model.progress, bool):
        raise TypeError(f"progress must be True or False, got {model.progress!r}")


def check_size(copies: int, widths: Sequence[int]) -> None:
    """Refuse networks that would fill the memory, before they are made.

    Args:
        copies: Of the network.
        widths: Of its layers.
    """
    units = copies * sum(widths)
    weights = copies * sum(a * b for a, b in pairwise(widths))
    if units > MOST_UNITS or weights > MOST_WEIGHTS:
        raise ValueError(
            f"members, n_hypotheses and hidden make {units:,} units and {weights:,} weights, "
            f"must be at most {MOST_UNITS:,} and {MOST_WEIGHTS:,}"
        )


def read_seed(random_state: Any) -> int:
    """The seed of a training; what is none is named.

    Args:
        random_state: As everywhere in scikit-learn.
    """
    try:
        return int(check_random_state(random_state).randint(2**31))
    except ValueError:
        raise ValueError(
            f"random_state must be None, a generator or an integer from 0 to {2**32 - 1}, got {random_state!r}"
        ) from None


def is_directional(model: Any) -> bool:
    """Whether the targets are directions."""
    return model.distance in DIRECTIONAL


def _check_loss(model: Any) -> None:
    """Settings that the loss would not use are mistakes."""
    if model.loss == "energy":
        unused: dict[str, Any] = {
            "scores": "softmax",
            "distance": euclidean,
            "assign": winner_takes_all,
            "beta": 1.0,
            "negatives": None,
        }
        for name, default in unused.items():
            if getattr(model, name) != default:
                raise ValueError(
                    f"{name} must be left as it is with loss='energy'; loss='rmcl' has a use for it"
                )
        return
    if model.target_transform is not None:
        raise ValueError(f"target_transform must be None with loss={model.loss!r}: distances would be bent")
    if model.members not in (None, 1):
        raise ValueError(
            f"members must be 1 with loss={model.loss!r}, whose hypotheses have cells of their own, got {model.members}"
        )
    if (model.scores is None) != (model.loss == "mcl"):
        wanted = "None" if model.loss == "mcl" else "'softmax' or 'sigmoid'"
        raise ValueError(f"scores must be {wanted} with loss={model.loss!r}, got {model.scores!r}")


def _optional_integer(name: str, value: Any) -> None:
    if value is None:
        return
    try:
        check_integer(name, value)
    except (TypeError, ValueError) as error:
        raise type(error)(str(error).replace("must be ", "must be None or ")) from None


def _check_hidden(hidden: Any) -> None:
    if isinstance(hidden, str | bytes) or not isinstance(hidden, Sequence):
        raise TypeError(f"hidden must be a sequence of whole numbers such as (128, 128), got {hidden!r}")
    for units in hidden:
        check_integer("each number of hidden", units)


def _finite(name: str, value: Any, zero: bool = False) -> None:
    try:
        check_number(name, value, 0, 1e6, open_low=not zero)
    except ValueError:
        wanted = "between 0 and 1e6" if zero else "positive and at most 1e6"
        raise ValueError(f"{name} must be {wanted}, got {value}") from None
