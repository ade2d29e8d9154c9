"""A server with small limits, and recordings to upload."""

import io
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from benchmarks.uploads import served as start_server
from benchmarks.uploads.client import Client
from fastapi.testclient import TestClient

from torchmcl.web.limits import Limits
from torchmcl.web.server import create_app

LIMITS = Limits(
    upload_bytes=2**20, idle_seconds=0.5, upload_seconds=5.0, lease_seconds=30.0, keep_seconds=60.0
)


@pytest.fixture(scope="module")
def client() -> Iterator[TestClient]:
    """A client of a running server."""
    with TestClient(create_app(LIMITS), base_url="http://127.0.0.1") as made:
        yield made


@dataclass(frozen=True)
class Server:
    """`torchmcl serve` in a process of its own, with its temporary files in `folder`."""

    client: Client
    folder: Path

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.client.port}"


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One for all tests of this folder that a worker runs."""
    folder = tmp_path_factory.mktemp("serve")
    with start_server(folder) as (client, _):
        yield Server(client, folder)


def sound(channels: int = 4, seconds: float = 1.0, rate: int = 16000, form: str = "WAV") -> bytes:
    """A sound file of noise."""
    content = io.BytesIO()
    noise = np.random.default_rng(0).normal(0, 0.1, (round(seconds * rate), channels))
    soundfile.write(content, noise, rate, format=form)
    return content.getvalue()


def finished(client: TestClient, answer: Any, seconds: float = 60) -> dict[str, Any]:
    """The status of an analysis at its end."""
    assert answer.status_code == 202, answer.text
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        status = client.get(f"/api/analyses/{answer.json()['id']}").json()
        if status["state"] in ("done", "failed", "cancelled"):
            return status
        time.sleep(0.05)
    raise AssertionError("it takes too long")


def root(client: TestClient) -> Path:
    """The folder of the server."""
    return client.app.state.analyses.root  # type: ignore[attr-defined]
