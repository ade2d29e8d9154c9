"""The documents: what they show runs, what they name exists, and the site is built without the network."""

import re
import shlex
import shutil
import subprocess
import sys
import textwrap
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import typer
from matplotlib.figure import Figure
from playwright.sync_api import sync_playwright

import torchmcl
from shape_types import no_shape_types
from torchmcl.cli import app
from torchmcl.experiments.compose import compose_config
from torchmcl.experiments.studies import STUDIES
from torchmcl.experiments.study import compose_panels

ROOT = Path(__file__).parents[1]
PAGES = sorted(path for path in (ROOT / "docs").rglob("*.md") if "_build" not in path.parts)
DOCUMENTS = [*(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")), *PAGES]
COMMAND: Any = typer.main.get_command(app)
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)

PAGES_SEEN = (
    "index",
    "gallery",
    "explanation/mathematics",
    "reference/api",
    "explanation/differences",
    "howto/choose-k",
)

every_document = pytest.mark.parametrize(
    "path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT).with_suffix(""))
)


def blocks(path: Path, language: str) -> list[str]:
    found = re.findall(rf"^( *)```{language}\n(.*?)^ *```", path.read_text(), re.MULTILINE | re.DOTALL)
    return [textwrap.dedent(block) for _, block in found]


@every_document
def test_blocks_of_python_run(path, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    # Shape types fix the lengths that a traced network is to leave open.
    with no_shape_types() if path.stem == "export" else nullcontext():
        for block in blocks(path, "python"):
            exec(compile(block, str(path), "exec"), names)


@every_document
def test_lines_of_shell_can_be_called(path):
    lines = [line for block in blocks(path, "(?:ba)?sh") for line in block.replace("\\\n", "").splitlines()]
    for line in lines:
        words = shlex.split(line, comments=True)
        if words:
            CHECKS[Path(words[0]).name](words[1:])


def check_torchmcl(words: list[str]) -> None:
    if words[0].startswith("-"):
        assert words[0] in {"--help", *(name for each in COMMAND.params for name in each.opts)}
        return
    chosen = COMMAND.commands[words[0]]
    context = chosen.make_context(words[0], words[1:])
    if words[0] == "train":
        compose_config(context.params["settings"])
    if words[0] == "study":
        assert context.params["name"] in {*STUDIES, "all"}
        compose_panels(context.params["name"], context.params["settings"] or [])


def check_make(words: list[str]) -> None:
    targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert set(words) <= set(targets)


def check_python(words: list[str]) -> None:
    if words[:2] == ["-m", "benchmarks"]:
        assert all((ROOT / "benchmarks" / f"{name}.py").exists() for name in words[2:])
    elif words[0] not in ("-m", "-X"):
        assert (ROOT / words[0]).exists()


def check_launched(words: list[str]) -> None:
    CHECKS[words[0]](words[1:])


def check_nothing(words: list[str]) -> None:
    """Tools that are not ours."""


CHECKS = {
    "torchmcl": check_torchmcl,
    "make": check_make,
    "python": check_python,
    "pip": check_nothing,
    "git": check_nothing,
    "ray": check_nothing,
    "source": check_nothing,
    "srun": check_launched,
}


@every_document
def test_named_commands_and_tests_exist(path):
    text = path.read_text()
    assert set(re.findall(r"`torchmcl ([a-z-]+)", text)) <= {
        *COMMAND.commands,
        "--help",
        "--install-completion",
    }
    written = "".join(each.read_text() for each in (ROOT / "tests").rglob("test_*.py"))
    missing = [name for name in re.findall(r"\btest_\w+(?!\w*\.)", text) if f"def {name}(" not in written]
    assert missing == []


@every_document
def test_links_lead_somewhere(path):
    for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", path.read_text()):
        assert (path.parent / target).exists(), f"{path.name} links to {target}"


def test_the_first_example_comes_early():
    lines = (ROOT / "README.md").read_text().splitlines()
    assert lines.index("```python") < 35


@pytest.mark.parametrize("name", torchmcl.__all__)
def test_every_public_name_is_explained_by_an_example(name):
    documented = getattr(torchmcl, name).__doc__
    assert ">>> " in documented
    assert re.search(
        rf"^\.\. auto(class|function):: torchmcl\.{name}$", (ROOT / "docs/reference/api.md").read_text(), re.M
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site as `make docs` builds it, with blank pictures in place of those that the examples draw."""
    place = tmp_path_factory.mktemp("site")
    for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md"):
        shutil.copy(ROOT / name, place)
    shutil.copytree(ROOT / "examples", place / "examples", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "docs", place / "docs", ignore=shutil.ignore_patterns("_build", "__pycache__"))
    pictures = place / "docs" / "_build" / "pictures"
    pictures.mkdir(parents=True)
    for example in (place / "examples").glob("*.py"):
        Figure(figsize=(9, 4)).savefig(pictures / f"{example.stem}.png", dpi=10)
    words = ["-m", "sphinx", "--fail-on-warning", "--quiet", "--builder", "html", "docs", "html"]
    ended = subprocess.run(
        [sys.executable, *words], cwd=place, capture_output=True, text=True, check=False, timeout=300
    )
    assert ended.returncode == 0, ended.stderr
    return place / "html"


def test_the_site_loads_nothing_from_elsewhere(site):
    for page in site.rglob("*.html"):
        text = page.read_text()
        loaded = re.findall(r"<(?:script|img|source|iframe)[^>]*\ssrc=\"([^\"]+)", text)
        loaded += re.findall(r"<link[^>]*\shref=\"([^\"]+)", text)
        assert not [each for each in loaded if re.match(r"(https?:)?//", each)], page
    for sheet in site.rglob("*.css"):
        text = sheet.read_text()
        assert not re.findall(r"url\(['\"]?(?:https?:)?//", text), sheet
        assert "@import" not in text, sheet


def test_formulas_are_drawn_by_the_browser_and_lead_to_functions(site):
    text = (site / "explanation" / "mathematics.html").read_text()
    assert text.count("<math ") > 40
    assert "MathJax" not in text
    for name in ("mcl_loss", "scoring_loss", "rmcl_loss", "emd", "pit_loss", "Hypotheses.count"):
        assert f'href="../reference/api.html#torchmcl.{name}"' in text


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium: sh tests/install_browser.sh tells why")
@pytest.mark.parametrize("width", [390, 1280])
def test_pages_fit_and_nothing_goes_wrong(site, width):
    wrong: list[str] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        )
        tab = browser.new_context(viewport={"width": width, "height": 900}, offline=True).new_page()
        tab.on("console", lambda message: wrong.append(message.text))
        tab.on("pageerror", lambda error: wrong.append(str(error)))
        tab.on("requestfailed", lambda request: wrong.append(request.url))
        for page in PAGES_SEEN:
            tab.goto((site / f"{page}.html").as_uri())
            assert tab.evaluate("document.documentElement.scrollWidth") <= width, page
        browser.close()
    assert wrong == []
