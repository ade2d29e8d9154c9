"""Predictions of class hypotheses and their metrics against torchmetrics, scikit-learn and loops."""

import math

import pytest
import torch
from sklearn.metrics import log_loss, top_k_accuracy_score
from torchmetrics.functional.classification import multiclass_accuracy

from torchmcl.classification import (
    FeatureSharing,
    class_entropy,
    class_error,
    class_log_probs,
    class_owners,
    class_probs,
    class_targets,
    class_winners,
    entropy_histogram,
    oracle_class_error,
)
from torchmcl.classification.metrics import ClassError, ClassOwnership, EntropyHistogram, OracleClassError
from torchmcl.hypotheses import Hypotheses

CLASSES, MEMBERS, ITEMS = 6, 4, 50


@pytest.fixture
def case():
    points = 3 * torch.randn(ITEMS, MEMBERS, CLASSES, dtype=torch.float64)
    scored = Hypotheses(points, torch.randn(ITEMS, MEMBERS, dtype=torch.float64), "softmax")
    return scored, torch.randint(CLASSES, (ITEMS,))


def test_average_and_weighted_average(case):
    scored, _ = case
    each = scored.points.softmax(-1)
    torch.testing.assert_close(class_probs(Hypotheses(scored.points)), each.mean(1))
    weights = scored.logits.softmax(-1)
    torch.testing.assert_close(
        class_probs(scored), torch.stack([w @ p for w, p in zip(weights, each, strict=True)])
    )
    sigmoid = Hypotheses(scored.points, scored.logits)
    weights = scored.logits.sigmoid() / scored.logits.sigmoid().sum(-1, keepdim=True)
    torch.testing.assert_close(
        class_probs(sigmoid), torch.stack([w @ p for w, p in zip(weights, each, strict=True)])
    )


def test_probabilities_do_not_underflow():
    h = Hypotheses(torch.tensor([[0.0, 500.0]]))
    assert class_log_probs(h)[0] == -500


@pytest.mark.parametrize("top", [1, 2, 5])
def test_errors_are_those_of_other_libraries(case, top):
    scored, labels = case
    probs = class_probs(scored)
    ours = class_error(scored, labels, top=top).mean().item()
    theirs = top_k_accuracy_score(labels, probs, k=top, labels=range(CLASSES))
    assert ours == pytest.approx(1 - theirs)
    accuracy = multiclass_accuracy(probs, labels, CLASSES, average="micro", top_k=top)
    assert ours == pytest.approx(1 - accuracy.item(), abs=1e-6)


def test_likelihood_is_that_of_scikit_learn(case):
    scored, labels = case
    ours = -class_log_probs(scored).gather(-1, labels[:, None]).mean().item()
    assert ours == pytest.approx(log_loss(labels, class_probs(scored), labels=range(CLASSES)))


def test_oracle_error_is_a_loop(case):
    scored, labels = case
    theirs = [
        float(all(scored.points[s, k].argmax() != label for k in range(MEMBERS)))
        for s, label in enumerate(labels)
    ]
    assert oracle_class_error(scored, labels).tolist() == theirs
    assert 0 < sum(theirs) < ITEMS


def test_every_answer_may_be_right_or_ignored():
    h = Hypotheses(torch.eye(4)[:2].expand(3, 2, 4))
    labels = torch.tensor([[0, 1], [1, 2], [3, -100]])
    active = torch.tensor([[True, True], [True, True], [False, True]])
    assert oracle_class_error(h, labels, active).tolist() == [[0, 0], [0, 1], [0, 0]]
    metric = OracleClassError()
    metric.update(h, labels, active)
    assert metric.compute() == 0.25


def test_ownership_is_a_loop(case):
    scored, labels = case
    counts = torch.zeros(CLASSES, MEMBERS, dtype=torch.long)
    for s, label in enumerate(labels):
        counts[label, scored.points[s].log_softmax(-1)[:, label].argmax()] += 1
    assert torch.equal(class_winners(scored, labels), counts)
    assert class_owners(counts).tolist() == [row.argmax().item() for row in counts]


def test_entropy_histogram_is_a_loop(case):
    scored, labels = case
    owners = torch.tensor([0, 1, 2, 3, 0, 1])
    counts = torch.zeros(2, 7, dtype=torch.long)
    for s, label in enumerate(labels):
        for k in range(MEMBERS):
            p = scored.points[s, k].softmax(-1)
            entropy = -(p * p.log()).sum().item()
            assert class_entropy(scored)[s, k].item() == pytest.approx(entropy)
            counts[int(owners[label] != k), min(int(entropy / math.log(CLASSES) * 7), 6)] += 1
    assert torch.equal(entropy_histogram(scored, labels, owners, bins=7), counts)


def test_certain_and_uniform_fall_into_the_ends():
    h = Hypotheses(torch.tensor([[[99.0, 0.0], [0.0, 0.0]]]))
    assert entropy_histogram(h, torch.tensor([0]), torch.tensor([0, 0]), bins=3).tolist() == [
        [1, 0, 0],
        [0, 0, 1],
    ]


@pytest.mark.parametrize("metric", ["error", "top", "oracle", "ownership", "histogram"])
def test_batches_and_two_halves_merged_are_the_whole(case, metric):
    scored, labels = case
    active = torch.rand(ITEMS) < 0.8
    build = {
        "error": ClassError,
        "top": lambda: ClassError(top=3),
        "oracle": OracleClassError,
        "ownership": lambda: ClassOwnership(CLASSES, MEMBERS),
        "histogram": lambda: EntropyHistogram(torch.arange(CLASSES) % MEMBERS, bins=5),
    }[metric]
    whole, first, second = build(), build(), build()
    whole.update(scored, labels, active)
    for start in (0, 7):
        end = start + 7 if start == 0 else 20
        first.update(scored[start:end], labels[start:end], active[start:end])
    second.update(scored[20:], labels[20:], active[20:])
    # What torchmetrics does between processes: the states are added up.
    for name in whole._defaults:
        setattr(first, name, getattr(first, name) + getattr(second, name))
    torch.testing.assert_close(first.compute(), whole.compute())
    kept = active.nonzero()[:, 0]
    few = build()
    few.update(scored[kept], labels[kept])
    torch.testing.assert_close(few.compute(), whole.compute())


def test_owners_of_the_metric(case):
    metric = ClassOwnership(CLASSES, MEMBERS)
    metric.update(*case)
    assert torch.equal(metric.owners, metric.compute().argmax(-1))


class TestFeatureSharing:
    def test_training_masks_are_bernoulli_and_never_hide_the_own(self):
        sharing = FeatureSharing(keep=0.3)
        features = torch.tensor([1.0, 1000.0])[:, None].expand(2, 20_000)
        first, second = sharing(features)
        assert set(first.unique().tolist()) == {1.0, 1001.0}
        assert set(second.unique().tolist()) == {1000.0, 1001.0}
        assert (first > 1).double().mean().item() == pytest.approx(0.3, abs=0.02)
        assert not torch.equal(first > 1, second > 1000)

    def test_evaluation_is_the_expectation(self):
        sharing = FeatureSharing(keep=0.7)
        features = torch.randn(3, 4, 5, dtype=torch.float64)
        mean = torch.stack([sharing(features) for _ in range(4000)]).mean(0)
        torch.testing.assert_close(sharing.eval()(features), mean, atol=0.1, rtol=0)

    def test_images_have_their_members_elsewhere(self):
        features = torch.randn(2, 3, 4, 5, 6)
        shared = FeatureSharing(dim=1).eval()(features)
        own = features + 0.7 * (features.sum(1, keepdim=True) - features)
        torch.testing.assert_close(shared, own)
        assert FeatureSharing(dim=1)(features).shape == features.shape

    def test_everything_or_nothing(self):
        features = torch.randn(3, 4)
        torch.testing.assert_close(FeatureSharing(keep=0.0)(features), features)
        torch.testing.assert_close(FeatureSharing(keep=1.0)(features), features.sum(0).expand(3, 4))

    def test_gradients_reach_the_others(self):
        features = torch.randn(3, 4, requires_grad=True)
        FeatureSharing(keep=1.0)(features)[0].sum().backward()
        assert (features.grad == 1).all()


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda h, y: class_error(h, y, top=9), "top must be at most 6, got 9"),
        (lambda h, y: entropy_histogram(h, y, torch.zeros(3).long()), r"owners must be \(6,\)"),
        (lambda h, y: entropy_histogram(h, y, torch.zeros(6).long(), bins=0), "bins must be at least 1"),
        (
            lambda h, y: ClassOwnership(3, MEMBERS).update(h, y),
            r"have \(classes, hypotheses\) \(6, 4\), not \(3, 4\)",
        ),
        (lambda h, y: ClassOwnership(0, 1), "n_classes must be at least 1, got 0"),
        (lambda h, y: FeatureSharing(keep=1.5), "keep must be between 0 and 1, got 1.5"),
    ],
)
def test_mistakes_are_named(case, call, message):
    with pytest.raises(ValueError, match=message):
        call(*case)


def test_a_label_of_eight_bits_is_not_taken_for_a_missing_one():
    hypotheses = Hypotheses(torch.nn.functional.one_hot(torch.tensor([[156]]), 200).float())
    assert class_error(hypotheses, torch.tensor([100], dtype=torch.uint8)).tolist() == [1]
    assert class_targets(hypotheses, torch.tensor([156], dtype=torch.uint8))[1].all()


def test_the_error_of_an_unknown_prediction_is_unknown():
    hypotheses = Hypotheses(torch.tensor([[[0.0, 1.0]], [[torch.nan, 0.0]]]))
    labels, missing = torch.tensor([1, 0]), torch.tensor([1, -100])
    for error, metric in ((class_error, ClassError), (oracle_class_error, OracleClassError)):
        assert error(hypotheses, labels).isnan().tolist() == [False, True]
        assert error(hypotheses, missing).tolist() == [0, 0]
        counted = metric()
        counted.update(hypotheses, labels)
        assert counted.compute().isnan()
    for count in (ClassOwnership(2, 1), EntropyHistogram(torch.tensor([0, 0]))):
        count.update(hypotheses, missing)
        with pytest.raises(ValueError, match="hypotheses have class logits that are NaN"):
            count.update(hypotheses, labels)


def test_an_owner_that_is_no_hypothesis_is_named():
    with pytest.raises(ValueError, match=r"owners must be in 0..0, got \[0, 7\]"):
        entropy_histogram(Hypotheses(torch.zeros(1, 1, 2)), torch.tensor([0]), torch.tensor([0, 7]))
