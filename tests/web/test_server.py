"""The server through its API: what it accepts, what it refuses, and what it leaves behind."""

import asyncio
import re
import struct
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from fastapi.testclient import TestClient

from torchmcl.errors import UserError
from torchmcl.web import tables
from torchmcl.web.analyses import Analyses
from torchmcl.web.guard import LOCAL_HOSTS
from torchmcl.web.limits import Limits
from torchmcl.web.server import create_app
from torchmcl.web.uploads import display_name, receive
from web.conftest import finished, root, sound


def test_a_recording_becomes_files_and_nothing_of_the_upload_is_kept(client):
    status = finished(client, client.post("/api/recordings?name=concert.wav", content=sound(seconds=2)))
    assert status["state"] == "done", status
    assert {"concert.csv", "concert.json", "view.json", "playback.ogg"} <= set(status["files"])
    base = f"/api/analyses/{status['id']}"
    view = client.get(f"{base}/files/view.json").json()
    assert view["name"] == "concert.wav"
    assert view["duration"] == 2
    assert len(view["count"]) == 20
    assert client.get(f"{base}/files/playback.ogg").content[:4] == b"OggS"
    end = time.monotonic() + 10  # it is removed once its process has ended
    while (root(client) / status["id"] / "source").exists():
        assert time.monotonic() < end
        time.sleep(0.01)
    assert client.delete(base).status_code == 204
    assert not (root(client) / status["id"]).exists()
    assert client.get(base).status_code == 404


@pytest.fixture(scope="module")
def example(client):
    """The status of the bundled example, analyzed once."""
    return finished(client, client.post("/api/example"))


def test_the_bundled_example_is_found(client, example):
    assert example["state"] == "done", example
    view = client.get(f"/api/analyses/{example['id']}/files/view.json").json()
    assert len(view["tracks"]) >= 2


HEADER = struct.pack(
    "<4sI8sIHHIIHH4sI", b"RIFF", 2**31, b"WAVEfmt ", 16, 1, 4, 48000, 384000, 8, 16, b"data", 2**31
)
HOSTILE = {
    "empty": (b"", "empty"),
    "text": (b"hello " * 100, "not a sound file"),
    "cut": (sound()[:-5000], "truncated"),
    "a huge claim": (HEADER + bytes(1000), "truncated|announces"),
    "one channel": (sound(channels=1), "has 1 channels"),
    "five channels": (sound(channels=5), "has 5 channels"),
    "a low rate": (sound(rate=100), "Hz"),
    "a page": (b"<html><script>alert(1)</script>", "not a sound file"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_recording_ends_with_a_sentence(client, case):
    content, sentence = HOSTILE[case]
    answer = client.post("/api/recordings?name=%3Cimg%3E.wav", content=content)
    said = answer.json().get("error") or finished(client, answer)["message"]
    assert re.search(sentence, said), said
    assert str(root(client)) not in said
    assert "Traceback" not in said


def test_too_much_is_refused_by_its_announcement_and_by_its_bytes(client):
    large = bytes(2**20 + 1)
    assert "too large" in client.post("/api/recordings", content=large).json()["error"]
    assert "too large" in client.post("/api/recordings", content=iter([large[:-5], large])).json()["error"]
    before = set(root(client).iterdir())
    assert client.post("/api/recordings", content=iter([large, large])).status_code == 400
    assert set(root(client).iterdir()) <= before


@pytest.mark.parametrize(
    "headers",
    [
        {"host": "evil.example"},
        {"host": "127.0.0.1.evil.example"},
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "http://[::1"},
        {"sec-fetch-site": "cross-site"},
        {"origin": "http://127.0.0.1:9"},
    ],
    ids=str,
)
def test_other_sites_and_other_names_are_refused(client, headers):
    assert client.get("/api/limits", headers=headers).status_code == 403
    assert client.post("/api/example", headers=headers).status_code == 403


def test_the_page_itself_may_ask(client):
    own = {"origin": "http://127.0.0.1", "sec-fetch-site": "same-origin"}
    assert client.get("/api/limits", headers=own).status_code == 200


def test_a_reverse_proxy_passes_its_own_name_on():
    hosts = (*LOCAL_HOSTS, "sounds.example.org")
    with TestClient(create_app(hosts=hosts), base_url="http://127.0.0.1") as client:
        for host in ("sounds.example.org", "sounds.example.org:8443"):
            own = {"host": host, "origin": f"https://{host}", "sec-fetch-site": "same-origin"}
            assert client.get("/api/limits", headers=own).status_code == 200
            assert (
                client.get("/api/limits", headers={**own, "origin": "https://evil.example"}).status_code
                == 403
            )
        assert client.get("/api/limits", headers={"host": "other.example.org"}).status_code == 403


def test_a_table_that_unpacks_to_billions_of_cells_is_refused(tmp_path, monkeypatch):
    pytest.importorskip("pyarrow")
    pandas = pytest.importorskip("pandas")
    pandas.DataFrame({"a": [0.0] * 1000, "y": [1.0] * 1000}).to_parquet(tmp_path / "bomb.parquet")
    monkeypatch.setattr(tables, "CELLS", 1999)
    with pytest.raises(UserError, match="1,000 rows of 2 columns"):
        tables.analyze_table(tmp_path / "bomb.parquet", tmp_path, ["y"])


def test_an_analysis_has_bounded_memory():
    small = Limits(analysis_bytes=2**20)
    with TestClient(create_app(small), base_url="http://127.0.0.1") as client:
        status = finished(client, client.post("/api/recordings?name=a.wav", content=sound(seconds=0.5)))
    assert status["state"] == "failed"
    assert "memory" in status["message"]


def test_a_full_disk_is_told_in_a_sentence(tmp_path):
    async def parts():
        yield b"x"

    with pytest.raises(UserError, match="could not keep the file"):
        asyncio.run(receive(parts(), tmp_path / "no such folder" / "upload", Limits()))


EXAMPLE, RECORDING = "/api/example", "/api/recordings?name=a.wav"


@pytest.mark.parametrize(
    ("path", "name"),
    [(EXAMPLE, "mkdir"), (EXAMPLE, "write_bytes"), (RECORDING, "mkdir"), (RECORDING, "open")],
)
def test_a_disk_that_fails_is_told_and_nothing_is_left(path, name, client, monkeypatch):
    def fail(*arguments, **more):
        raise OSError(28, "No space left on device")

    before = set(client.app.state.analyses.known)
    with monkeypatch.context() as patch:
        patch.setattr(Path, name, fail)
        answer = client.post(path, content=b"RIFF")
    assert answer.status_code in (400, 507)
    assert "could not keep" in answer.json()["error"]
    assert "No space left on device" in answer.json()["error"]
    assert set(client.app.state.analyses.known) == before


def test_analyses_go_on_after_one_that_could_not_start(client, monkeypatch):
    analyses = client.app.state.analyses

    def fail(*arguments, **more):
        raise OSError(24, "Too many open files")

    with monkeypatch.context() as patch:
        patch.setattr(analyses, "processes", SimpleNamespace(Pipe=fail))
        for _ in range(analyses.limits.running + 1):
            status = finished(client, client.post("/api/recordings?name=a.wav", content=b"RIFF"), 5)
            assert status["state"] == "failed"
            assert "could not start the analysis (Too many open files)" in status["message"]
    status = finished(client, client.post("/api/recordings?name=a.wav", content=b"RIFF"))
    assert "not a sound file" in status["message"]


def test_no_process_outlives_its_folder(tmp_path, monkeypatch):
    ended = []

    def process(self, analysis):
        while not analysis.ended:
            time.sleep(0.01)
        time.sleep(0.2)
        ended.append(analysis.folder.exists())

    monkeypatch.setattr(Analyses, "_process", process)
    monkeypatch.setattr(Analyses, "_prepare", lambda self: None)

    async def use():
        analyses = Analyses(tmp_path, Limits())
        async with analyses.running():
            for _ in range(3):
                analyses.start(analyses.open("recordings", "a.wav", {}))
            await asyncio.sleep(0.05)

    asyncio.run(use())
    assert ended == [True] * Limits().running
    assert not list(tmp_path.iterdir())


def test_no_path_leads_out_of_the_results(client, example):
    for name in (
        "../source/upload",
        "%2e%2e%2fsource%2fupload",
        "..%5cx",
        ".",
        "view.json%00",
        "%2fetc%2fpasswd",
    ):
        assert client.get(f"/api/analyses/{example['id']}/files/{name}").status_code in (404, 405), name


@pytest.mark.parametrize("path", ["/static/../server.py", "/static/server.py", "/etc/passwd", "/api/nothing"])
def test_nothing_else_is_served(client, path):
    assert client.get(path).status_code in (404, 405, 422)


def test_names_are_for_display_only():
    assert display_name("..\\..\\x.wav") == "x.wav"
    assert display_name("a\x00\x1b[31m.wav") == "a[31m.wav"
    assert display_name("/") == "upload"
    assert len(display_name("x" * 1000)) == 100
    assert display_name("\N{GRINNING FACE}" * 1000 + ".wav").endswith("\N{GRINNING FACE}.wav")


@pytest.mark.parametrize("stem", ["\N{GRINNING FACE}" * 200, "view"])
def test_outputs_have_names_that_fit_and_differ_from_those_of_the_page(stem, client):
    answer = client.post("/api/recordings", params={"name": f"{stem}.wav"}, content=sound(seconds=0.1))
    status = finished(client, answer)
    assert status["state"] == "done", status["message"]
    [table] = [name for name in status["files"] if name.endswith("-counts.csv")]
    found = client.get(f"/api/analyses/{status['id']}/files/{table.removesuffix('-counts.csv')}.json")
    assert "sources" in found.json()
    assert "tracks" in client.get(f"/api/analyses/{status['id']}/files/view.json").json()


def test_an_analysis_that_nobody_asks_for_is_cancelled_and_removed(client):
    answer = client.post("/api/recordings?name=a.wav", content=sound(seconds=1))
    analysis = client.app.state.analyses.known[answer.json()["id"]]
    analysis.seen = time.monotonic() - 100 if not analysis.ended else 0
    end = time.monotonic() + 20
    while analysis.folder.exists() and time.monotonic() < end:
        time.sleep(0.1)
    assert not analysis.folder.exists()


def test_several_at_once_all_end(client):
    answers = [client.post(f"/api/recordings?name={i}.wav", content=sound(seconds=0.5)) for i in range(3)]
    waiting = {answer.json()["id"] for answer in answers}
    ended: list[str] = []
    limit = time.monotonic() + 120
    while waiting and time.monotonic() < limit:
        for identifier in sorted(waiting):
            state = client.get(f"/api/analyses/{identifier}").json()["state"]
            if state not in ("waiting", "running"):
                ended.append(state)
                waiting.discard(identifier)
        time.sleep(0.05)
    assert ended == ["done"] * 3


def test_a_temporary_folder_too_long_for_sockets_is_refused(monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", f"/{'x' * 80}")
    with pytest.raises(UserError, match=r"TMPDIR is /x+, must have at most 75 bytes"):
        create_app()


def test_limits_are_positive():
    assert all(value > 0 for value in vars(Limits()).values())


def test_every_file_of_the_page_is_there(client):
    page = client.get("/")
    assert "default-src 'self'" in page.headers["content-security-policy"]
    for name in ("style.css", "viewer.js", "app.js", "live.js", "docs.js", "recorder.js"):
        assert client.get(f"/static/{name}").status_code == 200
    assert client.get("/docs").status_code == 200
    assert "/api/analyses/{id}" in client.get("/openapi.json").json()["paths"]
