"""Walkers that are cheap to make, and a data set of them in the layout of ETH/UCY."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch

from torchmcl.trajectories.folds import VIDEOS
from torchmcl.trajectories.forecaster import Forecaster
from torchmcl.trajectories.network import Architecture, FutureNetwork
from torchmcl.trajectories.recipe import Recipe
from torchmcl.trajectories.tracks import Tracks


def walkers(seed: int, frames: int = 60, people: int = 6) -> Tracks:
    """Curved walks that begin and end at different frames, 10 frames a step."""
    random = np.random.default_rng(seed)
    rows = []
    for agent in range(people):
        first = random.integers(0, frames // 3)
        length = random.integers(22, frames - first)
        heading = random.uniform(0, 6) + np.cumsum(random.normal(0, 0.1, length))
        speed = random.uniform(0.3, 0.6)
        steps = speed * np.stack([np.cos(heading), np.sin(heading)], -1) + random.normal(0, 0.01, (length, 2))
        positions = random.uniform(-5, 5, 2) + np.cumsum(steps, 0)
        rows += [(10 * (first + step), agent + 1, *positions[step]) for step in range(length)]
    frames_, agents, x, y = zip(*rows, strict=True)
    return Tracks.of(frames_, agents, np.stack([x, y], -1))


def write(tracks: Tracks, path: Path) -> None:
    """As the benchmark has it: tabs, sorted by frame."""
    order = np.lexsort((tracks.agents, tracks.frames))
    lines = [
        f"{tracks.frames[row]}\t{tracks.names[tracks.agents[row]]}.0\t{x:.6f}\t{y:.6f}"
        for row, (x, y) in zip(order, tracks.positions[order], strict=True)
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n")


@pytest.fixture(scope="session")
def benchmark(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """ETH/UCY in small: the train and val rows of a scene are cut out of its test file, as there."""
    data = tmp_path_factory.mktemp("benchmark")
    every = [name for names in VIDEOS.values() for name in names] + ["crowds_zara03"]
    made = {name: walkers(number, frames=70) for number, name in enumerate(every)}
    for scene, own in VIDEOS.items():
        for name, tracks in made.items():
            if name in own:
                if name != "uni_examples":
                    write(tracks, data / scene / "test" / f"{name}.txt")
                continue
            for part, chosen in (("train", tracks.frames < 450), ("val", tracks.frames >= 450)):
                rows = (tracks.frames[chosen], tracks.agents[chosen], tracks.positions[chosen])
                write(
                    dataclasses.replace(Tracks(*rows, tracks.names)),
                    data / scene / part / f"{name}_{part}.txt",
                )
    return data


@pytest.fixture(scope="session")
def untrained() -> Forecaster:
    """What holds for any weights can be tested without training."""
    torch.manual_seed(0)
    network = FutureNetwork(Architecture(width=32, blocks=1))
    torch.nn.init.normal_(network.steps.bias, std=0.2)
    torch.nn.init.normal_(network.logits.bias)
    return Forecaster(network)


@pytest.fixture(scope="session")
def tiny() -> Recipe:
    """A recipe that takes a second."""
    return Recipe(architecture=Architecture(width=16, blocks=1, attention=8, heads=2), steps=6, batch_size=32)
