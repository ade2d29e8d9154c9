"""Finished runs, of this version or of version 0.1, from here or from elsewhere: they are data, and are checked."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import ClassVar

from torch import nn

from torchmcl.audio.pretrained import load_pretrained
from torchmcl.errors import UserError
from torchmcl.experiments.build import describe_network
from torchmcl.experiments.config import Config, from_plain, read_yaml, to_plain
from torchmcl.experiments.evaluate import ErrorSummary
from torchmcl.runs.files import read_json, write_json
from torchmcl.runs.folder import CONFIG, METRICS, MODEL, SETTINGS
from torchmcl.runs.records import Record, read_record, write_record
from torchmcl.runs.records import from_plain as record_from_plain
from torchmcl.runs.weights import load_weights

__all__ = ["RunMetrics", "TrainingRecord", "load_network", "load_settings", "read_metrics", "update_run"]

OLD_SETTINGS = "config.yaml"
"""The settings of a run of version 0.1."""

LARGEST_SETTINGS = 1 << 16


@dataclass(frozen=True)
class TrainingRecord(Record):
    """How a run was trained.

    Args:
        train_seconds: Of all members together; `None` where it is not known.
    """

    file: ClassVar[str] = "training.json"
    train_seconds: float | None


@dataclass(frozen=True)
class RunMetrics(Record):
    """The results of a run.

    Args:
        method: Its name.
        data: The name of the data set.
        scale: The name of the scale.
        seed: Of all random numbers.
        train_seconds: Of all members together.
        collapse: A sentence on hypotheses that never win on validation data; `None` where all do.
        validation: Errors on validation recordings.
        test: Errors on test recordings.
    """

    file: ClassVar[str] = METRICS
    method: str
    data: str
    scale: str
    seed: int
    train_seconds: float | None
    collapse: str | None
    validation: ErrorSummary
    test: ErrorSummary


def load_settings(folder: str | Path) -> Config:
    """The settings of a run.

    Args:
        folder: Of the run.

    Returns:
        Its settings; a file that holds anything else is a `UserError` that names it.
    """
    folder = Path(folder)
    path = folder / SETTINGS
    try:
        if path.is_file():
            return from_plain(read_json(path, limit=LARGEST_SETTINGS))
        path = folder / OLD_SETTINGS
        if not path.is_file():
            raise UserError(f"{folder}: no finished run, {SETTINGS} is missing")
        plain = read_yaml(path)
        if isinstance(plain, dict) and isinstance(data := plain.get("data"), dict) and "turning" in data:
            data["augmentation"] = data.pop("turning")
        return from_plain(plain)
    except UserError as error:
        if str(error).startswith(str(folder)):
            raise
        raise UserError(f"{path}: {error}") from None


def load_network(folder: str | Path) -> tuple[Config, nn.Module]:
    """The settings and the trained network of a run; reads JSON, YAML and safetensors, never a pickle.

    Args:
        folder: Of a finished run.

    Returns:
        The settings, and the network in evaluation mode.
    """
    folder = Path(folder)
    config = load_settings(folder)
    for name in (CONFIG, MODEL):
        if not (folder / name).is_file():
            raise UserError(f"{folder}: no finished run, {name} is missing")
    update_run(folder)
    description, network = load_pretrained(folder)
    if describe_network(config, description.sample_rate, description.hypotheses) != description:
        raise UserError(f"{folder}: its settings and {CONFIG} describe different networks")
    return config, network


def read_metrics(folder: str | Path, name: str = METRICS) -> RunMetrics:
    """The results of a run.

    Args:
        folder: Of a finished run.
        name: Of the file.

    Returns:
        The results; anything else is a `UserError` that names the file.
    """
    path = Path(folder) / name
    plain = read_json(path)
    if isinstance(plain, dict) and "torchmcl" in plain:
        own = {
            key: value for key, value in plain.items() if key not in ("torchmcl", "torch", "python", "commit")
        }
        try:
            return record_from_plain(RunMetrics, own)
        except UserError as error:
            raise UserError(f"{path}: {error}") from None
    return read_record(path, RunMetrics)


def update_run(folder: Path) -> None:
    """Bring a run of version 0.1 to the present form: settings as JSON, and `config.json` describes the network.

    Args:
        folder: Of a run; one of the present form is left as it is.
    """
    if (folder / SETTINGS).exists() or not (folder / OLD_SETTINGS).exists():
        return
    config = load_settings(folder)
    path = folder / CONFIG
    if path.exists():
        values = read_json(path)
        if isinstance(values, dict) and {"slots", "sample_rate"} <= values.keys():
            _update_network(folder, config, values)
    write_json(folder / SETTINGS, to_plain(config))


def _update_network(folder: Path, config: Config, values: dict[str, object]) -> None:
    path, rate, slots, seconds = (
        folder / CONFIG,
        values["sample_rate"],
        values["slots"],
        values.get("train_seconds"),
    )
    for key, value, most in (("sample_rate", rate, 192_000), ("slots", slots, 1000)):
        if not isinstance(value, int) or not 0 < value <= most:
            raise UserError(f"{path}: {key} is {value!r}, must be a whole number from 1 to {most}")
    assert isinstance(rate, int)
    assert isinstance(slots, int)
    description = describe_network(config, rate, slots)
    load_weights(description.build(), folder / MODEL)
    known = float(seconds) if isinstance(seconds, int | float) and not isinstance(seconds, bool) else None
    write_record(folder / TrainingRecord.file, TrainingRecord(known))
    write_json(path, asdict(description))
