"""SELDNet: what the losses cost on it, what its order of layers and of memory saves, and its evaluation."""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn
from torch.nn.functional import mse_loss

from benchmarks import Row, medians, show
from torchmcl import great_circle, rmcl_loss, transport_loss
from torchmcl.audio.datamodule import Batch
from torchmcl.audio.features import StftFeatures
from torchmcl.audio.seldnet import SELDNet
from torchmcl.experiments.build import build_network
from torchmcl.experiments.compose import compose_config
from torchmcl.experiments.evaluate import evaluate
from torchmcl.hypotheses import Hypotheses

__all__ = ["rows"]

BATCH = 32
REPETITIONS = 7
FRAMES = 100_000


def rows() -> list[Row]:
    """Steps of the paper's network on 32 chunks at 44.1 kHz; `evaluate` on 100,000 frames against real time."""
    return [*_losses(), _layers(), _evaluation()]


class _Plain(nn.Module):
    """The same layers as the sources of SELDNet write them: ReLU before the pooling, channels first."""

    def __init__(self, network: SELDNet) -> None:
        super().__init__()
        self.network = network
        blocks = []
        for convolution, norm, pool, _ in network.convolutions:
            plain = nn.Conv2d(convolution.in_channels, convolution.out_channels, 3, padding=1)
            blocks += [plain, nn.BatchNorm2d(norm.num_features), nn.ReLU(), nn.MaxPool2d(pool.kernel_size)]
        self.convolutions = nn.Sequential(*blocks)

    def forward(self, waveform: Tensor) -> Hypotheses:
        maps = self.convolutions(self.network.features(waveform))
        sequence = maps.permute(0, 2, 1, 3).flatten(2)
        return self.network.head(self.network.recurrence(self.network.norm(sequence))[0])


def _losses() -> list[Row]:
    waveform, targets, active, _ = _batch(BATCH, 44100)
    values = torch.rand(BATCH, 25, 5, 3)

    def mean_squared(h: Hypotheses) -> Tensor:
        assert h.logits is not None
        return mse_loss(torch.cat([h.points, h.logits[..., None]], -1), values)

    def rmcl(h: Hypotheses) -> Tensor:
        return rmcl_loss(h, targets, active, distance=great_circle)

    def transport(h: Hypotheses) -> Tensor:
        return rmcl(h) + transport_loss(h, targets, active, distance=great_circle)

    network = SELDNet(StftFeatures(), 5)
    losses = {"mse": mean_squared, "rmcl_loss": rmcl, "rmcl_loss + transport_loss": transport}
    seconds = medians({name: _step(network, waveform, loss) for name, loss in losses.items()}, REPETITIONS)
    base = seconds["mse"]
    return [
        Row(f"SELDNet step with {name}, over one with MSE", seconds[name], base, seconds[name] / base, limit)
        for name, limit in (("rmcl_loss", 1.05), ("rmcl_loss + transport_loss", None))
    ]


def _layers() -> Row:
    waveform, targets, active, _ = _batch(BATCH, 44100)

    def loss(h: Hypotheses) -> Tensor:
        return rmcl_loss(h, targets, active, distance=great_circle)

    network = SELDNet(StftFeatures(), 5)
    calls = {"ours": _step(network, waveform, loss), "plain": _step(_Plain(network), waveform, loss)}
    seconds = medians(calls, REPETITIONS)
    return Row(
        "SELDNet step, over the same layers written plainly",
        seconds["ours"],
        seconds["plain"],
        seconds["ours"] / seconds["plain"],
        0.72,
    )


def _evaluation() -> Row:
    network = build_network(compose_config(["scale=small"]), sample_rate=16000, slots=3).eval()
    batches = [_batch(125, 16000) for _ in range(FRAMES // 25 // 125)]
    with torch.no_grad():
        answers = iter([network(batch.waveform) for batch in batches] * 4)
    given = _Given(answers)
    calls = {
        "metrics": lambda: evaluate(given, batches, slots=False),
        "all": lambda: evaluate(network, batches, slots=False),
    }
    seconds = medians(calls, 1)
    return Row(
        "metrics of 100,000 frames, K = 5, over the whole evaluation by the small network",
        seconds["metrics"],
        seconds["all"],
        seconds["metrics"] / seconds["all"],
    )


class _Given(nn.Module):
    """Answers that were computed before."""

    def __init__(self, answers: Iterator[Hypotheses]) -> None:
        super().__init__()
        self.answers = answers

    def forward(self, waveform: Tensor) -> Hypotheses:
        return next(self.answers)


def _batch(chunks: int, sample_rate: int) -> Batch:
    waveform = (torch.randn(chunks, 4, sample_rate // 2) * 3000).to(torch.int16)
    targets = torch.rand(chunks, 25, 3, 2) * 2 - 1
    return Batch(waveform, targets, torch.rand(chunks, 25, 3) < 0.6, torch.full((chunks, 25), 3))


def _step(network: nn.Module, waveform: Tensor, loss: Callable[[Hypotheses], Tensor]) -> Callable[[], None]:
    optimizer = torch.optim.AdamW(network.parameters())

    def step() -> None:
        optimizer.zero_grad()
        loss(network(waveform)).backward()
        optimizer.step()

    return step


if __name__ == "__main__":
    show(rows())
