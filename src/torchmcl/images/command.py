"""What `torchmcl classify` does: runs, results, pictures and a table in one folder."""

import platform
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import torch
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

import torchmcl
from torchmcl.errors import UserError
from torchmcl.images.data import TASKS, ImageSet, Task, load_digits, load_mnist
from torchmcl.images.figures import picture
from torchmcl.images.methods import METHODS
from torchmcl.images.networks import SCALINGS, Scaling
from torchmcl.images.study import MEASURES, Settings, check_seeds, run, settings_of, summarize, work
from torchmcl.runs.files import atomic, locked, sweep, write_json, write_text
from torchmcl.runs.outputs import claim_outputs
from torchmcl.runs.progress import Bar, bar

__all__ = ["classify"]

SHOWN = ("top1", "oracle", "top5", "nll", "noise")
"""What the terminal has room for; table.md and results.json have all measures."""


def classify(
    data: Path | None,
    *,
    out: Path,
    tasks: tuple[str, ...],
    seed: int,
    seeds: int,
    images: int | None,
    console: Console,
    scaling: str = "image",
) -> dict[str, Any]:
    """Train and evaluate what `out` does not hold, write results.json, table.md and the pictures, print the tables.

    Args:
        data: A folder with the four IDX files of MNIST; scikit-learn's digits if `None`.
        out: The folder of the study.
        tasks: Of `few`, `ambiguous` and `noisy`.
        seed: The first seed.
        seeds: How many.
        images: Training images; chosen by the task if `None`.
        console: For the progress bar and the tables.
        scaling: Which pixels share a mean and a standard deviation: `none` is scaled, all of an `image`, or each
            `pixel` has its own.

    Returns:
        The content of results.json.
    """
    chosen = _check(tasks, seed, seeds, images)
    scaled = _scaling(scaling)
    loaded = load_digits() if data is None else load_mnist(data)
    settings = {task: settings_of(loaded, task, images, scaled) for task in chosen}
    for task in chosen:
        if settings[task].images > loaded.available:
            raise UserError(f"--images must be between 1 and {loaded.available}, got {settings[task].images}")
    total = sum(work(each) for each in settings.values()) * len(METHODS) * seeds
    names = [f"{task}{suffix}" for task in chosen for suffix in (".png", ".pdf")]
    claim_outputs(out, ["results.json", "table.md", *names], otherwise="choose another --out")
    with locked(out, f"{out}: another process is working in it"):
        sweep(out)
        with bar(float(total), console) as progress:
            numbers = {
                task: _task(out, loaded, settings[task], range(seed, seed + seeds), progress)
                for task in chosen
            }
        found = {
            "versions": _versions(),
            "seeds": list(range(seed, seed + seeds)),
            "tasks": {
                task: {"settings": asdict(settings[task]), "methods": numbers[task]} for task in chosen
            },
        }
        _write(out, found, loaded.classes)
    for task in chosen:
        console.print(_table(task, numbers[task], seeds))
    written = ["results.json", "table.md", *(f"{task}.png and .pdf" for task in chosen)]
    console.print(f"{out}: {', '.join(written)}", soft_wrap=True, highlight=False, markup=False)
    return found


def _check(tasks: tuple[str, ...], seed: int, seeds: int, images: int | None) -> tuple[Task, ...]:
    unknown = [task for task in tasks if task not in TASKS]
    if unknown:
        raise UserError(f"--task must be {', '.join(TASKS[:-1])} or {TASKS[-1]}, got {unknown[0]!r}")
    check_seeds(seeds)
    if not 0 <= seed < 2**31:
        raise UserError(f"--seed must be between 0 and {2**31 - 1}, got {seed}")
    if images is not None and images < 1:
        raise UserError(f"--images must be at least 1, got {images}")
    return tuple(task for task in TASKS if task in tasks)


def _scaling(name: str) -> Scaling:
    for known in SCALINGS:
        if name == known:
            return known
    raise UserError(f"--scaling must be {', '.join(SCALINGS[:-1])} or {SCALINGS[-1]}, got {name!r}")


def _versions() -> dict[str, str]:
    return {
        "torchmcl": torchmcl.__version__,
        "torch": str(torch.__version__),
        "python": platform.python_version(),
    }


def _scaled(advance: Callable[[float], None], units: float, part: float) -> None:
    advance(part * units)


def _task(out: Path, data: ImageSet, settings: Settings, seeds: range, progress: Bar) -> dict[str, Any]:
    units = float(work(settings))
    records: dict[str, list[dict[str, Any]]] = {method: [] for method in METHODS}
    for seed in seeds:
        for method in METHODS:
            with progress.stage(f"{settings.task}, {METHODS[method].name}, seed {seed}", units) as advance:
                records[method].append(
                    run(out, data, settings, method, seed, partial(_scaled, advance, units))
                )
    return summarize(records)


def _write(out: Path, found: dict[str, Any], classes: int) -> None:
    lines = []
    for task, content in found["tasks"].items():
        figure = picture(content["methods"], classes)
        for suffix in (".png", ".pdf"):
            with atomic(out / f"{task}{suffix}") as path:
                figure.savefig(path, dpi=150)
        lines += [f"Task `{task}`:", "", *_markdown(content["methods"]), ""]
    write_text(out / "table.md", "\n".join(lines))
    write_json(out / "results.json", found)


def _cell(name: str, values: dict[str, Any]) -> str:
    digits = 1 if MEASURES[name].endswith("%") else 2
    spread = "" if values["std"] is None else f" ± {values['std']:.{digits}f}"
    return f"{values['mean']:.{digits}f}{spread}"


def _markdown(methods: dict[str, Any]) -> list[str]:
    head = f"| method | {' | '.join(MEASURES.values())} |"
    rows = [
        f"| {METHODS[method].name} | {' | '.join(_cell(name, values[name]) for name in MEASURES)} |"
        for method, values in methods.items()
    ]
    return [head, "|---" * (1 + len(MEASURES)) + "|", *rows]


def _table(task: str, methods: dict[str, Any], seeds: int) -> Table:
    several = f"mean and standard deviation of {seeds} seeds" if seeds > 1 else "one seed"
    table = Table(title=f"{task}: {several}", box=SIMPLE_HEAD, padding=(0, 0, 0, 1), pad_edge=False)
    table.add_column("method")
    for name in SHOWN:
        table.add_column(MEASURES[name], justify="right")
    for method, values in methods.items():
        table.add_row(METHODS[method].name, *(_cell(name, values[name]) for name in SHOWN))
    return table
