"""Cards and the Hub, against a stub of its client: what is asked for, what is pushed, what is refused."""

import os
import shutil
import sys
from itertools import pairwise
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
import yaml
from markdown_it import MarkdownIt

from torchmcl import MCLClassifier, MCLRegressor
from torchmcl.audio import Localizer
from torchmcl.audio.localizer import BUNDLED_MODEL
from torchmcl.errors import UserError
from torchmcl.sharing import FILES, Card, Measure, fetched, write_card
from torchmcl.sharing.cards import MARK, check_own
from torchmcl.tabular.cards import classifier_card, regressor_card
from torchmcl.trajectories import Forecaster
from torchmcl.trajectories.forecaster import BUNDLED

X = np.random.default_rng(0).normal(size=(60, 2))
SMALL = {"n_hypotheses": 2, "hidden": (4,), "max_epochs": 1, "random_state": 0, "progress": False}


def regressor():
    return MCLRegressor(members=2, **SMALL).fit(X, X.sum(1))


def classifier():
    return MCLClassifier(**SMALL).fit(X, X[:, 0] > 0)


MODELS = {
    "regressor": (regressor, MCLRegressor, "tabular-regression", lambda model: model.predict(X)),
    "classifier": (classifier, MCLClassifier, "tabular-classification", lambda model: model.predict_proba(X)),
    "forecaster": (
        Forecaster.from_pretrained,
        Forecaster,
        "time-series-forecasting",
        lambda model: model(torch.arange(16.0).view(1, 8, 2)).points.numpy(),
    ),
    "localizer": (
        Localizer.from_pretrained,
        Localizer,
        "other",
        lambda model: model(np.random.default_rng(0).normal(size=(4, 8000)), 16000).counts,
    ),
}


def front(folder: Path) -> dict:
    _, head, _ = (folder / "README.md").read_text().split("---\n", 2)
    return yaml.safe_load(head)


class Hub(ModuleType):
    """A Hub of folders: `snapshot_download` copies what the patterns allow, as the real client does."""

    def __init__(self, place: Path) -> None:
        super().__init__("huggingface_hub")
        self.place, self.calls = place, []
        self.errors = ModuleType("huggingface_hub.errors")
        self.errors.HfHubHTTPError = type("HfHubHTTPError", (OSError,), {})
        self.HfApi = lambda: SimpleNamespace(create_repo=self.create_repo, upload_folder=self.upload_folder)

    def snapshot_download(self, name, *, revision, allow_patterns):
        self.calls.append((name, revision, allow_patterns))
        if not (self.place / name).is_dir():
            raise self.errors.HfHubHTTPError("404 Client Error\nmore")
        cache = self.place / "cache"
        shutil.rmtree(cache, ignore_errors=True)
        cache.mkdir()
        for pattern in allow_patterns:
            for path in (self.place / name).glob(pattern):
                shutil.copy(path, cache)
        return str(cache)

    def create_repo(self, name, *, private, exist_ok):
        self.calls.append((name, private))
        (self.place / name).mkdir(parents=True, exist_ok=exist_ok)
        return f"hub/{name}"

    def upload_folder(self, *, repo_id, folder_path, allow_patterns, revision, commit_message):
        self.calls.append((repo_id, revision, allow_patterns))
        for pattern in allow_patterns:
            for path in Path(folder_path).glob(pattern):
                shutil.copy(path, self.place / repo_id)


@pytest.fixture
def hub(tmp_path, monkeypatch):
    stub = Hub(tmp_path / "hub")
    monkeypatch.setitem(sys.modules, "huggingface_hub", stub)
    monkeypatch.setitem(sys.modules, "huggingface_hub.errors", stub.errors)
    monkeypatch.chdir(tmp_path)
    return stub


@pytest.mark.parametrize("kind", MODELS)
def test_pushed_and_fetched_models_answer_alike(hub, kind):
    make, type_, task, answer = MODELS[kind]
    model = make()
    assert model.push_to_hub("me/model", private=False) == "hub/me/model"
    there = hub.place / "me" / "model"
    assert {path.name for path in there.iterdir()} <= set(FILES)
    (there / "model.pkl").write_bytes(b"anything")
    (there / "modeling.py").write_text("raise SystemExit")
    np.testing.assert_array_equal(answer(type_.from_pretrained("me/model", revision="v1")), answer(model))
    assert hub.calls[-1] == ("me/model", "v1", list(FILES))
    assert {path.name for path in (hub.place / "cache").iterdir()} <= set(FILES)
    card = front(there)
    assert (card["library_name"], card["pipeline_tag"]) == ("torchmcl", task)
    assert "torchmcl" in card["tags"]
    assert "## Limits" in (there / "README.md").read_text()


def test_only_data_travels():
    assert all(Path(name).suffix in {".json", ".safetensors", ".md"} for name in FILES)


def test_a_string_that_is_a_folder_is_a_folder(hub, tmp_path):
    (tmp_path / "me").mkdir()
    shutil.copytree(BUNDLED, tmp_path / "me" / "model")
    Forecaster.from_pretrained("me/model")
    assert hub.calls == []
    assert fetched(Path("no/folder")) == Path("no/folder")
    assert fetched("/no/folder") == Path("/no/folder")
    with pytest.raises(UserError, match="revision is for names on the Hub"):
        fetched("me/model", revision="v1")
    with pytest.raises(
        UserError, match=r"me/other: is no folder here, and could not be fetched from the Hub \(404"
    ):
        Localizer.from_pretrained("me/other")
    with pytest.raises(UserError, match="must be 'owner/name'"):
        regressor().push_to_hub("model")


def test_without_the_extra_one_sentence_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    for call in (
        lambda: MCLRegressor.from_pretrained("me/model"),
        lambda: Forecaster.from_pretrained().push_to_hub("a/b"),
    ):
        with pytest.raises(UserError, match=r"needs huggingface_hub: pip install 'torchmcl\[hub\]'"):
            call()


def test_the_real_client_reads_the_card(tmp_path):
    from huggingface_hub import ModelCard

    card = Card(
        "Prices",
        "tabular-regression",
        "Text.",
        "use()",
        "None.",
        measures=[Measure("CRPS", 1.5, "houses.csv")],
    )
    write_card(tmp_path, card)
    read = ModelCard.load(tmp_path / "README.md")
    assert (read.data.library_name, read.data.pipeline_tag, read.data.license) == (
        "torchmcl",
        "tabular-regression",
        "unknown",
    )
    [result] = read.data.eval_results
    assert (result.metric_type, result.metric_value, result.dataset_name) == ("crps", 1.5, "houses.csv")
    for folder in (BUNDLED, BUNDLED_MODEL):
        assert ModelCard.load(folder / "README.md").data.license == "mit"


NAMES = ["<script>x</script>", "a`\n\n# [b](http://c)\n", "\x1b[31m|", "**d**", "e\\"]


def test_names_in_a_card_are_text():
    """Whoever made the table, its names are no tags, headings, links or commands for a terminal."""
    frame = pd.DataFrame(X, columns=NAMES[:2]).assign(**{NAMES[2]: ["<i>", "|`"] * 30})
    fitted = MCLRegressor(members=2, **SMALL).fit(frame, X.sum(1))
    other = MCLClassifier(**SMALL).fit(frame, ["<p>", "`|\n# q\n"] * 30)
    reader = MarkdownIt("commonmark").enable("table")
    for card in (
        regressor_card(fitted, {"CRPS of " + NAMES[1]: 1.0}, NAMES[2], NAMES),
        classifier_card(other),
    ):
        body = card.render().split("---\n", 2)[2].replace(MARK, "")
        assert body.isascii()
        assert all(map(str.isprintable, body.splitlines()))
        tokens = reader.parse(body)
        kinds = {each.type for token in tokens for each in (token, *(token.children or ()))}
        assert not {kind for kind in kinds if kind.startswith(("html", "link", "strong", "em", "image"))}
        titles = [after.content for each, after in pairwise(tokens) if each.type == "heading_open"]
        assert titles[1:] == [
            each for each in ("Use", "Numbers", "Limits", "License") if f"## {each}" in body
        ]
        cells = [each for each in tokens if each.type == "td_open"]
        assert len(cells) == 3 * len(card.measures)


def test_a_card_of_a_person_is_kept(tmp_path):
    model = regressor()
    model.save(tmp_path)
    written = (tmp_path / "README.md").read_text()
    model.save(tmp_path)
    assert (tmp_path / "README.md").read_text() == written
    (tmp_path / "README.md").write_text("mine")
    model.save(tmp_path)
    assert (tmp_path / "README.md").read_text() == "mine"
    (tmp_path / "README.md").unlink()
    os.mkfifo(tmp_path / "README.md")
    model.save(tmp_path)
    assert (tmp_path / "README.md").is_fifo()


def test_a_localizer_without_description_cannot_be_saved(tmp_path):
    localizer = Localizer.from_pretrained()
    with pytest.raises(UserError, match="has no description"):
        Localizer(localizer.network, 16000).save(tmp_path)


@pytest.mark.parametrize("content", ["mine", '{"model_type": "bert"}', "[1]"])
def test_a_model_of_another_program_is_not_replaced(content, tmp_path, unchecked):
    (tmp_path / "config.json").write_text(content)
    (tmp_path / "model.safetensors").write_text("mine")
    model = MCLRegressor(max_epochs=1, members=1, n_hypotheses=2, hidden=(4,), progress=False)
    model.fit(np.eye(8), np.arange(8.0))
    for save in (model.save, Forecaster.from_pretrained().save):
        with pytest.raises(UserError, match=r"config\.json: was not written by torchmcl"):
            save(tmp_path)
    assert (tmp_path / "config.json").read_text() == content
    assert (tmp_path / "model.safetensors").read_text() == "mine"
    with pytest.raises(TypeError, match="folder must be a path"):
        model.save(3)


def test_a_model_is_saved_neither_over_foreign_weights_nor_in_the_root_folder(tmp_path):
    weights = tmp_path / "model.safetensors"
    weights.write_bytes(b"mine")
    for folder, message in ((tmp_path, "is there without a config.json"), ("/", "is the root folder")):
        with pytest.raises(UserError, match=message):
            check_own(folder)
    (tmp_path / "settings.json").write_text("{}")
    check_own(tmp_path)
    (tmp_path / "config.json").write_text('{"sample_rate": 24000, "model_type": "other"}')
    with pytest.raises(UserError, match="was not written by torchmcl"):
        check_own(tmp_path)
    assert weights.read_bytes() == b"mine"
