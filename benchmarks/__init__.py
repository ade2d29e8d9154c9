"""Ratios that the project promises, each measured within one run on the machine at hand."""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

__all__ = ["Row", "durations", "medians", "show", "training_step"]


@dataclass(frozen=True)
class Row:
    """One line of the table: seconds of ours and of another, their ratio and what was promised of it."""

    name: str
    ours: float
    other: float
    ratio: float
    limit: float | None = None
    at_most: bool = True

    @property
    def kept(self) -> bool | None:
        """Whether the promise was kept; `None` where none was made."""
        if self.limit is None:
            return None
        return self.ratio <= self.limit if self.at_most else self.ratio >= self.limit


def medians(calls: dict[str, Callable[[], object]], repetitions: int) -> dict[str, float]:
    """The median seconds of each call; each runs once in every repetition, so that noise meets all alike."""
    return {name: statistics.median(values) for name, values in durations(calls, repetitions).items()}


def durations(calls: dict[str, Callable[[], object]], repetitions: int) -> dict[str, list[float]]:
    """The seconds of each call in every repetition, after one that does not count."""
    for call in calls.values():
        call()
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(repetitions):
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            times[name].append(time.perf_counter() - start)
    return times


def show(rows: list[Row]) -> None:
    """Print the table."""
    table = Table("benchmark", "ours [ms]", "other [ms]", "ratio", "promised", "")
    for row in rows:
        promised = "" if row.limit is None else f"{'≤' if row.at_most else '≥'} {row.limit:g}"
        mark = {None: "", True: "kept", False: "[bold red]MISSED"}[row.kept]
        table.add_row(
            row.name, f"{row.ours * 1e3:.4g}", f"{row.other * 1e3:.4g}", f"{row.ratio:.3g}", promised, mark
        )
    Console(width=130).print(table)


def training_step(head: nn.Module, inputs: Tensor, loss: Callable[[Any], Tensor]) -> Callable[[], None]:
    """A step of Adam for the paper's perceptron (3 layers of 256 units) with that head."""
    layers = [nn.Linear(1, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU()]
    network = nn.Sequential(*layers, head)
    optimizer = torch.optim.Adam(network.parameters())

    def step() -> None:
        optimizer.zero_grad()
        loss(network(inputs)).backward()
        optimizer.step()

    return step
