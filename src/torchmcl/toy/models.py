"""The models that the toy experiment compares: networks and the losses that train them."""

from functools import partial
from typing import Literal, get_args

import torch
from torch import nn

from torchmcl.distances import squared_euclidean
from torchmcl.ensemble import StackedEnsemble, members_loss
from torchmcl.heads import HypothesisHead, Scores
from torchmcl.losses import mcl_loss, rmcl_loss
from torchmcl.toy.presets import Settings
from torchmcl.training import Loss
from torchmcl.voronoi.supports import Box

__all__ = ["ENSEMBLES", "METHODS", "NAMES", "SQUARE", "Method", "build", "loss_of"]

Method = Literal["rmcl", "rmcl_star", "smcl", "ie", "ie_mean"]

METHODS: tuple[Method, ...] = get_args(Method)

ENSEMBLES: tuple[Method, ...] = ("ie", "ie_mean")

NAMES: dict[Method, str] = {
    "rmcl": "rMCL",
    "rmcl_star": "rMCL*",
    "smcl": "sMCL",
    "ie": "IE",
    "ie_mean": "IE (mean)",
}

KINK_SLOPE = 3.0
"""Of the units of the first layer, each of which bends at a time in [0, 1], more of them near the ends: there the
distribution is furthest from uniform, and a network has neighbors on one side only."""

SQUARE = Box([-1, -1], [1, 1])
"""Where all targets lie that are not outliers."""


def build(method: Method, settings: Settings) -> nn.Module:
    """A network from times `(n, 1)` to `Hypotheses`: three layers, the last of them the head of all hypotheses.

    Args:
        method: Which model.
        settings: Sizes and starting values.

    Returns:
        The untrained network.

    >>> build("rmcl", Settings("tiny", units=8, hypotheses=5))
    Sequential(
      (0): Linear(in_features=1, out_features=8, bias=True)
      (1): ReLU()
      (2): Linear(in_features=8, out_features=8, bias=True)
      (3): ReLU()
      (4): HypothesisHead(
        features=8, hypotheses=5, dim=2, scores='sigmoid', widths=False
        (projection): Linear(in_features=8, out_features=15, bias=True)
      )
    )
    """
    if method in ENSEMBLES:
        return StackedEnsemble(
            lambda: _perceptron(settings, nn.Linear(settings.units, 2)), members=settings.hypotheses
        )
    scores: dict[Method, Scores] = {"rmcl": settings.scores, "rmcl_star": "sigmoid", "smcl": None}
    spread = SQUARE if settings.spread else None
    head = HypothesisHead(settings.units, settings.hypotheses, 2, scores=scores[method], spread=spread)
    return _perceptron(settings, head)


def loss_of(method: Method, settings: Settings) -> Loss:
    """The loss that makes the method.

    The members of `ie` learn from the nearer of two targets, as in the paper; those of `ie_mean` from all of
    them and by the squared distance, whose minimum is the conditional mean.

    Args:
        method: Which model.
        settings: Weights of the scores.

    Returns:
        A function of hypotheses, targets and active.
    """
    losses: dict[Method, Loss] = {
        "rmcl": partial(rmcl_loss, beta=settings.beta),
        "rmcl_star": partial(rmcl_loss, beta=settings.star_beta, negatives=1, reweight=settings.reweight),
        "smcl": mcl_loss,
        "ie": partial(members_loss, best_target_only=True),
        "ie_mean": partial(members_loss, best_target_only=False, distance=squared_euclidean),
    }
    return losses[method]


def _perceptron(settings: Settings, head: nn.Module) -> nn.Sequential:
    units = settings.units
    first = nn.Linear(1, units)
    if settings.kinks:
        with torch.no_grad():
            slope = torch.where(torch.rand(units) < 0.5, -KINK_SLOPE, KINK_SLOPE)
            first.weight.copy_(slope[:, None])
            bend = torch.sin(torch.pi / 2 * torch.rand(units)).square()
            first.bias.copy_(-slope * bend)
    return nn.Sequential(first, nn.ReLU(), nn.Linear(units, units), nn.ReLU(), head)
