"""Localise recordings with the network of a run."""

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

import torchmcl
from torchmcl.audio.datasets.sound import read_header
from torchmcl.audio.foa import Convention, convention_named
from torchmcl.audio.localizer import detect_convention, localize_blocks
from torchmcl.audio.predictions import write_answers
from torchmcl.errors import UserError
from torchmcl.experiments.train import SHAPE, load_network

__all__ = ["SHIPPED", "localize"]


SHIPPED = Path(torchmcl.__file__).parent / "models" / "directions"
"""The model that comes with the package; its README says what it was trained on."""


def localize(
    recordings: Sequence[Path], out: Path, *, model: Path = SHIPPED, convention: str | None = None
) -> None:
    """Localise each recording and write what was found to `out`."""
    missing = [path for path in recordings if not path.is_file()]
    if missing:
        raise UserError(f"{missing[0]}: no such file")
    if len({path.stem for path in recordings}) < len(recordings):
        raise UserError("two recordings have the same name: localise them one by one, with another --out")
    config, network = load_network(model)
    rate = json.loads((model / SHAPE).read_text())["sample_rate"]
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console) as bar:
        for path in recordings:
            task = bar.add_task(path.name, total=1.0)
            form = convention_named(convention) if convention else _detected(path, console)
            blocks = localize_blocks(path, network, rate, form, partial(_show, bar, task))
            about: dict[str, object] = {"recording": path.name, "model": config.method.name, "format": form}
            written = write_answers(blocks, out, path.stem, read_header(path).duration, about)
            console.print(", ".join(str(each) for each in written), soft_wrap=True)


def _show(bar: Progress, task: TaskID, share: float) -> None:
    bar.update(task, completed=share)


def _detected(path: Path, console: Console) -> Convention:
    form, doubtful = detect_convention(path)
    if doubtful:
        console.print(
            f"{path}: the energies do not tell its convention clearly; taken for {form}, say --format",
            soft_wrap=True,
        )
    return form
