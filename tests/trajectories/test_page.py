"""The animated page, in a browser."""

import shutil

import pytest
import torch
from playwright.sync_api import sync_playwright

from torchmcl.trajectories.forecast import forecasts
from torchmcl.trajectories.page import scene_page
from torchmcl.trajectories.pictures import pedestrian, plan
from torchmcl.trajectories.stream import Source, instants
from trajectories.conftest import walkers, write

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


@pytest.fixture
def made(tmp_path, untrained):
    write(walkers(0), tmp_path / "tracks.txt")
    return list(forecasts(untrained, instants(Source(tmp_path / "tracks.txt"))))


def pixels(page) -> str:
    return page.eval_on_selector("#plan", "canvas => canvas.toDataURL()")


@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")
def test_the_page_moves_with_the_slider_and_loads_nothing(made, tmp_path):
    path = tmp_path / "scene.html"
    path.write_text(scene_page(made, "a <b>title</b></script>"), encoding="utf-8")
    wrong: list[str] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_context(viewport={"width": 390, "height": 844}, offline=True).new_page()
        page.on("console", lambda message: wrong.append(message.text))
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("request", lambda request: wrong.append(request.url) if request.url[:5] != "file:" else None)
        page.goto(path.as_uri())
        assert page.inner_text("h1") == "a <b>title</b></script>"
        first = pixels(page)
        assert page.inner_text("#label").startswith(f"frame {made[0].instant.frame}, ")
        page.eval_on_selector("#time", "e => { e.value = e.max; e.dispatchEvent(new Event('input')); }")
        assert page.inner_text("#label").startswith(f"frame {made[-1].instant.frame}, ")
        last = pixels(page)
        assert last != first
        page.select_option("#top", "0")
        assert pixels(page) != last
        for width in (390, 1280):
            page.set_viewport_size({"width": width, "height": 800})
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        page.click("#play")
        page.wait_for_function(f"document.getElementById('time').value === '{1 % len(made)}'")
        assert page.inner_text("#play") == "Pause"
        browser.close()
    assert wrong == []


def test_line_widths_follow_the_probabilities(made, untrained):
    one = made[0]
    figure = pedestrian(
        one.instant.observed[0],
        one.hypotheses[0],
        untrained.at_steps(one.hypotheses, one.instant.observed)[0, -1],
        torch.zeros(12, 2, dtype=torch.float64),
    )
    [axes] = figure.axes
    futures = [
        line for line in axes.lines if len(line.get_xdata()) == 13 and line.get_label().startswith("_")
    ]
    assert len(futures) == 20
    widths = torch.tensor([line.get_linewidth() for line in futures])
    assert torch.equal(widths.argsort(), one.hypotheses[0].probs.argsort())
    assert {"observed", "single answer", "true future", "20 futures"} <= set(
        axes.get_legend_handles_labels()[1]
    )
    assert axes.collections


def test_everybody_is_on_the_plan(made):
    most = max(made, key=lambda each: len(each.instant.names))
    [axes] = plan(most).axes
    assert {text.get_text() for text in axes.texts} == set(most.instant.names)
