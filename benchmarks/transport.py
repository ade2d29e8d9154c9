"""The exact EMD of many frames at once, against loops over the solvers of POT and OpenCV."""

import statistics
import time
from collections.abc import Callable

import cv2
import numpy as np
import ot
import torch

from torchmcl import Hypotheses, emd
from torchmcl.distances import cost_matrix
from torchmcl.transport import transport_cost

__all__ = ["rows"]

FRAMES = 10_000
LOOPED = 1_000
REPETITIONS = 9
LIMITS = {(5, "ot.emd2"): 100.0, (5, "cv2.EMD"): 5.0, (20, "ot.emd2"): 10.0, (20, "cv2.EMD"): 1.5}


def rows() -> list[dict[str, str | float]]:
    """Seconds a frame, medians of interleaved repetitions; `ratio` is how many times faster.

    Frames have 1, 2 or 3 targets in turn. The loops are given the costs and run over the first frames only.
    Against POT stands `emd`, which computes its costs; against OpenCV `transport_cost`, which is given them.
    One thread on both sides, as a loop cannot use more.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return [row for n_hypotheses in (5, 20) for row in _rows(n_hypotheses)]
    finally:
        torch.set_num_threads(threads)


def _rows(n_hypotheses: int) -> list[dict[str, str | float]]:
    random = torch.Generator().manual_seed(n_hypotheses)
    points = torch.rand(FRAMES, n_hypotheses, 2, generator=random)
    hypotheses = Hypotheses(points, torch.randn(FRAMES, n_hypotheses, generator=random))
    targets = torch.rand(FRAMES, 3, 2, generator=random)
    active = torch.arange(3) <= torch.arange(FRAMES)[:, None] % 3
    cost, probs, mass = cost_matrix(points, targets, active)[0], hypotheses.probs, active.float()
    sizes = active[:LOOPED].sum(-1).tolist()
    single = list(zip(sizes, probs[:LOOPED].numpy(), cost[:LOOPED].numpy(), strict=True))
    double = [(m, p.astype(float) / p.astype(float).sum(), c.astype(float)) for m, p, c in single]
    seconds = _time(
        {
            "emd": (FRAMES, lambda: emd(hypotheses, targets, active)),
            "transport_cost": (FRAMES, lambda: transport_cost(cost, mass, probs)),
            "ot.emd2": (LOOPED, lambda: [ot.emd2(np.full(m, 1 / m), p, c[:m]) for m, p, c in double]),
            "cv2.EMD": (LOOPED, lambda: [_cv2(m, p, c) for m, p, c in single]),
        }
    )
    return [
        {
            "name": f"{ours}, {n_hypotheses} hypotheses, against a loop over {other}",
            "ours": seconds[ours],
            "other": seconds[other],
            "ratio": seconds[other] / seconds[ours],
            "limit": LIMITS[n_hypotheses, other],
        }
        for ours, other in (("emd", "ot.emd2"), ("transport_cost", "cv2.EMD"))
    ]


def _cv2(targets: int, probs: np.ndarray, cost: np.ndarray) -> float:
    shares = np.full((targets, 1), 1 / targets, np.float32)
    return cv2.EMD(shares, probs[:, None], cv2.DIST_USER, cost[:targets])[0]


def _time(calls: dict[str, tuple[int, Callable[[], object]]]) -> dict[str, float]:
    """The median time of each call per frame, all of them once in every repetition."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(REPETITIONS):
        for name, (frames, call) in calls.items():
            start = time.perf_counter()
            call()
            times[name].append((time.perf_counter() - start) / frames)
    return {name: statistics.median(values) for name, values in times.items()}


if __name__ == "__main__":
    for row in rows():
        print(
            f"{row['name']}: {row['ours'] * 1e6:.2f} against {row['other'] * 1e6:.2f} µs a frame, "
            f"{row['ratio']:.1f} times as fast (at least {row['limit']:g})"
        )
