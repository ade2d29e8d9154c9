"""The page in a browser: drop, look, play, mute, zoom, download."""

import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Page, sync_playwright

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium: sh tests/install_browser.sh tells why")


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The address of `torchmcl serve`."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    process = subprocess.Popen([sys.executable, "-m", "torchmcl", "serve", "--port", str(port)])
    address = f"http://127.0.0.1:{port}"
    for _ in range(600):
        try:
            urllib.request.urlopen(f"{address}/api/limits")
            break
        except OSError:
            time.sleep(0.1)
    yield address
    process.terminate()
    process.wait(20)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_playwright() as playwright:
        arguments = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        launched = playwright.chromium.launch(executable_path=CHROMIUM, args=arguments)
        yield launched
        launched.close()


def opened(browser: Any, address: str, width: int) -> tuple[Page, list[str]]:
    """The page, and what went wrong on it."""
    tab = browser.new_context(viewport={"width": width, "height": 900}, accept_downloads=True).new_page()
    wrong: list[str] = []
    tab.on("console", lambda message: wrong.append(message.text))
    tab.on("pageerror", lambda error: wrong.append(str(error)))
    outside = lambda request: not request.url.startswith((address, "blob:", "data:"))  # noqa: E731
    tab.on("request", lambda request: wrong.append(request.url) if outside(request) else None)
    tab.goto(address)
    return tab, wrong


def until(tab: Page, condition: str) -> None:
    """Wait by asking: the policy of the page forbids the script that Playwright would wait with."""
    end = time.monotonic() + 30
    while not tab.evaluate(condition):
        assert time.monotonic() < end, condition
        time.sleep(0.05)


@pytest.mark.parametrize("width", [1280, 390])
def test_the_example_is_shown_played_muted_zoomed_and_downloaded(server, browser, width):
    tab, wrong = opened(browser, server, width)
    tab.click("#example")
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
    tab, wrong = opened(browser, server, 390)
    (tmp_path / "notes.wav").write_text("not a sound")
    tab.set_input_files("#file-recordings", tmp_path / "notes.wav")
    tab.wait_for_selector("#error:not([hidden])", timeout=60_000)
    assert "notes.wav" in tab.inner_text("#error")
    assert wrong == []


def test_doors_are_reached_by_keyboard(server, browser):
    tab, wrong = opened(browser, server, 1280)
    tab.focus("#tab-recordings")
    tab.keyboard.press("ArrowRight")
    assert tab.evaluate("document.activeElement.id") == "tab-tables"
    assert tab.is_visible("#door-tables")
    assert not tab.is_visible("#door-recordings")
    assert wrong == []


def test_a_table_is_trained_on_and_new_rows_are_predicted(server, browser, tmp_path):
    tab, wrong = opened(browser, server, 1280)
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
