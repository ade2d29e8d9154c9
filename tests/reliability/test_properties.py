"""Random problems of all shapes for the public names whose own tests have none."""

import json
import math
import tempfile
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from torchmcl import (
    Box,
    CountRecall,
    Dirac,
    EarthMoversDistance,
    Ensemble,
    Gaussian,
    Hypotheses,
    HypothesisHead,
    MCLRegressor,
    OracleError,
    Uniform,
    WinnerHistogram,
    cell_loss,
    emd,
    multi_hypothesis,
    oracle_error,
    scoring_loss,
)
from torchmcl.audio.candidates import candidates
from torchmcl.errors import UserError
from torchmcl.experiments.compose import compose_config
from torchmcl.experiments.config import Config, from_plain, to_plain
from torchmcl.runs.files import write_json, write_text
from torchmcl.training import TensorBatches, collapse, constant, cosine, flat_cosine

few = settings(max_examples=30)
small = st.integers(1, 6)
seeds = st.integers(0, 2**31)
axes = st.lists(st.integers(0, 3), max_size=3)


def random_problem(seed, batch, targets, hypotheses, dim=2):
    random = torch.Generator().manual_seed(seed)
    points = torch.randn(batch, hypotheses, dim, generator=random, dtype=torch.float64)
    logits = torch.randn(batch, hypotheses, generator=random, dtype=torch.float64)
    where = torch.randn(batch, targets, dim, generator=random, dtype=torch.float64)
    active = torch.rand(batch, targets, generator=random) < 0.6
    return Hypotheses(points, logits), where.masked_fill(~active[..., None], torch.nan), active


@few
@given(seeds, small, small, small, st.integers(0, 6))
def test_metrics_of_batches_are_those_of_the_whole(seed, batch, targets, hypotheses, cut):
    whole, where, active = random_problem(seed, batch, targets, hypotheses)
    for metric, function in ((EarthMoversDistance(), emd), (OracleError(), oracle_error)):
        for part in (slice(0, cut), slice(cut, None)):
            metric.update(whole[part], where[part], active[part])
        present = active.any(-1)
        expected = function(whole, where, active)[present]
        if present.any():
            assert metric.compute().item() == pytest.approx(expected.mean().item(), rel=1e-9)
            assert metric.std.item() == pytest.approx(expected.std(correction=0).item(), abs=1e-9)
        else:
            assert math.isnan(metric.compute())


@few
@given(seeds, small, small, small)
def test_winners_are_counted_whatever_their_order(seed, batch, targets, hypotheses):
    whole, where, active = random_problem(seed, batch, targets, hypotheses)
    order = torch.randperm(hypotheses, generator=torch.Generator().manual_seed(seed))
    counts = []
    for each in (whole, Hypotheses(whole.points[:, order], whole.logits[:, order])):
        metric = WinnerHistogram(hypotheses)
        metric.update(each, where, active)
        counts.append(metric.compute().reshape(-1))
        assert 0 <= metric.entropy <= math.log(hypotheses) + 1e-9
    assert torch.equal(counts[0][order], counts[1])
    assert counts[0].sum() >= active.any(-1).sum()
    recall = CountRecall()
    recall.update(whole, where, active)
    assert 0 <= recall.compute() <= 1


@few
@given(axes, small, small, small, st.sampled_from(["sigmoid", "softmax", None]))
def test_heads_take_any_leading_axes(leading, features, hypotheses, dim, scores):
    inputs = torch.randn(*leading, features)
    for model in (
        HypothesisHead(features, hypotheses, dim, scores),
        multi_hypothesis(nn.Sequential(nn.Linear(features, 3), nn.Linear(3, dim)), hypotheses),
    ):
        found = model(inputs)
        assert found.points.shape == (*leading, hypotheses, dim)
        torch.testing.assert_close(found.probs.sum(-1), torch.ones(leading))
        assert found.mean.shape == (*leading, dim)


@few
@given(axes, small, small, small)
def test_an_ensemble_holds_the_answers_of_its_members(leading, features, members, dim):
    models = [HypothesisHead(features, 2, dim, scores=None) for _ in range(members)]
    inputs = torch.randn(*leading, features)
    found = Ensemble(models)(inputs)
    assert torch.equal(found.points, torch.cat([model(inputs).points for model in models], -2))
    assert found.logits is None


@few
@given(seeds, small, st.sampled_from(["uniform", "gaussian"]))
def test_densities_are_positive_where_they_are_drawn(seed, hypotheses, law):
    torch.manual_seed(seed)
    points = torch.rand(2, hypotheses, 2, dtype=torch.float64) * 2 - 1
    box = Box([-1.0, -1.0], [1.0, 1.0])
    density = Hypotheses(points, torch.randn(2, hypotheses, dtype=torch.float64)).density(
        Uniform(box) if law == "uniform" else Gaussian(0.3)
    )
    drawn = density.sample((20,))
    assert drawn.shape == (20, 2, 2)
    assert torch.isfinite(density.log_prob(drawn)).all()
    if law == "uniform":
        assert (drawn.abs() <= 1 + 1e-9).all()


@few
@given(seeds, small)
def test_a_dirac_draws_its_points_and_nothing_else(seed, hypotheses):
    torch.manual_seed(seed)
    points = torch.randn(3, hypotheses, 2)
    drawn = Hypotheses(points, torch.randn(3, hypotheses)).density(Dirac()).sample((7,))
    assert (drawn[:, :, None] == points).all(-1).any(-1).all()


@few
@given(seeds, small, small)
def test_scores_cost_least_where_they_are_right(seed, batch, hypotheses):
    torch.manual_seed(seed)
    positive = torch.rand(batch, hypotheses) < 0.5
    right = torch.where(positive, 20.0, -20.0)
    assert scoring_loss(right, positive) <= scoring_loss(torch.randn(batch, hypotheses), positive)
    mass = torch.softmax(torch.randn(batch, hypotheses), -1)
    assert cell_loss(mass.log(), mass) <= cell_loss(torch.randn(batch, hypotheses), mass) + 1e-6


@few
@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=200))
def test_any_text_comes_back(text):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "file.txt"
        write_text(path, text.replace("\r", ""))
        assert path.read_text(encoding="utf-8") == text.replace("\r", "")
        assert [each.name for each in Path(folder).iterdir()] == ["file.txt"]


plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@few
@given(plain)
def test_any_plain_value_comes_back(value):
    with tempfile.TemporaryDirectory() as folder:
        write_json(Path(folder) / "a.json", value)
        assert json.loads((Path(folder) / "a.json").read_text()) == value


words = st.text(max_size=12) | st.builds(
    "{}={}".format,
    st.sampled_from(
        ["method", "seed", "run", "scale", "training.epochs", "network.pools", "data.folder", "trainer"]
    ),
    st.text(max_size=8)
    | st.sampled_from(["null", "[]", "{}", "1e400", "[1,[2]]", "${seed}", "???", "'", "\\"]),
)


@few
@given(st.lists(words, min_size=1, max_size=2))
def test_any_words_are_settings_or_a_mistake(given_words):
    try:
        found, said = compose_config(given_words), ""
    except UserError as error:
        found, said = None, str(error)
    if found is None:
        assert said
    else:
        assert isinstance(found, Config)


@few
@given(
    st.sampled_from(
        ["method", "data", "head", "network", "training", "trainer", "seed", "run", "scale", "more"]
    ),
    plain,
)
def test_any_plain_settings_are_settings_or_a_mistake(key, value):
    before = to_plain(compose_config([]))
    try:
        found, said = from_plain(before | {key: value}), ""
    except UserError as error:
        found, said = None, str(error)
    assert said if found is None else isinstance(found, Config)


@few
@given(seeds, st.integers(0, 5), small)
def test_candidates_share_the_score_that_there_is(seed, frames, hypotheses):
    random = np.random.default_rng(seed)
    points = np.stack(
        [
            random.uniform(-np.pi, np.pi, (frames, hypotheses)),
            random.uniform(-1.5, 1.5, (frames, hypotheses)),
        ],
        -1,
    )
    scores = random.random((frames, hypotheses))
    found = candidates(points, scores, stride=1)
    assert len(found) == frames
    for each, total in zip(found, scores.sum(-1), strict=True):
        assert each.scores.sum() <= total + 1e-5
        assert ((each.scores > 0) & (each.scores <= 1)).all()
        np.testing.assert_allclose(np.linalg.norm(each.vectors, axis=-1), 1, rtol=1e-6)


@few
@given(st.integers(1, 40), st.integers(1, 50), st.none() | seeds)
def test_batches_hold_everything_once(items, size, seed):
    batches = TensorBatches(torch.arange(items), batch_size=size, shuffle_seed=seed)
    found = [batch for (batch,) in batches]
    assert len(found) == len(batches)
    assert sorted(torch.cat(found).tolist()) == list(range(items))
    assert all(len(batch) == size for batch in found[:-1])


@given(st.floats(0, 1e6), st.floats(1e-3, 1e6))
def test_schedules_stay_between_zero_and_one(epoch, epochs):
    for schedule in (constant, cosine, flat_cosine):
        assert -1e-12 <= schedule(epoch, epochs) <= 1


@given(st.lists(st.integers(0, 3), max_size=30))
def test_collapse_is_told_exactly_where_it_is(winners):
    told = collapse(winners)
    assert (told is not None) == (0 < winners.count(0) < len(winners))
    if told is not None:
        assert told.startswith(f"{winners.count(0)} of {len(winners)} hypotheses")


@settings(max_examples=6)
@given(seeds, st.integers(2, 30), small, small, small)
def test_the_estimator_takes_any_shapes(seed, samples, features, targets, dim):
    random = np.random.default_rng(seed)
    y = random.normal(size=(samples, targets, dim))
    y[random.random((samples, targets)) < 0.3] = np.nan
    y[0, 0], y[1, 0] = 0.0, 1.0  # two rows with a target are the least to learn from
    model = MCLRegressor(n_hypotheses=3, max_epochs=1, random_state=0, progress=False)
    found = model.fit(random.normal(size=(samples, features)), y).predict(random.normal(size=(4, features)))
    assert found.shape == (4, dim)
    assert np.isfinite(found).all()
