"""The command `torchmcl`: thin commands whose work is done elsewhere, imported when called."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from torchmcl.errors import UserError

__all__ = ["app", "main"]

app = typer.Typer(
    help="Multiple Choice Learning for PyTorch.",
    epilog="`torchmcl COMMAND --help` gives an example and says what is written. `torchmcl --install-completion` "
    "teaches your shell to complete commands and options. Read more: docs/start.md",
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)


# What typer raises for words that it cannot read; in some versions it brings a copy of click of its own.
WrongWords: Any = typer.BadParameter.__mro__[2]


def _version(show: bool) -> bool:
    if show:
        import torchmcl

        print(f"torchmcl {torchmcl.__version__}")
        raise typer.Exit
    return show


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """K scored hypotheses in place of one averaged answer."""


@app.command()
def toy(
    preset: Annotated[str, typer.Option(help="`paper`, as published, or `tuned`, as recommended.")] = "paper",
    seed: Annotated[int, typer.Option(help="The same seed gives the same models.")] = 0,
    seeds: Annotated[int, typer.Option(help="How many seeds, from --seed on; numbers are their means.")] = 1,
    out: Annotated[Path, typer.Option(help="Where models, numbers, figure and page go.")] = Path("runs/toy"),
    animate: Annotated[
        bool, typer.Option("--animate", help="Also animation.gif: rMCL while it learns.")
    ] = False,
    ensembles: Annotated[bool, typer.Option(help="The ensembles too, which take most of the time.")] = True,
) -> None:
    """Reproduce Figure 1: sMCL, rMCL, rMCL* and ensembles on a distribution that changes with time.

    Example: `torchmcl toy --preset tuned --seeds 3`

    Writes figure1.png and .pdf, results.json, report.html and the trained models. What is there is used again, and
    an interrupted run goes on with the next model.

    Read more: docs/toy.md
    """
    from rich.console import Console

    from torchmcl.toy.command import toy as go
    from torchmcl.toy.presets import preset as settings_named

    go(
        settings_named(preset),
        seed=seed,
        seeds=seeds,
        out=out,
        animate=animate,
        ensembles=ensembles,
        console=Console(),
    )


@app.command("toy-outliers")
def toy_outliers(
    preset: Annotated[str, typer.Option(help="`paper`, as published, or `tuned`, as recommended.")] = "paper",
    seed: Annotated[int, typer.Option(help="The same seed gives the same models.")] = 0,
    out: Annotated[Path, typer.Option(help="Where models, numbers and figure go.")] = Path(
        "runs/toy-outliers"
    ),
) -> None:
    """Show what outliers among the training targets do to rMCL and sMCL.

    Example: `torchmcl toy-outliers --preset tuned`

    Writes outliers.png and .pdf, results.json and the trained models; what is there is used again.

    Read more: docs/toy.md
    """
    from rich.console import Console

    from torchmcl.toy.outliers import toy_outliers as go
    from torchmcl.toy.presets import preset as settings_named

    go(settings_named(preset), seed=seed, out=out, console=Console())


@app.command()
def simulate(
    out: Annotated[Path, typer.Argument(help="The folder to make, or to go on with.")],
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
        bool, typer.Option("--synthesised", help="Synthesised sounds too, next to your own.")
    ] = False,
    snr: Annotated[float, typer.Option(help="Decibels from the sounds down to diffuse white noise.")] = 30.0,
    grid: Annotated[float, typer.Option(help="Degrees between directions, 0 for continuous ones.")] = 10.0,
    seed: Annotated[int, typer.Option(help="The same seed gives the same bytes.")] = 0,
    workers: Annotated[int | None, typer.Option(help="Processes (one for each core).")] = None,
    layout: Annotated[str, typer.Option(help="`tut` (TUT Sound Events 2018) or `dcase19`.")] = "tut",
    convention: Annotated[str, typer.Option(help="`acn-n3d`, `acn-sn3d` or `fuma`.")] = "acn-n3d",
) -> None:
    """Make first-order Ambisonics recordings of sounds at known directions.

    Example: `torchmcl simulate scenes --condition reverberant --recordings 20 --events my_sounds`

    Writes WAV and CSV files in the layout of a published data set; the same command goes on where it stopped.

    Read more: docs/audio-data.md
    """
    import os

    from torchmcl.audio.layouts import overlap_table, settings_for
    from torchmcl.audio.simulate import simulate as make

    settings = settings_for(
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
    for overlap, shares in overlap_table(out, settings).items():
        print(f"ov{overlap}: " + ", ".join(f"{share:.0%} with {count}" for count, share in enumerate(shares)))


@app.command()
def inspect(
    path: Annotated[Path, typer.Argument(help="A data set (TUT 2018 or DCASE19 layout) or one recording.")],
    out: Annotated[Path, typer.Option(help="Where pictures and summary.json go.")] = Path("runs/inspect"),
    skip_broken: Annotated[
        bool, typer.Option("--skip-broken", help="Leave broken recordings out, and list them.")
    ] = False,
    convention: Annotated[str, typer.Option(help="`acn-n3d`, `acn-sn3d` or `fuma`.")] = "acn-n3d",
) -> None:
    """Show what is in a data set or a recording: counts, overlaps, directions, a picture.

    Example: `torchmcl inspect scenes --out pictures`

    Writes a map of all directions, a picture of one recording and summary.json.

    Read more: docs/audio-data.md
    """
    from torchmcl.audio.foa import convention_named
    from torchmcl.audio.inspect import inspect as look

    look(path, out, skip_broken=skip_broken, convention=convention_named(convention))


@app.command()
def train(
    settings: Annotated[
        list[str] | None, typer.Argument(help="key=value, for example method=rmcl seed=0.")
    ] = None,
) -> None:
    """Train one method on one data set, and evaluate it; the same command goes on where it stopped.

    Example: `torchmcl train method=rmcl data=simulated scale=smoke run=runs/first`

    Writes the folder of the run: config.yaml, model.safetensors, metrics.json and logs.

    Read more: docs/howto/own-rooms.md
    """
    from torchmcl.experiments.config import compose_config
    from torchmcl.experiments.report import print_metrics
    from torchmcl.experiments.train import train as go

    print_metrics(go(compose_config(settings or [])))


@app.command()
def evaluate(
    run: Annotated[Path, typer.Argument(help="The folder of a finished run.")],
    swapped_angles: Annotated[
        bool, typer.Option("--swapped-angles", help="Measure by the published formula, to compare with it.")
    ] = False,
) -> None:
    """Measure a trained model: EMD and oracle error for one, two and three sources, and frame recall.

    Example: `torchmcl evaluate runs/first`

    Writes metrics.json (metrics-swapped.json with --swapped-angles) into the folder of the run.

    Read more: docs/howto/own-rooms.md
    """
    from torchmcl.experiments.report import print_metrics
    from torchmcl.experiments.train import evaluate_run

    evaluate_run(run, swapped=swapped_angles)
    print_metrics(run, "metrics-swapped.json" if swapped_angles else "metrics.json")


@app.command()
def study(
    name: Annotated[
        str,
        typer.Argument(
            help="`table1` to `table4`, `figure-statistics`, `figure-hypotheses`, `figure-winners`, "
            "`figure-scenes`, or `all`."
        ),
    ],
    settings: Annotated[
        list[str] | None, typer.Argument(help="key=value for all runs, for example scale=smoke.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Where runs and tables go.")] = Path("runs/study"),
    workers: Annotated[int | None, typer.Option(help="Runs at a time (one for each core).", min=1)] = None,
    seeds: Annotated[int, typer.Option(help="Runs of each row in figures with error bars.", min=1)] = 3,
    on: Annotated[str, typer.Option(help="`local`, processes of this machine, or `ray`.")] = "local",
    address: Annotated[
        str | None, typer.Option(help="Of a Ray cluster, HOST:PORT; otherwise Ray starts here.")
    ] = None,
) -> None:
    """A table or figure of the paper: missing runs are trained, finished ones reused.

    Example: `torchmcl study table1 scale=smoke`

    Example: `torchmcl study table1 scale=paper network=paper data=ansyn data.folder=ANSYN`

    Writes the runs; a table as Markdown, LaTeX and HTML with the paper's numbers beside ours, a figure as PNG
    and PDF.

    Read more: docs/howto/tables.md
    """
    from torchmcl.experiments.study import run_study

    written_files = run_study(
        name, settings or [], out=out, workers=workers, seeds=seeds, on=on, address=address
    )
    for written in written_files:
        if written.suffix == ".md":
            print(written.read_text())
        print(written)


@app.command()
def localize(
    recordings: Annotated[
        list[Path], typer.Argument(help="Four-channel recordings, of any length and rate.")
    ],
    model: Annotated[
        Path | None,
        typer.Option(help="The folder of a run of a scored method; otherwise the model that comes along."),
    ] = None,
    out: Annotated[Path, typer.Option(help="Where tables and pictures go.")] = Path("runs/localize"),
    convention: Annotated[
        str | None, typer.Option("--format", help="`acn-n3d`, `acn-sn3d` or `fuma`; detected when not given.")
    ] = None,
) -> None:
    """Directions over time of your own recordings, with a heat map and a timeline.

    Example: `torchmcl localize concert.wav`

    Writes NAME.csv (DCASE columns), NAME-hypotheses.csv, NAME.json, NAME-map.png and NAME-timeline.png.

    Read more: docs/howto/localise.md
    """
    from torchmcl.experiments.localisation import SHIPPED
    from torchmcl.experiments.localisation import localize as go

    go(recordings, out, model=model or SHIPPED, convention=convention)


@app.command()
def doctor() -> None:
    """Say what is installed, what the machine has, and how to get the parts that are missing.

    Example: `torchmcl doctor`

    Writes nothing; paste what it prints into a bug report.

    Read more: docs/start.md
    """
    from torchmcl.cli.doctor import report

    print(report())


def main() -> None:
    """Run the command line; mistakes of the caller end with one sentence and exit code 2."""
    try:
        code = app(sys.argv[1:] or ["--help"], standalone_mode=False)
        if code == 130:  # typer's way of telling that somebody pressed Ctrl-C
            raise KeyboardInterrupt
        sys.exit(code)
    except WrongWords as error:
        sys.exit(_complain(" ".join(error.format_message().split())))
    except UserError as error:
        sys.exit(_complain(str(error)))
    except ModuleNotFoundError as error:
        from torchmcl.cli.doctor import explain_missing

        sentence = explain_missing(error)
        if sentence is None:
            raise
        sys.exit(_complain(sentence))
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        sys.exit(_complain(f"{where}{error.strerror or error}"))
    except (typer.Abort, KeyboardInterrupt):
        print("torchmcl: interrupted; the same command goes on where it stopped", file=sys.stderr)
        sys.exit(130)


def _complain(sentence: str) -> int:
    print(f"torchmcl: {sentence}", file=sys.stderr)
    return 2
