"""The exact EMD of many frames at once, against loops over the solvers of POT and OpenCV."""

import cv2
import numpy as np
import ot
import torch

from benchmarks import Row, medians, show
from torchmcl import Hypotheses, emd
from torchmcl.distances import cost_matrix
from torchmcl.transport import transport_cost

__all__ = ["rows"]

FRAMES = 10_000
LOOPED = 1_000
REPETITIONS = 15
LIMITS = {
    (5, "emd", "ot.emd2"): 100.0,
    (5, "emd", "cv2.EMD"): 5.0,
    (5, "transport_cost", "cv2.EMD"): None,
    (20, "emd", "ot.emd2"): 10.0,
    (20, "emd", "cv2.EMD"): 1.5,
    (20, "transport_cost", "cv2.EMD"): None,
}


def rows() -> list[Row]:
    """Per 1,000 frames with 1, 2 or 3 targets in turn; `ratio` is how many times faster ours is.

    The loops are given the costs and run over the first frames only. `emd` computes its costs and weights from
    points and logits; `transport_cost` is given them, as the loops are.
    """
    return [row for n_hypotheses in (5, 20) for row in _rows(n_hypotheses)]


def _rows(n_hypotheses: int) -> list[Row]:
    random = torch.Generator().manual_seed(n_hypotheses)
    points = torch.rand(FRAMES, n_hypotheses, 2, generator=random)
    hypotheses = Hypotheses(points, torch.randn(FRAMES, n_hypotheses, generator=random))
    targets = torch.rand(FRAMES, 3, 2, generator=random)
    active = torch.arange(3) <= torch.arange(FRAMES)[:, None] % 3
    cost, probs, mass = cost_matrix(points, targets, active)[0], hypotheses.probs, active.float()
    single = [
        (np.full((m, 1), 1 / m, np.float32), probs[i, :, None].numpy(), cost[i, :m].numpy())
        for i, m in enumerate(active[:LOOPED].sum(-1).tolist())
    ]
    double = [
        (w[:, 0].astype(float), p[:, 0].astype(float) / p.astype(float).sum(), c.astype(float))
        for w, p, c in single
    ]
    seconds = medians(
        {
            "emd": lambda: emd(hypotheses, targets, active),
            "transport_cost": lambda: transport_cost(cost, mass, probs),
            "ot.emd2": lambda: [ot.emd2(w, p, c) for w, p, c in double],
            "cv2.EMD": lambda: [cv2.EMD(w, p, cv2.DIST_USER, c)[0] for w, p, c in single],
        },
        REPETITIONS,
    )
    scaled = {name: value * 1000 / (LOOPED if "." in name else FRAMES) for name, value in seconds.items()}
    return [
        Row(
            f"{ours} of 1,000 frames, K = {k}, times faster than a loop over {other}",
            scaled[ours],
            scaled[other],
            scaled[other] / scaled[ours],
            limit,
            at_most=False,
        )
        for (k, ours, other), limit in LIMITS.items()
        if k == n_hypotheses
    ]


if __name__ == "__main__":
    show(rows())
