"""Export, save, load and compile a network that takes and returns hypotheses; run as a script, without shape types."""

import sys
from pathlib import Path

import torch
from torch import nn

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


def main(folder: Path) -> None:
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
    main(Path(sys.argv[1]))
