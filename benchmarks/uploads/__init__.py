"""Hostile uploads: `python -m benchmarks uploads --cases 200`.

A server is started, and its memory is taken after one upload that is meant well. Then hostile files and requests are
sent, ten good uploads at once, and one whose sender goes away. Every one must end with a sentence, the server must
live, its memory must return to where it was, and its temporary folder must be empty.
"""

import argparse
import itertools
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks.uploads.client import Client, Ending
from benchmarks.uploads.files import NAMES, Case, cases, silence
from torchmcl.web.work import example_recording

__all__ = ["free_port", "main", "requests", "send", "served"]

GROWTH = 50.0
"""Megabytes by which the server and its helper may grow; one of the large uploads would be 512."""
UNEXPECTED = ("the log of the server says why", "ended unexpectedly", "Traceback", "Internal Server Error")


def main(words: list[str]) -> int:
    """Print how the uploads ended; 1 if one of them ended badly."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks uploads")
    parser.add_argument("--cases", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--every", action="store_true", help="print every upload with its sentence")
    chosen = parser.parse_args(words)
    with tempfile.TemporaryDirectory() as folder, served(Path(folder)) as (client, server):
        _warm(client)
        before = memory(server)
        sent = itertools.chain(requests(client), send(client, cases(chosen.cases, chosen.seed)))
        endings = [_shown(*each, chosen.every) for each in sent]
        at_once = ten_at_once(client)
        gone = abandoned(client)
        time.sleep(3)
        after, left = memory(server), [path.name for path in Path(folder).glob("torchmcl-serve-*/*")]
        alive = client.ask("/api/limits")[0] == 200
    wrong = sum(not right for _, right in endings)
    counts = Counter(ending.how for ending, _ in endings)
    print(f"{len(endings)} hostile uploads and requests: {wrong} ended badly")
    print(", ".join(f"{how} {number}" for how, number in sorted(counts.items())))
    print(f"ten good uploads at once: {at_once:.1f} s until the last has ended")
    print(f"cancelled after its sender went away: {gone:.1f} s")
    print(
        f"memory of the server: {before:.0f} MB before, {after:.0f} MB afterwards (at most {GROWTH:g} more)"
    )
    print(
        f"left in its temporary folder: {left or 'nothing'}; it {'answers' if alive else 'does not answer'}"
    )
    return int(bool(wrong) or bool(left) or not alive or after - before > GROWTH)


def _shown(what: str, ending: Ending, right: bool, every: bool) -> tuple[Ending, bool]:
    if every or not right:
        print(f"{'' if right else 'WRONG '}{what}: {ending.how}: {ending.sentence[:160]!r}", flush=True)
    return ending, right


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def served(folder: Path) -> Iterator[tuple[Client, subprocess.Popen[bytes]]]:
    """A server with its temporary files in `folder`."""
    port = free_port()
    words = [sys.executable, "-m", "torchmcl", "serve", "--port", str(port)]
    process = subprocess.Popen(
        words, env={**os.environ, "TMPDIR": str(folder), "OMP_NUM_THREADS": "1"}, stdout=subprocess.DEVNULL
    )
    client = Client(port)
    try:
        for _ in range(600):
            try:
                client.ask("/api/limits")
                break
            except OSError:
                time.sleep(0.1)
        yield client, process
    finally:
        process.terminate()
        process.wait(20)


def send(client: Client, files: Iterator[Case]) -> Iterator[tuple[str, Ending, bool]]:
    """Upload one after the other under hostile names; what it was, how it ended, and whether that is right."""
    for number, case in enumerate(files):
        name = NAMES[number % len(NAMES)] + case.ending
        ending = client.upload(case.kind, name, case.body, case.query)
        if ending.identifier:
            client.ask(f"/api/analyses/{ending.identifier}", "DELETE")
        yield case.what, ending, _right(ending, case.may_pass)


def requests(client: Client, *, without: Sequence[str] = ()) -> Iterator[tuple[str, Ending, bool]]:
    """Requests that are wrong themselves; `without` those of these names."""
    local = b" HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    head = b"POST /api/recordings?name=x.wav" + local
    announced = head + b"Content-Length: 1000000\r\n\r\n"
    wrong: dict[str, tuple[bytes | float, ...]] = {
        "a length of -1": (head + b"Content-Length: -1\r\n\r\n",),
        "a length that is a word": (head + b"Content-Length: many\r\n\r\n",),
        "a length of 10^18": (head + b"Content-Length: 1000000000000000000\r\n\r\n",),
        "two lengths": (head + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello",),
        "a chunk that is no number": (head + b"Transfer-Encoding: chunked\r\n\r\nxyz\r\n",),
        "a pause of 17 s": (announced + bytes(1000), 17.0, b"more"),
        "a byte at a time, then a pause": (announced, *itertools.chain(*([b"x", 0.2] for _ in range(10))), 17.0),
        "another host": (b"POST /api/example HTTP/1.1\r\nHost: evil.example\r\nContent-Length: 0\r\n\r\n",),
        "another origin": (
            b"POST /api/example" + local + b"Origin: http://evil.example\r\nContent-Length: 0\r\n\r\n",
        ),
        "a path out of the results": (
            b"GET /api/analyses/x/files/..%2f..%2f..%2fetc%2fpasswd HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        ),
        "a header of 70 kB": (head + b"X: " + b"x" * 70_000 + b"\r\n\r\n",),
        "no request at all": (bytes(range(256)) * 10,),
        "a name of 5,000 letters": (
            b"POST /api/recordings?name=" + b"x" * 5000 + b" HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\n\r\n",
        ),
    }  # fmt: skip
    for what in (name for name in wrong if name not in without):
        ending = client.raw(*wrong[what])
        yield what, ending, ending.how == "refused"
    with socket.create_connection(("127.0.0.1", client.port)) as connection:
        connection.sendall(announced + bytes(1000))
    yield "a sender that hangs up", Ending("cancelled", "nobody is there to be told"), True


def ten_at_once(client: Client) -> float:
    """Seconds until ten uploads of the example, sent at the same time, are done."""
    sound = example_recording().read_bytes()
    endings: list[Ending] = []
    threads = [
        threading.Thread(target=lambda: endings.append(client.upload("recordings", "ten.flac", sound)))
        for _ in range(10)
    ]
    began = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    taken = time.monotonic() - began
    assert [ending.how for ending in endings] == ["done"] * 10, endings
    for ending in endings:
        client.ask(f"/api/analyses/{ending.identifier}", "DELETE")
    return taken


def abandoned(client: Client) -> float:
    """Seconds until a long analysis that nobody asks for any more is cancelled."""
    status, said = client.post("/api/recordings?name=long.flac", silence(3500, 8000))
    assert status == 202, said
    began = time.monotonic()
    while client.ask("/api/limits")[1]["busy"]:
        assert time.monotonic() < began + 120, "it still runs"
        time.sleep(0.2)
    return time.monotonic() - began


def memory(server: subprocess.Popen[bytes]) -> float:
    """Megabytes of physical memory of a process and of all its descendants."""
    return sum(_resident(each) for each in _family(server.pid)) / 2**20


def _family(parent: int) -> Sequence[int]:
    found = [parent]
    for line in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = line.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if int(fields[1]) == parent:
            found += _family(int(line.parent.name))
    return found


def _resident(process: int) -> int:
    try:
        return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def _right(ending: Ending, may_pass: bool) -> bool:
    if ending.how == "done":
        return may_pass
    told = bool(ending.sentence.strip()) and not any(word in ending.sentence for word in UNEXPECTED)
    return ending.how in ("refused", "failed") and told


def _warm(client: Client) -> None:
    ending = client.upload("recordings", "good.flac", example_recording().read_bytes())
    assert ending.how == "done", ending
    client.ask(f"/api/analyses/{ending.identifier}", "DELETE")
