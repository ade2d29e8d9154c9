"""Records come back as they were, or a sentence says what is wrong with the file."""

import json
import subprocess
from dataclasses import dataclass, field
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchmcl.errors import UserError
from torchmcl.runs.records import from_plain, provenance, read_record, write_record


@dataclass(frozen=True)
class Part:
    name: str
    values: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class Whole:
    count: int
    share: float
    kind: Literal["a", "b"]
    parts: tuple[Part, ...]
    pair: tuple[int, str]
    named: dict[str, Part]
    maybe: float | None = None


WHOLE = Whole(1, 0.5, "a", (Part("x", [1.0, 2.0]),), (3, "y"), {"z": Part("z")})


def plain() -> dict[str, Any]:
    return {
        "count": 1, "share": 0.5, "kind": "a", "parts": [{"name": "x", "values": [1, 2]}], "pair": [3, "y"],
        "named": {"z": {"name": "z", "values": []}},
    }  # fmt: skip


def test_there_and_back(tmp_path):
    write_record(tmp_path / "a.json", WHOLE)
    assert read_record(tmp_path / "a.json", Whole) == WHOLE
    written = json.loads((tmp_path / "a.json").read_text())
    assert set(written["provenance"]) == {"torchmcl", "torch", "python", "commit"}
    assert from_plain(Whole, plain()) == WHOLE


@pytest.fixture
def asked_again():
    """Provenance is kept for the process: before and after a test it is forgotten."""
    provenance.cache_clear()
    yield
    provenance.cache_clear()


@pytest.mark.usefixtures("asked_again")
def test_records_need_no_git(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert provenance()["commit"] is None


@pytest.mark.usefixtures("asked_again")
def test_the_commit_is_not_that_of_a_clone_around_the_installed_program(tmp_path, monkeypatch):
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    own = ["-c", "user.name=x", "-c", "user.email=x@y"]
    subprocess.run(["git", "-C", tmp_path, *own, "commit", "-q", "--allow-empty", "-m", "theirs"], check=True)
    installed = tmp_path / "venv" / "site-packages" / "torchmcl" / "__init__.py"
    installed.parent.mkdir(parents=True)
    monkeypatch.setattr("torchmcl.__file__", str(installed))
    assert provenance()["commit"] is None


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("count", 1.5, "count is 1.5, must be int"),
        ("count", True, "count is True, must be int"),
        ("count", 2**63, "count is 9223372036854775808, must be int of 64 bits"),
        ("share", "x", "share is 'x', must be float"),
        ("share", 1e101, r"share is 1e\+101, must be float of at most 1e\+100"),
        ("share", 10**30, "holds a whole number of more than 64 bits"),
        ("kind", "c", "kind is 'c', must be"),
        ("kind", [], r"kind is \[\], must be"),
        ("parts", {}, "parts is {}, must be"),
        ("parts", [{"name": 1}], r"parts\[0\].name is 1, must be str"),
        ("parts", [{"values": []}], r"parts\[0\].name is missing"),
        ("parts", [{"name": "x", "more": 1}], r"parts\[0\].more is unknown; there are name, values"),
        ("pair", [1], "pair has 1 entries, must have 2"),
        ("named", {"z": 1}, "named.z is 1, must be Part"),
        ("maybe", "x", "maybe is 'x', must be float or null"),
        ("more", 1, "more is unknown"),
    ],
)
def test_what_is_wrong_is_named(key, value, said, tmp_path):
    (tmp_path / "a.json").write_text(json.dumps({**plain(), key: value}))
    with pytest.raises(UserError, match=rf"a\.json: {said}"):
        read_record(tmp_path / "a.json", Whole)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda children: st.lists(children, max_size=3) | st.dictionaries(st.text(), children, max_size=3),
    max_leaves=8,
)


@given(st.sampled_from(sorted(plain())), JSON)
def test_any_value_is_taken_or_refused_with_one_sentence(key, value):
    said = ""
    try:
        from_plain(Whole, {**plain(), key: value})
    except UserError as error:
        said = str(error)
    assert "\n" not in said
