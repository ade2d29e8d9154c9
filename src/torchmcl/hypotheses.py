"""What every model returns: K points with scores, read as a conditional distribution."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, get_args

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import logsigmoid

from torchmcl.distances import euclidean

if TYPE_CHECKING:
    from torchmcl.density import Law, VoronoiMixture

__all__ = ["Distance", "Hypotheses", "Link"]
