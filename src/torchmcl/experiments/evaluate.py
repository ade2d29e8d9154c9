"""EMD, oracle error and frame recall of a network, for each number of overlapping sources."""

from collections.abc import Iterable
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from torchmcl.audio.datamodule import Batch
from torchmcl.distances import Distance, great_circle
from torchmcl.hypotheses import Hypotheses
from torchmcl.metrics import WinnerHistogram
from torchmcl.transport import emd, oracle_error

__all__ = ["DirectionErrors", "ErrorSummary", "Moments", "evaluate", "only_active"]


@dataclass(frozen=True)
class Moments:
    """Mean and standard deviation over chunks.

    Args:
        mean: In degrees.
        std: In degrees.
        chunks: Their number.
    """

    mean: float
    std: float
    chunks: int


@dataclass(frozen=True)
class ErrorSummary:
    """The errors of a network on one set of recordings.

    Args:
        groups: For D1, D2, D3 the metrics `emd` and `oracle`.
        frame_recall: The share of frames whose number of sources is right; `None` without scores.
        frames_without_active_slot: For PIT.
        winners: How often each hypothesis is the nearest to a target.
    """

    groups: dict[str, dict[str, Moments]]
    frame_recall: float | None
    frames_without_active_slot: int
    winners: list[int] | None

    def __post_init__(self) -> None:
        for group, metrics in self.groups.items():
            if missing := {"emd", "oracle"} - metrics.keys():
                raise ValueError(f"groups.{group}.{min(missing)} is missing")
        if min(self.winners or [0]) < 0:
            raise ValueError("winners must be counts")


@dataclass
class DirectionErrors:
    """Errors while they are accumulated.

    Args:
        chunks: For each group (D1, D2, D3) and metric, the mean over active frames of each chunk that has any, in
            degrees.
        recalled: Frames whose number of sources is right.
        counted: Frames.
        empty: Frames without an active slot, for PIT.
        winners: How often each hypothesis is the nearest to a target.
    """

    chunks: dict[str, dict[str, list[Tensor]]] = field(default_factory=dict)
    recalled: int = 0
    counted: int = 0
    empty: int = 0
    winners: Tensor | None = None

    def summary(self) -> ErrorSummary:
        """Means and sample-wise standard deviations."""
        groups = {
            group: {name: _moments(torch.cat(parts)) for name, parts in metrics.items()}
            for group, metrics in sorted(self.chunks.items())
        }
        return ErrorSummary(
            groups=groups,
            frame_recall=self.recalled / self.counted if self.counted else None,
            frames_without_active_slot=self.empty,
            winners=None if self.winners is None else self.winners.long().reshape(-1).tolist(),
        )


@torch.no_grad()
def evaluate(
    network: nn.Module, batches: Iterable[Batch], *, slots: bool, distance: Distance = great_circle
) -> DirectionErrors:
    """Evaluate on all batches, over active frames.

    Args:
        network: From waveforms to `Hypotheses`.
        batches: Of an `AudioDataModule`.
        slots: For PIT: the hypotheses of a frame are its slots with an activity above 0.5, in equal shares; where there
            is none, the most active slot is taken, and the frame is counted.
        distance: In radians.

    Returns:
        The errors of all chunks.
    """
    network.eval()
    result = DirectionErrors()
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
    """The slots of PIT with an activity above 0.5, in equal shares.

    Args:
        hypotheses: With logits.

    Returns:
        The hypotheses, with only the most active slot where none is above 0.5, and where that is so.
    """
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


def _count(result: DirectionErrors, hypotheses: Hypotheses, active: Tensor, slots: bool) -> None:
    if hypotheses.logits is None or hypotheses.link != "sigmoid":
        return
    count = (hypotheses.logits > 0).sum(-1) if slots else hypotheses.count.round().long()
    result.recalled += int((count == active.sum(-1)).sum())
    result.counted += count.numel()


def _moments(values: Tensor) -> Moments:
    return Moments(values.mean().item(), values.std(correction=0).item(), len(values))
