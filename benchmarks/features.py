"""Is the next batch ready before the network misses it? Reading and features against a training step."""

import tempfile
from pathlib import Path
from typing import cast

import numpy as np
import soundfile
import torch

from benchmarks import Row, medians, show
from torchmcl import great_circle, rmcl_loss
from torchmcl.audio.datamodule import AudioDataModule, Batch
from torchmcl.audio.features import StftFeatures
from torchmcl.audio.seldnet import SELDNet
from torchmcl.experiments.build import build_network
from torchmcl.experiments.compose import compose_config

__all__ = ["rows"]

CHUNKS = 128
REPETITIONS = 5
HEADER = "sound_event_recording,start_time,end_time,ele,azi,dist\n"


def rows() -> list[Row]:
    """`ours` is a shuffled batch of 128 chunks read and turned into features, `other` a training step on it.

    Files are in the cache of the system. The promise is for the network of the paper; the small one has a
    tenth of its weights.
    """
    small = cast(SELDNet, build_network(compose_config(["scale=small"]), sample_rate=16000, slots=3))
    return [
        _row(
            "44.1 kHz, 1024 bins, over a step of the paper's network",
            SELDNet(StftFeatures(44100), 5),
            32,
            0.1,
        ),
        _row("16 kHz, 32 bands, over a step of the small network", small, 128, None),
    ]


def _row(name: str, network: SELDNet, at_once: int, limit: float | None) -> Row:
    """Steps are done on `at_once` chunks, as many as fit into memory, and their time scaled to 128."""
    with tempfile.TemporaryDirectory() as folder:
        _write(Path(folder), network.features.sample_rate)
        batches = iter(AudioDataModule(folder, batch_size=CHUNKS).train_dataloader())
        batch = Batch(*(field[:at_once] for field in next(batches)))
        optimizer = torch.optim.AdamW(network.parameters())

        def step() -> None:
            optimizer.zero_grad()
            rmcl_loss(network(batch.waveform), batch.targets, batch.active, distance=great_circle).backward()
            optimizer.step()

        calls = {"ready": lambda: network.features(next(batches).waveform), "step": step}
        seconds = medians(calls, REPETITIONS)
    trained = seconds["step"] * CHUNKS / at_once
    return Row(f"batch ready, {name}", seconds["ready"], trained, seconds["ready"] / trained, limit)


def _write(folder: Path, rate: int) -> None:
    """Just enough recordings of half a minute for all batches."""
    random = np.random.default_rng(0)
    needed = -(-CHUNKS * (REPETITIONS + 3) // 60)
    for index in range(needed + 2):
        split, part = (2, "train") if index < needed else ((1, "train"), (2, "test"))[index - needed]
        sounds, texts = folder / f"wav_ov1_split{split}_30db", folder / f"desc_ov1_split{split}"
        sounds.mkdir(exist_ok=True)
        texts.mkdir(exist_ok=True)
        noise = random.integers(-3000, 3000, (30 * rate, 4), dtype=np.int16)
        soundfile.write(sounds / f"{part}_{index}.wav", noise, rate)
        (texts / f"{part}_{index}.csv").write_text(f"{HEADER}noise001.wav,1,20,10,20,1\n")


if __name__ == "__main__":
    show(rows())
