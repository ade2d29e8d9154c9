"""Checkpoints that may come from anybody: compared with the training before it goes on from them."""

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

__all__ = ["check_form", "check_optimizer"]


def check_form(found: Any, expected: Any, name: str) -> None:
    """Raise a `ValueError` unless values have the keys, types and shapes of others, and finite numbers.

    Args:
        found: Tensors and plain values, in mappings and sequences.
        expected: What they must be like.
        name: Of `found`, for the message.
    """
    if isinstance(expected, Tensor):
        if not isinstance(found, Tensor) or (found.shape, found.dtype) != (expected.shape, expected.dtype):
            raise ValueError(f"{name} is not a tensor of {expected.dtype} of shape {tuple(expected.shape)}")
        if not found.isfinite().all():
            raise ValueError(f"{name} has values that are not finite")
    elif isinstance(expected, Mapping):
        if not isinstance(found, Mapping) or found.keys() != expected.keys():
            raise ValueError(f"{name} must have {', '.join(map(str, expected)) or 'nothing'}")
        for key, value in expected.items():
            check_form(found[key], value, f"{name}.{key}")
    elif isinstance(expected, list | tuple):
        if not isinstance(found, list | tuple) or len(found) != len(expected):
            raise ValueError(f"{name} must have {len(expected)} entries")
        for index, value in enumerate(expected):
            check_form(found[index], value, f"{name}[{index}]")
    elif type(found) is not type(expected) or (isinstance(found, float) and math.isnan(found)):
        raise ValueError(f"{name} must be {type(expected).__name__}")


def check_optimizer(
    found: Any, make: Callable[[Iterable[nn.Parameter]], Optimizer], parameters: Iterable[nn.Parameter]
) -> None:
    """Raise a `ValueError` unless states are what an optimizer has after a step, with settings of its own.

    Args:
        found: Its `state_dict()`.
        make: Makes the optimizer; a step of it without gradient shows what its states are like.
        parameters: Which it changes.
    """
    copies = [nn.Parameter(each.detach().clone()) for each in parameters]
    for copy in copies:
        copy.grad = torch.zeros_like(copy)
    like = make(copies)
    like.step()
    expected = like.state_dict()
    states = expected["state"]
    check_form(found["param_groups"], expected["param_groups"], "param_groups of the optimizer")
    for own, group in zip(found["param_groups"], expected["param_groups"], strict=True):
        for key, value in group.items():
            # The rate follows the schedule.
            if (own[key] != value and key != "lr") or (key == "lr" and not 0 <= own[key] < math.inf):
                raise ValueError(f"{key} of the optimizer is {own[key]}, must be {value}")
    for index, own in found["state"].items():
        check_form(own, states[index], f"state {index} of the optimizer")
        if any(isinstance(each, Tensor) and each.ndim == 0 and each < 0 for each in own.values()):
            raise ValueError(f"state {index} of the optimizer has a negative count")
