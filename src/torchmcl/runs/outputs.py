"""Files in a folder that may hold a person's files as well: only our own earlier output is replaced."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from torchmcl.errors import UserError
from torchmcl.runs.files import atomic, check_root, locked, read_json, sweep, write_json

__all__ = ["LIST", "claim_outputs", "own_file"]

LIST = ".torchmcl-files.json"
"""The names of the files in a folder that this program wrote or was about to write."""


def claim_outputs(
    folder: str | Path,
    names: Iterable[str],
    *,
    overwrite: bool = False,
    inputs: Iterable[str | Path] = (),
    otherwise: str = "choose another --out, or say --overwrite",
) -> None:
    """Make sure that files may be written, and note their names before they are.

    Args:
        folder: Of the files; it is made where missing.
        names: Of the files that will be written.
        overwrite: Replace files that this program did not write as well.
        inputs: Files that are never replaced, for they are read.
        otherwise: What a person can do, for the error message.
    """
    folder, names = Path(folder), list(names)
    check_root(folder)
    with locked(folder):
        _check_own(folder, names, overwrite, otherwise)
        for name in names:
            _check_unread(folder / name, inputs)
        sweep(folder)
        write_json(folder / LIST, sorted({*_listed(folder / LIST), *names}))


@contextmanager
def own_file(path: str | Path, *, overwrite: bool = False, inputs: Iterable[Path] = ()) -> Iterator[Path]:
    """`atomic` for one file that a person named: what this program did not write is replaced only if asked.

    Args:
        path: The file to write.
        overwrite: Replace a file that this program did not write as well.
        inputs: Files that are never replaced, for they are read.

    Yields:
        The temporary path.
    """
    path = Path(path)
    _check_unread(path, inputs)
    with atomic(path) as temporary:
        _check_own(path.parent, [path.name], overwrite, "choose another file, or say --overwrite")
        yield temporary
        claim_outputs(path.parent, [path.name], overwrite=overwrite)


def _check_own(folder: Path, names: list[str], overwrite: bool, otherwise: str) -> None:
    check_root(folder)
    if LIST in names:
        raise UserError(
            f"{folder / LIST}: is where this program keeps the names of its files, choose another name"
        )
    own = _listed(folder / LIST)
    foreign = [name for name in names if name not in own and _is_there(folder / name)]
    if foreign and not overwrite:
        raise UserError(f"{folder / foreign[0]}: is there and was not written by this program; {otherwise}")


def _check_unread(path: Path, inputs: Iterable[str | Path]) -> None:
    if path.exists() and any(path.samefile(each) for each in inputs):
        raise UserError(f"{path}: is read as well, choose another place to write to")


def _listed(path: Path) -> set[str]:
    listed: Any = read_json(path) if path.is_file() else []
    if not isinstance(listed, list) or not all(isinstance(name, str) for name in listed):
        raise UserError(f"{path}: must hold a list of names; remove it, or choose another --out")
    return set(listed)


def _is_there(path: Path) -> bool:
    return path.exists() or path.is_symlink()
