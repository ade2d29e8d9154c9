"""A toy model as a graph: from times to hypotheses in the square."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim

from torchmcl.ensemble import StackedEnsemble
from torchmcl.errors import UserError, check_integer
from torchmcl.export.graph import Graph, Value
from torchmcl.runs.files import read_json
from torchmcl.runs.folder import SETTINGS
from torchmcl.runs.records import from_plain
from torchmcl.toy.models import METHODS
from torchmcl.toy.outcomes import load_network
from torchmcl.toy.presets import Settings

__all__ = ["toy_graph"]

MOST = {"units": 10_000, "hypotheses": 10_000}
"""Of a network that is read."""


class ToyGraph(nn.Module):
    """A network with its scores and probabilities.

    Args:
        network: Maps times `(rows, 1)` to hypotheses.
    """

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network.unstack() if isinstance(network, StackedEnsemble) else network

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        """Points, scores and probabilities."""
        found = self.network(*inputs)
        return found.points, found.scores, found.probs


def toy_graph(folder: str | Path) -> Graph:
    """A model of the toy experiment for export.

    Args:
        folder: Of one model, such as `runs/toy/models/paper/seed0/rmcl`.

    Returns:
        Input `time`; outputs `points`, `scores` and `probs`.
    """
    folder = Path(folder)
    stored: Any = read_json(folder / SETTINGS)
    try:
        method, settings = stored["method"], from_plain(Settings, stored["settings"])
        if method not in METHODS:
            raise ValueError(f"method is {method!r}")
        for name, most in MOST.items():
            check_integer(name, getattr(settings, name), most=most)
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"{folder / SETTINGS}: does not describe a toy model ({error})") from None
    axes = ("rows", "hypotheses")
    outputs = (
        Value("points", (*axes, "xy"), "hypotheses, in the square from -1 to 1"),
        Value("scores", axes, "probability that a target falls into the cell of a hypothesis"),
        Value("probs", axes, "scores that sum to 1"),
    )
    examples = tuple((torch.linspace(0, 1, rows)[:, None],) for rows in (5, 2, 11))
    return Graph(
        "toy",
        ToyGraph(load_network(folder, method, settings)),
        (Value("time", ("rows", "one"), "between 0 and 1"),),
        outputs,
        {"rows": Dim("rows")},
        examples,
        {"method": method, "preset": settings.name, "seed": stored.get("seed")},
    )
