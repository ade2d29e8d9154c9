"""Commands for sound: `simulate`, `inspect` and `localize`."""

from pathlib import Path
from typing import Annotated

import typer

from torchmcl.cli.options import Convention, Seed

__all__ = ["COMMANDS", "inspect", "localize", "simulate"]


def simulate(
    out: Annotated[Path, typer.Argument(help="Folder of the data set; an unfinished one is continued.")],
    condition: Annotated[str, typer.Option(help="`anechoic`, `reverberant` or `mixed`.")] = "anechoic",
    recordings: Annotated[
        int,
        typer.Option(help="Recordings per split and overlap; in the layout `tut` a fifth are for testing."),
    ] = 10,
    duration: Annotated[float | None, typer.Option(help="Seconds (30; 60 in the layout `dcase19`).")] = None,
    sample_rate: Annotated[int | None, typer.Option(help="Hertz (44100; 48000 in `dcase19`).")] = None,
    events: Annotated[
        Path | None, typer.Option(help="Your own sounds: one subfolder a class. Otherwise synthesised.")
    ] = None,
    synthesised: Annotated[
        bool, typer.Option("--synthesised", help="Synthesised sounds in addition to your own.")
    ] = False,
    snr: Annotated[
        float, typer.Option(help="Signal-to-noise ratio in decibels; the noise is diffuse.")
    ] = 30.0,
    grid: Annotated[float, typer.Option(help="Degrees between directions, 0 for continuous ones.")] = 10.0,
    seed: Seed = 0,
    workers: Annotated[int | None, typer.Option(help="Processes (one for each core).")] = None,
    layout: Annotated[str, typer.Option(help="`tut` (TUT Sound Events 2018) or `dcase19`.")] = "tut",
    convention: Convention = "acn-n3d",
) -> None:
    """Simulate first-order Ambisonics recordings of sounds at known directions.

    Example: `torchmcl simulate scenes --condition reverberant --recordings 20 --events my_sounds`

    Writes WAV and CSV files in the layout of a published data set; the same command continues where it stopped.

    Read more: docs/howto/audio-data.md
    """
    import os

    from torchmcl.audio.datasets import read_dataset
    from torchmcl.audio.scenes import SceneSettings
    from torchmcl.audio.simulate import simulate as make
    from torchmcl.audio.targets import overlap_shares

    settings = SceneSettings.for_layout(
        layout,
        condition=condition,
        recordings=recordings,
        duration=duration,
        sample_rate=sample_rate,
        events=events,
        synthesised=synthesised,
        snr=snr,
        grid=grid,
        seed=seed,
        convention=convention,
    )
    made = make(out, settings, workers=(os.cpu_count() or 1) if workers is None else workers, progress=True)
    print(f"{out}: {made} recordings of {settings.duration:g} s made")
    for overlap, shares in overlap_shares(read_dataset(out).recordings).items():
        print(
            f"ov{overlap}: "
            + ", ".join(f"{share:.0%} with {count}" for count, share in enumerate(shares[: overlap + 1]))
        )


def inspect(
    path: Annotated[Path, typer.Argument(help="A data set (TUT 2018 or DCASE19 layout) or one recording.")],
    out: Annotated[Path, typer.Option(help="Folder of pictures and summary.json.")] = Path("runs/inspect"),
    skip_broken: Annotated[
        bool, typer.Option("--skip-broken", help="Skip broken recordings, and list them.")
    ] = False,
    convention: Convention = "acn-n3d",
) -> None:
    """Summarize a data set or a recording: counts, overlaps, directions, a picture.

    Example: `torchmcl inspect scenes --out pictures`

    Writes a map of all directions, a picture of one recording and summary.json.

    Read more: docs/howto/audio-data.md
    """
    from torchmcl.audio.foa import convention_named
    from torchmcl.audio.inspect import inspect as look

    look(path, out, skip_broken=skip_broken, convention=convention_named(convention))


def localize(
    recordings: Annotated[
        list[Path], typer.Argument(help="Four-channel recordings, of any length and rate.")
    ],
    model: Annotated[
        Path | None, typer.Option(help="Folder of a run of a scored method; otherwise the bundled model.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder of tables and pictures.")] = Path("runs/localize"),
    convention: Annotated[
        str | None, typer.Option("--format", help="`acn-n3d`, `acn-sn3d` or `fuma`; detected when not given.")
    ] = None,
) -> None:
    """Estimate directions over time in your own recordings, with a heat map and a timeline.

    Example: `torchmcl localize concert.wav`

    Writes NAME.csv (DCASE columns), NAME-hypotheses.csv, NAME.json, NAME-map.png and NAME-timeline.png.

    Read more: docs/howto/localize.md
    """
    from torchmcl.audio.localizer import BUNDLED_MODEL
    from torchmcl.audio.localizer import localize as go

    go(recordings, out, model=model or BUNDLED_MODEL, convention=convention)


COMMANDS = (simulate, inspect, localize)
