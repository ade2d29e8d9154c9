"""Classifiers in folders, as `storage` has regressors: weights as safetensors, everything else as JSON."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import save as serialized

import torchmcl
from torchmcl.errors import UserError
from torchmcl.runs.files import atomic, write_json
from torchmcl.sharing.cards import write_card
from torchmcl.tabular.cards import classifier_card
from torchmcl.tabular.columns import Columns
from torchmcl.tabular.storage import CONFIG, FORMAT, MOST_PARAMETERS, WEIGHTS, read_model, take_names

__all__ = ["KIND", "load", "save"]

KIND = "torchmcl.MCLClassifier"
PLAIN = (
    "n_hypotheses", "loss", "activation", "scores", "beta", "learning_rate", "weight_decay", "batch_size",
    "max_epochs", "patience", "validation_fraction", "device", "progress",
)  # fmt: skip
"""Settings that JSON can hold as they are."""
LABELS = {"b": bool, "i": int, "u": int, "f": float, "U": str, "O": str}
"""Types of labels by the kind of their array; text in arrays of objects is text."""


def save(estimator: Any, folder: Path) -> None:
    """Write a fitted `MCLClassifier` with its card; each of the files is complete or absent.

    Args:
        estimator: That is fitted.
        folder: Made where it is missing.
    """
    # Copies: safetensors refuses weights that two layers share.
    tensors = {
        name: each.detach().cpu().contiguous().clone()
        for name, each in estimator.network_.state_dict().items()
    }
    state = estimator.random_state
    settings = {name: getattr(estimator, name) for name in PLAIN}
    settings = {
        name: each.item() if isinstance(each, np.generic) else each for name, each in settings.items()
    }
    value = {
        "kind": KIND,
        "format": FORMAT,
        "version": torchmcl.__version__,
        "settings": {
            **settings,
            "hidden": [int(units) for units in estimator.hidden],
            "random_state": int(state) if isinstance(state, int | np.integer) else None,
        },
        "columns": {
            **estimator.columns_.to_json(),
            "names": getattr(estimator, "feature_names_in_", np.empty(0)).tolist(),
        },
        "classes": _plain(estimator.classes_),
        "labels": _kind(estimator.classes_),
        "temperature": float(estimator.temperature_),
        "epochs": int(estimator.n_iter_),
        "own_network": estimator.network is not None,
    }
    write_json(folder / CONFIG, value)
    with atomic(folder / WEIGHTS) as temporary:
        temporary.write_bytes(serialized({f"network.{name}": each for name, each in tensors.items()}))
    write_card(folder, classifier_card(estimator))


def load(kind: type, folder: Path, network: Any) -> Any:
    """Read what `save` wrote; anything else is a `UserError` that names the file.

    Args:
        kind: The class of the estimator.
        folder: That of `save`.
        network: As given to the estimator, for a model with networks of its own.
    """
    return read_model(folder, KIND, lambda value, tensors: _build(kind, value, tensors, network))


def _build(kind: type, value: dict[str, Any], tensors: dict[str, torch.Tensor], network: Any) -> Any:
    settings = value["settings"]
    estimator = kind(
        **{name: settings[name] for name in (*PLAIN, "random_state")},
        hidden=tuple(settings["hidden"]),
        network=network,
    )
    estimator.check_settings()
    if value["own_network"] != (network is not None):
        raise UserError("network must be given for a model with networks of its own, and only then")
    estimator.columns_ = columns = Columns.from_json(value["columns"])
    estimator.classes_ = _labels(value["classes"], value["labels"])
    features = columns.numeric + columns.plain
    if network is None:
        # Estimated before anything is allocated.
        widths = [6 * features, *estimator.hidden, len(estimator.classes_) + estimator.n_hypotheses]
        if estimator.n_hypotheses * sum(a * b for a, b in pairwise(widths)) > MOST_PARAMETERS:
            raise UserError(f"has more than {MOST_PARAMETERS:,} parameters")
    made = estimator.build_network(features)
    made.load_state_dict({name.removeprefix("network."): each for name, each in tensors.items()})
    estimator.network_ = made.eval()
    estimator.temperature_ = float(value["temperature"])
    if not 0 < estimator.temperature_ < np.inf:
        raise ValueError("temperature must be positive")
    estimator.n_iter_ = int(value["epochs"])
    take_names(estimator, value["columns"]["names"], columns)
    return estimator


def _kind(classes: NDArray[Any]) -> str:
    kind = classes.dtype.kind
    if kind not in LABELS or (kind == "O" and not all(isinstance(each, str) for each in classes)):
        raise ValueError(
            f"classes {classes.tolist()[:3]} cannot be saved: labels are numbers, booleans or text"
        )
    return kind


def _plain(classes: NDArray[Any]) -> list[Any]:
    return [LABELS[_kind(classes)](each) for each in classes.tolist()]


def _labels(values: list[Any], kind: str) -> NDArray[Any]:
    if not all(type(each) is LABELS[kind] for each in values):
        raise ValueError("classes do not have the type of their labels")
    # Whole numbers of both halves of the unsigned ones would become rounded decimal ones.
    found = np.array(values, dtype={"O": object, "u": np.uint64}.get(kind))
    if found.ndim != 1 or len(np.unique(found)) != len(found) or len(found) < 2:
        raise ValueError("classes must be at least two different labels")
    return found
