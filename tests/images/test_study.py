"""The study of classification: what was measured holds, it resumes, and wrong input ends with one sentence."""

import json
import math

import numpy as np
import pytest
import torch
from rich.console import Console

from mnist import replace_labels, write_set
from shape_types import no_shape_types
from torchmcl.classification import class_targets
from torchmcl.distances import cross_entropy
from torchmcl.errors import UserError
from torchmcl.hypotheses import Hypotheses
from torchmcl.images import command, study
from torchmcl.images.command import classify
from torchmcl.images.data import load_digits, split
from torchmcl.images.methods import METHODS, loss_of
from torchmcl.images.networks import build_networks
from torchmcl.images.study import MEASURES, run, settings_of

QUIET = Console(quiet=True)


@pytest.fixture(scope="module")
def digits():
    return load_digits()


@pytest.fixture(scope="module")
def measured(digits, tmp_path_factory):
    """One seed of each task, of the methods that a bound is about; shapes are checked by the other tests."""
    folder = tmp_path_factory.mktemp("study")
    settings = {task: settings_of(digits, task) for task in ("few", "ambiguous")}
    settings["each pixel"] = settings_of(digits, "few", scaling="pixel")
    methods = {
        "few": ("ensemble", "smcl", "cmcl", "vmcl", "rmcl"),
        "ambiguous": ("ensemble", "smcl"),
        "each pixel": ("ensemble", "cmcl"),
    }

    def measures(name: str, method: str) -> dict[str, float]:
        return run(folder / name, digits, settings[name], method, 0, lambda part: None)["measures"]

    with no_shape_types():
        return {name: {method: measures(name, method) for method in methods[name]} for name in methods}


def gap(measured, task, name, first, second):
    return measured[task][first][name] - measured[task][second][name]


class TestBounds:
    """What held for the worst three of twenty seeds."""

    def test_one_of_the_specialists_is_right(self, measured):
        assert gap(measured, "few", "oracle", "ensemble", "smcl") > 0.5
        assert gap(measured, "few", "oracle", "ensemble", "cmcl") > 0.4
        assert gap(measured, "ambiguous", "oracle", "ensemble", "smcl") > 10

    def test_the_average_of_overconfident_specialists_is_wrong(self, measured):
        assert gap(measured, "few", "top1", "smcl", "ensemble") > 8
        assert gap(measured, "ambiguous", "top1", "smcl", "ensemble") > 1

    def test_confident_and_versatile_mcl_repair_it(self, measured):
        assert abs(gap(measured, "few", "top1", "cmcl", "ensemble")) < 3
        assert gap(measured, "few", "top1", "vmcl", "ensemble") < 7
        assert gap(measured, "few", "top1", "rmcl", "ensemble") < 7

    def test_only_confident_losers_know_that_they_do_not_know(self, measured):
        means = {method: values["other"] for method, values in measured["few"].items()}
        assert means["cmcl"] > 0.9 * math.log(10)
        assert means["smcl"] < 0.7 * math.log(10)
        assert means["ensemble"] < 0.3

    def test_what_speaks_against_them(self, measured):
        assert gap(measured, "few", "top5", "ensemble", "smcl") < 0
        assert measured["few"]["ensemble"]["top5"] < measured["few"]["smcl"]["oracle"]
        assert gap(measured, "few", "nll", "cmcl", "ensemble") > 0.8
        assert abs(gap(measured, "each pixel", "top1", "cmcl", "ensemble")) < 3
        assert gap(measured, "each pixel", "noise", "cmcl", "ensemble") > 5


class TestTasks:
    def test_images_are_disjoint_and_drawn_by_the_seed(self, digits):
        first, again, other = (split(digits, "few", 300, seed) for seed in (0, 0, 1))
        assert torch.equal(first.train_images, again.train_images)
        assert not torch.equal(first.train_images, other.train_images)
        assert first.train_images.shape == (300, 8, 8)
        assert first.test_images.shape == (797, 8, 8)
        assert 0 <= first.train_images.min() <= first.train_images.max() <= 1
        known = {image.tobytes() for image in first.train_images.numpy()}
        shared = sum(image.tobytes() in known for image in first.test_images.numpy())
        assert shared == 0

    def test_ambiguous_labels_are_one_of_two_and_noisy_ones_any(self, digits):
        plain = split(digits, "few", 1000, 0)
        both = split(digits, "ambiguous", 1000, 0)
        for name in ("train_labels", "test_labels"):
            step = (getattr(both, name) - getattr(plain, name)) % 10
            assert set(step.tolist()) == {0, 1}
            assert 0.4 < step.double().mean() < 0.6
        noisy = split(digits, "noisy", 1000, 0)
        assert torch.equal(noisy.test_labels, plain.test_labels)
        # 30 % are replaced, a tenth of them by what they were
        assert 0.23 < (noisy.train_labels != plain.train_labels).double().mean() < 0.31

    def test_members_start_equal_in_all_methods(self):
        images = torch.rand(5, 8, 8)
        points = []
        for method in METHODS.values():
            torch.manual_seed(0)
            network = build_networks(images, hypotheses=5, classes=10, link=method.link)
            answer = network(images)
            points.append(answer.points)
            assert (answer.logits is None) == (method.link is None)
            assert torch.isfinite(loss_of(method)(answer, torch.arange(5), None))
        assert all(torch.equal(points[0], other) for other in points)

    def test_large_images_have_convolutions(self):
        images = torch.rand(5, 28, 20)
        network = build_networks(images, hypotheses=3, classes=4, link="softmax")
        answer = network(images)
        assert answer.points.shape == (5, 3, 4)
        assert any(weight.ndim == 5 for weight in network.parameters())
        targets, active = class_targets(answer, torch.tensor([0, 1, 2, 3, 0]))
        assert cross_entropy(targets, answer.points).shape == (5, 3)
        assert active.all()


class TestCommand:
    @pytest.fixture
    def fast(self, monkeypatch):
        """Three methods; the names of those that were trained."""
        few = {method: METHODS[method] for method in ("smcl", "cmcl", "vmcl")}
        monkeypatch.setattr(command, "METHODS", few)
        trained = []
        original = study._train

        def counted(*arguments):
            trained.append(arguments[3])
            return original(*arguments)

        monkeypatch.setattr(study, "_train", counted)
        return trained

    def call(self, data, out, **options):
        options = {"tasks": ("few",), "seed": 0, "seeds": 1, "images": None, **options}
        return classify(data, out=out, console=QUIET, **options)

    def test_mnist_files_give_everything_and_a_second_call_trains_nothing(self, tmp_path, fast):
        files = tmp_path / "files"
        files.mkdir()
        write_set(files, zipped=True, size=16, train=30, test=20)
        out = tmp_path / "out"
        found = self.call(files, out, seeds=2)
        assert len(fast) == 6
        assert json.loads((out / "results.json").read_text()) == found
        assert (out / "few.png").read_bytes().startswith(b"\x89PNG")
        for values in found["tasks"]["few"]["methods"].values():
            assert np.asarray(values["winners"]).sum() == 30
            assert np.asarray(values["histogram"]).sum() == 2 * 20 * 5
            assert values["top1"]["mean"] == pytest.approx(np.mean(values["top1"]["values"]))
            assert values["top1"]["std"] == pytest.approx(np.std(values["top1"]["values"], ddof=1))
        rows = (out / "table.md").read_text().splitlines()
        assert sum(row.startswith("| CMCL") for row in rows) == 1
        assert rows[2].count("|") == len(MEASURES) + 2
        before = (out / "results.json").read_bytes()
        self.call(files, out, seeds=2)
        assert len(fast) == 6
        assert (out / "results.json").read_bytes() == before

    def test_an_interrupted_study_continues_and_ends_the_same(self, tmp_path, fast, monkeypatch):
        files = write_set(tmp_path, size=8, train=40)
        whole = self.call(files, tmp_path / "whole")
        monkeypatch.setattr(study, "evaluate", self.interrupted(study.evaluate, after=2))
        with pytest.raises(KeyboardInterrupt):
            self.call(files, tmp_path / "again")
        fast.clear()
        assert self.call(files, tmp_path / "again") == whole
        assert fast == ["vmcl"]

    def interrupted(self, original, after):
        calls = []

        def evaluate(*arguments):
            calls.append(arguments)
            if len(calls) == after + 1:
                raise KeyboardInterrupt
            return original(*arguments)

        return evaluate

    def test_other_settings_and_foreign_files_are_refused(self, tmp_path, fast):
        files = write_set(tmp_path, size=8, train=40)
        out = tmp_path / "out"
        self.call(files, out)
        with pytest.raises(UserError, match="was made with images 40, not 30; choose another --out"):
            self.call(files, out, images=30)
        replace_labels(files, "train", list(range(10))[::-1] * 4)
        with pytest.raises(UserError, match="was made with checksum"):
            self.call(files, out)
        record = out / "runs" / "few" / "smcl" / "seed0.json"
        whole = json.loads(record.read_text())
        assert whole["settings"]["method"] == "smcl"
        for key, value in (
            ("measures", {"top1": 1.0}), ("measures", {**whole["measures"], "oracle": []}),
            ("winners", [[1, 2], [3]]), ("winners", [[[1]] * 5]), ("histogram", "many"), ("histogram", [[1.0], [2.0]]),
            ("histogram", [[10**30] * 20] * 2), ("winners", [[1] * 5]), ("winners", [[1] * 5] * 10_000),
        ):  # fmt: skip
            record.write_text(json.dumps({**whole, key: value}))
            with pytest.raises(UserError, match="smcl"):
                self.call(write_set(tmp_path, size=8, train=40), out)
        for content in ("{}", "[]", "{", "", '{"settings": 3, "measures": 1, "winners": 1, "histogram": 1}'):
            record.write_text(content)
            with pytest.raises(UserError, match="smcl"):
                self.call(write_set(tmp_path, size=8, train=40), out)

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"seeds": 0}, "--seeds must be between 1 and 1000, got 0"),
            ({"seeds": 10**9}, "--seeds must be between 1 and 1000"),
            ({"seed": -1}, "--seed must be between 0"),
            ({"seed": 2**70}, "--seed must be between 0"),
            ({"images": 0}, "--images must be at least 1, got 0"),
            ({"images": 1001}, "--images must be between 1 and 1000, got 1001"),
            ({"tasks": ("many",)}, "--task must be few, ambiguous or noisy, got 'many'"),
            ({"scaling": "large"}, "--scaling must be none, image or pixel, got 'large'"),
        ],
    )
    def test_wrong_options_are_named_before_anything_is_made(self, tmp_path, options, message):
        with pytest.raises(UserError, match=message):
            self.call(None, tmp_path / "out", **options)
        assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("side", "sizes"), [(8, [2000, 1000]), (28, [2000, 1000]), (56, [500] * 6)])
def test_large_images_are_classified_few_at_once(side, sizes):
    """Two thousand images of 65,536 pixels would need 21 GB."""
    seen = []

    class Network(torch.nn.Module):
        def forward(self, images):
            seen.append(len(images))
            return Hypotheses(torch.zeros(len(images), 2, 3))

    assert len(study._predict(Network(), torch.zeros(()).expand(3000, side, side)).points) == 3000
    assert seen == sizes
