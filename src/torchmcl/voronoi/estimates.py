"""Values that are known up to a standard error."""

from typing import NamedTuple

import torch
from torch import Tensor

__all__ = ["Estimate"]


class Estimate(NamedTuple):
    """A value and its standard error, which is 0 where the value is exact.

    >>> Estimate(torch.tensor(1.0), torch.tensor(0.1)).to(torch.float64).value.dtype
    torch.float64
    """

    value: Tensor
    error: Tensor

    def to(self, dtype: torch.dtype) -> "Estimate":
        """Both in another dtype."""
        return Estimate(self.value.to(dtype), self.error.to(dtype))
