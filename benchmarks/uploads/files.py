"""Files that nobody should upload: cut, mislabeled, boastful, not numbers, and far larger than they look."""

import io
import struct
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import soundfile

__all__ = ["NAMES", "Case", "cases", "silence", "wav"]

Body = bytes | Callable[[], bytes | Iterator[bytes]]
FORMATS = {"WAV": "PCM_16", "FLAC": "PCM_16", "AIFF": "PCM_16", "CAF": "FLOAT", "W64": "DOUBLE"}
NAMES = (
    "concert.wav", "../../../etc/passwd", "..\\..\\boot.ini", "..", "a\x00b.wav", "\x1b[31mred.wav", "CON", "/",
    "<img src=x onerror=alert(1)>.wav", "\u202egnp.wav", "%2e%2e%2fx.wav", "x" * 290 + ".wav", "'; rm -rf /;'.csv", "",
)  # fmt: skip
TABLE = "a,b,y\n" + "".join(f"{i},{i % 7},{i * 0.5}\n" for i in range(60))
GIGABYTE = 2**30


@dataclass(frozen=True)
class Case:
    """One upload.

    Args:
        what: Its description.
        kind: Where it is sent.
        body: Its bytes, or a function that makes them; what comes in pieces is sent in chunks without a length.
        query: Further words of the address.
        ending: Of its name.
        may_pass: Whether it may be analyzed to the end: not everything that was damaged is broken.
    """

    what: str
    kind: str
    body: Body
    query: str = ""
    ending: str = ""
    may_pass: bool = False


def wav(channels: int = 4, seconds: float = 1.0, rate: int = 16000, form: str = "WAV") -> bytes:
    """A sound file of noise."""
    content = io.BytesIO()
    noise = np.random.default_rng(0).normal(0, 0.1, (round(seconds * rate), channels))
    soundfile.write(content, noise, rate, format=form, subtype=FORMATS[form])
    return content.getvalue()


def cases(count: int, seed: int = 0) -> Iterator[Case]:
    """So many uploads: all that are listed, then files damaged at random."""
    listed = [*_sounds(), *_headers(), *_bombs(), *_tables(), *_tracks()]
    yield from listed[:count]
    yield from _damaged(max(count - len(listed), 0), np.random.default_rng(seed))


def _sounds() -> Iterator[Case]:
    sound = wav()
    wrong = {
        "nothing": b"", "one byte": b"R", "text": b"not a sound " * 50, "a page": b"<html><script>alert(1)</script>",
        "a picture": b"\x89PNG\r\n\x1a\n" + bytes(500), "an archive": b"PK\x03\x04" + bytes(500),
        "zeros": bytes(100_000), "a header alone": sound[:44], "half a header": sound[:20],
        "a cut WAV": sound[: len(sound) // 2],
    }  # fmt: skip
    for what, body in wrong.items():
        yield Case(what, "recordings", body)
    for channels in (1, 2, 3, 5, 8, 63):
        yield Case(f"{channels} channels", "recordings", wav(channels, 0.2))
    yield Case("64 channels", "recordings", wav(64, 0.2), may_pass=True)
    yield Case("a rate of 100 Hz", "recordings", wav(rate=100))
    for what, value in {"NaN": np.nan, "infinity": np.inf, "-infinity": -np.inf}.items():
        samples = np.zeros((8000, 4), np.float32)
        samples[4000, 2] = value
        yield Case(f"a sample that is {what}", "recordings", _float_wav(samples))
    yield Case(
        "samples of 1e38", "recordings", _float_wav(np.full((8000, 4), 1e38, np.float32)), may_pass=True
    )
    yield Case("a format that does not exist", "recordings", wav(), "&format=ambi-z")


def _headers() -> Iterator[Case]:
    """Single fields of a WAV header that claim something else."""
    fields = {
        "channels": (22, "<H", (0, 64, 65535)), "rate": (24, "<I", (0, 1, 2**32 - 1)),
        "block": (32, "<H", (0, 1, 65535)), "bits": (34, "<H", (0, 7, 64, 65535)), "tag": (20, "<H", (0, 2, 85, 65535)),
        "length of the format": (16, "<I", (0, 2, 2**32 - 1)),
        "length of the samples": (40, "<I", (0, 2**31, 2**32 - 1)),
    }  # fmt: skip
    for what, (at, form, values) in fields.items():
        for value in values:
            body = bytearray(wav(seconds=0.3))
            struct.pack_into(form, body, at, value)
            yield Case(f"a header whose {what} is {value}", "recordings", bytes(body), may_pass=True)


def _bombs() -> Iterator[Case]:
    flac = bytearray(wav(form="FLAC"))
    flac[21] |= 0x0F  # the upper bits of the number of samples
    flac[22:26] = b"\xff" * 4
    yield Case("a FLAC file that claims 2^36 samples", "recordings", bytes(flac))
    yield Case("two hours of silence in a small FLAC file", "recordings", lambda: silence(2 * 3600, 16000))
    yield Case("3 s of silence at 655 kHz", "recordings", lambda: silence(3, 655_350), may_pass=True)
    yield Case("2 GB in chunks", "recordings", lambda: iter([bytes(2**20)] * 2048))
    yield Case("2 GB of WAV in chunks", "recordings", lambda: _endless_wav(2 * GIGABYTE))
    yield Case("a Parquet file of 10^8 equal rows", "tables", _parquet_bomb, "&target=y", ".parquet")
    yield Case("a cell of 30 MB", "tables", b"a,y\n" + b"9" * (30 * 2**20) + b",1\n", "&target=y", ".csv")
    yield Case(
        "100,000 columns",
        "tables",
        ",".join(map(str, range(100_000))).encode() + b"\n1\n",
        "&target=1",
        ".csv",
    )
    yield Case("10^6 brackets", "tracks", b"[" * 10**6, "", ".ndjson")
    yield Case("10^6 brackets after a name", "tracks", b'{"track":' + b"[" * 10**6, "", ".ndjson")


def _tables() -> Iterator[Case]:
    good = TABLE.encode()
    wrong = {
        "nothing": b"", "a header alone": b"a,b,y\n", "one row": b"a,b,y\n1,2,3\n",
        "zero bytes": b"a,y\n\x00\x00,1\n" * 30,
        "no text": bytes(range(256)) * 40, "an open quote": b'a,y\n"1,2\n' * 40, "ragged rows": good + b"1,2,3,4,5\n",
        "a target of words": b"a,y\n" + b"1,word\n2,other\n" * 30, "a target that is empty": b"a,y\n" + b"1,\n" * 60,
        "a target of infinities": b"a,y\n" + b"1,inf\n" * 60, "a target of NaN": b"a,y\n" + b"1,nan\n" * 60,
        "a sound": wav(), "two columns of one name": b"y,y\n" + b"1,2\n" * 60,
    }  # fmt: skip
    for what, body in wrong.items():
        yield Case(
            f"a table: {what}", "tables", body, "&target=y", ".csv", may_pass=what == "a target of words"
        )
    yield Case("a table without a target", "tables", good, "", ".csv")
    yield Case("a target that is no column", "tables", good, "&target=price", ".csv")
    yield Case("a target with a path", "tables", good, "&target=../../y", ".csv")
    yield Case("a Parquet file that is text", "tables", good, "&target=y", ".parquet")
    yield Case(
        "a Parquet file of marks alone", "tables", b"PAR1" + bytes(100) + b"PAR1", "&target=y", ".parquet"
    )
    yield Case("predictions without a model", "predictions", good, "", ".csv")
    yield Case("predictions by a path", "predictions", good, "&model=../../../etc", ".csv")
    yield Case("a door that does not exist", "secrets", good)


def _tracks() -> Iterator[Case]:
    wrong = {
        "nothing": b"", "text": b"hello\n" * 20, "a sound": wav(), "one row": b"0 1 0.0 0.0\n",
        "NaN": b"0 1 nan 0\n" * 30,
        "infinity": b"0 1 inf 0\n" * 30, "frames of 1e300": b"1e300 1 0 0\n2e300 1 0 0\n" * 20,
        "negative frames": b"".join(b"%d 1 0 0\n" % -i for i in range(30)),
        "the same frame": b"0 1 0 0\n" * 30, "zero bytes": b"\x00" * 1000, "three columns": b"0 1 2\n" * 30,
    }  # fmt: skip
    for what, body in wrong.items():
        yield Case(f"tracks: {what}", "tracks", body, "", ".txt", may_pass=what == "negative frames")
    far = b"".join(b"%d 1 %d 1e%d\n" % (10 * i, i, 30 * (i % 10)) for i in range(30))
    yield Case("tracks: steps of 1e270 m", "tracks", far, "", ".txt", may_pass=True)
    yield Case("tracks: JSON that is cut", "tracks", b'{"track": {"f": 1, "p"', "", ".ndjson")
    yield Case("tracks: JSON of another kind", "tracks", b'{"a": 1}\n' * 20, "", ".ndjson")


def _damaged(count: int, random: np.random.Generator) -> Iterator[Case]:
    """Valid files of all formats, cut or with some bytes of their beginning changed."""
    whole = {form: wav(seconds=0.5, form=form) for form in FORMATS}
    for number in range(count):
        form = list(whole)[number % len(whole)]
        body = bytearray(whole[form])
        if number % 2:
            body = body[: int(random.integers(1, len(body)))]
            yield Case(
                f"{form} cut after {len(body)} bytes", "recordings", bytes(body), may_pass=form == "CAF"
            )
        else:
            for at in random.integers(0, min(len(body), 120), int(random.integers(1, 9))):
                body[at] = random.integers(256)
            yield Case(f"{form} with changed bytes, {number}", "recordings", bytes(body), may_pass=True)


def _float_wav(samples: np.ndarray) -> bytes:
    content = io.BytesIO()
    soundfile.write(content, samples, 16000, format="WAV", subtype="FLOAT")
    return content.getvalue()


def silence(seconds: int, rate: int) -> bytes:
    """A FLAC file: small, and long to analyze."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "silence.flac"
        with soundfile.SoundFile(path, "w", rate, 4, "PCM_16") as stream:
            second = np.zeros((rate, 4), np.int16)
            for _ in range(seconds):
                stream.write(second)
        return path.read_bytes()


def _endless_wav(size: int) -> Iterator[bytes]:
    head = bytearray(wav(seconds=0.1)[:44])
    struct.pack_into("<I", head, 40, 2**32 - 1)
    yield bytes(head)
    for _ in range(size // 2**20):
        yield bytes(2**20)


def _parquet_bomb() -> bytes:
    """One million equal values take a few bytes, and a hundred groups of them little more."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    content = io.BytesIO()
    rows = pa.table({"a": np.zeros(10**6), "y": np.zeros(10**6)})
    with pq.ParquetWriter(content, rows.schema, compression="zstd") as writer:
        for _ in range(100):
            writer.write_table(rows)
    return content.getvalue()
