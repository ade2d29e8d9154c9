"""A run is a folder: settings, checkpoint, model and records, of one process at a time."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

from safetensors.torch import save
from torch import nn

from torchmcl.errors import UserError
from torchmcl.runs.files import PARTIAL, atomic, check_file, check_root, locked, read_json, sweep, write_json
from torchmcl.runs.records import Record, read_record, write_record

__all__ = ["CHECKPOINT", "CONFIG", "METRICS", "MODEL", "SETTINGS", "RunFolder", "State", "check_place"]

SETTINGS, MODEL, CONFIG, METRICS = "settings.json", "model.safetensors", "config.json", "metrics.json"
CHECKPOINT = "last.ckpt"
FILES = (".ckpt", ".csv", ".html", ".json", ".md", ".pdf", ".png", ".safetensors", ".yaml")
"""Endings of what runs hold, and folders and pipes have not: found before the work is done, not at its end."""

State = Literal["new", "training", "trained", "evaluated"]
"""How far a run has come: it has nothing, a checkpoint, a model, or `metrics.json` as well."""

R = TypeVar("R", bound=Record)


class RunFolder:
    """The folder of one run, made by `RunFolder.open`.

    Args:
        path: The folder.
        settings: Plain values that the run was made with.
    """

    def __init__(self, path: Path, settings: Mapping[str, Any]) -> None:
        self.path = path
        self.settings = settings

    @classmethod
    @contextmanager
    def open(
        cls,
        path: str | Path,
        settings: Any,
        *,
        file: str = SETTINGS,
        ignore: tuple[str, ...] = (),
        busy: str = "another process works there; wait for it, or choose another folder",
    ) -> Iterator["RunFolder"]:
        """Make a run or continue it, as the only process that does; what a killed one left half written is removed.

        A folder that holds a person's files and is no run, the root folder and a file are a `UserError`, and so are
        settings that differ from those that the run was made with. Nothing is changed then.

        Args:
            path: The folder; it may be absent, empty or a run.
            settings: A dataclass or a mapping of plain values.
            file: Where the settings are kept.
            ignore: Keys, dotted for nested ones, that may differ.
            busy: What the error says where another process has the folder.

        Yields:
            The run.
        """
        path, plain = Path(path), _plain(settings)
        check_place(path, file)
        with locked(path, busy):
            before = read_json(path / file) if (path / file).exists() else None
            if before is not None:
                _compare(path, plain, before, ignore)
            for folder in (path, path / "logs"):
                sweep(folder)
            if before is None:
                write_json(path / file, plain)
            yield cls(path, plain)

    @property
    def state(self) -> State:
        """How far the run has come."""
        if not (self.path / MODEL).is_file():
            return "training" if self.checkpoint.exists() else "new"
        return "evaluated" if (self.path / METRICS).is_file() else "trained"

    @property
    def checkpoint(self) -> Path:
        """The file that `training.fit` resumes from."""
        return self.path / CHECKPOINT

    @property
    def model(self) -> Path:
        """The weights of the finished model."""
        return self.path / MODEL

    def save_model(self, network: nn.Module, config: Any = None) -> None:
        """Write `config.json` and the weights, then remove the checkpoint: the run is trained.

        Args:
            network: The trained network.
            config: A dataclass or plain values from which the network can be built again.
        """
        if config is not None:
            write_json(self.path / CONFIG, _plain(config))
        # Copies, for the format of the file has no place for weights that are shared.
        weights = {
            name: value.detach().cpu().contiguous().clone() for name, value in network.state_dict().items()
        }
        with atomic(self.model) as temporary:
            temporary.write_bytes(save(weights))
        self.checkpoint.unlink(missing_ok=True)

    def write(self, record: Record) -> None:
        """Write a record into its file, with its provenance.

        Args:
            record: A dataclass whose class names its file.
        """
        write_record(self.path / record.file, record)

    def read(self, kind: type[R]) -> R | None:
        """The record of that kind, or `None` where there is none.

        Args:
            kind: The dataclass.

        Returns:
            The record; a broken file is a `UserError`.
        """
        path = self.path / kind.file
        return read_record(path, kind) if path.exists() else None


def _plain(settings: Any) -> Any:
    return asdict(settings) if is_dataclass(settings) and not isinstance(settings, type) else settings


def check_place(path: Path, file: str) -> None:
    """Refuse a folder that is no run and holds a person's files, the root folder, a file, and below it links and
    folders in place of files.

    Args:
        path: The folder; it may be absent.
        file: The one that every run has.
    """
    check_root(path)
    if not path.exists():
        return
    if not path.is_dir():
        raise UserError(f"{path}: is a file, it must be a folder")
    names = [name for name in os.listdir(path) if not name.startswith(PARTIAL) and name != ".lock"]
    if names and file not in names:
        raise UserError(
            f"{path}: holds files ({sorted(names)[0]}) and is no run ({file} is missing); choose another folder"
        )
    for folder, below, files in os.walk(path):
        for name in files:
            if Path(name).suffix in FILES:
                check_file(Path(folder) / name)
        for name in below:
            if (Path(folder) / name).is_symlink():
                raise UserError(
                    f"{Path(folder) / name}: is a link; nothing is written through links in a run"
                )
            if Path(name).suffix in FILES:
                raise UserError(f"{Path(folder) / name}: is a folder, it must be a file")


def _compare(path: Path, now: Any, before: Any, ignore: tuple[str, ...]) -> None:
    old, new = _flat(before), _flat(now)
    for key in sorted(old.keys() | new.keys()):
        if key in ignore or any(key.startswith(f"{each}.") for each in ignore):
            continue
        if key not in old or key not in new or old[key] != new[key]:
            raise UserError(
                f"{path}: {key} is {_shown(new, key)}, this run was made with {_shown(old, key)}; choose another folder"
            )


def _shown(values: Mapping[str, Any], key: str) -> str:
    return repr(values[key]) if key in values else "nothing"


def _flat(value: Any, prefix: str = "") -> dict[str, Any]:
    if not isinstance(value, Mapping):
        return {prefix.rstrip("."): list(value) if isinstance(value, tuple) else value}
    found: dict[str, Any] = {}
    for key, each in value.items():
        found |= _flat(each, f"{prefix}{key}.")
    return found
