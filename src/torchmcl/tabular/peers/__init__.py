"""What a person would use instead: the opponents of the study on real tables."""

from collections.abc import Callable
from dataclasses import dataclass

from torchmcl.errors import UserError
from torchmcl.tabular.peers import boosting, flow, neural, ours
from torchmcl.tabular.peers.answers import Answer, Fitted

__all__ = ["OURS", "PEERS", "Answer", "Fitted", "Peer", "peer_named"]


@dataclass(frozen=True)
class Peer:
    """A method of the study: its title, and how it is trained on `X`, `y` and a seed."""

    title: str
    fit: Callable[..., Fitted]


OURS = "torchmcl"

PEERS = {
    OURS: Peer("torchmcl", ours.default),
    "mdn": Peer("MDN x 5", neural.mixture_density),
    "control": Peer("MDN x 5 with embedding, EMA and rate of ours", neural.control),
    "gaussian": Peer("Gaussian deep ensemble x 5", neural.gaussian),
    "ngboost": Peer("NGBoost, Normal, 500 trees", boosting.natural_gradient),
    "flow": Peer("zuko, neural spline flow", flow.spline_flow),
    "quantiles": Peer("LightGBM quantiles, conformal", boosting.quantiles),
}
"""The peers by the name that `torchmcl tables --peers` knows."""


def peer_named(name: str) -> Peer:
    """The peer of that name; a `UserError` lists the names."""
    if name not in PEERS:
        raise UserError(f"--peers {name}: must be one of {', '.join(PEERS)}")
    return PEERS[name]
