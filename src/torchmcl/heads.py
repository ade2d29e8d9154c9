"""K hypotheses with scores on top of a network."""

import copy
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import softplus

from torchmcl.errors import check_choice, check_coordinates, check_flag, check_integer
from torchmcl.hypotheses import Hypotheses
from torchmcl.voronoi.supports import Box, Sphere, Support

__all__ = ["HypothesisHead", "Scores", "multi_hypothesis"]

Scores = Literal["sigmoid", "softmax"] | None


class HypothesisHead(nn.Module):
    """One linear projection to K points of `dim` coordinates and, where wanted, K logits and K widths.

    With `spread`, the hypotheses start as points drawn uniformly from that `Box` or from the `Sphere`, so that
    each of them begins with a cell of its own and none has to be found by chance.

    Args:
        features: The size of the last axis of the input.
        hypotheses: K.
        dim: The number of coordinates of a point.
        scores: The link of the scores, or `None` for unscored hypotheses.
        spread: Where the points start; at the initial weights of the layer if `None`.
        widths: Whether each hypothesis has a width as well, `softplus(output) + 1e-3`: positive, in the units of the
            targets, for `Hypotheses.mixture`. Scale targets to about 1, so that the least width is small.

    Example:
        >>> head = HypothesisHead(16, hypotheses=5, dim=2, widths=True)
        >>> head(torch.zeros(7, 16))
        Hypotheses(points=(7, 5, 2), logits=(7, 5), link='sigmoid', widths=(7, 5), dtype=torch.float32, device='cpu')
    """

    least_width = 1e-3

    def __init__(
        self,
        features: int,
        hypotheses: int,
        dim: int,
        scores: Scores = "sigmoid",
        spread: Box | Sphere | None = None,
        widths: bool = False,
    ) -> None:
        super().__init__()
        for name, value in (("features", features), ("hypotheses", hypotheses), ("dim", dim)):
            check_integer(name, value)
        check_choice("scores", scores, ("sigmoid", "softmax", None))
        if spread is not None and not isinstance(spread, Support):
            raise TypeError(f"spread must be a Box, a Sphere or None, got {type(spread).__name__}")
        if spread is not None and spread.dim != dim:
            raise ValueError(f"spread has {spread.dim} coordinates, the head has dim {dim}")
        check_flag("widths", widths)
        self.features, self.hypotheses, self.dim = features, hypotheses, dim
        self.scores: Scores = scores
        self.widths = widths
        self.sizes = [hypotheses * dim] + [hypotheses] * ((scores is not None) + widths)
        self.projection = nn.Linear(features, sum(self.sizes))
        if spread is not None:
            with torch.no_grad():
                self.projection.bias[: hypotheses * dim] = spread.sample((hypotheses,)).flatten()

    def forward(self, features: Float[Tensor, "*batch features"]) -> Hypotheses:
        """K hypotheses for each feature vector.

        Args:
            features: `(*batch, features)`.

        Returns:
            Hypotheses `(*batch, hypotheses, dim)`.
        """
        check_coordinates("features", features, self.features, "the head takes")
        out = self.projection(features)
        # `view` and `split_with_sizes`: `unflatten` and `split` go through Python, which small networks notice
        shape = (*out.shape[:-1], self.hypotheses, self.dim)
        if len(self.sizes) == 1:
            return Hypotheses(out.view(shape))
        points, *rest = out.split_with_sizes(self.sizes, -1)
        return Hypotheses(
            points.view(shape),
            None if self.scores is None else rest[0],
            self.scores or "sigmoid",
            softplus(rest[-1]) + self.least_width if self.widths else None,
        )

    def extra_repr(self) -> str:
        sizes = f"features={self.features}, hypotheses={self.hypotheses}, dim={self.dim}"
        return f"{sizes}, scores={self.scores!r}, widths={self.widths}"


def multi_hypothesis(
    model: nn.Module,
    hypotheses: int,
    scores: Scores = "sigmoid",
    spread: Box | Sphere | None = None,
    widths: bool = False,
) -> nn.Module:
    """A copy of `model` whose last `Linear`, which must be its output, is a head with `hypotheses` hypotheses.

    All other weights are kept, and `model` itself is left as it was.

    Args:
        model: A network from inputs to `(*batch, dim)`.
        hypotheses: K.
        scores: As in `HypothesisHead`.
        spread: As in `HypothesisHead`.
        widths: As in `HypothesisHead`.

    Returns:
        A network from the same inputs to `Hypotheses`.

    Example:
        >>> network = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 2))
        >>> multi_hypothesis(network, 5)(torch.zeros(4, 3)).points.shape
        torch.Size([4, 5, 2])
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"model must be a torch.nn.Module, got {type(model).__name__}")
    linears = [name for name, module in model.named_modules() if isinstance(module, nn.Linear)]
    if not linears:
        raise ValueError(
            f"model must contain a torch.nn.Linear as its output layer, {type(model).__name__} has none"
        )
    name = linears[-1]
    last = model.get_submodule(name)
    assert isinstance(last, nn.Linear)
    head = HypothesisHead(last.in_features, hypotheses, last.out_features, scores, spread, widths)
    head = head.to(last.weight.device, last.weight.dtype)
    if not name:
        return head
    copied = copy.deepcopy(model)
    copied.set_submodule(name, head)
    return copied
