"""Tables in files: CSV with its delimiter and decimal sign detected, or Parquet; whole, or piece by piece."""

import csv
import io
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from torchmcl.errors import UserError

__all__ = ["pieces", "read_frame"]

ROWS = 20_000
"""Rows of a piece."""
MOST_CELLS = 250_000_000
"""Of a table that is read at once: Parquet packs equal values, so that a small file may hold more than the memory."""
HEAD = 2**16
DELIMITERS = ",;\t|"
DECIMAL_COMMA = re.compile(r"(?<![\d,])-?\d+,\d+(?![\d,])")


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


def pieces(path: Path, rows: int | None = ROWS) -> Iterator[Any]:
    """The table in pieces, as DataFrames whose index goes on from piece to piece.

    Args:
        path: CSV, or Parquet by its suffix.
        rows: Of a piece; `None` for one piece.
    """
    if not path.is_file():
        raise UserError(f"{path}: there is no such file")
    read = _parquet if path.suffix.lower() in (".parquet", ".pq") else _csv
    for frame in read(path, rows):
        _check_names(path, [str(name) for name in frame.columns])
        yield frame


def _check_names(path: Path, names: list[str]) -> None:
    twice = next((name for name, count in Counter(names).items() if name and count > 1), None)
    if twice is not None:
        raise UserError(f"{path}: has two columns named {twice!r}")


def _csv(path: Path, rows: int | None) -> Iterator[Any]:
    import pandas as pd

    head = _head(path)
    delimiter = _delimiter(head)
    names = next(csv.reader(io.StringIO(head), delimiter=delimiter), [])
    # pandas would give the second of two columns another name. The last name of a long header may be cut.
    _check_names(path, names if "\n" in head else names[:-1])
    comma = delimiter != "," and bool(DECIMAL_COMMA.search(head.partition("\n")[2]))
    options: dict[str, Any] = {"sep": delimiter, "decimal": "," if comma else ".", "encoding": "utf-8-sig"}
    try:
        # A column keeps one type from piece to piece only if it is not guessed in parts.
        with pd.read_csv(path, chunksize=rows or 10**9, low_memory=False, **options) as reader:
            for frame in reader:
                if not isinstance(frame.index, pd.RangeIndex):
                    raise UserError(f"{path}: its lines have more fields than its header")
                yield frame
    except UserError:
        raise
    except UnicodeDecodeError:
        raise UserError(f"{path}: line {_broken_line(path)} is not UTF-8 text") from None
    except pd.errors.EmptyDataError:
        raise UserError(f"{path}: is empty") from None
    except (pd.errors.ParserError, csv.Error, OverflowError, ValueError) as error:
        reason = str(error).replace("Error tokenizing data. C error: ", "").strip().splitlines()[0]
        raise UserError(f"{path}: is not a table ({reason})") from None


def _parquet(path: Path, rows: int | None) -> Iterator[Any]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        file = pq.ParquetFile(path)
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
    except (pa.ArrowException, OSError, ValueError, TypeError, LookupError, AttributeError) as error:
        raise UserError(f"{path}: is not a Parquet file ({_first_line(error)})") from None


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def _head(path: Path) -> str:
    with path.open("rb") as stream:
        text = stream.read(HEAD).decode("utf-8-sig", errors="replace")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _delimiter(head: str) -> str:
    """The sign that splits the first lines into the same number of fields, and into most of them."""
    lines = [line for line in head.splitlines()[:50] if line.strip()]
    if len(lines) > 1:
        lines = lines[:-1] if len(lines) > 2 else lines
    best, fields = ",", 1
    for sign in DELIMITERS:
        counts = [len(row) for row in csv.reader(lines, delimiter=sign)]
        if counts and counts[0] > fields and min(counts) == max(counts):
            best, fields = sign, counts[0]
    return best


def _broken_line(path: Path) -> int:
    with path.open("rb") as stream:
        for number, line in enumerate(stream, 1):
            try:
                line.decode("utf-8")
            except UnicodeDecodeError:
                return number
    return 0
