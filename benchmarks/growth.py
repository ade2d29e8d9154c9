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
MINUTES = (4, 15, 60)
REPETITIONS = 5
RATE = 16000
GIGABYTE = 1e9


def rows() -> list[Row]:
    """`ours` and `other` are the largest and the smallest size; `ratio` is the exponent of a power law through all.

    Sizes that are not varied are 256 items, 20 hypotheses and 3 targets. Memory is the peak of a process of its own
    minus that of its imports; for a recording the whole peak is given, in bytes over 10⁹.
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
    peaks = [_peak("rmcl", *shape(size)) for size in sizes]
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
    with tempfile.TemporaryDirectory() as place:
        found = []
        for minutes in MINUTES:
            path = Path(place) / f"{minutes}.wav"
            _record(path, minutes)
            found.append(_measured("localize", str(path), str(Path(place) / "out")))
            path.unlink()
    seconds, peaks = ([values[i] for values in found] for i in (0, 1))
    span = f"{MINUTES[0]} to {MINUTES[-1]} minutes"
    memory = [peak * 1e-3 for peak in peaks]
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


def _record(path: Path, minutes: int) -> None:
    noise = np.random.default_rng(0).normal(0, 1000, (60 * RATE, 4)).astype(np.int16)
    with soundfile.SoundFile(path, "w", RATE, 4, "PCM_16") as stream:
        for _ in range(minutes):
            stream.write(noise)


def _exponent(sizes: Sequence[int], values: Sequence[float]) -> float:
    """The slope of a line through the logarithms."""
    slope, _ = np.polyfit(np.log(sizes), np.log(np.maximum(values, 1e-9)), 1)
    return float(slope)


def _peak(*words: object) -> float:
    """Gigabytes beyond the imports."""
    return _measured(*map(str, words))[1]


def _measured(*words: str) -> tuple[float, float]:
    """Seconds and peak gigabytes of a measurement below, in a process of its own."""
    ended = subprocess.run(
        [sys.executable, "-m", "benchmarks.growth", *words], capture_output=True, text=True, check=True
    )
    seconds, memory = ended.stdout.split()[-2:]
    return float(seconds), float(memory)


def _peak_so_far() -> float:
    """Gigabytes of physical memory that this process had at the most."""
    line = next(
        line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")
    )
    return int(line.split()[1]) * 1024 / GIGABYTE


def _localise(path: str, out: str) -> None:
    from torchmcl.audio.answers import write_answers
    from torchmcl.audio.localize import localize_blocks
    from torchmcl.experiments.build import build_network
    from torchmcl.experiments.config import compose_config

    network = build_network(compose_config([]), RATE, 3).eval()
    start = time.perf_counter()
    duration = soundfile.info(path).duration
    write_answers(localize_blocks(path, network, RATE, "acn-n3d"), Path(out), "noise", duration, {})
    print(time.perf_counter() - start, _peak_so_far())


def _lose(*shape: int) -> None:
    call = _rmcl(64, 5, 1)
    call()
    before = _peak_so_far()
    start = time.perf_counter()
    _rmcl(*shape)()
    print(time.perf_counter() - start, max(_peak_so_far() - before, 1e-4))


if __name__ == "__main__":
    torch.set_num_threads(1)
    if sys.argv[1:2] == ["localize"]:
        _localise(*sys.argv[2:])
    elif sys.argv[1:2] == ["rmcl"]:
        _lose(*map(int, sys.argv[2:]))
    else:
        show(rows())
