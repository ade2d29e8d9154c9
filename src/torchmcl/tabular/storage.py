"""Models in folders: weights as safetensors, everything else as JSON; nothing that could run."""

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from safetensors.torch import save as serialized
from torch import nn

import torchmcl
from torchmcl.distances import chordal, euclidean, great_circle, great_circle_swapped, squared_euclidean
from torchmcl.errors import UserError
from torchmcl.runs.files import atomic, read_json, write_json
from torchmcl.runs.weights import single_precision
from torchmcl.sharing.cards import write_card
from torchmcl.tabular.calibration import Calibration
from torchmcl.tabular.cards import regressor_card
from torchmcl.tabular.columns import Columns
from torchmcl.tabular.model import TableModel
from torchmcl.tabular.network import Readout, SeparateMembers, StackedMembers
from torchmcl.tabular.scaling import Standard
from torchmcl.tabular.settings import check_settings, is_directional
from torchmcl.tabular.targets import LARGEST
from torchmcl.tabular.warping import Warped

__all__ = ["CONFIG", "WEIGHTS", "load", "read_model", "save", "take_names"]

CONFIG, WEIGHTS = "config.json", "model.safetensors"
KIND = "torchmcl.MCLRegressor"
FORMAT = 1
LARGEST_CONFIG = 64 * 2**20
MOST_PARAMETERS = 10**9
HIGHEST_LEVEL = 1 + 1e-9
"""Of a calibration: a sum of probabilities, which rounding may bring above 1."""
PLAIN = (
    "n_hypotheses", "loss", "members", "activation", "scores", "beta", "negatives", "learning_rate", "weight_decay",
    "target_transform", "batch_size", "max_epochs", "patience", "validation_fraction", "device", "progress",
)  # fmt: skip
"""Settings that JSON can hold as they are."""
DISTANCES = {
    each.__name__: each
    for each in (euclidean, squared_euclidean, great_circle, great_circle_swapped, chordal)
}


def save(estimator: Any, folder: Path) -> None:
    """Write a fitted `MCLRegressor` with its card; each of the files is complete or absent.

    Args:
        estimator: That is fitted.
        folder: Made where it is missing.
    """
    model: TableModel = estimator.model_
    calibration: Calibration | None = estimator.calibration_
    # Trained in single precision, so that nothing is lost.
    tensors = {f"network.{name}": _single(each) for name, each in model.network.state_dict().items()}
    tensors["factors"] = model.factors.contiguous()
    tensors["validation_score"] = torch.from_numpy(estimator.validation_score_)
    if calibration is not None:
        for name in ("interval", "region", "weights", *(() if calibration.single is None else ("single",))):
            tensors[f"calibration.{name}"] = torch.from_numpy(
                np.ascontiguousarray(getattr(calibration, name))
            )
    value = {
        "kind": KIND,
        "format": FORMAT,
        "version": torchmcl.__version__,
        "settings": _settings(estimator),
        "columns": {
            **model.columns.to_json(),
            "names": getattr(estimator, "feature_names_in_", np.empty(0)).tolist(),
        },
        "units": _units(model.units),
        "scalar": model.scalar,
        "epochs": estimator.n_iter_,
        "own_network": estimator.network is not None,
        "smooth": calibration is not None and calibration.smooth,
        "groups": None if calibration is None or calibration.groups is None else calibration.groups.tolist(),
    }
    # Before the weights: weights without a description are taken for those of another program.
    write_json(folder / CONFIG, value)
    with atomic(folder / WEIGHTS) as temporary:
        temporary.write_bytes(serialized(tensors))
    write_card(folder, regressor_card(estimator))


def load(kind: type, folder: Path, network: Any) -> Any:
    """Read what `save` wrote; anything else is a `UserError` that names the file.

    Args:
        kind: The class of the estimator.
        folder: That of `save`.
        network: As given to the estimator, for a model with a network of its own.
    """
    return read_model(folder, KIND, lambda value, tensors: _build(kind, value, tensors, network))


def read_model(
    folder: Path, kind: str, build: Callable[[dict[str, Any], dict[str, torch.Tensor]], Any]
) -> Any:
    """Read and check both files of a folder, and build what they describe; whatever fails is a `UserError`.

    Args:
        folder: That of a saved model.
        kind: What `config.json` must describe.
        build: Called with the values of `config.json` and the tensors.
    """
    value = _read_config(folder / CONFIG, kind)
    tensors = _read_weights(folder / WEIGHTS)
    try:
        with single_precision():
            return build(value, tensors)
    except UserError as error:
        raise UserError(f"{folder}: {error}") from None
    except (LookupError, TypeError, ValueError, ArithmeticError, RuntimeError, AttributeError) as error:
        reason = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
        raise UserError(f"{folder / CONFIG}: does not describe a model of this program ({reason})") from None


def _units(units: Standard) -> dict[str, Any]:
    found: dict[str, Any] = {"center": units.center.tolist(), "scale": units.scale.tolist()}
    if isinstance(units, Warped):
        found |= {name: getattr(units, name) for name in ("power", "middle", "spread")}
    return found


def _read_units(value: dict[str, Any]) -> Standard:
    center, scale = (np.array(value[key], dtype=np.float64) for key in ("center", "scale"))
    if center.ndim != 1 or not len(center) or center.shape != scale.shape:
        raise ValueError("units must hold one center and one scale for each output")
    if not ((np.abs(center) <= LARGEST).all() and ((scale > 0) & (scale <= LARGEST)).all()):
        raise ValueError(f"units must be at most {LARGEST:g} and scales positive")
    if "power" not in value:
        return Standard(center, scale)
    power, middle, spread = (float(value[key]) for key in ("power", "middle", "spread"))
    if not (len(center) == 1 and 0 <= power <= 2 and np.isfinite(middle) and 0 < spread < np.inf):
        raise ValueError(
            "the transformation of the targets must be finite, of one output, with a power from 0 to 2"
        )
    return Warped(center, scale, power, middle, spread)


def _single(value: torch.Tensor) -> torch.Tensor:
    return (value.float() if value.is_floating_point() else value).contiguous()


def _settings(estimator: Any) -> dict[str, Any]:
    found = {name: getattr(estimator, name) for name in PLAIN}
    found["hidden"] = list(estimator.hidden)
    found["distance"] = next((name for name, each in DISTANCES.items() if each is estimator.distance), None)
    if found["distance"] is None:
        raise ValueError(f"distance {estimator.distance!r} cannot be saved: code is never stored")
    state = estimator.random_state
    found["random_state"] = int(state) if isinstance(state, int | np.integer) else None
    return {name: each.item() if isinstance(each, np.generic) else each for name, each in found.items()}


def _read_config(path: Path, kind: str) -> dict[str, Any]:
    if not path.is_file():
        raise UserError(f"{path}: there is no such file, so its folder is not a model that was saved")
    value = read_json(path, limit=LARGEST_CONFIG)
    if not isinstance(value, dict) or value.get("kind") != kind:
        raise UserError(f"{path}: does not describe an {kind.removeprefix('torchmcl.')}")
    if value.get("format") != FORMAT:
        raise UserError(f"{path}: has the format {value.get('format')!r}, this version reads {FORMAT}")
    return value


def _read_weights(path: Path) -> dict[str, torch.Tensor]:
    if not path.is_file():
        raise UserError(f"{path}: there is no such file")
    try:
        tensors = load_file(path)
    except (SafetensorError, OSError, ValueError):
        raise UserError(f"{path}: is not a complete safetensors file") from None
    for name, tensor in tensors.items():
        wanted = torch.float64 if name.startswith(("calibration.", "validation_score")) else torch.float32
        own = name.startswith("network.") and not tensor.is_floating_point() and not tensor.is_complex()
        if not own and (tensor.dtype != wanted or not tensor.isfinite().all()):
            raise UserError(f"{path}: {name} must hold finite numbers of type {wanted}")
    return tensors


def _build(kind: type, value: dict[str, Any], tensors: dict[str, torch.Tensor], network: Any) -> Any:
    # Models of earlier versions know nothing of transformed targets.
    stored = {"target_transform": None, **value["settings"]}
    settings = {name: stored[name] for name in (*PLAIN, "random_state")}
    distance = DISTANCES[value["settings"]["distance"]]
    estimator = kind(
        **settings, hidden=tuple(value["settings"]["hidden"]), distance=distance, network=network
    )
    check_settings(estimator)
    if value["own_network"] != (network is not None):
        raise UserError("network must be given for a model with a network of its own, and only then")
    columns = Columns.from_json(value["columns"])
    units = _read_units(value["units"])
    energy = estimator.loss == "energy"
    readout = Readout(estimator.n_hypotheses, len(units.center), estimator.scores, energy)
    factors = tensors["factors"]
    if factors.ndim != 1 or not (factors > 0).all():
        raise ValueError("factors must be one positive number for each member")
    made = _network(estimator, columns, readout, tensors)
    directional, scalar = is_directional(estimator), bool(value["scalar"])
    if scalar and len(units.center) > 1:
        raise ValueError(f"scalar must be false for {len(units.center)} outputs")
    estimator.model_ = TableModel(columns, units, made, factors, estimator.n_hypotheses, directional, scalar)
    estimator.calibration_ = _calibration(value, tensors, len(units.center))
    estimator.validation_score_ = tensors["validation_score"].numpy()
    estimator.n_iter_ = int(value["epochs"])
    estimator.target_transform_ = None if units.linear else "yeo-johnson"
    take_names(estimator, value["columns"]["names"], columns)
    return estimator


def take_names(estimator: Any, names: Any, columns: Columns) -> None:
    """Number and names of the columns, as scikit-learn keeps them.

    Args:
        estimator: That is read.
        names: As `config.json` has them: one for each column, or none.
        columns: Of the estimator.
    """
    estimator.n_features_in_ = len(columns.categorical)
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ValueError("names must be a list of text")
    if len(names) not in (0, len(columns.categorical)):
        raise ValueError(f"there are {len(names)} names of {len(columns.categorical)} columns")
    if len(set(names)) < len(names):
        raise ValueError("two columns have the same name")
    if names:
        estimator.feature_names_in_ = np.array(names, dtype=object)


def _network(
    estimator: Any, columns: Columns, readout: Readout, tensors: dict[str, torch.Tensor]
) -> nn.Module:
    state = {
        name.removeprefix("network."): each for name, each in tensors.items() if name.startswith("network.")
    }
    members = len(tensors["factors"])
    if estimator.network is not None:
        from torchmcl.tabular.recipe import own_networks

        made: nn.Module = SeparateMembers(
            own_networks(estimator.network, columns.numeric + columns.plain, readout.outputs, members),
            readout,
        )
    else:
        widths = [6 * (columns.numeric + columns.plain), *estimator.hidden, readout.outputs]
        # Estimated before anything is allocated.
        if members * sum(a * b for a, b in pairwise(widths)) > MOST_PARAMETERS:
            raise UserError(f"has more than {MOST_PARAMETERS:,} parameters")
        start = torch.zeros(members, readout.hypotheses, readout.dim)
        made = StackedMembers(
            members, columns.numeric, columns.plain, estimator.hidden, estimator.activation, readout, start
        )
    made.load_state_dict(state)
    return made.double().eval()


def _calibration(value: dict[str, Any], tensors: dict[str, torch.Tensor], dim: int) -> Calibration | None:
    if "calibration.interval" not in tensors:
        return None
    parts = {name: tensors.get(f"calibration.{name}") for name in ("interval", "region", "weights", "single")}
    interval, region, weights, single = (None if each is None else each.numpy() for each in parts.values())
    if interval is None or region is None or weights is None or not weights.size:
        raise ValueError("calibration must hold levels and weights")
    rows = weights.size
    shapes = {(rows, dim): interval, (rows,): region, (rows, 2, dim + 1): single}
    levels = {shape: each for shape, each in shapes.items() if each is not None}
    if weights.shape != (rows,) or any(each.shape != shape for shape, each in levels.items()):
        raise ValueError("calibration does not fit together")
    if any(each.min() < 0 or each.max() > HIGHEST_LEVEL for each in levels.values()) or weights.min() <= 0:
        raise ValueError("calibration must hold levels from 0 to 1 and positive weights")
    groups = value["groups"]
    labels = None if groups is None else np.array([str(each) for each in groups])
    if labels is not None and labels.shape != weights.shape:
        raise ValueError("groups do not fit the calibration")
    members = len(tensors["factors"])
    return Calibration(interval, region, weights, labels, bool(value.get("smooth")), single, members)
