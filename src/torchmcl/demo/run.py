"""The demonstration: every door once, then the page."""

import os
from collections.abc import Callable
from pathlib import Path

from rich.console import Console

from torchmcl.audio.localizer import localize
from torchmcl.demo.data import TARGET, write_table, write_tracks
from torchmcl.demo.figure import draw_table
from torchmcl.demo.page import Door, index_page
from torchmcl.runs.files import write_text
from torchmcl.runs.outputs import claim_outputs
from torchmcl.tabular.command import FitSettings, fit_table
from torchmcl.toy.experiment import toy
from torchmcl.toy.presets import preset
from torchmcl.trajectories.forecast import forecast_all, forecast_frame
from torchmcl.trajectories.stream import Source
from torchmcl.web.recordings import write_page
from torchmcl.web.work import example_recording

__all__ = ["demo"]


def demo(out: Path, console: Console) -> Path:
    """Run all doors on small data and write a page that shows them.

    Args:
        out: The folder of everything.
        console: Says what is being done.

    Returns:
        The path of the page.
    """
    names = ("index.html", "diabetes.csv", "table.png", "tracks.txt")
    claim_outputs(out, names, otherwise="choose another --out")
    doors = []
    for name, door in DOORS.items():
        console.rule(name, align="left")
        doors.append(door(out, console))
    write_text(out / "index.html", index_page(doors))
    return out / "index.html"


def _toy(out: Path, console: Console) -> Door:
    workers = min(os.cpu_count() or 1, 2)
    toy(preset("paper"), seed=0, seeds=1, out=out / "toy", animate=False, console=console, workers=workers)
    return Door(
        "A distribution that changes with time",
        "The toy experiment of the paper. rMCL puts its hypotheses and their scores where the targets are; "
        "the average of an ensemble is where no target ever is.",
        f"torchmcl toy --out {out / 'toy'}",
        "toy/figure1.png",
        [("Report", "toy/report.html"), ("Numbers", "toy/results.json")],
    )


def _table(out: Path, console: Console) -> Door:
    path, folder = out / "diabetes.csv", out / "table"
    write_table(path)
    fit_table(FitSettings(str(path), (TARGET,)), folder)
    draw_table(path, folder, out / "table.png")
    return Door(
        "A table",
        "How far diabetes progresses within a year: the predicted distribution for an average patient with a growing "
        "body mass index, and all patients. The report has coverage, calibration and the columns that matter.",
        f"torchmcl fit {path} --target {TARGET} --out {folder}",
        "table.png",
        [("Report", "table/report.html"), ("Numbers", "table/metrics.json")],
    )


def _tracks(out: Path, console: Console) -> Door:
    path, folder = out / "tracks.txt", out / "tracks"
    write_tracks(path)
    forecast_frame(Source(path), folder)
    forecast_all(Source(path), folder / "scene", page=True)
    return Door(
        "Pedestrians",
        "Twenty futures for each pedestrian of a made-up crossing, 4.8 s ahead; wider lines are more probable.",
        f"torchmcl forecast {path} --out {folder}\n"
        f"torchmcl forecast {path} --all-frames --page --out {folder / 'scene'}",
        "tracks/plan.png",
        [("Futures that move", "tracks/scene/scene.html"), ("Table", "tracks/futures.csv")],
    )


def _recording(out: Path, console: Console) -> Door:
    source, folder = example_recording(), out / "recording"
    localize([source], folder)
    write_page(source, folder)
    return Door(
        "A recording",
        "Where the sounds of a four-channel recording come from: tracks with regions, and how many sources there are.",
        f"torchmcl localize example.flac --html --out {folder}",
        "recording/example-timeline.png",
        [("Look and listen", "recording/example.html"), ("Table", "recording/example.csv")],
    )


DOORS: dict[str, Callable[[Path, Console], Door]] = {
    "Toy experiment": _toy,
    "A table": _table,
    "Pedestrians": _tracks,
    "A recording": _recording,
}
