"""Networks that predict a Gaussian mixture and are trained by its likelihood, five of them one after another."""

import math
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import softplus

from torchmcl.tabular.network import Periodic
from torchmcl.tabular.peers.answers import Fitted, GaussianMixture

__all__ = ["control", "gaussian", "mixture_density"]

Array = NDArray[np.float64]
EPOCHS, PATIENCE, HELD_OUT, UNITS, NETWORKS = 100, 20, 0.1, 128, 5


class MixtureDensityNetwork(nn.Module):
    """A perceptron 128-128 to the log-weights, means and widths of a mixture."""

    def __init__(self, features: int, components: int, embedded: bool) -> None:
        super().__init__()
        self.embedding = Periodic(1, features) if embedded else None
        width = features if self.embedding is None else self.embedding.outputs
        self.layers = nn.Sequential(
            nn.Linear(width, UNITS), nn.ReLU(), nn.Linear(UNITS, UNITS), nn.ReLU(), nn.Linear(UNITS, 3 * components)
        )  # fmt: skip

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Log-weights, means and widths."""
        if self.embedding is not None:
            x = self.embedding(x[None])[0]
        logits, means, widths = self.layers(x).chunk(3, -1)
        return logits.log_softmax(-1), means, softplus(widths) + 1e-3


def negative_log_likelihood(mixture: tuple[Tensor, Tensor, Tensor], y: Tensor) -> Tensor:
    """The mean over the rows."""
    log_weights, means, widths = mixture
    z = (y[:, None] - means) / widths
    return -(log_weights - 0.5 * z**2 - widths.log() - 0.5 * math.log(2 * math.pi)).logsumexp(-1).mean()


def train(
    x: Tensor, y: Tensor, seed: int, *, components: int, embedded: bool, average: bool, rate: float
) -> nn.Module:
    """One network: AdamW with a cosine schedule; the epoch with the best held-out likelihood is kept."""
    torch.manual_seed(seed)
    order = torch.randperm(len(x))
    held = max(1, int(len(x) * HELD_OUT))
    validation, training = order[:held], order[held:]
    network = MixtureDensityNetwork(x.shape[1], components, embedded)
    parameters = list(network.parameters())
    size = int(np.clip(len(training) // 20, 32, 1024))
    steps = EPOCHS * math.ceil(len(training) / size)
    optimizer = torch.optim.AdamW(parameters, lr=rate, weight_decay=0.01, fused=True)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    averaged = torch.optim.swa_utils.AveragedModel(network, avg_fn=_moving_average) if average else None
    judged = network if averaged is None else averaged.module
    best, kept, since = math.inf, {name: v.clone() for name, v in judged.state_dict().items()}, 0
    for _ in range(EPOCHS):
        for rows in training[torch.randperm(len(training))].split(size):
            optimizer.zero_grad()
            negative_log_likelihood(network(x[rows]), y[rows]).backward()
            optimizer.step()
            schedule.step()
            if averaged is not None:
                averaged.update_parameters(network)
        with torch.no_grad():
            loss = negative_log_likelihood(judged(x[validation]), y[validation]).item()
        since += 1
        if loss < best:
            best, since = loss, 0
            kept = {name: value.clone() for name, value in judged.state_dict().items()}
        if since >= PATIENCE:
            break
    judged.load_state_dict(kept)
    return judged.eval()


def _moving_average(average: Tensor, current: Tensor, count: Tensor | int) -> Tensor:
    decay = min(0.99, (1 + int(count)) / (10 + int(count)))
    return torch.lerp(current, average, decay)


def fit(
    X: Array,
    y: Array,
    seed: int,
    *,
    components: int,
    embedded: bool = False,
    average: bool = False,
    rate: float = 3e-3,
) -> Fitted:
    """Five networks with seeds of their own on standardized data; their mixtures are averaged."""
    center, scale = X.mean(0), X.std(0) + 1e-12
    middle, unit = y.mean(), y.std() + 1e-12

    def read(values: Array) -> Tensor:
        return torch.from_numpy((values - center) / scale).float()

    x, targets = read(X), torch.from_numpy((y - middle) / unit).float()
    one = partial(train, components=components, embedded=embedded, average=average, rate=rate)
    networks = [one(x, targets, NETWORKS * seed + index) for index in range(NETWORKS)]

    def answer(new: Array) -> GaussianMixture:
        with torch.no_grad():
            parts = [network(read(new)) for network in networks]
        log_weights, means, widths = (
            torch.cat(each, -1).double().numpy() for each in zip(*parts, strict=True)
        )
        return GaussianMixture(np.exp(log_weights) / NETWORKS, means * unit + middle, widths * unit)

    return answer


mixture_density = partial(fit, components=10)
control = partial(fit, components=10, embedded=True, average=True, rate=5e-3)
gaussian = partial(fit, components=1)
