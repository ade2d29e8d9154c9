"""A training step with the proper scores, against the same network with a mean squared error; and the toy by one."""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn.functional import mse_loss

from benchmarks import Row, medians, show, training_step
from torchmcl import HypothesisHead, energy_loss, likelihood_loss, mixture_energy_loss
from torchmcl.hypotheses import Hypotheses
from torchmcl.toy.evaluate import exact_emd, predict
from torchmcl.toy.models import build
from torchmcl.toy.presets import SCHEDULES, TUNED
from torchmcl.toy.train import FreshBatches
from torchmcl.training import Optimization, fit

__all__ = ["rows"]

BATCH = 1024
REPETITIONS = 200


def rows() -> list[Row]:
    """The 256-unit perceptron with one target for each input.

    The last row holds the noise-free EMD of the toy trained with the energy score alone; its columns are the EMD over
    1,000, so that the table shows the EMD, beside the floor.
    """
    return [
        _step_row("energy_loss, K = 20, D = 2", 20, 2, energy_loss, 1.15),
        _step_row("energy_loss, K = 200, D = 1", 200, 1, energy_loss, 1.5),
        _step_row("energy_loss, K = 20, D = 1", 20, 1, energy_loss, None),
        _step_row("mixture_energy_loss, K = 10, D = 1", 10, 1, mixture_energy_loss, None),
        _step_row("the loss of tables, K = 10, D = 1", 10, 1, _tables, None),
        _toy_row(),
    ]


def _tables(hypotheses: Hypotheses, targets: Tensor) -> Tensor:
    return mixture_energy_loss(hypotheses, targets) + 0.5 * likelihood_loss(hypotheses, targets)


def _step_row(name: str, hypotheses: int, dim: int, loss: Callable[..., Tensor], limit: float | None) -> Row:
    inputs, targets = torch.rand(BATCH, 1), torch.rand(BATCH, 1, dim)
    widths = loss is not energy_loss
    outputs = hypotheses * (dim + 1 + widths)
    values = torch.rand(BATCH, outputs)
    head = HypothesisHead(256, hypotheses, dim, scores="softmax", widths=widths)
    calls = {
        "mse": training_step(nn.Linear(256, outputs), inputs, lambda answer: mse_loss(answer, values)),
        "ours": training_step(head, inputs, lambda answer: loss(answer, targets)),
    }
    seconds = medians(calls, REPETITIONS)
    ratio = seconds["ours"] / seconds["mse"]
    return Row(f"step with {name}, over one with MSE", seconds["ours"], seconds["mse"], ratio, limit)


def _toy_row() -> Row:
    """The preset `tuned` with the energy score in place of rMCL: 20 epochs of 100,000 samples, seed 0."""
    optimization = Optimization(
        epochs=TUNED.epochs,
        learning_rate=TUNED.learning_rate,
        weight_decay=TUNED.weight_decay,
        schedule=SCHEDULES[TUNED.schedule],
        keep="last",
    )
    make = partial(build, "rmcl", TUNED)
    network = fit(make, energy_loss, FreshBatches(TUNED, 0), seed=0, optimization=optimization).network
    t = torch.linspace(0, 1, 50, dtype=torch.float64)
    value = exact_emd(predict(network, t), t).mean().item()
    return Row("toy by the energy score alone: EMD", value * 1e-3, 0.1568e-3, value, 0.166)


if __name__ == "__main__":
    torch.set_num_threads(1)
    show(rows())
