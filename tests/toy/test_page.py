"""The report page, by reading it and in a real browser."""

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from playwright.sync_api import Page, sync_playwright

from torchmcl.runs.figures import save_figure
from torchmcl.toy.evaluate import predict
from torchmcl.toy.experiment import results, table
from torchmcl.toy.figures import figure1
from torchmcl.toy.outcomes import Run
from torchmcl.toy.page import page

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
browser_needed = pytest.mark.skipif(
    CHROMIUM is None, reason="no Chromium: sh tests/install_browser.sh tells why and how to get it"
)


@pytest.fixture(scope="module")
def report(tiny_run: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    save_figure(figure1(tiny_run), folder / "figure1", dpi=40)
    path, numbers = folder / "report.html", results([tiny_run])
    text = page(tiny_run, numbers, table(numbers).html(), folder / "figure1.png")
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        )
        yield launched
        launched.close()


def opened(browser: Any, report: Path, width: int = 1280, **options: Any) -> tuple[Page, list[str]]:
    """The page, and what went wrong on it: console messages, errors, requests to anywhere else."""
    tab = browser.new_context(viewport={"width": width, "height": 900}, offline=True, **options).new_page()
    wrong: list[str] = []
    tab.on("console", lambda message: wrong.append(message.text))
    tab.on("pageerror", lambda error: wrong.append(str(error)))
    tab.on(
        "request",
        lambda request: wrong.append(request.url) if request.url[:5] not in ("file:", "data:") else None,
    )
    tab.goto(report.as_uri())
    return tab, wrong


def test_the_page_holds_all_models_and_needs_nothing_else(report, tiny_run):
    text = report.read_text(encoding="utf-8")
    assert not re.findall(r"""(?:src|href)=["'](?!data:)""", text)
    assert "<!--" not in text
    data = json.loads(re.search(r'id="data">(.*?)</script>', text, re.DOTALL)[1])
    assert [model["name"] for model in data["models"]] == ["rMCL", "rMCL*", "sMCL", "IE", "IE (mean)"]
    middle = predict(tiny_run.outcomes["rmcl"].trained.network, torch.tensor(data["times"][50]))
    rows = torch.tensor(data["models"][0]["hypotheses"][50], dtype=torch.float64)
    torch.testing.assert_close(rows[:, :2], middle.points, atol=1e-4, rtol=0)
    torch.testing.assert_close(rows[:, 2], middle.probs, atol=1e-4, rtol=0)


@browser_needed
@pytest.mark.parametrize("width", [390, 1280])
def test_the_page_fits_and_nothing_goes_wrong(browser, report, width):
    tab, wrong = opened(browser, report, width)
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    assert tab.locator("#cells .cell").count() > 0
    assert tab.locator("#density .mass").count() == 4
    assert tab.evaluate("document.querySelector('.print img').naturalWidth") > 0
    assert wrong == []


@browser_needed
def test_the_slider_moves_hypotheses_density_and_numbers(browser, report):
    tab, wrong = opened(browser, report)
    parts = ("#density", "#cells", "#chart", "#reading", "#shown")
    before = [tab.locator(part).inner_html() for part in parts]
    tab.locator("#time").focus()
    tab.keyboard.press("End")
    after = [tab.locator(part).inner_html() for part in parts]
    assert all(a != b for a, b in zip(before, after, strict=True))
    assert tab.locator("#shown").inner_text() == "1.00"
    opacity = [float(each.get_attribute("fill-opacity")) for each in tab.locator("#density .mass").all()]
    assert opacity == [0, 1, 1, 0]
    assert wrong == []


@browser_needed
def test_another_model_can_be_chosen_and_time_can_run(browser, report):
    tab, wrong = opened(browser, report)
    before = tab.locator("#cells").inner_html()
    tab.get_by_role("combobox", name="Model").select_option("sMCL")
    assert tab.locator("#cells").inner_html() != before
    assert tab.locator("#reading").inner_text().startswith("sMCL")
    tab.get_by_role("button", name="Play").click()
    tab.wait_for_function("document.getElementById('shown').textContent !== '0.10'")
    tab.get_by_role("button", name="Stop").click()
    assert wrong == []


@browser_needed
def test_the_cells_tile_the_square(browser, report, tiny_run):
    tab, _ = opened(browser, report)
    area = tab.evaluate(
        """[...document.querySelectorAll('#cells .cell')].map((cell) => {
             const p = cell.getAttribute('points').split(' ').map((pair) => pair.split(',').map(Number));
             return Math.abs(p.reduce((sum, [x, y], i) => {
               const [u, v] = p[(i + 1) % p.length];
               return sum + x * v - u * y;
             }, 0)) / 2;
           }).reduce((a, b) => a + b)"""
    )
    assert area == pytest.approx(4, abs=1e-2)


@browser_needed
def test_dark_and_light_differ(browser, report):
    colors = [
        opened(browser, report, color_scheme=scheme)[0].evaluate(
            "getComputedStyle(document.body).backgroundColor"
        )
        for scheme in ("light", "dark")
    ]
    assert colors[0] != colors[1]
