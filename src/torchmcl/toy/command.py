"""What `torchmcl toy` does: runs, numbers, figure and page in one folder."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from torchmcl.errors import UserError
from torchmcl.runs.files import write_json, write_text
from torchmcl.runs.progress import bar
from torchmcl.toy import figures, page
from torchmcl.toy.experiment import GRID_SIZE, Run, results, run, work
from torchmcl.toy.models import ENSEMBLES, METHODS, Method
from torchmcl.toy.presets import Settings

__all__ = ["run_seeds", "toy"]


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
) -> dict[str, Any]:
    """Train and evaluate what `out` does not hold, write results, figure, page and animation, print the table."""
    methods = METHODS if ensembles else tuple(method for method in METHODS if method not in ENSEMBLES)
    if seeds < 1:
        raise UserError(f"--seeds must be at least 1, got {seeds}")
    if seed < 0:
        raise UserError(f"--seed must not be negative, got {seed}")
    runs = run_seeds(settings, range(seed, seed + seeds), out, console, methods=methods, size=size)
    numbers = results(runs)
    figure = figures.figure1(runs[0])
    for suffix in (".png", ".pdf"):
        figures.save(figure, out / f"figure1{suffix}")
    write_text(out / "report.html", page.page(runs[0], numbers, out / "figure1.png"))
    written = ["results.json", "figure1.png", "figure1.pdf", "report.html", "models"]
    if animate:
        figures.animation(runs[0], out / "animation.gif")
        written.append("animation.gif")
    write_json(out / "results.json", {**numbers, "settings": asdict(settings)})
    _print(numbers, console)
    console.print(f"{out}: {', '.join(written)}", soft_wrap=True, highlight=False)
    return numbers


def run_seeds(
    settings: Settings,
    seeds: range,
    out: Path,
    console: Console,
    *,
    methods: tuple[Method, ...] = METHODS,
    size: int = GRID_SIZE,
) -> list[Run]:
    """All models of all seeds, each kept in a folder of its own as soon as it is ready."""
    folder = out / "models" / settings.name
    with bar(work(settings, methods) * len(seeds), console) as progress:
        return [
            run(settings, seed, folder / f"seed{seed}", progress, methods=methods, size=size)
            for seed in seeds
        ]


def _print(numbers: dict[str, Any], console: Console) -> None:
    seeds = numbers.get("seeds", [numbers["seed"]])
    several = f"means over seeds {seeds[0]} to {seeds[-1]}" if len(seeds) > 1 else f"seed {seeds[0]}"
    table = Table(
        title=f"Preset {numbers['preset']}, {several}", box=SIMPLE_HEAD, padding=(0, 0, 0, 1), pad_edge=False
    )
    table.add_column("model")
    for heading, _, _ in page.COLUMNS:
        table.add_column(heading, justify="right")
    for method, values in numbers["models"].items():
        table.add_row(*page.cells_of(method, values, numbers["floor_mean"]))
    table.add_row("best 20 points", f"{numbers['floor_mean']:.4f}")
    console.print(table)
