"""EMD, oracle error and frame recall of a network, for each number of overlapping sources."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from torchmcl.audio.datamodule import Batch
from torchmcl.distances import Distance, great_circle
from torchmcl.hypotheses import Hypotheses
from torchmcl.metrics import WinnerHistogram
from torchmcl.transport import emd, oracle_error

__all__ = ["Evaluation", "evaluate", "only_active"]


@dataclass
class Evaluation:
    """What was found, in degrees; groups are D1, D2, D3.

    `chunks` holds, for each group and metric, the mean over active frames of each chunk that has any.
    """

    chunks: dict[str, dict[str, list[Tensor]]] = field(default_factory=dict)
    recalled: int = 0
    counted: int = 0
    empty: int = 0
    winners: Tensor | None = None

    def summary(self) -> dict[str, object]:
        """Means and sample-wise standard deviations, as plain values for JSON."""
        groups = {
            group: {name: _moments(torch.cat(parts)) for name, parts in metrics.items()}
            for group, metrics in sorted(self.chunks.items())
        }
        return {
            "groups": groups,
            "frame_recall": self.recalled / self.counted if self.counted else None,
            "frames_without_active_slot": self.empty,
            "winners": None if self.winners is None else self.winners.long().tolist(),
        }


@torch.no_grad()
def evaluate(
    network: nn.Module, batches: Iterable[Batch], *, slots: bool, distance: Distance = great_circle
) -> Evaluation:
    """Evaluate on all batches, over active frames.

    With `slots` (PIT), the hypotheses of a frame are its slots with an activity above 0.5, in equal shares;
    where there is none, the most active slot stands in, and the frame is counted.
    """
    network.eval()
    result = Evaluation()
    histogram: WinnerHistogram | None = None
    for waveform, targets, active, overlap in batches:
        hypotheses: Hypotheses = network(waveform)
        if histogram is None:
            histogram = WinnerHistogram(hypotheses.n_hypotheses, distance=distance)
        histogram.update(hypotheses, targets, active)
        _count(result, hypotheses, active, slots)
        if slots:
            hypotheses, empty = only_active(hypotheses)
            result.empty += int((empty & active.any(-1)).sum())
        values = {
            "emd": emd(hypotheses, targets, active, distance=distance),
            "oracle": oracle_error(_weighed(hypotheses), targets, active, distance=distance),
        }
        for group in overlap[active.any(-1)].unique().tolist():
            for name, value in values.items():
                chunk = value.masked_fill(overlap != group, torch.nan).nanmean(-1).rad2deg()
                kept = result.chunks.setdefault(f"D{group}", {}).setdefault(name, [])
                kept.append(chunk[~chunk.isnan()].double())
    result.winners = None if histogram is None else histogram.compute()
    return result


def only_active(hypotheses: Hypotheses) -> tuple[Hypotheses, Tensor]:
    """The slots with an activity above 0.5 in equal shares, or the most active one, and where that is so."""
    assert hypotheses.logits is not None
    logits = hypotheses.logits
    on = logits > 0
    empty = ~on.any(-1)
    best = torch.zeros_like(on).scatter(-1, logits.argmax(-1, keepdim=True), True)
    on = torch.where(empty[..., None], best, on)
    shares = torch.zeros_like(logits).masked_fill(~on, -torch.inf)
    return Hypotheses(hypotheses.points, shares, "softmax"), empty


def _weighed(hypotheses: Hypotheses) -> Hypotheses:
    """Hypotheses that are switched off may not answer: they are moved onto the most probable one."""
    probs = hypotheses.probs
    best = hypotheses.points.take_along_dim(probs.argmax(-1)[..., None, None], -2)
    return Hypotheses(torch.where((probs > 0)[..., None], hypotheses.points, best))


def _count(result: Evaluation, hypotheses: Hypotheses, active: Tensor, slots: bool) -> None:
    if hypotheses.logits is None or hypotheses.link != "sigmoid":
        return
    count = (hypotheses.logits > 0).sum(-1) if slots else hypotheses.count.round().long()
    result.recalled += int((count == active.sum(-1)).sum())
    result.counted += count.numel()


def _moments(values: Tensor) -> dict[str, float | int]:
    deviation = values.std(correction=0).item() if len(values) else math.nan
    return {"mean": values.mean().item(), "std": deviation, "chunks": len(values)}
