"""Coverage of conformal regions over random splits, for a model that is wrong on purpose, and the size of regions."""

import torch
from torch import Tensor

from benchmarks import Row, show
from torchmcl import Conformal, Hypotheses
from torchmcl.regions.conformal import Score

__all__ = ["rows"]

SPLITS = 200
ITEMS = 1000
"""Held-out items of a split, and as many new ones."""

LEVELS = (0.5, 0.9, 0.99)
SCORES: tuple[Score, ...] = ("quantile", "density", "distance")
TOLERANCE = 0.005


def rows() -> list[Row]:
    """Columns are shares (or sizes) over 1,000, so that the table shows them.

    `ours` is the mean coverage over splits and `other` the level; `ratio` is how far the coverage lies outside of what
    the theorem states, from the level to the level plus 1 / (n + 1), and is promised to be within 0.005.
    """
    torch.manual_seed(0)
    found = [_coverage(score, dim, level) for dim in (1, 2) for score in SCORES for level in LEVELS]
    for score in SCORES:
        found += _groups(score)
    return found + _sizes()


def _coverage(score: Score, dim: int, level: float) -> Row:
    x, y = _data(2 * ITEMS, dim)
    prediction = _wrong(x, dim, widths=score == "density")
    shares = []
    for _ in range(SPLITS):
        held, new = torch.randperm(2 * ITEMS).split(ITEMS)
        region = Conformal(score, level).calibrate(prediction[held], y[held]).region(prediction[new])
        shares.append(region.contains(y[new]).double().mean())
    return _row(f"conformal {score}, D = {dim}, level {level:g}: coverage", shares, level, ITEMS)


def _groups(score: Score) -> list[Row]:
    """A third of the items are three times as noisy; coverage is that of each group by itself."""
    level, x = 0.9, torch.rand(2 * ITEMS) * 2 - 1
    group = (torch.rand(2 * ITEMS) < 1 / 3).long()
    y = torch.randn(2 * ITEMS, 1) * (1 + 2 * group[:, None])
    prediction = _wrong(x, 1, widths=score == "density")
    shares: list[list[Tensor]] = [[], []]
    least = [2 * ITEMS, 2 * ITEMS]
    for _ in range(SPLITS):
        held, new = torch.randperm(2 * ITEMS).split(ITEMS)
        conformal = Conformal(score, level).calibrate(prediction[held], y[held], groups=group[held])
        inside = conformal.region(prediction[new], groups=group[new]).contains(y[new]).double()
        for which in (0, 1):
            shares[which].append(inside[group[new] == which].mean())
            least[which] = min(least[which], int((group[held] == which).sum()))
    name = f"conformal {score}, group"
    return [
        _row(f"{name} {which}, level {level:g}: coverage", shares[which], level, least[which])
        for which in (0, 1)
    ]


def _row(name: str, shares: list[Tensor], level: float, held: int) -> Row:
    mean = torch.stack(shares).mean().item()
    outside = max(level - mean, mean - level - 1 / (held + 1), 0.0)
    return Row(name, mean * 1e-3, level * 1e-3, outside, TOLERANCE)


def _sizes() -> list[Row]:
    """Mean size of 90 % regions for two branches that the model knows, one of them rarer and noisier."""
    found = []
    for dim in (1, 2):
        x = torch.rand(2 * ITEMS) * 2 - 1
        side = (1 + x.abs())[:, None, None]
        points = torch.cat([side, -side], 1).expand(-1, 2, dim)
        logits, widths = torch.tensor([0.7, 0.3]).log(), torch.tensor([0.2, 0.5])
        prediction = Hypotheses(points, logits.expand(2 * ITEMS, 2), "softmax", widths.expand(2 * ITEMS, 2))
        y = prediction.mixture().sample()
        held, new = slice(0, ITEMS), slice(ITEMS, 2 * ITEMS)
        sizes = {}
        for score in SCORES:
            region = Conformal(score, 0.9).calibrate(prediction[held], y[held]).region(prediction[new])
            sizes[score] = region.volume(1000).value.mean().item()
        found += [
            Row(
                f"size of {score} regions over those of density, D = {dim}",
                size * 1e-3,
                sizes["density"] * 1e-3,
                size / sizes["density"],
                1.0 if score != "density" else None,
                at_most=False,
            )
            for score, size in sizes.items()
        ]
    return found


def _wrong(x: Tensor, dim: int, widths: bool) -> Hypotheses:
    """One branch is missed, and the other too narrow."""
    points = torch.stack([x, 0.3 * x, torch.zeros_like(x)], -1)[..., None].expand(*x.shape, 3, dim)
    logits = torch.tensor([1.0, 0.0, -1.0]).expand(*x.shape, 3)
    return Hypotheses(points, logits, "softmax", torch.full((*x.shape, 3), 0.05) if widths else None)


def _data(n: int, dim: int) -> tuple[Tensor, Tensor]:
    """Two branches of equal probability that move apart with x."""
    x = torch.rand(n) * 2 - 1
    side = torch.where(torch.rand(n) < 0.5, 1.0, -1.0)
    return x, side[:, None] * (1 + x[:, None].abs()) + 0.3 * torch.randn(n, dim)


if __name__ == "__main__":
    torch.set_num_threads(1)
    show(rows())
