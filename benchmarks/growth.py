"""How time and memory grow with hypotheses, targets, batch and the length of a recording, as fitted exponents."""

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import soundfile
import torch

from benchmarks import Row, medians, show
from torchmcl import Hypotheses, emd, rmcl_loss, transport_loss

__all__ = ["rows"]

HYPOTHESES = (5, 50, 500, 5000)
TARGETS = (1, 3, 10, 50)
BATCHES = (64, 256, 1024, 4096)
MINUTES = (2, 10, 60)
REPETITIONS = 5
RATE = 16000


def rows() -> list[Row]:
    """`ours` and `other` are the largest and the smallest size; `ratio` is the exponent of a power law through all.

    Sizes that are not varied are 256 items, 20 hypotheses and 3 targets. Memory is the peak of physical memory beyond
    what the process had before; for a recording it is all that a process of its own had. In its rows the columns are
    gigabytes over 1,000, so that the table shows gigabytes.
    """
    sizes: dict[str, tuple[Sequence[int], Callable[[int], tuple[int, int, int]]]] = {
        "K": (HYPOTHESES, lambda n: (256, n, 3)),
        "targets": (TARGETS, lambda n: (256, 20, n)),
        "batch": (BATCHES, lambda n: (n, 20, 3)),
    }
    found = [row for what, (values, shape) in sizes.items() for row in _losses(what, values, shape)]
    return found + _recordings()


def _losses(what: str, sizes: Sequence[int], shape: Callable[[int], tuple[int, int, int]]) -> list[Row]:
    """Forward and backward of the losses, forward of the exact EMD, where they are meant to be used."""
    calls: dict[str, Callable[[int, int, int], Callable[[], object]]] = {"rmcl_loss": _rmcl, "emd": _emd}
    if what != "targets":
        calls["transport_loss"] = _transport
    found = []
    for name, make in calls.items():
        usable = [size for size in sizes if name == "rmcl_loss" or shape(size)[1] * shape(size)[2] <= 1500]
        seconds = medians({str(size): make(*shape(size)) for size in usable}, REPETITIONS)
        values = [seconds[str(size)] for size in usable]
        label = f"time of {name}, {what} {usable[0]} to {usable[-1]}: exponent"
        found.append(Row(label, values[-1], values[0], _exponent(usable, values), 1.35))
    peaks = [max(_peak(_rmcl(*shape(size)))[1], 1e-4) for size in sizes]
    label = f"memory of rmcl_loss [GB], {what} {sizes[0]} to {sizes[-1]}: exponent"
    found.append(Row(label, peaks[-1] * 1e-3, peaks[0] * 1e-3, _exponent(sizes, peaks), 1.1))
    return found


def _problem(batch: int, hypotheses: int, targets: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    random = torch.Generator().manual_seed(0)
    points = torch.rand(batch, hypotheses, 2, generator=random)
    logits = torch.randn(batch, hypotheses, generator=random)
    return points.requires_grad_(), logits.requires_grad_(), torch.rand(batch, targets, 2, generator=random)


def _rmcl(*shape: int) -> Callable[[], object]:
    points, logits, targets = _problem(*shape)
    return lambda: rmcl_loss(Hypotheses(points, logits), targets).backward()


def _transport(*shape: int) -> Callable[[], object]:
    points, logits, targets = _problem(*shape)
    return lambda: transport_loss(Hypotheses(points, logits), targets).backward()


def _emd(*shape: int) -> Callable[[], object]:
    points, logits, targets = _problem(*shape)
    hypotheses = Hypotheses(points.detach(), logits.detach())
    return lambda: emd(hypotheses, targets)


def _recordings() -> list[Row]:
    ended = subprocess.run(
        [sys.executable, "-m", "benchmarks.growth", "localize"], capture_output=True, text=True, check=True
    )
    values = [float(word) for word in ended.stdout.split()]
    seconds, peaks = values[0::2], values[1::2]
    memory = [peak * 1e-3 for peak in peaks]
    span = f"{MINUTES[0]} to {MINUTES[-1]} minutes"
    return [
        Row(f"time of localize, {span}: exponent", seconds[-1], seconds[0], _exponent(MINUTES, seconds), 1.2),
        Row(
            f"memory of localize [GB], {span}: exponent",
            memory[-1],
            memory[0],
            _exponent(MINUTES, peaks),
            0.3,
        ),
        Row("memory of localize [GB], an hour", memory[-1], memory[0], peaks[-1], 1.0),
    ]


def _localise() -> None:
    """Print seconds and gigabytes for each length; noise that is cut into blocks as any recording is."""
    from torchmcl.audio.localizer import Localizer
    from torchmcl.audio.predictions import write_predictions
    from torchmcl.experiments.build import build_network
    from torchmcl.experiments.compose import compose_config

    network = build_network(compose_config([]), RATE, 3).eval()
    with tempfile.TemporaryDirectory() as place:
        for minutes in MINUTES:
            path = Path(place) / f"{minutes}.wav"
            _record(path, minutes)

            def call(path: Path = path) -> None:
                write_predictions(Localizer(network, RATE).blocks(path), path.parent, "noise", {})

            before = _memory("VmRSS")
            seconds, extra = _peak(call)
            print(seconds, before + extra, flush=True)
            path.unlink()


def _record(path: Path, minutes: int) -> None:
    noise = np.random.default_rng(0).normal(0, 1000, (60 * RATE, 4)).astype(np.int16)
    with soundfile.SoundFile(path, "w", RATE, 4, "PCM_16") as stream:
        for _ in range(minutes):
            stream.write(noise)


def _exponent(sizes: Sequence[int], values: Sequence[float]) -> float:
    """The slope of a line through the logarithms."""
    slope, _ = np.polyfit(np.log(sizes), np.log(np.maximum(values, 1e-9)), 1)
    return float(slope)


def _peak(call: Callable[[], object]) -> tuple[float, float]:
    """Seconds, and gigabytes at the most beyond those before."""
    before = _memory("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")
    start = time.perf_counter()
    call()
    return time.perf_counter() - start, _memory("VmHWM") - before


def _memory(which: str) -> float:
    """Gigabytes of physical memory: `VmRSS` now, `VmHWM` at the most since it was last reset."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(which)).split()[1]) * 1024 / 1e9


if __name__ == "__main__":
    torch.set_num_threads(1)
    if sys.argv[1:] == ["localize"]:
        _localise()
    else:
        show(rows())
