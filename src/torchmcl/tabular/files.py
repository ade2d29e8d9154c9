"""Tables in files: CSV with its delimiter and decimal sign detected, or Parquet; whole, or piece by piece."""

import csv
import io
import re
import tarfile
import zipfile
import zlib
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from lzma import LZMAError
from pathlib import Path
from typing import Any

from torchmcl.errors import UserError

__all__ = ["pieces", "read_frame"]

ROWS = 20_000
"""Rows of a piece."""
MOST_CELLS = 250_000_000
"""Of a table that is read at once: Parquet packs equal values, so that a small file may hold more than the memory."""
UNREADABLE = (
    OSError,
    EOFError,
    RuntimeError,
    ImportError,
    zlib.error,
    zipfile.BadZipFile,
    tarfile.TarError,
    LZMAError,
)
"""What reading a compressed file raises where it is damaged, encrypted, or of a kind that is not installed."""
UNEXPECTED = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError)
"""What values and remarks raise that are in a Parquet file, and cannot be values or remarks of pandas."""
HEAD = 2**16
LONGEST_LINE = 2**22
"""Bytes of a header longer than the head, and of the line below it, in which delimiter and decimal sign are found."""
DELIMITERS = ",;\t|"
DECIMAL_COMMA = re.compile(r"\s*[-+]?(\d{1,3}(\.\d{3})+|\d+),\d+\s*")
WITH_COMMA = re.compile(r"\s*[-+]?(\d{1,3}(\.\d{3})+|\d+)(,\d+)?\s*")
"""A number of a file with decimal commas, with or without points between thousands."""
ONE_OF_BOTH = re.compile(r"\s*[-+]?[1-9]\d{0,2},\d{3}\s*")
"""A number whose comma may as well be between thousands."""
MOST_CONTENT = 2**30
"""Bytes of a compressed file that is read at once."""


def read_frame(path: Path) -> Any:
    """The whole table as a DataFrame.

    Args:
        path: CSV, or Parquet by its suffix.

    Raises:
        UserError: If the file is absent, empty, not text, or a line has more fields than the header.
    """
    import pandas as pd

    found = list(pieces(path, rows=None))
    frame = found[0] if len(found) == 1 else pd.concat(found, ignore_index=True)
    if not len(frame):
        raise UserError(f"{path}: holds no row")
    return frame


def pieces(path: Path, rows: int | None = ROWS, text: Collection[str] = ()) -> Iterator[Any]:
    """The table in pieces, as DataFrames whose index goes on from piece to piece and whose columns have text as names.

    Args:
        path: CSV, or Parquet by its suffix.
        rows: Of a piece; `None` for one piece.
        text: Columns of a CSV file whose cells are text, also where they look like numbers.
    """
    if not path.is_file():
        raise UserError(f"{path}: there is no such file")
    parquet = path.suffix.lower() in (".parquet", ".pq")
    for frame in _parquet(path, rows) if parquet else _csv(path, rows, text):
        frame.columns = [str(name) for name in frame.columns]
        _check_names(path, list(frame.columns))
        yield frame


def _check_names(path: Path, names: list[str]) -> None:
    twice = next((name for name, count in Counter(names).items() if count > 1), None)
    if twice is not None:
        raise UserError(f"{path}: has two columns named {twice!r}")


def _csv(path: Path, rows: int | None, text: Collection[str]) -> Iterator[Any]:
    import pandas as pd

    try:
        head = _head(path, rows is None)
        with _long_fields(len(head)):
            delimiter, comma = _signs(path, head)
        options: dict[str, Any] = {
            "sep": delimiter,
            "decimal": "," if comma else ".",
            "encoding": "utf-8-sig",
        }
        options["dtype"] = dict.fromkeys(text, str)
        # A column keeps one type from piece to piece only if it is not guessed in parts.
        with pd.read_csv(path.absolute(), chunksize=rows or 10**9, low_memory=False, **options) as reader:
            for frame in reader:
                if not isinstance(frame.index, pd.RangeIndex):
                    raise UserError(f"{path}: its lines have more fields than its header")
                yield _without_points(path, frame, text) if comma else frame
    except UserError:
        raise
    except UnicodeDecodeError:
        raise UserError(f"{path}: line {_broken_line(path)} is not UTF-8 text") from None
    except pd.errors.EmptyDataError:
        raise UserError(f"{path}: is empty") from None
    except UNREADABLE as error:
        raise UserError(f"{path}: cannot be read ({_first_line(error)})") from None
    except (pd.errors.ParserError, csv.Error, OverflowError, ValueError) as error:
        reason = str(error).replace("Error tokenizing data. C error: ", "").strip().splitlines()[0]
        raise UserError(f"{path}: is not a table ({reason})") from None


def _parquet(path: Path, rows: int | None) -> Iterator[Any]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        file = pq.ParquetFile(path.absolute())
        total, columns = file.metadata.num_rows, file.metadata.num_columns
        if rows is None and total * columns > MOST_CELLS:
            raise UserError(
                f"{path}: has {total} rows of {columns} columns, at most {MOST_CELLS} cells are read at once"
            )
        if rows is None or total == 0:
            yield file.read().to_pandas()
            return
        start = 0
        for batch in file.iter_batches(rows):
            frame = batch.to_pandas()
            frame.index = range(start, start + len(frame))
            start += len(frame)
            yield frame
    except UserError:
        raise
    except (pa.ArrowException, *UNREADABLE, *UNEXPECTED) as error:
        raise UserError(f"{path}: is not a Parquet file ({_first_line(error)})") from None


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


@contextmanager
def _long_fields(size: int) -> Iterator[None]:
    """A long line is one field where it is split by a sign that it does not have; the limit is of the whole process."""
    before = csv.field_size_limit()
    csv.field_size_limit(max(before, size))
    try:
        yield
    finally:
        csv.field_size_limit(before)


def _signs(path: Path, head: str) -> tuple[str, bool]:
    """The delimiter, and whether numbers have decimal commas."""
    delimiter = _delimiter(head)
    lines = [line for line in csv.reader(io.StringIO(head), delimiter=delimiter) if line]
    names = lines[0] if lines else []
    # pandas would give the second of two columns another name. The last name of a long header may be cut.
    _check_names(path, [name for name in (names if "\n" in head else names[:-1]) if name])
    cells = [cell for line in lines[1:] for cell in line]
    # So may be the last cell. Only whole cells count: a text may hold numbers as well.
    whole = cells if head.endswith("\n") else cells[:-1]
    with_comma = [cell for cell in whole or cells if DECIMAL_COMMA.fullmatch(cell)]
    if delimiter == "," or not with_comma:
        return delimiter, False
    if all(map(ONE_OF_BOTH.fullmatch, with_comma)):
        raise UserError(
            f"{path}: holds {with_comma[0].strip()!r}, whose comma may be a decimal sign or be between thousands: "
            "use points as decimal signs, and nothing between thousands"
        )
    return delimiter, True


def _without_points(path: Path, frame: Any, text: Collection[str]) -> Any:
    """Numbers of a file with decimal commas that have points between thousands, which pandas takes for text."""
    for name, column in frame.items():
        cells = [] if column.dtype != object or name in text else list(set(column.dropna()))
        if not cells or not all(isinstance(cell, str) and WITH_COMMA.fullmatch(cell) for cell in cells):
            continue
        if not any("," in cell for cell in cells):
            example = next(cell for cell in cells if "." in cell)
            raise UserError(
                f"{path}: the column {name!r} holds {example!r}, whose point may be a decimal sign or be between "
                "thousands, for other columns have decimal commas: use one decimal sign and leave out the other points"
            )
        numbers = {cell: float(cell.replace(".", "").replace(",", ".")) for cell in cells}
        frame[name] = column.map(numbers)
    return frame


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """The bytes of a file, decompressed where its suffix says that it is compressed, as pandas does.

    Of a path that begins with a tilde, pandas and PyArrow read what is in the home folder.
    """
    from pandas.io.common import get_handle

    with get_handle(path.absolute(), "rb", compression="infer", is_text=False) as opened:
        yield opened.handle


def _check_content(path: Path, piece: bytes, stream: Any, whole: bool) -> None:
    """Refuse null characters, where pandas ends a cell, and a small file whose content would fill the memory."""
    from pandas.io.common import infer_compression

    limited = whole and infer_compression(path, "infer") is not None
    content, lines = 0, 1
    while piece:
        if b"\0" in piece:
            line = lines + piece[: piece.index(b"\0")].count(b"\n")
            raise UserError(f"{path}: line {line} holds a null character, it must be UTF-8 text")
        content += len(piece)
        lines += piece.count(b"\n")
        if limited and content > MOST_CONTENT:
            raise UserError(f"{path}: has more than {MOST_CONTENT} bytes of content, decompress it first")
        piece = stream.read(2**20)


def _head(path: Path, whole: bool) -> str:
    with _opened(path) as stream:
        start = stream.read(HEAD)
        if b"\n" not in start:
            start += stream.readline(LONGEST_LINE) + stream.readline(LONGEST_LINE)
        _check_content(path, start, stream, whole)
    text: str = start.decode("utf-8-sig", errors="replace")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _delimiter(head: str) -> str:
    """The sign that splits the first lines into the same number of fields, and into most of them."""
    lines = [line for line in head.split("\n")[:50] if line.strip()]
    if len(lines) > 1:
        lines = lines[:-1] if len(lines) > 2 else lines
    best, fields = ",", 1
    for sign in DELIMITERS:
        counts = [len(row) for row in csv.reader(lines, delimiter=sign)]
        if counts and counts[0] > fields and min(counts) == max(counts):
            best, fields = sign, counts[0]
    return best


def _broken_line(path: Path) -> int:
    with _opened(path) as stream:
        for number, line in enumerate(stream, 1):
            try:
                line.decode("utf-8")
            except UnicodeDecodeError:
                return number
    return 0
