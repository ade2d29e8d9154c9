"""The settings of the networks, chosen on held-out training images."""

import statistics
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

from torchmcl.errors import UserError
from torchmcl.images.data import ImageSet, load_digits, load_mnist
from torchmcl.images.networks import SCALINGS, Scaling
from torchmcl.images.study import Settings, check_seeds, run, settings_of, work
from torchmcl.runs.files import locked, sweep, write_json
from torchmcl.runs.outputs import claim_outputs
from torchmcl.runs.progress import Bar, bar
from torchmcl.runs.tables import Column, Row, Table, write_tables

__all__ = ["CANDIDATES", "choose"]

HIDDEN = (32, 64, 128)
CANDIDATES = tuple((scaling, hidden) for scaling in SCALINGS for hidden in HIDDEN)
"""Scalings of the pixels with units of the hidden layer."""

JUDGE = "ensemble"
"""The method by which settings are chosen: what is best for it cannot favor the methods that are compared with it."""


def choose(
    data: Path | None, *, out: Path, seeds: int, images: int | None, console: Console
) -> dict[str, Any]:
    """Compare the candidates by the independent ensemble's top-1 error on training images that no run learns from.

    Args:
        data: A folder with the four IDX files of MNIST; scikit-learn's digits if `None`.
        out: The folder of runs, choice.json and the table.
        seeds: How many, from 0 on.
        images: Training images; those of the task `few` if `None`.
        console: For the progress bar.

    Returns:
        The content of choice.json: for each candidate its errors in per cent, and the best one.
    """
    check_seeds(seeds)
    if images is not None and images < 1:
        raise UserError(f"--images must be at least 1, got {images}")
    loaded = load_digits() if data is None else load_mnist(data)
    settings = settings_of(loaded, "few", images)
    if settings.images >= loaded.available:
        raise UserError(
            f"--images must be at most {loaded.available - 1}: the others are held out, got {settings.images}"
        )
    total = float(work(settings) * len(CANDIDATES) * seeds)
    names = [f"choice{suffix}" for suffix in (".json", ".md", ".tex", ".html")]
    claim_outputs(out, names, otherwise="choose another --out")
    with locked(out, f"{out}: another process is working in it"):
        sweep(out)
        with bar(total, console) as progress:
            found = [_candidate(out, loaded, settings, *each, seeds, progress) for each in CANDIDATES]
        best = min(found, key=lambda row: float(row["mean"]))
        chosen = {key: best[key] for key in ("scaling", "hidden")}
        content = {"judge": JUDGE, "seeds": list(range(seeds)), "candidates": found, "best": chosen}
        write_json(out / "choice.json", content)
        write_tables(out / "choice", "Settings on held-out training images", [_table(found)])
    return content


def _candidate(
    out: Path, data: ImageSet, settings: Settings, scaling: Scaling, hidden: int, seeds: int, progress: Bar
) -> dict[str, Any]:
    tried, units = replace(settings, scaling=scaling, hidden=hidden), float(work(settings))
    values = []
    for seed in range(seeds):
        with progress.stage(f"{scaling}, {hidden} units, seed {seed}", units) as advance:
            folder = out / f"{scaling}-{hidden}"
            record = run(folder, data, tried, JUDGE, seed, partial(_scaled, advance, units), validation=True)
            values.append(record["measures"]["top1"])
    return {"scaling": scaling, "hidden": hidden, "mean": statistics.fmean(values), "values": values}


def _scaled(advance: Callable[[float], None], units: float, part: float) -> None:
    advance(part * units)


def _table(found: list[dict[str, Any]]) -> Table:
    names = {"none": "as they are", "image": "all pixels alike", "pixel": "each pixel by itself"}
    rows = [
        Row(names[scaling], [row["mean"] for row in found if row["scaling"] == scaling])
        for scaling in SCALINGS
    ]
    title = "Top-1 error of the independent ensemble on held-out training images, per cent"
    return Table(title, [Column(f"{units} units") for units in HIDDEN], rows, "scaling of the pixels")
