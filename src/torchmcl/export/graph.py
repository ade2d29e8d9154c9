"""What an exporter must know of a model: a self-contained network, its inputs and outputs, and examples."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from torch import Tensor, nn

__all__ = ["Graph", "Value"]


@dataclass(frozen=True)
class Value:
    """An input or an output.

    Args:
        name: In the file.
        axes: The name of each axis; those of `Graph.dynamic` may have other lengths.
        about: What it holds, with its unit.
        scale: The size of numbers that matter: onnxruntime must agree with PyTorch to 1e-4 of it. `None` for values
            that are found by a search in single precision, whose error depends on the density around them.
        compared: What of it is compared: for angles their unit vectors, because -180 and 180 degrees are one.
    """

    name: str
    axes: tuple[str, ...]
    about: str
    scale: float | None = 1.0
    compared: Callable[[np.ndarray], np.ndarray] = np.asarray


@dataclass(frozen=True, eq=False)
class Graph:
    """A model that can be exported.

    Args:
        kind: The class of the model.
        network: Maps as many tensors as there are inputs to a tuple with as many tensors as there are outputs; whatever
            is done before and after the trained network is a part of it.
        inputs: In the order of the arguments.
        outputs: In the order of the results.
        dynamic: Axes of the inputs whose length may change, by name: a `torch.export.Dim` each.
        examples: Inputs of different lengths; the first is traced, and all are compared.
        details: Anything else that a user of the file must know, plain values.
    """

    kind: str
    network: nn.Module
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    dynamic: Mapping[str, Any]
    examples: tuple[tuple[Tensor, ...], ...]
    details: Mapping[str, Any] = field(default_factory=dict)
