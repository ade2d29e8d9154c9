"""Is the next batch ready before the network misses it? Reading and features against a training step."""

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import soundfile
import torch
from torch import Tensor, nn

from torchmcl.audio.datamodule import AudioDataModule
from torchmcl.audio.features import StftFeatures

__all__ = ["rows"]

CHUNKS = 128
REPETITIONS = 5
HEADER = "sound_event_recording,start_time,end_time,ele,azi,dist\n"


class Network(nn.Module):
    """Convolutions that pool the frequencies away, recurrent layers, one direction a frame."""

    def __init__(self, filters: int, pools: tuple[int, int, int], bins: int, units: int, layers: int) -> None:
        super().__init__()
        blocks: list[nn.Module] = []
        for channels, pool in zip((8, filters, filters), pools, strict=True):
            convolution = nn.Conv2d(channels, filters, 3, padding=1)
            blocks += [convolution, nn.BatchNorm2d(filters), nn.MaxPool2d((1, pool)), nn.ReLU()]
        self.convolutions = nn.Sequential(*blocks).to(memory_format=torch.channels_last)
        width = filters * bins // int(np.prod(pools))
        self.recurrent = nn.GRU(width, units, layers, batch_first=True, bidirectional=True)
        self.head = nn.Linear(2 * units, 2)

    def forward(self, features: Tensor) -> Tensor:
        maps = self.convolutions(features.contiguous(memory_format=torch.channels_last))
        return self.head(self.recurrent(maps.transpose(1, 2).flatten(2))[0])


def rows() -> list[dict[str, str | float]]:
    """Seconds for 128 chunks, medians of interleaved repetitions, files in the cache of the system.

    `ours` is a shuffled batch read and turned into features, `other` a training step on features that are
    there already; `ratio` is how many batches are ready in the time of a step, at least `limit`. The small
    network has a tenth of the weights, so that its features may take a fifth of a step.
    """
    small = StftFeatures(16000, nfft=640, stride=4, bins=64, log_magnitude=True, normalised_phase=True)
    paper = _times(StftFeatures(44100), Network(64, (8, 8, 2), 1024, 128, 4), at_once=32)
    return [
        _row("batch ready, 44.1 kHz, 1024 bins, against a step of the paper's network", *paper, 10.0),
        _row(
            "batch ready, 16 kHz, 64 bins, against a step of a small network",
            *_times(small, Network(32, (4, 4, 2), 64, 64, 2), at_once=128),
            5.0,
        ),
    ]


def _row(name: str, ready: float, trained: float, limit: float) -> dict[str, str | float]:
    return {"name": name, "ours": ready, "other": trained, "ratio": trained / ready, "limit": limit}


def _times(layer: StftFeatures, network: Network, at_once: int) -> tuple[float, float]:
    """Steps are done on `at_once` chunks, as many as fit into memory, and their time scaled to 128."""
    with tempfile.TemporaryDirectory() as folder:
        _write(Path(folder), layer.sample_rate)
        batches = iter(AudioDataModule(folder, batch_size=CHUNKS).train_dataloader())
        features = layer(next(batches).waveform)[:at_once]
        optimiser = torch.optim.AdamW(network.parameters())

        def step() -> None:
            optimiser.zero_grad()
            network(features).square().mean().backward()
            optimiser.step()

        ready, trained = _time(lambda: layer(next(batches).waveform), step)
    return ready, trained * CHUNKS / at_once


def _write(folder: Path, rate: int) -> None:
    """Just enough recordings of half a minute for all batches."""
    random = np.random.default_rng(0)
    needed = -(-CHUNKS * (REPETITIONS + 2) // 60)
    for index in range(needed + 2):
        split, part = (2, "train") if index < needed else ((1, "train"), (2, "test"))[index - needed]
        sounds, texts = folder / f"wav_ov1_split{split}_30db", folder / f"desc_ov1_split{split}"
        sounds.mkdir(exist_ok=True)
        texts.mkdir(exist_ok=True)
        noise = random.integers(-3000, 3000, (30 * rate, 4), dtype=np.int16)
        soundfile.write(sounds / f"{part}_{index}.wav", noise, rate)
        (texts / f"{part}_{index}.csv").write_text(f"{HEADER}noise001.wav,1,20,10,20,1\n")


def _time(*calls: Callable[[], object]) -> list[float]:
    """The median time of each call, all of them once in every repetition, after a first one that warms up."""
    times: list[list[float]] = [[] for _ in calls]
    for _ in range(REPETITIONS + 1):
        for values, call in zip(times, calls, strict=True):
            start = time.perf_counter()
            call()
            values.append(time.perf_counter() - start)
    return [statistics.median(values[1:]) for values in times]


if __name__ == "__main__":
    for row in rows():
        print(
            f"{row['name']}: {row['ours']:.3f} against {row['other']:.3f} s, "
            f"ratio {row['ratio']:.1f} (at least {row['limit']:g})"
        )
