"""Compare every metric on one process with the same on two: run twice, with a rank and an empty directory."""

import sys

import torch
from torch import Tensor, distributed
from torchmetrics import Metric

from torchmcl.hypotheses import Hypotheses
from torchmcl.metrics import CountRecall, EarthMoversDistance, OracleError, WinnerHistogram

PROCESSES = 2


def accumulate(batches: list[int]) -> dict[str, Tensor]:
    metrics: list[Metric] = [EarthMoversDistance(), OracleError(), CountRecall(), WinnerHistogram(5)]
    for batch in batches:
        random = torch.Generator().manual_seed(batch)
        size = 3 + batch
        points = torch.rand(size, 5, 2, generator=random)
        hypotheses = Hypotheses(points, torch.randn(size, 5, generator=random))
        active = torch.rand(size, 3, generator=random) < 0.5
        for metric in metrics:
            metric.update(hypotheses, torch.rand(size, 3, 2, generator=random), active)
    values = {type(metric).__name__: metric.compute() for metric in metrics}
    values |= {f"{type(metric).__name__}.std": metric.std for metric in metrics[:2]}
    return values | {"entropy": metrics[3].entropy, "never": metrics[3].never}


def main() -> None:
    rank, directory = int(sys.argv[1]), sys.argv[2]
    torch.set_num_threads(1)
    expected = accumulate(list(range(7)))
    distributed.init_process_group(
        "gloo", init_method=f"file://{directory}/store", rank=rank, world_size=PROCESSES
    )
    values = accumulate(list(range(7))[rank::PROCESSES])
    distributed.destroy_process_group()
    for name, value in expected.items():
        rounding = 1e-14 if name.endswith(".std") else 0
        torch.testing.assert_close(
            values[name], value, rtol=rounding, atol=0, msg=lambda m, name=name: f"{name}: {m}"
        )
    print("equal:", *expected)


if __name__ == "__main__":
    main()
