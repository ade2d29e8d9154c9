"""One method on one split of one table: trained, timed and measured."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from torchmcl.runs.files import write_json
from torchmcl.runs.records import LARGEST, provenance
from torchmcl.tabular.peers import Answer, peer_named
from torchmcl.tabular.sets import Split, read_split

__all__ = ["COVERAGES", "Judged", "judge", "measure", "work"]

COVERAGES = (0.5, 0.8, 0.9, 0.95)


@dataclass(frozen=True)
class Judged:
    """The record of a method on a split, as `judge` makes it."""

    set: str
    split: int
    method: str
    seed: int
    rows: int
    test_rows: int
    seconds: float
    cpu_seconds: float
    rmse: float
    mae: float
    nll: float | None
    crps: float
    coverage: dict[str, float]
    width: dict[str, float | None]
    interval_score: dict[str, float | None]

    def __post_init__(self) -> None:
        if min(self.rows, self.test_rows) < 1 or self.crps < 1 / LARGEST:
            raise ValueError(f"rows and test_rows must be positive, crps at least {1 / LARGEST:g}")
        for name in ("seconds", "cpu_seconds", "rmse", "mae"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must not be negative")
        levels = [str(level) for level in COVERAGES]
        for name in ("coverage", "width", "interval_score"):
            if list(getattr(self, name)) != levels:
                raise ValueError(f"{name} must have the levels {', '.join(levels)}")
            if min((each for each in getattr(self, name).values() if each is not None), default=0) < 0:
                raise ValueError(f"{name} must not be negative")
        if max(self.coverage.values()) > 1:
            raise ValueError("coverage must be at most 1")


def judge(root: Path, name: str, split: int, method: str, seed: int = 0) -> dict[str, Any]:
    """The record of a method: what was trained on what, how long it took, and its measures on the test rows.

    `cpu_seconds` counts the work of this process alone, so that other processes do not change it much.
    """
    rows = read_split(root, name, split)
    fit = peer_named(method).fit
    wall, work = time.perf_counter(), time.process_time()
    fitted = fit(rows.X, rows.y, seed)
    wall, work = time.perf_counter() - wall, time.process_time() - work
    record = {"set": name, "split": split, "method": method, "seed": seed, "rows": len(rows.X)}
    return {**record, "seconds": wall, "cpu_seconds": work, **measure(fitted(rows.X_test), rows)}


def measure(answer: Answer, rows: Split) -> dict[str, Any]:
    """Errors, scores, coverage and width on the test rows; `nll` is `None` for a method without a density."""
    y = rows.y_test
    nll = answer.nll(y)
    error = answer.mean - y
    coverage: dict[str, float] = {}
    width: dict[str, float | None] = {}
    interval_score: dict[str, float | None] = {}
    for level in COVERAGES:
        low, high = answer.interval(level)
        coverage[str(level)] = float(((low <= y) & (y <= high)).mean())
        # With too few rows for the level an interval is infinite, which JSON cannot hold.
        finite = bool(np.isfinite(high - low).all())
        width[str(level)] = float((high - low).mean()) if finite else None
        outside = np.maximum(low - y, 0) + np.maximum(y - high, 0)
        score = float((high - low + 2 / (1 - level) * outside).mean()) if finite else None
        interval_score[str(level)] = score
    return {
        "test_rows": len(y),
        "rmse": float(np.sqrt((error**2).mean())),
        "mae": float(np.abs(error).mean()),
        "nll": None if nll is None else float(nll.mean()),
        "crps": float(answer.crps(y).mean()),
        "coverage": coverage,
        "width": width,
        "interval_score": interval_score,
    }


def work(root: str, name: str, split: int, method: str, seed: int, file: str) -> None:
    """`judge` in one thread, with the record written to a file."""
    import torch

    torch.set_num_threads(1)
    record = judge(Path(root), name, split, method, seed)
    write_json(file, {**record, "provenance": provenance()})
