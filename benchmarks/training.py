"""A training step with the losses of MCL, against the same network with a mean squared error."""

import torch
from torch import nn
from torch.nn.functional import mse_loss

from benchmarks import Row, medians, show, training_step
from torchmcl import HypothesisHead, rmcl_loss

__all__ = ["rows"]

BATCH = 1024
LIMITS = {"all negatives": 1.10, "one sampled negative": 1.15, "softmax link": None}


def rows() -> list[Row]:
    """The paper's perceptron (3 layers of 256 units), 2 targets in the plane, 20 and 1,000 hypotheses."""
    return _rows(20, LIMITS, repetitions=300) + _rows(1000, {"all negatives": 2.0}, repetitions=15)


def _rows(hypotheses: int, limits: dict[str, float | None], repetitions: int) -> list[Row]:
    inputs, targets = torch.rand(BATCH, 1), torch.rand(BATCH, 2, 2) * 2 - 1
    active = torch.rand(BATCH, 2) < 0.75
    values = torch.rand(BATCH, hypotheses * 3)
    calls = {
        "mse": training_step(
            nn.Linear(256, hypotheses * 3), inputs, lambda outputs: mse_loss(outputs, values)
        ),
        "all negatives": training_step(
            HypothesisHead(256, hypotheses, 2), inputs, lambda h: rmcl_loss(h, targets, active)
        ),
        "one sampled negative": training_step(
            HypothesisHead(256, hypotheses, 2), inputs, lambda h: rmcl_loss(h, targets, active, negatives=1)
        ),
        "softmax link": training_step(
            HypothesisHead(256, hypotheses, 2, scores="softmax"),
            inputs,
            lambda h: rmcl_loss(h, targets, active),
        ),
    }
    seconds = medians({name: calls[name] for name in ("mse", *limits)}, repetitions)
    return [
        Row(
            f"step with rmcl_loss, K = {hypotheses}, {name}, over one with MSE",
            seconds[name],
            seconds["mse"],
            seconds[name] / seconds["mse"],
            limit,
        )
        for name, limit in limits.items()
    ]


if __name__ == "__main__":
    show(rows())
