"""Feature sharing between the networks of an ensemble."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from torchmcl.errors import check_floats, check_integer, check_number

__all__ = ["FeatureSharing"]


class FeatureSharing(nn.Module):
    r"""Each member continues with its own features plus a random part of everyone else's (Lee et al. 2017).

    .. math:: h_m + \sum_{n \ne m} \sigma_{nm} \star h_n, \qquad \sigma_{nm} \sim \mathrm{Bernoulli}(\lambda)

    The masks are drawn anew for each pair of members and each feature while training, as in dropout; they keep the
    members from becoming equal. In evaluation each mask is replaced by its expectation `keep`. A member that is
    trained on a part of the classes only learns general features through the others.

    Args:
        keep: The probability that a feature of another member is taken over; 0.7 in the paper.
        dim: The axis of the members: -2 for `(*batch, hypotheses, features)`, 1 for images
            `(batch, hypotheses, channels, height, width)`.

    Example:
        >>> features = torch.tensor([[1.0, 2.0], [10.0, 20.0]])
        >>> FeatureSharing(keep=0.5).eval()(features)
        tensor([[ 6.0000, 12.0000],
                [10.5000, 21.0000]])
    """

    def __init__(self, keep: float = 0.7, dim: int = -2) -> None:
        super().__init__()
        check_number("keep", keep, 0, 1)
        check_integer("dim", dim, least=-64, most=64)
        self.keep, self.dim = keep, dim

    def forward(self, features: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """Features of the same shape, mixed along the axis of the members."""
        check_floats("features", features)
        if not -features.ndim <= self.dim < features.ndim:
            raise ValueError(f"features has {features.ndim} axes, the members are its axis {self.dim}")
        own = features.movedim(self.dim, 0)
        if not self.training:
            return ((1 - self.keep) * own + self.keep * own.sum(0)).movedim(0, self.dim)
        members = len(own)
        masks = torch.empty(members, *own.shape, dtype=own.dtype, device=own.device).bernoulli_(self.keep)
        masks.diagonal(dim1=0, dim2=1).fill_(1.0)
        return (masks * own).sum(1).movedim(0, self.dim)

    def extra_repr(self) -> str:
        return f"keep={self.keep}, dim={self.dim}"
