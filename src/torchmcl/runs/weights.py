"""Weights that may come from anybody: checked against the network before they are loaded."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file
from torch import Tensor, nn

from torchmcl.errors import UserError

__all__ = ["LARGEST_WEIGHT", "MOST_PARAMETERS", "load_weights", "single_precision"]

MOST_PARAMETERS = 200_000_000
"""Of a network that is read; the network of the paper has 1.5 million."""

LARGEST_WEIGHT = 1e6
"""Weights and statistics of trained networks stay far below."""


@contextmanager
def single_precision() -> Iterator[None]:
    """Networks are made and trained in single precision and with gradients, whatever a program has chosen for itself.

    Example:
        >>> with single_precision():
        ...     nn.Linear(1, 1).weight.dtype
        torch.float32
    """
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float32)
    try:
        with torch.inference_mode(False), torch.enable_grad():
            yield
    finally:
        torch.set_default_dtype(before)


def load_weights(network: nn.Module, path: str | Path, described: str = "config.json") -> None:
    """Read the weights of a network, checked before they are loaded.

    Args:
        network: Whose weights are replaced.
        path: A safetensors file with exactly the names, shapes and types of the network's weights, and values
            that are finite and at most a million.
        described: The file that describes the network, for the error message.
    """
    path = Path(path)
    if path.exists() and not path.is_file():
        raise UserError(f"{path}: is no file")
    expected = network.state_dict()
    try:
        with safe_open(path, framework="pt") as stream:
            shapes = {name: tuple(stream.get_slice(name).get_shape()) for name in stream.keys()}  # noqa: SIM118
        unlike = sorted(shapes.keys() ^ expected.keys())
        unlike += [name for name, value in expected.items() if shapes.get(name) != tuple(value.shape)]
        if unlike:
            raise UserError(f"{path}: {unlike[0]} is not as the network of {described} has it")
        weights = load_file(path)
    except (SafetensorError, OSError) as error:
        raise UserError(f"{path}: {str(error).splitlines()[0]}") from None
    for name, value in weights.items():
        if value.dtype != expected[name].dtype:
            raise UserError(f"{path}: {name} is {value.dtype}, must be {expected[name].dtype}")
        if not _is_plausible(name, value):
            raise UserError(f"{path}: {name} holds values that are not finite or out of all proportion")
    network.load_state_dict(weights)


def _is_plausible(name: str, value: Tensor) -> bool:
    if not value.numel():
        return True
    low, high = value.double().aminmax()
    least = 0.0 if name.endswith("running_var") else -LARGEST_WEIGHT
    most = math.inf if name.endswith("num_batches_tracked") else LARGEST_WEIGHT
    return bool(least <= low) and bool(high <= most)
