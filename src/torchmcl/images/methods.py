"""The five methods on equal terms: the same networks, the same steps, different losses."""

from dataclasses import dataclass
from functools import partial

from torch import Tensor

from torchmcl.classification import class_targets, cmcl_loss
from torchmcl.distances import cross_entropy
from torchmcl.ensemble import members_loss
from torchmcl.hypotheses import Hypotheses, Link
from torchmcl.losses import mcl_loss, rmcl_loss
from torchmcl.training import Loss

__all__ = ["METHODS", "Method", "loss_of"]


@dataclass(frozen=True)
class Method:
    """A row of the table: its name, the link of its scores (`None` without scores) and its loss.

    The loss is a function of hypotheses, targets that are class probabilities, and active.
    """

    name: str
    link: Link | None
    loss: Loss


def loss_of(method: Method) -> Loss:
    """The loss of a method as a function of hypotheses, integer labels and active."""

    def loss(hypotheses: Hypotheses, labels: Tensor, active: Tensor | None) -> Tensor:
        return method.loss(hypotheses, *class_targets(hypotheses, labels, active))

    return loss


BETA = 0.75

METHODS = {
    "ensemble": Method("ensemble", None, partial(members_loss, distance=cross_entropy)),
    "smcl": Method("sMCL", None, partial(mcl_loss, distance=cross_entropy)),
    "cmcl": Method("CMCL", None, partial(cmcl_loss, beta=BETA)),
    "vmcl": Method("vMCL", "softmax", partial(rmcl_loss, distance=cross_entropy)),
    "rmcl": Method("rMCL", "sigmoid", partial(rmcl_loss, distance=cross_entropy)),
}
