"""Commands for pedestrian trajectories: `trajectories` and `forecast`."""

from pathlib import Path
from typing import Annotated

import typer

from torchmcl.cli.options import say

__all__ = ["COMMANDS", "forecast", "trajectories"]


def trajectories(
    data: Annotated[Path, typer.Argument(help="ETH/UCY as SCENE/{train,val,test}/*.txt.")],
    scene: Annotated[
        str,
        typer.Option(
            help="`eth`, `hotel`, `univ`, `zara1`, `zara2`, `all`, or `none`: train on every video."
        ),
    ] = "all",
    seeds: Annotated[int, typer.Option(help="Networks of each scene.", min=1)] = 3,
    out: Annotated[Path, typer.Option(help="Folder of runs, tables and figures.")] = Path(
        "runs/trajectories"
    ),
    recipe: Annotated[
        str, typer.Option(help="`roughness`, or another one: `perceptron`, `neighbors`, `noise`, `slow`.")
    ] = "roughness",
    steps: Annotated[
        list[int] | None,
        typer.Option(help="Steps of the optimizer (those of the recipe); with --choose, several times."),
    ] = None,
    choose: Annotated[
        bool,
        typer.Option(
            "--choose",
            help="Compare the recipes on held-out videos of other scenes, or one recipe at several --steps.",
        ),
    ] = False,
    workers: Annotated[int | None, typer.Option(help="Runs at a time (one for each core).", min=1)] = None,
    on: Annotated[str, typer.Option(help="`local`, processes of this machine, or `ray`.")] = "local",
    address: Annotated[
        str | None, typer.Option(help="HOST:PORT of a Ray cluster; otherwise Ray starts here.")
    ] = None,
) -> None:
    """The ETH/UCY study: leave one scene out, 20 futures, minADE/minFDE beside published numbers.

    Example: `torchmcl trajectories DATA --scene zara1 --seeds 1`

    Writes SCENE/seedN (model and metrics), results.json, table.md, table.tex and futures.png; finished runs are
    reused, and an interrupted one continues. With --choose: choice.json and choice.md.

    Read more: docs/trajectories.md
    """
    from torchmcl.trajectories.command import Study, study

    settings = Study(data, scene, seeds, out, recipe, tuple(steps or ()), choose, workers, on, address)
    for written in study(settings):
        if written.suffix == ".md":
            print(written.read_text(encoding="utf-8"))
        say(written)


def forecast(
    tracks: Annotated[
        Path, typer.Argument(help="`frame id x y` text, CSV with named columns, or TrajNet++ ndjson.")
    ],
    frame: Annotated[
        int | None, typer.Option(help="The present (the last frame with a complete pedestrian).")
    ] = None,
    model: Annotated[
        Path | None, typer.Option(help="Folder of a trained forecaster; otherwise the bundled model.")
    ] = None,
    fps: Annotated[
        float | None,
        typer.Option(help="Frames per second of the frame numbers; otherwise 0.4 s between positions."),
    ] = None,
    homography: Annotated[
        Path | None, typer.Option(help="3 x 3 matrix from pixels to meters, three lines of three numbers.")
    ] = None,
    unit: Annotated[float, typer.Option(help="Meters that a unit of the file has.")] = 1.0,
    history: Annotated[int, typer.Option(help="Fewest observed steps of a pedestrian, from 2 to 8.")] = 8,
    all_frames: Annotated[
        bool, typer.Option("--all-frames", help="Stream the whole file, an instant every 0.4 s.")
    ] = False,
    top: Annotated[
        int | None, typer.Option(help="With --all-frames: write only the most probable futures.")
    ] = None,
    page: Annotated[
        bool, typer.Option("--page", help="With --all-frames: also scene.html, an animated page.")
    ] = False,
    out: Annotated[Path, typer.Option(help="Folder of tables and pictures.")] = Path("runs/forecast"),
) -> None:
    """Futures with probabilities of the pedestrians of a file, 4.8 s ahead.

    Example: `torchmcl forecast tracks.txt --frame 780`

    Writes futures.csv and answers.csv; of one frame also futures.ndjson (TrajNet++), plan.png and plan.pdf.

    Read more: docs/tutorials/forecast.md
    """
    from torchmcl.errors import UserError
    from torchmcl.runs.progress import training_bar
    from torchmcl.trajectories.forecast import forecast_all, forecast_frame
    from torchmcl.trajectories.forecaster import Forecaster
    from torchmcl.trajectories.rows import read_homography
    from torchmcl.trajectories.stream import Source

    if all_frames and frame is not None:
        raise UserError("--frame is one frame, --all-frames all of them: give one of the two")
    if not all_frames and (page or top is not None):
        raise UserError("--page and --top need --all-frames")
    source = Source(tracks, fps, unit, None if homography is None else read_homography(homography))
    forecaster = Forecaster.from_pretrained(model)
    if all_frames:
        with training_bar("forecasting") as advance:
            written = forecast_all(
                source, out, forecaster=forecaster, history=history, top=top, page=page, progress=advance
            )
    else:
        written = forecast_frame(source, out, frame=frame, forecaster=forecaster, history=history)
    for path in written:
        say(path)


COMMANDS = (trajectories, forecast)
