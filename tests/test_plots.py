"""Pictures: what is drawn is what the numbers say, and the axes come back."""

import io

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure
from scipy import stats

from torchmcl.hypotheses import Hypotheses
from torchmcl.plots import plot_cells, plot_coverage, plot_density, plot_directions, plot_pit


def new_axes(**kwargs):
    return Figure(figsize=(3, 3)).subplots(subplot_kw=kwargs or None)


def pixels(axes) -> np.ndarray:
    """The picture as it comes out, which draws everything once."""
    stream = io.BytesIO()
    axes.figure.savefig(stream, format="rgba", dpi=50)
    return np.frombuffer(stream.getvalue(), dtype=np.uint8)


def test_coverage_curve():
    pit = torch.rand(3000).double()
    axes = new_axes()
    assert plot_coverage(axes, torch.cat([pit, torch.tensor([torch.nan]).double()]), label="ours") is axes
    levels, observed = axes.lines[-1].get_data()
    for level, share in zip(levels[::20], observed[::20], strict=True):
        inside = (pit >= 0.5 - level / 2 - 1e-9) & (pit <= 0.5 + level / 2 + 1e-9)
        assert share == pytest.approx(inside.double().mean().item(), abs=1e-3)
    assert pixels(axes).std() > 0


def test_pit_bars_have_the_shares_of_their_bins():
    pit = torch.distributions.Beta(0.7, 0.7).sample((2000,))
    axes = plot_pit(new_axes(), pit, bins=8)
    heights = [bar.get_height() for bar in axes.patches[:8]]
    np.testing.assert_allclose(heights, np.histogram(pit.numpy(), 8, (0, 1), density=True)[0], rtol=1e-5)
    assert pixels(axes).std() > 0


def test_density_shows_the_region_of_highest_density():
    """Two equal branches at -2 and 2: the 90 % region is there, and empty between them."""
    x = torch.linspace(0, 1, 30)
    h = Hypotheses(torch.tensor([[-2.0], [2.0]]).expand(30, 2, 1), widths=torch.full((30, 2), 0.2))
    axes = plot_density(new_axes(), x, h, coverages=(0.9,))
    half = stats.norm.ppf(0.95) * 0.2
    region = axes.collections[0].get_paths()[0]
    for y, inside in ((2 - half + 0.03, True), (2 - half - 0.03, False), (0, False), (-2, True)):
        assert region.contains_point((0.5, y)) == inside
    assert pixels(axes).std() > 0


def test_cells_and_directions():
    points = torch.tensor([[0.1, 0.2], [1.0, -0.5], [-2.0, 0.9]])
    h = Hypotheses(points, torch.tensor([1.0, 0.0, -1.0]), "softmax", torch.full((3,), 0.2))
    plane = plot_cells(new_axes(), h, targets=torch.randn(5, 2))
    corners = np.concatenate([patch.get_path().vertices for patch in plane.patches])
    np.testing.assert_allclose(corners[:, 0].min(), plane.get_xlim()[0])
    assert len(plane.patches) == 3
    sphere = plot_directions(new_axes(projection="mollweide"), h, targets=points)
    np.testing.assert_allclose(sphere.collections[-1].get_offsets(), points.numpy() * [-1, 1], rtol=1e-6)
    for axes in (plane, sphere):
        assert pixels(axes).std() > 0


def test_wrong_arguments_are_named(unchecked):
    with pytest.raises(ValueError, match="hypotheses must be of one item"):
        plot_cells(new_axes(), Hypotheses(torch.zeros(4, 3, 2)))
    with pytest.raises(ValueError, match='axes must have projection="mollweide", got'):
        plot_directions(new_axes(), Hypotheses(torch.zeros(3, 2)))
    with pytest.raises(ValueError, match="prediction has no widths"):
        plot_density(new_axes(), torch.zeros(4), Hypotheses(torch.zeros(4, 3, 1)))
    with pytest.raises(ValueError, match="pit holds no value"):
        plot_pit(new_axes(), torch.tensor([torch.nan]))


ONE = Hypotheses(torch.rand(3, 2))
LINE = Hypotheses(torch.rand(4, 3, 1), widths=torch.ones(4, 3))
X = torch.linspace(0, 1, 4)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda axes: plot_pit(axes, [0.5]), "pit must be a tensor"),
        (lambda axes: plot_coverage(axes, torch.tensor([-1.0, 0.5])), "pit must hold probabilities"),
        (lambda axes: plot_pit(axes, X, bins=10**9), "bins must be at most 1000"),
        (lambda axes: plot_density(axes, X[:2], LINE), r"x must be \(n,\)"),
        (lambda axes: plot_density(axes, torch.tensor([0.0, 2.0, 1.0, 3.0]), LINE), "x must be increasing"),
        (lambda axes: plot_density(axes, X, LINE, coverages=(1.5,)), "each of coverages must be above 0"),
        (lambda axes: plot_density(axes, X, LINE, coverages=()), "coverages must be a sequence"),
        (lambda axes: plot_density(axes, X, LINE, y_range=(1, 0)), "y_range must be increasing"),
        (lambda axes: plot_density(axes, X, LINE, steps=10**12), "steps must be at most"),
        (lambda axes: plot_cells(axes, Hypotheses(ONE.points * torch.nan)), "hypotheses must have finite"),
        (lambda axes: plot_cells(axes, ONE, targets=torch.zeros(3, 3)), "targets has 3 coordinates"),
        (
            lambda axes: plot_cells(axes, ONE, targets=torch.full((1, 2), torch.nan)),
            "targets must be .* finite",
        ),
        (lambda axes: plot_cells(axes, ONE, low=(0,)), "low must be two numbers"),
        (lambda axes: plot_directions(axes, None), "hypotheses must be Hypotheses"),
    ],
)
def test_what_cannot_be_drawn_is_named(call, message, unchecked):
    with pytest.raises((ValueError, TypeError), match=message):
        call(new_axes())
