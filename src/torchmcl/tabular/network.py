"""Several perceptrons as one: the weights of all members are stacked, and each layer is one batched product."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import softplus

from torchmcl.heads import Scores
from torchmcl.hypotheses import Hypotheses

__all__ = ["ACTIVATIONS", "Periodic", "Readout", "SeparateMembers", "StackedMembers", "start_points"]

ACTIVATIONS = {"relu": nn.ReLU, "silu": nn.SiLU, "gelu": nn.GELU, "tanh": nn.Tanh}
NARROWEST = 1e-3
"""The least width of a hypothesis, in standard deviations of the targets."""
MOST_EMBEDDED = 512
"""Above so many numeric columns no embedding is used: it would cost more than the network itself."""


@dataclass(frozen=True)
class Readout:
    """How `outputs` numbers are read as K hypotheses of `dim` coordinates.

    Args:
        hypotheses: K.
        dim: Coordinates of a point.
        scores: Link of the logits, `None` for hypotheses without scores.
        widths: Whether each hypothesis has a width.
    """

    hypotheses: int
    dim: int
    scores: Scores = "softmax"
    widths: bool = True

    @property
    def outputs(self) -> int:
        """How many numbers a network must give."""
        return self.hypotheses * (self.dim + (self.scores is not None) + self.widths)

    def __call__(self, raw: Float[Tensor, "*batch outputs"]) -> Hypotheses:
        """Points first, then logits, then widths."""
        K, dim = self.hypotheses, self.dim
        points, *rest = raw.split([K * dim] + (self.outputs // K - dim) * [K], -1)
        logits = rest.pop(0) if self.scores is not None else None
        # Of a copy: a softplus of strided numbers is several times slower.
        widths = softplus(rest.pop(0).contiguous()) + NARROWEST if self.widths else None
        try:
            return Hypotheses(points.unflatten(-1, (K, dim)), logits, self.scores or "sigmoid", widths)
        except ValueError as error:
            raise ValueError(
                f"{error}: what the network gives is no number, a smaller learning_rate may help"
            ) from None


class Periodic(nn.Module):
    """Each number beside 4 learned combinations of 8 learned waves `cos(f x + b)` of it (PBLD embedding).

    Args:
        members: Networks side by side.
        features: Numbers of an input.
    """

    waves, size, spread = 8, 4, 0.2

    def __init__(self, members: int, features: int) -> None:
        super().__init__()
        self.features = features
        pairs = members * features
        self.frequency = nn.Parameter(2 * math.pi * self.spread * torch.randn(pairs, 1, self.waves))
        self.phase = nn.Parameter(_uniform(pairs, 1, self.waves) * math.pi)
        self.weight = nn.Parameter(_uniform(pairs, self.waves, self.size) / math.sqrt(self.waves))
        self.bias = nn.Parameter(torch.zeros(pairs, 1, self.size))

    @property
    def outputs(self) -> int:
        """Numbers that leave it."""
        return self.features * (1 + self.size)

    def forward(self, x: Float[Tensor, "members batch features"]) -> Float[Tensor, "members batch outputs"]:
        """The numbers, then their embeddings."""
        members, batch, features = x.shape
        # Products of small matrices are fast along a long last axis: the batch.
        columns = x.transpose(1, 2).reshape(members * features, 1, batch)
        frequency, phase, weight, bias = (
            each.transpose(1, 2) for each in (self.frequency, self.phase, self.weight, self.bias)
        )
        waves = torch.baddbmm(phase, frequency, columns).cos()
        embedded = torch.baddbmm(bias, weight, waves).view(members, features * self.size, batch)
        return torch.cat([x, embedded.transpose(1, 2)], -1)


class StackedLinear(nn.Module):
    """`nn.Linear` of each member, with its usual initial weights."""

    def __init__(self, members: int, features: int, outputs: int) -> None:
        super().__init__()
        bound = 1 / math.sqrt(features)
        self.weight = nn.Parameter(_uniform(members, features, outputs) * bound)
        self.bias = nn.Parameter(_uniform(members, 1, outputs) * bound)

    def forward(self, x: Float[Tensor, "members batch features"]) -> Float[Tensor, "members batch outputs"]:
        """One product for all members."""
        return torch.baddbmm(self.bias, x, self.weight)


class StackedMembers(nn.Module):
    """Perceptrons of one shape, trained in one pass; no member sees another.

    Args:
        members: How many.
        numeric: The first columns of an input, which are embedded.
        plain: The other columns, which are not: indicators and categories.
        hidden: Units of each hidden layer.
        activation: A key of `ACTIVATIONS`.
        readout: What the outputs mean.
        start: Where the points start, `(members, hypotheses, dim)`.

    Example:
        >>> network = StackedMembers(5, 3, 0, (16,), "relu", Readout(4, 1), torch.zeros(5, 4, 1))
        >>> network(torch.zeros(5, 7, 3)).points.shape
        torch.Size([5, 7, 4, 1])
    """

    def __init__(
        self,
        members: int,
        numeric: int,
        plain: int,
        hidden: Sequence[int],
        activation: str,
        readout: Readout,
        start: Float[Tensor, "members hypotheses dim"],
    ) -> None:
        super().__init__()
        self.members, self.numeric, self.readout = members, numeric, readout
        self.embedding = Periodic(members, numeric) if 0 < numeric <= MOST_EMBEDDED else None
        width = plain + (self.embedding.outputs if self.embedding else numeric)
        layers: list[nn.Module] = []
        for units in hidden:
            layers += [StackedLinear(members, width, units), ACTIVATIONS[activation]()]
            width = units
        self.body = nn.Sequential(*layers)
        self.head = StackedLinear(members, width, readout.outputs)
        with torch.no_grad():
            self.head.bias.zero_()
            self.head.bias[:, 0, : start[0].numel()] = start.flatten(1)

    def forward(self, x: Float[Tensor, "members batch features"]) -> Hypotheses:
        """Hypotheses `(members, batch)`, each member for its own inputs."""
        if self.embedding is not None:
            numbers = self.embedding(x[..., : self.numeric])
            x = torch.cat([numbers, x[..., self.numeric :]], -1) if x.shape[-1] > self.numeric else numbers
        return self.readout(self.head(self.body(x)))


class SeparateMembers(nn.Module):
    """Networks that a user brings, one for each member; each maps `(batch, features)` to `(batch, outputs)`."""

    def __init__(self, networks: Sequence[nn.Module], readout: Readout) -> None:
        super().__init__()
        self.networks = nn.ModuleList(networks)
        self.members, self.readout = len(networks), readout

    def forward(self, x: Float[Tensor, "members batch features"]) -> Hypotheses:
        """Hypotheses `(members, batch)`, each member for its own inputs."""
        raw: list[Any] = [network(part) for network, part in zip(self.networks, x, strict=True)]
        for each in raw:
            if not isinstance(each, Tensor) or each.shape != (x.shape[1], self.readout.outputs):
                shape = tuple(each.shape) if isinstance(each, Tensor) else type(each).__name__
                raise ValueError(
                    f"network must map inputs {(x.shape[1], x.shape[2])} to outputs "
                    f"{(x.shape[1], self.readout.outputs)}, got {shape}"
                )
        return self.readout(torch.stack(raw))


def start_points(
    targets: Float[Tensor, "rows dim"], members: int, hypotheses: int
) -> Float[Tensor, "members hypotheses dim"]:
    """Where the points start: at the quantiles of one coordinate; of several, drawn between the 1 % and 99 % ones."""
    if targets.shape[1] == 1:
        levels = (torch.arange(hypotheses) + 0.5) / hypotheses
        return _quantile(targets, levels).expand(members, hypotheses, 1)
    low, high = _quantile(targets, torch.tensor([0.01, 0.99]))
    return low + (high - low) * torch.rand(members, hypotheses, targets.shape[1])


def _quantile(values: Tensor, levels: Tensor) -> Tensor:
    # torch.quantile refuses more than 2^24 values
    ordered = values.sort(0).values
    position = levels * (len(values) - 1)
    low = position.floor().long()
    high = (low + 1).clamp(max=len(values) - 1)
    return torch.lerp(ordered[low], ordered[high], (position - low)[:, None])


def _uniform(*shape: int) -> Tensor:
    return 2 * torch.rand(*shape) - 1
