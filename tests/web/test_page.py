"""The page in a browser: drop, look, play, mute, zoom, download."""

import base64
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from benchmarks.uploads import free_port
from playwright.sync_api import Page, sync_playwright

from torchmcl.cli.audio import localize
from torchmcl.web.work import example_recording

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium: sh tests/install_browser.sh tells why")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_playwright() as playwright:
        arguments = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        launched = playwright.chromium.launch(executable_path=CHROMIUM, args=arguments)
        yield launched
        launched.close()


def opened(
    browser: Any, address: str, width: int, *, path: str = "/", dark: bool = False
) -> tuple[Page, list[str]]:
    """The page, and what went wrong on it."""
    tab = browser.new_context(
        viewport={"width": width, "height": 900},
        color_scheme="dark" if dark else "light",
        accept_downloads=True,
    ).new_page()
    wrong: list[str] = []
    tab.on("console", lambda message: wrong.append(message.text))
    tab.on("pageerror", lambda error: wrong.append(str(error)))
    outside = lambda request: not request.url.startswith((address, "blob:", "data:"))  # noqa: E731
    tab.on("request", lambda request: wrong.append(request.url) if outside(request) else None)
    tab.goto(f"{address}{path}")
    return tab, wrong


def drop(tab: Page, place: str, path: Path) -> None:
    """Drop a file as a person does."""
    content = base64.b64encode(path.read_bytes()).decode()
    transfer = tab.evaluate_handle(
        """([content, name]) => {
            const bytes = Uint8Array.from(atob(content), (letter) => letter.charCodeAt(0));
            const transfer = new DataTransfer();
            transfer.items.add(new File([bytes], name));
            return transfer;
        }""",
        [content, path.name],
    )
    tab.dispatch_event(place, "drop", {"dataTransfer": transfer})


def shoot(tab: Page, name: str) -> None:
    """A picture for the documents, where `TORCHMCL_PICTURES` names their folder."""
    if folder := os.environ.get("TORCHMCL_PICTURES"):
        tab.screenshot(path=Path(folder) / f"{name}.png", full_page=True)


def until(tab: Page, condition: str) -> None:
    """Wait by asking: the policy of the page forbids the script that Playwright would wait with."""
    end = time.monotonic() + 30
    while not tab.evaluate(condition):
        assert time.monotonic() < end, condition
        time.sleep(0.05)


@pytest.mark.parametrize("width", [1280, 390])
def test_the_example_is_shown_played_muted_zoomed_and_downloaded(server, browser, width):
    tab, wrong = opened(browser, server.address, width, dark=width == 390)
    drop(tab, "#door-recordings .drop", example_recording())
    tab.wait_for_selector("#result:not([hidden]) canvas", timeout=60_000)
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    until(tab, "viewer.audio.duration > 7")
    tab.evaluate("viewer.seek(2)")
    before = tab.evaluate("viewer.map.toDataURL()")
    tab.evaluate("viewer.audio.muted = true; viewer.audio.play()")
    until(tab, "viewer.time > 2.3")
    tab.evaluate("viewer.audio.pause()")
    assert tab.evaluate("viewer.map.toDataURL()") != before
    assert float(tab.get_attribute("canvas[role=slider]", "aria-valuenow")) > 2
    shoot(tab, "serve" if width == 1280 else "serve-narrow")
    shown = tab.evaluate("viewer.timeline.toDataURL()")
    tab.click(".track >> nth=0")
    assert tab.get_attribute(".track >> nth=0", "aria-pressed") == "true"
    assert tab.evaluate("viewer.timeline.toDataURL()") != shown
    tab.focus("canvas[role=slider]")
    tab.keyboard.press("+")
    assert tab.evaluate("viewer.end - viewer.start") == pytest.approx(4)
    tab.keyboard.press("End")
    assert tab.evaluate("viewer.at") == pytest.approx(8)
    with tab.expect_download() as download:
        tab.click("#files a[download$='.csv'] >> nth=0")
    assert download.value.suggested_filename.endswith(".csv")
    assert wrong == []


def test_a_wrong_file_is_told_in_a_sentence(server, browser, tmp_path):
    tab, wrong = opened(browser, server.address, 390)
    (tmp_path / "notes.wav").write_text("not a sound")
    tab.set_input_files("#file-recordings", tmp_path / "notes.wav")
    tab.wait_for_selector("#error:not([hidden])", timeout=60_000)
    assert "notes.wav" in tab.inner_text("#error")
    assert wrong == []


def test_doors_are_reached_by_keyboard(server, browser):
    tab, wrong = opened(browser, server.address, 1280)
    tab.focus("#tab-recordings")
    tab.keyboard.press("ArrowRight")
    assert tab.evaluate("document.activeElement.id") == "tab-tables"
    assert tab.is_visible("#door-tables")
    assert not tab.is_visible("#door-recordings")
    assert wrong == []


def test_a_table_is_trained_on_and_new_rows_are_predicted(server, browser, tmp_path):
    tab, wrong = opened(browser, server.address, 1280)
    rng = np.random.default_rng(0)
    x = rng.uniform(size=(120, 2))
    lines = [f"{a:.3f},{b:.3f},{a + rng.normal(0, 0.1):.3f}" for a, b in x]
    (tmp_path / "small.csv").write_text("\n".join(["a,b,y", *lines]))
    (tmp_path / "new.csv").write_text("a,b\n0.5,0.5\n0.1,0.9\n")
    tab.click("#tab-tables")
    tab.set_input_files("#file-tables", tmp_path / "small.csv")
    until(tab, "!document.getElementById('fit').disabled")
    assert tab.input_value("#target") == "y"
    tab.click("#fit")
    tab.wait_for_selector("#result:not([hidden]) iframe", timeout=120_000)
    tab.set_input_files("#file-predictions", tmp_path / "new.csv")
    tab.wait_for_selector("#preview table", timeout=60_000)
    assert tab.locator("#preview tr").count() == 3
    assert wrong == []


def test_one_file_holds_the_whole_view(browser, tmp_path):
    localize([example_recording()], out=tmp_path, html=True)
    page = tmp_path / "example.html"
    tab, wrong = opened(browser, page.as_uri(), 390, path="")
    until(tab, "viewer.audio.duration > 7")
    before = tab.evaluate("viewer.map.toDataURL()")
    tab.evaluate("viewer.seek(2.3)")
    assert tab.evaluate("viewer.map.toDataURL()") != before
    with tab.expect_download() as download:
        tab.click("a[download='example.csv']")
    assert Path(download.value.path()).read_bytes() == (tmp_path / "example.csv").read_bytes()
    assert tab.evaluate("document.documentElement.scrollWidth") <= 390
    assert wrong == []


def test_tracks_become_futures_that_move(server, browser, tmp_path):
    tab, wrong = opened(browser, server.address, 390)
    rows = [f"{10 * step} {person} {0.5 * step} {person}" for step in range(24) for person in (1, 2)]
    (tmp_path / "crossing.txt").write_text("\n".join(rows))
    tab.click("#tab-tracks")
    tab.set_input_files("#file-tracks", tmp_path / "crossing.txt")
    tab.wait_for_selector("#result:not([hidden]) iframe[title=Futures]", timeout=60_000)
    scene = tab.frame_locator("iframe[title=Futures]")
    assert "crossing.txt" in scene.locator("body").inner_text()
    before = scene.locator("canvas").evaluate("canvas => canvas.toDataURL()")
    scene.locator("input[type=range]").press("End")
    assert scene.locator("canvas").evaluate("canvas => canvas.toDataURL()") != before
    assert tab.evaluate("document.documentElement.scrollWidth") <= 390
    tab.click("#tab-recordings")
    assert not tab.is_visible("#result")
    assert wrong == []


def test_a_closed_tab_cancels_its_work(server, browser, tmp_path):
    tab, _ = opened(browser, server.address, 1280)
    soundfile.write(tmp_path / "long.flac", np.zeros((8000 * 1800, 4), np.int16), 8000)
    tab.set_input_files("#file-recordings", tmp_path / "long.flac")
    until(tab, "document.getElementById('work-state').textContent.startsWith('running')")
    assert server.client.ask("/api/limits")[1]["busy"] == 1
    tab.goto("about:blank")
    end = time.monotonic() + 10
    while server.client.ask("/api/limits")[1]["busy"]:
        assert time.monotonic() < end, "it still runs"
        time.sleep(0.1)


def test_the_reference_of_the_api_needs_no_network(server, browser):
    tab, wrong = opened(browser, server.address, 390, path="/docs")
    tab.wait_for_selector("section h2")
    assert "POST /api/{kind}" in tab.inner_text("main")
    assert "`" not in tab.inner_text("main")
    assert tab.evaluate("document.documentElement.scrollWidth") <= 390
    assert wrong == []


FOUR = """
const tone = async () => {
  const context = new AudioContext();
  const place = context.createMediaStreamDestination();
  place.channelCount = CHANNELS;
  const source = new OscillatorNode(context);
  const merger = new ChannelMergerNode(context, { numberOfInputs: CHANNELS });
  for (let channel = 0; channel < CHANNELS; channel++) source.connect(merger, 0, channel);
  merger.connect(place);
  source.start();
  const track = place.stream.getAudioTracks()[0];
  track.getSettings = () => ({ channelCount: CHANNELS });
  return place.stream;
};
navigator.mediaDevices.getUserMedia = tone;
"""


def test_a_device_with_four_channels_is_recorded(server, browser):
    tab, wrong = opened(browser, server.address, 1280)
    tab.evaluate(FOUR.replace("CHANNELS", "4"))
    tab.click("#record")
    until(tab, "document.getElementById('record').textContent === 'Stop'")
    time.sleep(1)
    tab.click("#record")
    tab.wait_for_selector("#result:not([hidden]) canvas", timeout=60_000)
    assert tab.evaluate("viewer.result.duration") > 0.5
    assert wrong == []


def test_a_device_with_two_channels_is_refused_in_a_sentence(server, browser):
    tab, wrong = opened(browser, server.address, 390)
    tab.evaluate(FOUR.replace("CHANNELS", "2"))
    tab.click("#record")
    tab.wait_for_selector("#error:not([hidden])")
    assert "2 channels" in tab.inner_text("#error")
    assert wrong == []


def test_live_sound_moves_on_the_page_and_can_be_paused(browser):
    port = free_port()
    words = [sys.executable, "-m", "torchmcl", "serve", "--port", str(port), "--live", "--rate", "16000"]
    with subprocess.Popen([*words, "--format", "acn-n3d"], stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        samples, _ = soundfile.read(example_recording(), dtype="float32")
        process.stdin.write(samples[: 16000 * 2].tobytes())
        process.stdin.flush()
        end = time.monotonic() + 60
        while True:
            try:
                tab, wrong = opened(browser, f"http://127.0.0.1:{port}", 390)
                break
            except Exception:
                assert time.monotonic() < end
                time.sleep(0.2)
        until(tab, "live !== null && live.viewer.result.duration > 1")
        assert tab.is_visible("#door-live")
        assert tab.inner_text("#live-state") == "listening"
        tab.click("text=Pause")
        stopped = tab.evaluate("live.viewer.time")
        process.stdin.write(samples[16000 * 2 : 16000 * 4].tobytes())
        process.stdin.flush()
        until(tab, f"live.viewer.result.duration > {stopped} + 1")
        assert tab.evaluate("live.viewer.time") == stopped
        tab.click("text=Continue")
        until(tab, "live.viewer.time === live.viewer.result.duration")
        assert tab.evaluate("live.viewer.result.tracks.length") > 0
        shoot(tab, "serve-live")
        tab.evaluate("live.socket.close()")
        until(tab, "live.socket.readyState === 1 && live.viewer.result.duration > 3")
        process.stdin.close()
        until(tab, "document.getElementById('live-state').textContent === 'the sound has ended'")
        assert tab.evaluate("document.documentElement.scrollWidth") <= 390
        assert wrong == []
        process.terminate()
