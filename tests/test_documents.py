"""Every block of Python in the documents runs, from top to bottom of its file."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_blocks_run(path, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for block in BLOCK.findall(path.read_text()):
        exec(compile(block, str(path), "exec"), names)


def test_the_first_example_comes_early():
    lines = (ROOT / "README.md").read_text().splitlines()
    assert lines.index("```python") < 35


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(path):
    for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", path.read_text()):
        assert (path.parent / target).exists(), f"{path.name} links to {target}"
