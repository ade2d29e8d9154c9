"""The experiment of Section 3.4, as `torchmcl toy` runs it: models, numbers, figure and page in one folder."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

import torchmcl
from torchmcl.errors import UserError
from torchmcl.runs import RunFolder, write_json, write_text
from torchmcl.runs.figures import save_figure
from torchmcl.runs.folder import METRICS
from torchmcl.runs.jobs import Job, Local, execute
from torchmcl.runs.progress import bar
from torchmcl.runs.tables import Column, Row, Table
from torchmcl.toy import figures, page
from torchmcl.toy.floor import floor
from torchmcl.toy.models import ENSEMBLES, METHODS, NAMES, Method
from torchmcl.toy.outcomes import GRID_SIZE, Run, run_model, work
from torchmcl.toy.presets import Settings
from torchmcl.toy.train import samples

__all__ = ["check_seeds", "results", "run_seeds", "table", "toy"]

MOST_SEEDS = 1000


def toy(
    settings: Settings,
    *,
    seed: int,
    seeds: int,
    out: Path,
    animate: bool,
    console: Console,
    ensembles: bool = True,
    size: int = GRID_SIZE,
    workers: int = 1,
) -> dict[str, Any]:
    """Train and evaluate what `out` does not hold, write results, figure, page and animation, print the table.

    Args:
        settings: Of the training.
        seed: The first seed.
        seeds: How many.
        out: The folder; other processes are locked out meanwhile.
        animate: Whether to write the animation as well.
        console: Where progress and table are shown.
        ensembles: Whether to train the ensembles.
        size: Cells a side of the grid of the evaluation.
        workers: Processes; with more than one, the ensembles are trained beside the other models, with equal results.

    Returns:
        What `results.json` holds.
    """
    check_seeds(seed, seeds)
    methods = METHODS if ensembles else tuple(method for method in METHODS if method not in ENSEMBLES)
    with RunFolder.open(out, {"command": "toy"}):
        chosen = range(seed, seed + seeds)
        if workers > 1:
            execute(_jobs(settings, chosen, out, methods, size), Local(workers))
        runs = run_seeds(settings, chosen, out, console, methods=methods, size=size)
        numbers = {**results(runs), "settings": asdict(settings)}
        save_figure(figures.figure1(runs[0]), out / "figure1")
        shown = table(numbers)
        write_text(out / "report.html", page.page(runs[0], numbers, shown.html(), out / "figure1.png"))
        if animate:
            figures.animation(runs[0], out / "animation.gif")
        write_json(out / "results.json", numbers)
    console.print(shown.terminal())
    written = ["results.json", "figure1.png", "figure1.pdf", "report.html", "models"]
    console.print(
        f"{out}: {', '.join(written + ['animation.gif'] * animate)}", soft_wrap=True, highlight=False
    )
    return numbers


def _jobs(settings: Settings, seeds: range, out: Path, methods: tuple[Method, ...], size: int) -> list[Job]:
    """Two for each seed, which take about as long: the ensembles, and the other models."""
    groups = [[each for each in methods if (each in ENSEMBLES) == many] for many in (True, False)]
    found = []
    for seed in seeds:
        folder = model_folder(out, settings, seed)
        for group in filter(None, groups):
            arguments = {
                "methods": group, "settings": asdict(settings), "seed": seed, "folder": str(folder), "size": size
            }  # fmt: skip
            log = folder / f"{group[0]}.log"
            done = folder / group[-1] / METRICS
            found.append(
                Job(f"seed {seed}: {group[0]}", "torchmcl.toy.outcomes:run_models", arguments, done, log)
            )
    return found


def model_folder(out: Path, settings: Settings, seed: int) -> Path:
    """The folder of the models of a seed.

    Args:
        out: The folder of the experiment.
        settings: Of the training.
        seed: Of the training.
    """
    return out / "models" / settings.name / f"seed{seed}"


def check_seeds(seed: int, seeds: int = 1) -> None:
    """Refuse seeds that are none, and more of them than anybody can wait for.

    Args:
        seed: The first seed.
        seeds: How many.
    """
    if not 1 <= seeds <= MOST_SEEDS:
        raise UserError(f"--seeds must be 1 to {MOST_SEEDS}, got {seeds}")
    if not 0 <= seed < 2**32:
        raise UserError(f"--seed must be 0 to {2**32 - 1}, got {seed}")


def run_seeds(
    settings: Settings,
    seeds: range,
    out: Path,
    console: Console,
    *,
    methods: tuple[Method, ...] = METHODS,
    size: int = GRID_SIZE,
) -> list[Run]:
    """All models of all seeds, each kept in a run folder of its own.

    Args:
        settings: Of the training.
        seeds: One run each.
        out: The folder that holds the models.
        console: Where progress is shown.
        methods: What is trained.
        size: Cells a side of the grid of the evaluation.

    Returns:
        The run of each seed.
    """
    found = []
    with bar(work(settings, methods) * len(seeds), console) as progress:
        for seed in seeds:
            data = samples(settings, seed)
            folder = model_folder(out, settings, seed)
            outcomes = {
                method: run_model(method, settings, seed, data, folder / method, progress, size=size)
                for method in methods
            }
            found.append(Run(settings, seed, outcomes))
    return found


def results(runs: list[Run]) -> dict[str, Any]:
    """What `results.json` holds: numbers of one seed, or their means over several, with each seed under `runs`.

    Args:
        runs: One for each seed.

    Returns:
        Plain values.
    """
    numbers = {run.seed: _numbers(run) for run in runs}
    first = runs[0]
    found: dict[str, Any] = {
        "preset": first.settings.name,
        "seed": first.seed,
        "torchmcl": torchmcl.__version__,
        "torch": torch.__version__,
        "floor_mean": floor().mean().item(),
        "models": _mean(list(numbers.values())),
    }
    if len(runs) > 1:
        found["seeds"] = [run.seed for run in runs]
        found["runs"] = [{"seed": seed, "models": models} for seed, models in numbers.items()]
    return found


COLUMNS = {
    "emd_mean": Column("EMD", 4, "min"),
    "emd_mean_sampled": Column("EMD, samples", 4, "min"),
    "excess": Column("excess", 1, "min", 100.0, " %"),
    "oracle_mean": Column("oracle", 4, "min"),
    "centroid_error": Column("to mean", 4),
    "score_error": Column("score", 4),
    "winner_entropy": Column("entropy", 3),
    "train_seconds": Column("seconds", 1),
}
"""Of the table, by names in `results.json`; `excess` is the part of the EMD above the floor."""


def table(numbers: dict[str, Any]) -> Table:
    """The numbers of all models as a table.

    Args:
        numbers: What `results.json` holds.

    Returns:
        The table.
    """
    seeds = numbers.get("seeds", [numbers["seed"]])
    shown = f"means over seeds {seeds[0]} to {seeds[-1]}" if len(seeds) > 1 else f"seed {seeds[0]}"
    floor_mean = numbers["floor_mean"]
    rows = [
        Row(
            NAMES[method],
            [values["emd_mean"] / floor_mean - 1 if key == "excess" else values[key] for key in COLUMNS],
        )
        for method, values in numbers["models"].items()
    ]
    best = Row("best 20 points", [floor_mean, *[None] * (len(COLUMNS) - 1)], ranked=False)
    return Table(f"Preset {numbers['preset']}, {shown}", list(COLUMNS.values()), [*rows, best], "model")


def _numbers(run: Run) -> dict[Any, Any]:
    return {
        method: {**asdict(outcome.evaluation), "train_seconds": outcome.trained.seconds}
        for method, outcome in run.outcomes.items()
    }


def _mean(values: list[Any]) -> Any:
    """The mean of equal structures of numbers, number by number."""
    first = values[0]
    if isinstance(first, dict):
        return {key: _mean([value[key] for value in values]) for key in first}
    if isinstance(first, list | tuple):
        return [_mean(list(parts)) for parts in zip(*values, strict=True)]
    return sum(values) / len(values)
