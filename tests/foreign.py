"""Hostile files: each key of each file that a command reads, replaced by what nobody expects.

A small valid run of each kind is made once. A case is a copy with one file damaged, and the command that reads it.
"""

import io
import json
import os
import random
import shutil
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
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


MARK = "this value is replaced"


def damaged_json(draw: random.Random, text: str) -> tuple[str, str]:
    """JSON with one value replaced, removed or added; what was done, and the text."""
    plain = json.loads(text)
    places = list(keys(plain))
    if not places:
        return "text", '{"a": 1}'
    place = draw.choice(places)
    *above, last = place
    parent = plain
    for key in above:
        parent = parent[key]
    what = draw.choice([*VALUES, "missing", "one more"])
    where = ".".join(map(str, place))
    if what == "missing":
        del parent[last]
        return f"{where} missing", json.dumps(plain)
    if what == "one more" and isinstance(parent, dict):
        parent["one more"] = MARK
        what = draw.choice([*VALUES])
    else:
        what = what if what in VALUES else "null"
        parent[last] = MARK
    return f"{where} is {what}", json.dumps(plain).replace(json.dumps(MARK), VALUES[what])


def _damaged_table(draw: random.Random, text: str) -> tuple[str, str]:
    between = next((mark for mark in (",", "\t", " ") if mark in text), " ")
    rows = [line.split(between) for line in text.splitlines()]
    row = min(draw.choice([0, 1, len(rows) // 2, len(rows)]), len(rows) - 1)
    column = draw.randrange(len(rows[row]))
    kind = draw.randrange(6)
    cell = draw.choice(CELLS)
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
    damaged = "\n".join(between.join(line) for line in rows) + "\n"
    return f"row {row}, column {column}, kind {kind}, {cell[:20]!r}", damaged


def _damaged_weights(draw: random.Random, content: bytes) -> tuple[str, bytes]:
    size = struct.unpack("<Q", content[:8])[0]
    header, data = content[8 : 8 + size].decode(), bytearray(content[8 + size :])
    kind = draw.randrange(4)
    if kind == 0:
        length = draw.choice([0, 1, 2**31, 2**62, 2**64 - 1, size - 1, size + 1])
        return f"header of {length} bytes", struct.pack("<Q", length) + content[8:]
    if kind == 1:
        number = draw.choice([b"\x00\x00\xc0\x7f", b"\x00\x00\x80\x7f", b"\xff\xff\x7f\x7f", bytes(4)])
        at = 4 * draw.randrange(len(data) // 4)
        data[at : at + 4] = number
        return f"number {number.hex()} at {at}", content[: 8 + size] + bytes(data)
    if kind == 2:
        return "cut", content[: draw.randrange(len(content))]
    damage, text = damaged_json(draw, header)
    return damage, struct.pack("<Q", len(text.encode())) + text.encode() + bytes(data)


TENSORS: dict[str, Any] = {
    "no tensor": None, "number": -1, "text": "text", "NaN": torch.full((3,), float("nan")), "empty": torch.zeros(0),
    "complex": torch.zeros(2, dtype=torch.complex64), "10^12": 10**12, "list": [], "mapping": {},
    "shape": torch.zeros(7, 7),
}  # fmt: skip
"""In place of a value of a checkpoint."""


def _damaged_checkpoint(draw: random.Random, source: Path) -> tuple[str, bytes]:
    """A valid checkpoint with one value replaced or removed."""
    plain = torch.load(source, weights_only=True)
    place = draw.choice(list(keys(plain)))
    parent = plain
    for key in place[:-1]:
        parent = parent[key]
    what = draw.choice([*TENSORS, "missing"])
    if what == "missing":
        del parent[place[-1]]
    else:
        parent[place[-1]] = TENSORS[what]
    content = io.BytesIO()
    torch.save(plain, content)
    return f"{'.'.join(map(str, place))} is {what}", content.getvalue()


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
