"""Compile every loss, export and compile a network of hypotheses, and compare each with itself; run as a script."""

import sys
import warnings
from pathlib import Path

import torch
from torch import nn

from cases import losses, problem
from torchmcl.heads import HypothesisHead
from torchmcl.hypotheses import Hypotheses


class Network(nn.Module):
    """A head, and a reader of hypotheses."""

    def __init__(self, link: str) -> None:
        super().__init__()
        self.head = HypothesisHead(3, hypotheses=5, dim=2, scores=link, widths=True)

    def forward(self, features: torch.Tensor, earlier: Hypotheses) -> Hypotheses:
        here = self.head(features)
        return Hypotheses(here.points + earlier.mean[..., None, :], here.logits, here.link, here.widths)


def compile_losses() -> None:
    points, logits, targets, active = problem(6, 3, 5, 2, seed=9)
    points, logits = points.detach().float().requires_grad_(), logits.detach().float().requires_grad_()
    for name, loss in losses().items():
        compiled = torch.compile(loss, backend="aot_eager", fullgraph=True)
        values = []
        for call in (compiled, loss):
            torch.manual_seed(0)
            value = call(points, logits, targets.float(), active)
            values.append(
                (
                    value,
                    *torch.autograd.grad(value, [points, logits], materialize_grads=True, allow_unused=True),
                )
            )
        for ours, theirs in zip(*values, strict=True):
            torch.testing.assert_close(ours, theirs)
        print(name)


def export_networks(folder: Path) -> None:
    for link in ("sigmoid", "softmax"):
        network = Network(link)
        inputs = (
            torch.randn(4, 3),
            Hypotheses(torch.randn(4, 5, 2), torch.randn(4, 5), link, torch.rand(4, 5)),
        )
        torch.export.save(torch.export.export(network, inputs), folder / "network.pt2")
        exported = torch.export.load(folder / "network.pt2").module()
        compiled = torch.compile(network, backend="eager", fullgraph=True)
        for name, call in (("exported", exported), ("compiled", compiled)):
            answer, expected = call(*inputs), network(*inputs)
            assert isinstance(answer, Hypotheses)
            assert answer.link == link
            for part in ("points", "logits", "widths"):
                torch.testing.assert_close(getattr(answer, part), getattr(expected, part))
            print(link, name)


if __name__ == "__main__":
    with warnings.catch_warnings(action="error"):
        export_networks(Path(sys.argv[1]))
    compile_losses()
