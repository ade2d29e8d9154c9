"""A conditional neural spline flow of the package zuko."""

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from torchmcl.tabular.peers.answers import Fitted, QuantileTable

__all__ = ["spline_flow"]

Array = NDArray[np.float64]
EPOCHS, PATIENCE, HELD_OUT, SAMPLES = 100, 20, 0.1, 2000


def spline_flow(X: Array, y: Array, seed: int) -> Fitted:
    """One flow of three spline transformations, trained as the networks are; intervals are quantiles of draws."""
    import zuko

    torch.manual_seed(seed)
    center, scale = X.mean(0), X.std(0) + 1e-12
    middle, unit = y.mean(), y.std() + 1e-12

    def read(values: Array) -> Tensor:
        return torch.from_numpy((values - center) / scale).float()

    x, targets = read(X), torch.from_numpy((y - middle) / unit).float()[:, None]
    flow = zuko.flows.NSF(1, X.shape[1], transforms=3, hidden_features=(128, 128))
    _train(flow, x, targets)

    def answer(new: Array) -> QuantileTable:
        inputs = read(new)
        levels = (np.arange(SAMPLES) + 0.5) / SAMPLES
        with torch.no_grad():
            values = torch.cat([flow(part).sample((SAMPLES,))[..., 0].T for part in inputs.split(256)])
        ordered = values.double().sort(-1).values.numpy() * unit + middle

        def density(targets: Array) -> Array:
            with torch.no_grad():
                scaled = torch.from_numpy((targets - middle) / unit).float()[:, None]
                return -flow(inputs).log_prob(scaled).double().numpy() + math.log(unit)

        def ends(coverage: float) -> tuple[Array, Array]:
            low, high = np.quantile(ordered, [(1 - coverage) / 2, (1 + coverage) / 2], axis=1)
            return low, high

        return QuantileTable(levels, ordered, ends, density)

    return answer


def _train(flow: torch.nn.Module, x: Tensor, y: Tensor) -> None:
    order = torch.randperm(len(x))
    held = max(1, int(len(x) * HELD_OUT))
    validation, training = order[:held], order[held:]
    size = int(np.clip(len(training) // 20, 32, 1024))
    optimizer = torch.optim.AdamW(flow.parameters(), lr=3e-3, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, EPOCHS * math.ceil(len(training) / size))
    best, kept, since = math.inf, {name: value.clone() for name, value in flow.state_dict().items()}, 0
    for _ in range(EPOCHS):
        for rows in training[torch.randperm(len(training))].split(size):
            optimizer.zero_grad()
            (-flow(x[rows]).log_prob(y[rows]).mean()).backward()
            optimizer.step()
            schedule.step()
        with torch.no_grad():
            loss = -flow(x[validation]).log_prob(y[validation]).mean().item()
        since += 1
        if loss < best:
            best, since = loss, 0
            kept = {name: value.clone() for name, value in flow.state_dict().items()}
        if since >= PATIENCE:
            break
    flow.load_state_dict(kept)
