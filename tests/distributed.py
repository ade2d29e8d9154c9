"""Compare every metric on one process with the same on two."""

from pathlib import Path

import torch
from torch import Tensor, distributed
from torchmetrics import Metric

from torchmcl.hypotheses import Hypotheses
from torchmcl.metrics import (
    CountRecall,
    Coverage,
    EarthMoversDistance,
    EnergyScore,
    NegativeLogLikelihood,
    OracleError,
    ProbabilityIntegralTransform,
    ScoreCalibration,
    WinnerHistogram,
)

PROCESSES = 2
EXACT = ("CountRecall", "WinnerHistogram", "ProbabilityIntegralTransform on a line", "never")


def accumulate(batches: list[int]) -> dict[str, Tensor]:
    metrics: list[Metric] = [EarthMoversDistance(), OracleError(), CountRecall(), WinnerHistogram(5)]
    metrics += [EnergyScore(), NegativeLogLikelihood(), ScoreCalibration()]
    line: list[Metric] = [EnergyScore(kernel="gaussian"), Coverage(0.8), ProbabilityIntegralTransform(5)]
    for batch in batches:
        random = torch.Generator().manual_seed(batch)
        size = 3 + batch
        points = torch.rand(size, 5, 2, generator=random)
        widths = 0.1 + torch.rand(size, 5, generator=random)
        hypotheses = Hypotheses(points, torch.randn(size, 5, generator=random), widths=widths)
        active = torch.rand(size, 3, generator=random) < 0.5
        for metric in metrics:
            metric.update(hypotheses, torch.rand(size, 3, 2, generator=random), active)
        flat = Hypotheses(points[..., :1], hypotheses.logits, widths=widths)
        for metric in line:
            metric.update(flat, torch.rand(size, 3, 1, generator=random), active)
    values = {type(metric).__name__: metric.compute() for metric in metrics}
    values |= {f"{type(metric).__name__} on a line": metric.compute() for metric in line}
    values |= {f"{type(metric).__name__}.std": metric.std for metric in metrics[:2]}
    values |= {"width": line[1].width, "deviation": line[2].deviation, "reliability": metrics[6].reliability}
    return values | {"entropy": metrics[3].entropy, "never": metrics[3].never}


def main(rank: int, directory: Path) -> None:
    """In one of two processes, which share an empty directory."""
    expected = accumulate(list(range(7)))
    distributed.init_process_group(
        "gloo", init_method=f"file://{directory}/store", rank=rank, world_size=PROCESSES
    )
    values = accumulate(list(range(7))[rank::PROCESSES])
    distributed.destroy_process_group()
    for name, value in expected.items():
        rounding = 0 if name in EXACT else 1e-14
        torch.testing.assert_close(
            values[name],
            value,
            rtol=rounding,
            atol=rounding,
            equal_nan=True,
            msg=lambda m, name=name: f"{name}: {m}",
        )
