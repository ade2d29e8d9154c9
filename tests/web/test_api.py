"""The server over the network: the examples of the documents, and uploads that are not meant well."""

import re
import shutil
import socket
import subprocess
import time
from pathlib import Path

import pytest
from benchmarks.uploads import requests, send
from benchmarks.uploads.files import cases

from web.conftest import sound

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "serve.md"
FILES = (
    "64 channels", "63 channels", "a cut WAV", "a sample that is NaN", "a header whose rate is 4294967295",
    "a FLAC file that claims 2^36 samples", "10^6 brackets", "a target with a path", "predictions by a path",
    "tracks: NaN",
)  # fmt: skip
"""`python -m benchmarks uploads` sends all of them."""


def block(language: str) -> str:
    found = re.search(f"```{language}\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    return found[1]


def test_the_python_example_of_the_documents_runs(server, tmp_path):
    names: dict[str, object] = {}
    exec(block("python"), names)
    (tmp_path / "concert.wav").write_bytes(sound(seconds=1))
    found = names["localize"](server.address, tmp_path / "concert.wav")  # type: ignore[operator]
    assert found["recording"] == "concert.wav"
    assert "sources" in found


@pytest.mark.skipif(shutil.which("curl") is None, reason="no curl")
def test_the_curl_example_of_the_documents_runs(server, tmp_path):
    (tmp_path / "concert.wav").write_bytes(sound(seconds=1))
    script = block("text").replace("http://127.0.0.1:8000", server.address)
    subprocess.run(["sh", "-e", "-c", script], cwd=tmp_path, check=True, timeout=120)
    assert (tmp_path / "concert.csv").exists()


def test_hostile_files_end_with_a_sentence(server):
    chosen = [case for case in cases(150) if case.what in FILES]
    assert len(chosen) == len(FILES)
    assert [(what, ending) for what, ending, right in send(server.client, iter(chosen)) if not right] == []


def test_hostile_requests_end_with_a_sentence(server):
    slow = ("a pause of 17 s", "a byte at a time, then a pause")
    ended = requests(server.client, without=slow)
    assert [(what, ending) for what, ending, right in ended if not right] == []


def test_a_sender_that_hangs_up_leaves_nothing(server):
    announced = b"POST /api/recordings HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000000\r\n\r\n"
    with socket.create_connection(("127.0.0.1", server.client.port)) as connection:
        connection.sendall(announced + bytes(1000))
    end = time.monotonic() + 10
    while server.client.ask("/api/limits")[1]["busy"]:
        assert time.monotonic() < end
        time.sleep(0.05)
