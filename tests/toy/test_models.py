"""Which loss each method is, and what its network returns."""

from dataclasses import replace

import pytest
import torch

from torchmcl.distances import squared_euclidean
from torchmcl.ensemble import members_loss
from torchmcl.errors import UserError
from torchmcl.hypotheses import Hypotheses
from torchmcl.losses import mcl_loss, rmcl_loss
from torchmcl.toy.data import draw
from torchmcl.toy.models import METHODS, build, loss_of
from torchmcl.toy.presets import PAPER, PRESETS, TUNED, preset


@pytest.mark.parametrize("settings", PRESETS.values(), ids=PRESETS)
@pytest.mark.parametrize("method", METHODS)
def test_every_method_returns_twenty_hypotheses_and_learns(method, settings):
    settings = replace(settings, units=8)
    network = build(method, settings)
    t, targets, active = draw(50, seed=0)
    hypotheses = network(t)
    assert hypotheses.points.shape == (50, 20, 2)
    assert (hypotheses.logits is None) == (method not in ("rmcl", "rmcl_star"))
    loss_of(method, settings)(hypotheses, targets, active).backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in network.parameters())


def test_the_paper_has_256_units_in_three_layers():
    shapes = [tuple(p.shape) for p in build("rmcl", PAPER).parameters() if p.ndim == 2]
    assert shapes == [(256, 1), (256, 256), (60, 256)]


def test_the_losses_are_those_that_define_the_methods():
    random = torch.Generator().manual_seed(0)
    points = torch.rand(50, 20, 2, generator=random)
    logits = torch.randn(50, 20, generator=random)
    _, targets, active = draw(50, seed=1)
    binary, unscored = Hypotheses(points, logits), Hypotheses(points)
    args = targets, active
    assert loss_of("rmcl", PAPER)(binary, *args) == rmcl_loss(binary, *args, beta=1.0)
    assert loss_of("smcl", PAPER)(unscored, *args) == mcl_loss(unscored, *args)
    nearer = sum(mcl_loss(Hypotheses(points[:, [k]]), *args, best_target_only=True) for k in range(20))
    torch.testing.assert_close(loss_of("ie", PAPER)(unscored, *args), nearer)
    mean = members_loss(unscored, *args, distance=squared_euclidean, best_target_only=False)
    assert loss_of("ie_mean", PAPER)(unscored, *args) == mean


@pytest.mark.parametrize("settings", [PAPER, TUNED, replace(PAPER, reweight=False)])
def test_the_starred_variant_draws_one_negative(settings):
    points = torch.zeros(50, 20, 2)
    logits = torch.randn(50, 20)
    _, targets, active = draw(50, seed=1)
    hypotheses = Hypotheses(points, logits)
    torch.manual_seed(3)
    ours = loss_of("rmcl_star", settings)(hypotheses, targets, active)
    torch.manual_seed(3)
    options = {"beta": settings.star_beta, "negatives": 1, "reweight": settings.reweight}
    theirs = rmcl_loss(hypotheses, targets, active, **options)
    assert ours == theirs


def test_spread_hypotheses_start_all_over_the_square():
    points = build("rmcl", TUNED)(torch.tensor([[0.5]])).points[0]
    assert len({(x > 0, y > 0) for x, y in points.tolist()}) == 4
    assert points.std() > 3 * build("rmcl", PAPER)(torch.tensor([[0.5]])).points[0].std()


def test_an_unknown_preset_is_named():
    with pytest.raises(UserError, match="paper, tuned, got 'papper'"):
        preset("papper")


def test_spread_kinks_lie_within_the_times_and_more_of_them_near_the_ends():
    first = build("rmcl", TUNED)[0]
    kinks = -first.bias / first.weight[:, 0]
    assert ((kinks >= 0) & (kinks <= 1)).all()
    near = torch.minimum(kinks, 1 - kinks) < 0.1
    assert near.float().mean() > 0.3
    default = build("rmcl", PAPER)[0]
    assert ((-default.bias / default.weight[:, 0]).abs() > 1).any()
