"""Typed records: dataclasses that are written as JSON with their provenance, and read back strictly."""

import math
import platform
import subprocess
from collections.abc import Mapping
from dataclasses import MISSING, asdict, fields, is_dataclass
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, ClassVar, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import torchmcl
from torchmcl.errors import UserError
from torchmcl.runs.files import read_json, write_json

__all__ = ["Record", "from_plain", "provenance", "read_record", "write_record"]

T = TypeVar("T")

LARGEST = 1e100
"""Of all numbers in records, so that sums and squares of them are finite."""


class Record:
    """Base class of dataclasses that live in a file of a run, named by `file`.

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Score(Record):
    ...     file: ClassVar[str] = "score.json"
    ...     seed: int
    ...     error: float
    >>> from_plain(Score, {"seed": 0, "error": 1.5})
    Score(seed=0, error=1.5)
    """

    file: ClassVar[str]


@cache
def provenance() -> dict[str, Any]:
    """Which program made a record: versions of torchmcl, torch and Python, and the commit where there is one.

    Returns:
        Plain values.
    """
    import torch

    return {
        "torchmcl": torchmcl.__version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "commit": _commit(Path(torchmcl.__file__).parent.parent.parent),
    }


def _commit(clone: Path) -> str | None:
    """Of this program, where it runs from its clone: an installed one may lie in a clone of something else."""
    if not (clone / ".git").exists():
        return None
    try:
        git = subprocess.run(
            ["git", "-C", clone, "rev-parse", "HEAD"], capture_output=True, text=True, check=False
        )
    except OSError:
        return None
    return git.stdout.strip() or None


def write_record(path: str | Path, record: Any) -> None:
    """Write a dataclass as JSON, with `provenance` beside its fields.

    Args:
        path: The file to make or to replace.
        record: A dataclass of plain values, nested ones included.
    """
    write_json(path, {**asdict(record), "provenance": provenance()})


def read_record(path: str | Path, kind: type[T]) -> T:
    """Read what `write_record` wrote; anything else is a `UserError` that names the file and the key.

    Args:
        path: A JSON file, of any origin.
        kind: The dataclass.

    Returns:
        The record; its provenance is checked for nothing and left out.
    """
    plain = read_json(path)
    if not isinstance(plain, dict):
        raise UserError(f"{path}: holds {_named(plain)}, must hold an object")
    plain.pop("provenance", None)
    try:
        return from_plain(kind, plain)
    except UserError as error:
        raise UserError(f"{path}: {error}") from None


def from_plain(kind: type[T], plain: Mapping[str, Any], prefix: str = "") -> T:
    """Build a dataclass from plain values; missing, unknown and wrongly typed ones are a `UserError`.

    Args:
        kind: The dataclass.
        plain: Its fields by name.
        prefix: Of the names in error messages.

    Returns:
        The dataclass.
    """
    hints = get_type_hints(kind)
    known = {field.name: field for field in fields(kind) if field.init}  # type: ignore[arg-type]
    for name in plain:
        if name not in known:
            raise UserError(f"{prefix}{name} is unknown; there are {', '.join(known)}")
    values = {}
    for name, field in known.items():
        if name in plain:
            values[name] = _typed(plain[name], hints[name], f"{prefix}{name}")
        elif field.default is MISSING and field.default_factory is MISSING:
            raise UserError(f"{prefix}{name} is missing")
    try:
        return kind(**values)
    except ValueError as error:
        raise UserError(f"{prefix.rstrip('.') or kind.__name__}: {error}") from None


def _typed(value: Any, hint: Any, name: str) -> Any:
    origin, arguments = get_origin(hint), get_args(hint)
    if hint is Any:
        return value
    if origin in (Union, UnionType):
        return _one_of(value, arguments, name)
    if origin is Literal and value in arguments:
        return value
    if is_dataclass(hint) and isinstance(hint, type) and isinstance(value, dict):
        return from_plain(hint, value, f"{name}.")
    if origin in (list, tuple) and isinstance(value, list):
        return _sequence(value, origin, arguments, name)
    if origin is dict and isinstance(value, dict):
        return {key: _typed(each, arguments[1], f"{name}.{key}") for key, each in value.items()}
    if hint is float and isinstance(value, int | float) and not isinstance(value, bool) and _fits(value):
        return float(value)
    if hint is int and isinstance(value, int) and abs(value) >= 2**63:
        raise UserError(f"{name} is {_named(value)}, must be int of 64 bits")
    if hint in (int, str, bool, NoneType, dict, list) and type(value) is hint:
        return value
    if hint is float and isinstance(value, int | float) and not isinstance(value, bool):
        raise UserError(f"{name} is {_named(value)}, must be float of at most {LARGEST:g}")
    expected = getattr(hint, "__name__", None) if origin is None else str(hint)
    raise UserError(f"{name} is {_named(value)}, must be {expected}")


def _fits(value: int | float) -> bool:
    """Whether it is no larger than what is measured can be; NaN and infinity are refused where they matter."""
    return abs(value) <= LARGEST or not math.isfinite(value)


def _one_of(value: Any, hints: tuple[Any, ...], name: str) -> Any:
    for hint in hints:
        try:
            return _typed(value, hint, name)
        except UserError as error:
            if is_dataclass(hint) and isinstance(value, dict):
                raise error from None
    shown = " or ".join(
        "null" if hint is NoneType else getattr(hint, "__name__", str(hint)) for hint in hints
    )
    raise UserError(f"{name} is {_named(value)}, must be {shown}")


def _sequence(value: list[Any], origin: Any, hints: tuple[Any, ...], name: str) -> Any:
    if origin is tuple and hints[-1:] != (...,) and len(value) != len(hints):
        raise UserError(f"{name} has {len(value)} entries, must have {len(hints)}")
    each = hints if origin is tuple and hints[-1:] != (...,) else hints[:1] * len(value)
    return origin(
        _typed(part, hint, f"{name}[{index}]")
        for index, (part, hint) in enumerate(zip(value, each, strict=True))
    )


def _named(value: Any) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return "not finite"
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:40]}..."
