"""Many runs: the rows of the paper's tables, trained where missing, several at a time."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from torchmcl.errors import UserError
from torchmcl.experiments.build import build_data
from torchmcl.experiments.config import Config, compose_config
from torchmcl.experiments.published import ANSYN, RESYN, Cells
from torchmcl.experiments.tables import Line, Sheet, write_sheet

__all__ = ["STUDIES", "Row", "run_study"]


@dataclass(frozen=True)
class Row:
    """A row of a table: its label, its place in the published table, and the settings that make it."""

    label: str
    key: str
    settings: tuple[str, ...]


def _row(label: str, method: str, *settings: str, key: str | None = None) -> Row:
    return Row(label, key or method, (f"method={method}", *settings))


PIT = _row("PIT", "pit")
PIT_IN_ORDER = _row("PIT in start order", "pit_in_order")
RMCL = _row("rMCL, 5 hyp.", "rmcl")
OURS = _row("transport-rMCL, 5 hyp.", "transport_rmcl")
BASELINES = (
    PIT,
    PIT_IN_ORDER,
    _row("IE (5 members)", "ie"),
    _row("WTA, 1 hyp.", "wta1"),
    _row("WTA, 5 hyp.", "wta"),
    _row("top-n-WTA, 5 hyp.", "top_n_wta"),
    _row("ε-WTA, 5 hyp.", "eps_wta"),
    RMCL,
    OURS,
)
VARIANTS = (RMCL, _row("top-n-rMCL, 5 hyp.", "top_n_rmcl"), _row("ε-rMCL, 5 hyp.", "eps_rmcl"), OURS)
SIZES = (
    PIT,
    PIT_IN_ORDER,
    _row("WTA, 1 hyp.", "wta1"),
    *(
        _row(f"rMCL, {k} hyp.", "rmcl", f"method.hypotheses={k}", key="rmcl" if k == 5 else f"rmcl-{k}")
        for k in (3, 5, 10, 20)
    ),
)

STUDIES: dict[str, tuple[tuple[str, tuple[Row, ...]], ...]] = {
    "table1": (("simulated", BASELINES),),
    "table2": (("reverberant", BASELINES),),
    "table3": (("simulated", VARIANTS), ("reverberant", VARIANTS)),
    "table4": (("simulated", SIZES),),
}
"""Each table of the paper as parts: the data and its rows."""

PUBLISHED: dict[str, dict[str, Cells]] = {"simulated": ANSYN, "reverberant": RESYN}


def run_study(
    name: str, settings: Sequence[str], *, out: Path = Path("runs/study"), workers: int | None = None
) -> Path:
    """Train the missing rows of a table, `workers` at a time, and write it as Markdown, LaTeX and HTML."""
    if name not in STUDIES:
        raise UserError(f"no study {name}; there are {', '.join(STUDIES)}")
    if any(word.startswith(("method=", "data=", "run=")) for word in settings):
        raise UserError("method, data and run are chosen by the study; give others, for example scale=smoke")
    workers = workers or os.cpu_count() or 1
    parts = []
    for data, rows in STUDIES[name]:
        configs = [_config(row, data, settings, out) for row in rows]
        build_data(configs[0], workers=workers)
        _train([config for config in configs if not _done(config)], settings, workers)
        lines = [
            Line(row.label, _found(config), PUBLISHED[data].get(row.key))
            for row, config in zip(rows, configs, strict=True)
        ]
        parts.append(Sheet(f"{data}, scale {configs[0].scale}, seed {configs[0].seed}", lines))
    return write_sheet(out / configs[0].scale / name, name, parts)


def _config(row: Row, data: str, settings: Sequence[str], out: Path) -> Config:
    config = compose_config([f"data={data}", *row.settings, *settings])
    config.run = str(out / config.scale / f"{data}-{row.key}-seed{config.seed}")
    return config


def _done(config: Config) -> bool:
    return (Path(config.run or "") / "metrics.json").exists()


def _found(config: Config) -> Cells:
    groups = json.loads((Path(config.run or "") / "metrics.json").read_text())["test"]["groups"]
    return tuple(
        (groups[group][metric]["mean"], groups[group][metric]["std"])
        for metric in ("emd", "oracle")
        for group in ("D1", "D2", "D3")
    )


def _train(configs: Sequence[Config], settings: Sequence[str], workers: int) -> None:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with (
        ThreadPoolExecutor(workers) as pool,
        Progress(*columns, console=Console(stderr=True)) as bar,
    ):
        task = bar.add_task("runs", total=len(configs))
        pending = {pool.submit(_train_one, config, settings): config for config in configs}
        try:
            for future in as_completed(pending):
                future.result()
                bar.advance(task)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _train_one(config: Config, settings: Sequence[str]) -> None:
    """In a process of its own with one thread: two such are faster than one with two threads."""
    words = [
        f"method={config.method.name}", f"data={config.data.name}", f"run={config.run}", "trainer.threads=1",
        f"method.hypotheses={'null' if config.method.hypotheses is None else config.method.hypotheses}",
        *settings,
    ]  # fmt: skip
    log = Path(config.run or "") / "train.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("w") as stream:
        ended = subprocess.run(
            [sys.executable, "-m", "torchmcl", "train", *words],
            stdout=stream, stderr=subprocess.STDOUT, check=False, env={**os.environ, "OMP_NUM_THREADS": "1"},
        )  # fmt: skip
    if ended.returncode:
        raise UserError(f"{config.run}: training failed, see {log}")
