"""Hostile files: each key of each file that a command reads, replaced by what nobody expects.

A small valid run of each kind is made once. A case is a copy with one file damaged, and the command that reads it.
"""

import io
import json
import os
import random
import re
import shutil
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

import commandline
from worlds import Reader

VALUES: dict[str, str] = {
    "null": "null", "true": "true", "text": '"text"', "no text": '""', "-1": "-1", "0": "0", "0.5": "0.5",
    "10^30": "1" + "0" * 30, "1e308": "1e308", "1e999": "1e999", "1e-308": "1e-308", "NaN": "NaN",
    "Infinity": "-Infinity", "list": "[]", "mapping": "{}", "numbers": "[1, 2, 3]", "numbers in lists": "[[1], [2]]",
    "long list": "[" + "0," * 100_000 + "0]", "deep list": "[" * 10_000 + "]" * 10_000,
    "deep mapping": '{"a":' * 10_000 + "0" + "}" * 10_000, "10 MB": '"' + "x" * 10_000_000 + '"',
    "path": '"../../outside"', "absolute path": '"/etc/passwd"', "variable": '"${oc.env:TORCHMCL_SECRET}"',
    "escape": '"\\u001b[2J[bold]x"', "null byte": '"a\\u0000b"', "surrogate": '"\\ud800"',
    "import": '{"_target_": "os.mkdir", "path": "outside"}',
}  # fmt: skip
"""In place of a value, as JSON or as something that is almost JSON."""

KINDS: dict[type, tuple[str, ...]] = {
    float: ("-1", "0.5", "1e308", "1e999", "1e-308", "NaN", "Infinity"),
    str: ("no text", "path", "absolute path", "variable", "escape", "null byte", "surrogate"),
    list: ("numbers in lists", "long list"), dict: ("import", "one more"),
}  # fmt: skip
KINDS[int] = KINDS[float]
ANY = ("null", "true", "text", "0", "10^30", "list", "numbers", "mapping", "missing")
ONCE = ("deep list", "deep mapping", "10 MB")
"""What `all_cases` puts in place of a value of a type, of each value, and of the first value of a file."""

CELLS = [
    "", "nan", "inf", "-inf", "1e999", "1e300", "-1", "0", "0.5", "99999999999999999999999", "text", "x" * 100_000, '"',
    "\0", "=1+1", "\x1b[2J", "../../x", "1,2,3", "1 2 3", "\udcff", "٣", "1_0", "0x1", " ", "\r", "true", "[bold]x",
]  # fmt: skip
"""In place of a cell of a table."""

BOMBS: dict[str, bytes] = {
    "empty": b"", "null": b"null", "list": b"[]", "mapping": b"{}", "number": b"1", "half": b'{"a": [1, 2',
    "zeros": bytes(4096), "ones": b"\xff" * 4096, "UTF-16": '{"a": 1}'.encode("utf-16"), "mark": b"\xef\xbb\xbf{}",
    "deep": b"[" * 100_000, "line": b"a" * 5_000_000, "lines": b"\n" * 1_000_000, "pickle": b"\x80\x04cos\nmkdir\n.",
    "alias bomb": b"a: &a [x, x]\n" + b"".join(
        f"{chr(98 + n)}: &{chr(98 + n)} [{', '.join(['*' + chr(97 + n)] * 9)}]\n".encode() for n in range(20)
    ),
    "merge bomb": b"a: &a {x: 1}\n" + b"".join(
        f"{chr(98 + n)}: &{chr(98 + n)} {{<<: [*{chr(97 + n)}, *{chr(97 + n)}]}}\n".encode() for n in range(20)
    ),
    "anchor in itself": b"&a [*a]", "object": b"!!python/object/apply:os.mkdir ['outside']",
}  # fmt: skip
"""In place of a whole file."""

PLACES = ("missing", "folder", "dangling link", "link to itself", "link outside", "pipe", "cut", "twice")
"""What else may be in the place of a file."""


@dataclass(frozen=True)
class Case:
    """One damaged file of one reader."""

    reader: Reader
    path: Path
    damage: str
    apply: Callable[[Path], None]

    def __str__(self) -> str:
        return f"{' '.join(self.reader.words[:2])} with {self.path}, {self.damage}"


def draw_case(draw: random.Random, readers: tuple[Reader, ...], worlds: Path) -> Case:
    """A reader, one of its files, and one damage."""
    reader = draw.choice(readers)
    path = draw.choice(reader.paths(worlds))
    source = worlds / reader.world / path
    if draw.random() < 0.2:
        damage = draw.choice([*BOMBS, *PLACES])
        return Case(reader, path, damage, lambda target: _replace(target, damage))
    suffix = path.suffix
    if suffix in (".json", ".yaml"):
        damage, text = damaged_json(draw, source.read_text())
        return Case(reader, path, damage, lambda target: _write(target, text.encode()))
    if suffix == ".ndjson":
        lines = source.read_text().splitlines()
        number = draw.randrange(len(lines))
        damage, lines[number] = damaged_json(draw, lines[number])
        return Case(
            reader, path, f"line {number}: {damage}", lambda target: _write(target, "\n".join(lines).encode())
        )
    if suffix in (".csv", ".txt"):
        damage, text = _damaged_table(draw, source.read_text())
        return Case(
            reader, path, damage, lambda target: _write(target, text.encode(errors="surrogateescape"))
        )
    if suffix == ".safetensors":
        damage, content = _damaged_weights(draw, source.read_bytes())
        return Case(reader, path, damage, lambda target: _write(target, content))
    damage, content = "bytes", mutate(source.read_bytes(), draw)
    if suffix == ".ckpt" and draw.random() < 0.7:
        damage, content = _damaged_checkpoint(draw, source)
    return Case(reader, path, damage, lambda target: _write(target, content))


def all_cases(readers: tuple[Reader, ...], worlds: Path) -> Iterator[Case]:
    """Each damage of each file of each reader; of files, keys and weights that are alike, the first."""
    for reader in readers:
        known = set()
        for path in reader.paths(worlds):
            found = list(damages(worlds / reader.world / path))
            alike = re.sub(r"\d+", "#", "\n".join([path.name, *(damage for damage, _ in found)]))
            if alike in known:
                continue
            known.add(alike)
            for damage in (*BOMBS, *PLACES):
                yield Case(reader, path, damage, partial(_replace, what=damage))
            for damage, content in found if path.name not in reader.unread else ():
                yield Case(reader, path, damage, lambda target, content=content: _write(target, content()))


def damages(source: Path) -> Iterator[tuple[str, Callable[[], bytes]]]:
    """All damages within a file: what is done, and the content."""
    suffix = source.suffix
    if suffix in (".json", ".yaml"):
        yield from _json_damages(source.read_text())
    elif suffix == ".ndjson":
        first, second, *rest = source.read_text().splitlines()
        for damage, text in _json_damages(first):
            yield damage, lambda text=text: b"\n".join([text(), second.encode(), *map(str.encode, rest)])
        for damage, text in _json_damages(second):
            yield damage, lambda text=text: b"\n".join([first.encode(), text(), *map(str.encode, rest)])
    elif suffix in (".csv", ".txt"):
        yield from _table_damages(source.read_text())
    elif suffix == ".safetensors":
        yield from _weight_damages(source.read_bytes())
    elif suffix == ".ckpt":
        for place, _ in representatives(torch.load(source, weights_only=True)):
            for what in (*TENSORS, "missing"):
                yield _is(place, what), partial(_changed_checkpoint, source, place, what)
    else:
        for number in range(30):
            yield (
                f"bytes {number}",
                partial(lambda seed: mutate(source.read_bytes(), random.Random(seed)), number),
            )


def complaint(case: Case, worlds: Path, folder: Path) -> tuple[commandline.Ending, str | None]:
    """Run a case in a new folder, which is removed; how it ended, and what is wrong with that."""
    work = folder / "a" / "b"
    shutil.copytree(worlds / case.reader.world, work)
    case.apply(work / case.path)
    ending = commandline.run(case.reader.words, work, idle=2.0 if case.reader.waits else 20.0)
    wrong, waited = ending.complaint, ending.code == 130 and not case.reader.waits
    if wrong is None and waited and ending.computed < commandline.WORK / 2:
        wrong = "waits for something that does not come"
    if wrong is None and [path.name for path in folder.rglob("*") if work not in path.parents] != ["a", "b"]:
        wrong = (
            f"wrote outside: {sorted(path.name for path in folder.rglob('*') if work not in path.parents)}"
        )
    if wrong is None and _leaked(work):
        wrong = "wrote a variable of the environment"
    shutil.rmtree(folder, ignore_errors=True)
    return ending, None if wrong is None else f"{case}: {wrong}"


def _leaked(folder: Path) -> bool:
    texts = (path for path in folder.rglob("*") if path.suffix in (".json", ".csv", ".html", ".yaml", ".md"))
    small = (
        path for path in texts if path.is_file() and not path.is_symlink() and path.stat().st_size < 2**20
    )
    return any(commandline.SECRET.encode() in path.read_bytes() for path in small)


def keys(value: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where the values of plain data are; of long lists the first and the last."""
    if above:
        yield above
    if isinstance(value, dict):
        for key, each in value.items():
            yield from keys(each, (*above, key))
    elif isinstance(value, list) and value:
        for index in {0, len(value) - 1}:
            yield from keys(value[index], (*above, index))


def representatives(plain: Any) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """The first of all places that differ in an index, a digit or the name of a weight only, and its value."""
    known = set()
    for place in keys(plain):
        form = tuple("#" if isinstance(key, int) or "." in key else re.sub(r"\d+", "#", key) for key in place)
        if form not in known and (len(place) == 1 or place[0] != "provenance"):
            known.add(form)
            value = plain
            for key in place:
                value = value[key]
            yield place, value


MARK = "this value is replaced"


def damaged_json(draw: random.Random, text: str) -> tuple[str, str]:
    """JSON with one value replaced, removed or added; what was done, and the text."""
    plain = json.loads(text)
    places = list(keys(plain))
    if not places:
        return "text", '{"a": 1}'
    place = draw.choice(places)
    what = draw.choice([*VALUES, "missing", "one more"])
    if what == "one more" and not isinstance(place[-1], int):
        place, what = (*place[:-1], "one more"), draw.choice([*VALUES])
    what = "null" if what == "one more" else what
    return _is(place, what), _changed_json(text, place, what).decode()


def _is(place: tuple[Any, ...], what: str) -> str:
    return f"{'.'.join(map(str, place))} {what if what == 'missing' else f'is {what}'}"


def _changed_json(text: str, place: tuple[Any, ...], what: str) -> bytes:
    plain = json.loads(text)
    _change(plain, place, what, MARK)
    return json.dumps(plain).replace(json.dumps(MARK), VALUES.get(what, "")).encode()


def _change(plain: Any, place: tuple[Any, ...], what: str, value: Any) -> None:
    for key in place[:-1]:
        plain = plain[key]
    if what == "missing":
        del plain[place[-1]]
    else:
        plain[place[-1]] = value


def _json_damages(text: str) -> Iterator[tuple[str, Callable[[], bytes]]]:
    for number, (place, value) in enumerate(representatives(json.loads(text))):
        for what in (*(ONCE if number == 0 else ()), *ANY, *KINDS.get(type(value), ())):
            where, what = ((*place, what), "null") if what == "one more" else (place, what)
            yield _is(where, what), partial(_changed_json, text, where, what)


def _damaged_table(draw: random.Random, text: str) -> tuple[str, str]:
    rows = _rows(text)[1]
    row = min(draw.choice([0, 1, len(rows) // 2, len(rows)]), len(rows) - 1)
    column = draw.randrange(len(rows[row]))
    kind = draw.randrange(6)
    cell = draw.choice(CELLS)
    return _in_table(row, column, kind, cell), _changed_table(text, row, column, kind, cell)


def _in_table(row: int, column: int, kind: int, cell: str) -> str:
    return f"row {row}, column {column}, kind {kind}, {cell[:20]!r}"


def _rows(text: str) -> tuple[str, list[list[str]]]:
    between = next((mark for mark in (",", "\t", " ") if mark in text), " ")
    return between, [line.split(between) for line in text.splitlines()]


def _changed_table(text: str, row: int, column: int, kind: int, cell: str) -> str:
    between, rows = _rows(text)
    if kind == 0:
        rows = [[*line[:column], *line[column + 1 :]] for line in rows]
    elif kind == 1:
        rows[row] = rows[row] + [cell]
    elif kind == 2:
        rows = rows[: row + 1] + [rows[row]] * 3 + rows[row + 1 :]
    elif kind == 3:
        rows = rows[:1] + [[*line[:column], cell, *line[column + 1 :]] for line in rows[1:]]
    else:
        rows[row][column] = cell
    return "\n".join(between.join(line) for line in rows) + "\n"


def _table_damages(text: str) -> Iterator[tuple[str, Callable[[], bytes]]]:
    rows = _rows(text)[1]
    ends = [0, min(1, len(rows) - 1), len(rows) - 1]
    for column in range(len(rows[0])):
        one = [(ends[number % 3], 4, cell) for number, cell in enumerate(CELLS)]
        whole = [(0, 3, cell) for cell in CELLS]
        for row, kind, cell in [
            (0, 0, ""),
            *((row, kind, "0") for kind in (1, 2) for row in ends),
            *one,
            *whole,
        ]:
            yield (
                _in_table(row, column, kind, cell),
                lambda at=(row, column, kind, cell): _changed_table(text, *at).encode(
                    errors="surrogateescape"
                ),
            )


LENGTHS = [0, 1, 2**31, 2**62, 2**64 - 1]
"""In place of the length of a header."""
NUMBERS = [b"\x00\x00\xc0\x7f", b"\x00\x00\x80\x7f", b"\xff\xff\x7f\x7f", bytes(4)]
"""In place of a weight: NaN, infinite, the largest, 0."""


def _damaged_weights(draw: random.Random, content: bytes) -> tuple[str, bytes]:
    size = struct.unpack("<Q", content[:8])[0]
    header, data = content[8 : 8 + size].decode(), content[8 + size :]
    kind = draw.randrange(4)
    if kind == 0:
        length = draw.choice([*LENGTHS, size - 1, size + 1])
        return f"header of {length} bytes", struct.pack("<Q", length) + content[8:]
    if kind == 1:
        number = draw.choice(NUMBERS)
        return _changed_weight(content, number, 8 + size + 4 * draw.randrange(len(data) // 4))
    if kind == 2:
        return "cut", content[: draw.randrange(len(content))]
    damage, text = damaged_json(draw, header)
    return damage, _with_header(text.encode(), data)


def _changed_weight(content: bytes, number: bytes, at: int) -> tuple[str, bytes]:
    return f"number {number.hex()} at {at}", content[:at] + number + content[at + 4 :]


def _with_header(header: bytes, data: bytes) -> bytes:
    return struct.pack("<Q", len(header)) + header + data


def _weight_damages(content: bytes) -> Iterator[tuple[str, Callable[[], bytes]]]:
    size = struct.unpack("<Q", content[:8])[0]
    header, data = content[8 : 8 + size].decode(), content[8 + size :]
    for length in (*LENGTHS, size - 1, size + 1):
        yield f"header of {length} bytes", partial(bytes, struct.pack("<Q", length) + content[8:])
    for number in NUMBERS:
        for at in (8 + size, len(content) - 4):
            damage, changed = _changed_weight(content, number, at)
            yield damage, partial(bytes, changed)
    for damage, text in _json_damages(header):
        yield damage, lambda text=text: _with_header(text(), data)


TENSORS: dict[str, Any] = {
    "no tensor": None, "number": -1, "text": "text", "NaN": torch.full((3,), float("nan")), "empty": torch.zeros(0),
    "complex": torch.zeros(2, dtype=torch.complex64), "10^12": 10**12, "list": [], "mapping": {},
    "shape": torch.zeros(7, 7),
}  # fmt: skip
"""In place of a value of a checkpoint."""


def _damaged_checkpoint(draw: random.Random, source: Path) -> tuple[str, bytes]:
    """A valid checkpoint with one value replaced or removed."""
    place = draw.choice(list(keys(torch.load(source, weights_only=True))))
    what = draw.choice([*TENSORS, "missing"])
    return _is(place, what), _changed_checkpoint(source, place, what)


def _changed_checkpoint(source: Path, place: tuple[Any, ...], what: str) -> bytes:
    plain = torch.load(source, weights_only=True)
    _change(plain, place, what, TENSORS.get(what))
    content = io.BytesIO()
    torch.save(plain, content)
    return content.getvalue()


def _write(target: Path, content: bytes) -> None:
    target.write_bytes(content)


def _replace(target: Path, what: str) -> None:
    content = target.read_bytes()
    target.unlink()
    if what in BOMBS:
        target.write_bytes(BOMBS[what])
    elif what == "folder":
        target.mkdir()
    elif what == "dangling link":
        target.symlink_to("../../../outside")
    elif what == "link to itself":
        target.symlink_to(target)
    elif what == "link outside":
        target.symlink_to("/etc/hostname")
    elif what == "pipe":
        os.mkfifo(target)
    elif what == "cut":
        target.write_bytes(content[: len(content) // 2])
    elif what == "twice":
        target.write_bytes(content + content)


EXTREME = [0, 1, 0x7F, 0x80, 0xFF]
WORDS = [0, 1, 2**15, 2**16 - 1, 2**31 - 1, 2**31, 2**32 - 1]


def mutate(content: bytes, draw: random.Random) -> bytes:
    """One to four changes of any kind that happens to files: bits, bytes, numbers, cuts, copies, insertions."""
    data = bytearray(content)
    for _ in range(draw.randint(1, 4)):
        at = draw.randrange(max(len(data), 1))
        kind = draw.randrange(7)
        if kind == 0 and data:
            data[at] ^= 1 << draw.randrange(8)
        elif kind == 1 and data:
            data[at] = draw.choice([*EXTREME, draw.randrange(256)])
        elif kind == 2:
            data[at : at + 4] = struct.pack("<I", draw.choice([*WORDS, draw.getrandbits(32)]))
        elif kind == 3:
            del data[at:]
        elif kind == 4:
            del data[at : at + draw.randint(1, 8)]
        elif kind == 5:
            data[at:at] = data[at : at + draw.randint(1, 64)] * draw.randint(1, 3)
        else:
            data[at:at] = draw.randbytes(draw.randint(1, 8))
    return bytes(data)
