"""K hypotheses with scores on top of a network."""

import copy
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from torchmcl.hypotheses import Hypotheses
from torchmcl.voronoi.supports import Box, Sphere

__all__ = ["HypothesisHead", "Scores", "multi_hypothesis"]

Scores = Literal["sigmoid", "softmax"] | None


class HypothesisHead(nn.Module):
    """One linear projection to K points of `dim` coordinates and, unless `scores` is `None`, K logits.

    With `spread`, the hypotheses start as points drawn uniformly from that `Box` or from the `Sphere`, so that
    each of them begins with a cell of its own and none has to be found by chance.

    >>> head = HypothesisHead(16, hypotheses=5, dim=2)
    >>> head(torch.zeros(7, 16)).points.shape
    torch.Size([7, 5, 2])
    """

    def __init__(
        self,
        features: int,
        hypotheses: int,
        dim: int,
        scores: Scores = "sigmoid",
        spread: Box | Sphere | None = None,
    ) -> None:
        super().__init__()
        for name, value in (("features", features), ("hypotheses", hypotheses), ("dim", dim)):
            if value < 1:
                raise ValueError(f"{name} must be at least 1, got {value}")
        if scores not in ("sigmoid", "softmax", None):
            raise ValueError(f"scores must be 'sigmoid', 'softmax' or None, got {scores!r}")
        if spread is not None and spread.dim != dim:
            raise ValueError(f"spread has {spread.dim} coordinates, the head has dim {dim}")
        self.features, self.hypotheses, self.dim, self.scores = features, hypotheses, dim, scores
        self.projection = nn.Linear(features, hypotheses * (dim + (scores is not None)))
        if spread is not None:
            with torch.no_grad():
                self.projection.bias[: hypotheses * dim] = spread.sample((hypotheses,)).flatten()

    def forward(self, features: Float[Tensor, "*batch features"]) -> Hypotheses:
        """K hypotheses for each feature vector."""
        out = self.projection(features)
        # `view` and `split_with_sizes`: `unflatten` and `split` go through Python, which small networks notice
        shape = (*out.shape[:-1], self.hypotheses, self.dim)
        if self.scores is None:
            return Hypotheses(out.view(shape))
        points, logits = out.split_with_sizes((self.hypotheses * self.dim, self.hypotheses), -1)
        return Hypotheses(points.view(shape), logits, link=self.scores)

    def extra_repr(self) -> str:
        return (
            f"features={self.features}, hypotheses={self.hypotheses}, dim={self.dim}, scores={self.scores!r}"
        )


def multi_hypothesis(
    model: nn.Module, hypotheses: int, scores: Scores = "sigmoid", spread: Box | Sphere | None = None
) -> nn.Module:
    """A copy of `model` whose last `Linear`, which must be its output, is a head with `hypotheses` hypotheses.

    All other weights are kept, and `model` itself is left as it was.

    >>> network = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 2))
    >>> multi_hypothesis(network, 5)(torch.zeros(4, 3)).points.shape
    torch.Size([4, 5, 2])
    """
    linears = [name for name, module in model.named_modules() if isinstance(module, nn.Linear)]
    if not linears:
        raise ValueError(
            f"model must contain a torch.nn.Linear as its output layer, {type(model).__name__} has none"
        )
    name = linears[-1]
    last = model.get_submodule(name)
    assert isinstance(last, nn.Linear)
    head = HypothesisHead(last.in_features, hypotheses, last.out_features, scores, spread)
    head = head.to(last.weight.device, last.weight.dtype)
    if not name:
        return head
    copied = copy.deepcopy(model)
    copied.set_submodule(name, head)
    return copied
