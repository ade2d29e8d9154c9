"""Two processes train as one with twice the batch, and measure what one measures."""

import csv
import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from reliability import ddp
from torchmcl.audio.datamodule import AudioDataModule
from torchmcl.errors import UserError
from torchmcl.experiments.compose import compose_config
from torchmcl.experiments.train import train

SETTINGS = ["method=rmcl_star", "training.epochs=3", "training.batches=3"]
"""A method that draws random negatives."""


def curve(folder):
    rows = list(csv.DictReader((folder / "logs" / "metrics.csv").read_text().splitlines()))
    return {name: torch.tensor([float(row[name]) for row in rows]) for name in rows[0]}


def test_two_processes_have_the_loss_curve_of_one_with_twice_the_batch(smoke, tmp_path):
    """Within 2 %: on CPUs, batch norm has the statistics of each process; test_distributed has a network without."""
    one = train(compose_config(smoke("one", *SETTINGS, "training.batch_size=16")), progress=False)
    words = smoke("two", *SETTINGS, "training.batch_size=8", "trainer.devices=2", "trainer.strategy=ddp")
    ended = subprocess.run(
        [sys.executable, Path(ddp.__file__), one, *words],
        env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    two = tmp_path / "two"
    first, second = curve(one), curve(two)
    assert first["step"].tolist() == second["step"].tolist() == [3, 6, 9]
    torch.testing.assert_close(first["training_loss"], second["training_loss"], rtol=2e-2, atol=0)
    for name in ("validation_loss", "emd", "oracle"):
        torch.testing.assert_close(first[name], second[name], rtol=5e-2, atol=0)
    assert len(set(first["training_loss"].tolist())) == 3
    measured = [json.loads((folder / "metrics.json").read_text())["test"] for folder in (one, two)]
    for group in ("D1", "D2", "D3"):
        mine, other = (each["groups"][group]["emd"] for each in measured)
        assert mine["chunks"] == other["chunks"]
        assert mine["mean"] == pytest.approx(other["mean"], rel=5e-2)
    assert not list(two.rglob("*.ckpt"))

    exact = ddp.validate(one, smoke("one", *SETTINGS, "training.batch_size=16"), devices=1)
    assert json.loads((two / "validated.json").read_text()) == exact


def data(folder, batch_size, rank=0, processes=1):
    module = AudioDataModule(folder, batch_size=batch_size, seed=3)
    module.trainer = SimpleNamespace(global_rank=rank, world_size=processes)
    return module


@pytest.mark.parametrize("processes", [2, 3, 4, 8, 24])
def test_every_validation_chunk_is_seen_by_exactly_one_process(processes, scenes):
    module = data(scenes, 1)
    total = len(module.chunks["validation"])
    for size in (1, 3, 8, 128):
        module.batch_size, dealt = size, []
        for rank in range(processes):
            module.trainer = SimpleNamespace(global_rank=rank, world_size=processes)
            dealt.append(list(module.val_dataloader().batch_sampler))
        assert all(dealt), "nobody is idle: an idle process would wait for the others in vain"
        assert sorted(index for own in dealt for batch in own for index in batch) == list(range(total))


def test_more_processes_than_chunks_are_refused(scenes):
    with pytest.raises(UserError, match="24 validation chunks cannot be divided among 25 processes"):
        data(scenes, 8, 0, 25).val_dataloader()


@pytest.mark.parametrize("processes", [2, 4])
def test_the_batches_of_all_processes_are_those_of_one(processes, scenes):
    single = data(scenes, 4 * processes).train_dataloader()
    shares = [data(scenes, 4, rank, processes).train_dataloader() for rank in range(processes)]
    for epoch in (0, 1):
        for loader in (single, *shares):
            loader.sampler.set_epoch(epoch)
        for whole, *parts in zip(single, *shares, strict=True):
            dealt = torch.stack([part.targets for part in parts], 1).flatten(0, 1)
            torch.testing.assert_close(dealt, whole.targets, rtol=0, atol=0)
