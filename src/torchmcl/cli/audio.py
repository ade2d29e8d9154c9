"""Commands for sound: `simulate`, `inspect`, `localize`, `train-localizer` and `evaluate-doa`."""

from pathlib import Path
from typing import Annotated

import typer

from torchmcl.cli.options import Convention, Overwrite, Seed, say
from torchmcl.errors import UserError

__all__ = ["COMMANDS", "evaluate_doa", "inspect", "localize", "simulate", "train_localizer"]


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
        Path | None, typer.Option(help="Your own sounds: one subfolder a class. Otherwise synthesized.")
    ] = None,
    synthesised: Annotated[
        bool,
        typer.Option("--synthesized", "--synthesised", help="Synthesized sounds in addition to your own."),
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
    say(f"{out}: {made} recordings of {settings.duration:g} s made")
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
    overwrite: Overwrite = False,
) -> None:
    """Summarize a data set or a recording: counts, overlaps, directions, a picture.

    Example: `torchmcl inspect scenes --out pictures`

    Writes a map of all directions, a picture of one recording and summary.json.

    Read more: docs/howto/audio-data.md
    """
    from torchmcl.audio.foa import convention_named
    from torchmcl.audio.inspect import inspect as look

    look(path, out, skip_broken=skip_broken, convention=convention_named(convention), overwrite=overwrite)


def localize(
    recordings: Annotated[
        list[Path] | None,
        typer.Argument(
            help="Recordings with four channels (or 9, 16, ... in ACN order), up to an hour, of any rate from 8 kHz."
        ),
    ] = None,
    model: Annotated[
        Path | None, typer.Option(help="Folder of a run of a scored method; otherwise the bundled model.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder of tables and pictures.")] = Path("runs/localize"),
    convention: Annotated[
        str | None, typer.Option("--format", help="`acn-n3d`, `acn-sn3d` or `fuma`; detected when not given.")
    ] = None,
    prefer: Annotated[
        str,
        typer.Option(help="`recall` (fill pauses, keep faint sources) or `precision` (only what is heard)."),
    ] = "recall",
    turns: Annotated[
        int, typer.Option(help="1 to 4 rotated copies whose answers are pooled: more exact, slower.")
    ] = 1,
    causal: Annotated[
        bool, typer.Option("--causal", help="Tracks from the past only, as in live use.")
    ] = False,
    live: Annotated[
        bool,
        typer.Option(
            "--live", help="Read 32-bit floats of four channels from standard input; print JSON lines."
        ),
    ] = False,
    rate: Annotated[int, typer.Option(help="Sample rate of the live input in hertz.")] = 48000,
    device: Annotated[
        str | None, typer.Option(help="With --live: a sound device in place of standard input.")
    ] = None,
    html: Annotated[
        bool, typer.Option("--html", help="Also NAME.html: a page with sound, map and timeline in one file.")
    ] = False,
    overwrite: Overwrite = False,
) -> None:
    """Estimate directions over time in your own recordings: tracks, counts, a map and a timeline.

    Example: `torchmcl localize concert.wav`

    Example: `arecord --channels 4 --rate 48000 --format FLOAT_LE | torchmcl localize --live --format acn-sn3d`

    Writes NAME.csv and NAME-dcase2019.csv (DCASE), NAME-labels.txt (Audacity), NAME.jsonl (ODAS), NAME.json,
    NAME-counts.csv, NAME-hypotheses.csv, NAME-map.png and NAME-timeline.png.

    Read more: docs/howto/localize.md
    """
    from torchmcl.audio.localizer import BUNDLED_MODEL, listening_named
    from torchmcl.audio.localizer import localize as go

    listening = listening_named(prefer, turns=turns, causal=causal)
    if live:
        from torchmcl.audio.live import print_live

        print_live(model or BUNDLED_MODEL, rate, convention or "acn-sn3d", listening, device)
        return
    if device is not None:
        raise UserError("--device is for live sound: say --live")
    if not recordings:
        raise UserError("RECORDINGS is missing: name at least one file, or say --live")
    go(
        recordings,
        out,
        model=model or BUNDLED_MODEL,
        convention=convention,
        listening=listening,
        overwrite=overwrite,
        page=html,
    )
    if html:
        from torchmcl.web.recordings import write_page

        for path in recordings:
            say(write_page(path, out))


def train_localizer(
    out: Annotated[Path, typer.Argument(help="Folder of the model; an unfinished training is continued.")],
    sounds: Annotated[
        Path | None, typer.Option(help="Your own sounds, one subfolder a class, beside synthesized ones.")
    ] = None,
    responses: Annotated[
        list[Path] | None,
        typer.Option(
            help="SOFA file or folder of measured responses, one room each; otherwise simulated rooms."
        ),
    ] = None,
    convention: Annotated[
        str, typer.Option("--response-format", help="`acn-n3d`, `acn-sn3d` or `fuma`, of the responses.")
    ] = "acn-sn3d",
    held_out: Annotated[
        list[str] | None, typer.Option(help="A class of sounds kept for calibration and evaluation.")
    ] = None,
    start: Annotated[Path | None, typer.Option(help="Folder of a model to start from.")] = None,
    voices: Annotated[int, typer.Option(help="Rendered voices of 20 s, 2.6 MB each.")] = 800,
    steps: Annotated[int, typer.Option(help="Steps of the optimizer.")] = 1500,
    scenes: Annotated[int, typer.Option(help="Scenes of each number of sources for the evaluation.")] = 100,
    seed: Seed = 0,
) -> None:
    """Train a localizer on simulated or measured rooms, calibrate it, and measure it on unheard sounds.

    Example: `torchmcl train-localizer runs/mine --sounds my_sounds --responses my_room.sofa`

    Writes config.json, model.safetensors, calibration.json and metrics.json; `localize --model` takes the folder.

    Read more: docs/howto/own-rooms.md
    """
    from torchmcl.audio.training import LocalizerTraining, train_with_bars

    settings = LocalizerTraining(
        sounds=None if sounds is None else str(sounds),
        responses=tuple(map(str, responses or ())),
        response_format=convention,
        held_out=tuple(held_out or ()),
        start=None if start is None else str(start),
        voices=voices,
        steps=steps,
        scenes=scenes,
        seed=seed,
    )
    for line in train_with_bars(settings, out).splitlines():
        say(line)


def evaluate_doa(
    predicted: Annotated[Path, typer.Argument(help="DCASE file of `localize`, or a folder of them.")],
    truth: Annotated[Path, typer.Argument(help="DCASE file of the references, or a folder of them.")],
    classes: Annotated[
        bool, typer.Option("--classes", help="Compare classes too; `localize` writes class 0 throughout.")
    ] = False,
) -> None:
    """Compare predicted with true directions by the measures of the DCASE challenge.

    Example: `torchmcl evaluate-doa runs/localize/concert.csv concert_truth.csv`

    Writes nothing; prints localization error and recall, and F-score and error rate within 20 degrees.

    Read more: docs/howto/localize.md
    """
    from torchmcl.audio.doa import evaluate_doa as compare

    found = compare(predicted, truth, classes=classes)
    print(f"localization error   {found.localization_error:6.1f} degrees")
    print(f"localization recall  {found.localization_recall:6.1%}")
    print(f"F-score (20 degrees) {found.f_score:6.1%}")
    print(f"error rate           {found.error_rate:6.2f}")
    print(f"references           {found.references:6d}")


COMMANDS = (simulate, inspect, localize, train_localizer, evaluate_doa)
