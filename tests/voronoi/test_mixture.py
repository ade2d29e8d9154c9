"""The mixture of Proposition 1: it integrates to 1, draws what it says, and agrees with closed forms."""

import math

import numpy as np
import pytest
import torch
from scipy.stats import kstest, norm, truncnorm, uniform

from torchmcl.directions import from_vectors, to_vectors
from torchmcl.hypotheses import Hypotheses
from torchmcl.voronoi.laws import Dirac, Gaussian, Law, Uniform
from torchmcl.voronoi.mixture import VoronoiMixture
from torchmcl.voronoi.supports import Box, Sphere

LINE, SQUARE, CUBE = Box(-1, 1), Box([-1, -1], [1, 1]), Box([-1] * 3, [1] * 3, samples=8192)


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def random_hypotheses(support, count=6, batch=(), seed=0, spread=1.0, dtype=torch.float64):
    points = spread * support.sample((*batch, count), generator(seed)).to(dtype)
    logits = torch.randn(*batch, count, generator=generator(seed + 1), dtype=dtype)
    return Hypotheses(points, logits, link="softmax")


def grid(support, side):
    """Midpoints of a fine grid in one or two dimensions, and the volume that each stands for."""
    if isinstance(support, Sphere):
        azimuth = (torch.arange(2 * side, dtype=torch.float64) + 0.5) / side * math.pi - math.pi
        height = (torch.arange(side, dtype=torch.float64) + 0.5) / side * 2 - 1
        return torch.cartesian_prod(azimuth, height.asin()), 4 * math.pi / (2 * side * side)
    axes = [
        low + (torch.arange(side).double() + 0.5) / side * (high - low)
        for low, high in zip(support.low, support.high, strict=True)
    ]
    y = torch.cartesian_prod(*axes).reshape(-1, support.dim)
    return y, support.volume / len(y)


def name(value):
    """Short test names: class, dimension or scale."""
    if isinstance(value, Gaussian):
        return f"Gaussian({value.scale}, {value.support and name(value.support)})"
    return f"Box{value.dim}" if isinstance(value, Box) else type(value).__name__


FLAT_LAWS = [
    (LINE, Uniform(LINE)),
    (LINE, Gaussian(0.2, LINE)),
    (SQUARE, Uniform(SQUARE)),
    (SQUARE, Gaussian(0.2, SQUARE)),
    (SQUARE, Gaussian(5, SQUARE)),
    (Sphere(), Uniform(Sphere())),
    (Sphere(), Gaussian(0.2, Sphere())),
    (Sphere(), Gaussian(2.0, Sphere())),
]
LAWS = [*FLAT_LAWS, (CUBE, Uniform(CUBE)), (CUBE, Gaussian(0.3, CUBE)), (CUBE, Gaussian(0.3))]


@pytest.mark.parametrize(("support", "law"), FLAT_LAWS, ids=name)
@pytest.mark.parametrize("count", [1, 2, 6])
def test_integrates_to_one(support, law, count):
    y, volume = grid(support, 4000 if support.dim == 1 else 500)
    spread = 1.0 if isinstance(support, Sphere) else 1.3
    mixture = VoronoiMixture(random_hypotheses(support, count, seed=count, spread=spread), law)
    assert (mixture.log_prob(y).exp().sum() * volume).item() == pytest.approx(1, abs=3e-3)
    assert (mixture.log_prob_error == 0).all()


@pytest.mark.parametrize("dim", [1, 2])
def test_unbounded_gaussian_integrates_to_one(dim):
    wide = Box([-4] * dim, [4] * dim)
    y, volume = grid(wide, 4000 if dim == 1 else 800)
    mixture = VoronoiMixture(random_hypotheses(Box([-1] * dim, [1] * dim)), Gaussian(0.4))
    assert (mixture.log_prob(y).exp().sum() * volume).item() == pytest.approx(1, abs=3e-3)


@pytest.mark.parametrize("spread", [1.0, 1.4])
@pytest.mark.parametrize("law", [Uniform(CUBE), Gaussian(0.3, CUBE)], ids=name)
def test_integrates_to_one_in_space(law, spread):
    mixture = VoronoiMixture(random_hypotheses(CUBE, spread=spread), law)
    density = mixture.log_prob(CUBE.sample((200_000,), generator()).double()).exp()
    counting = density.std() / len(density) ** 0.5
    normalising = (mixture.cell_probs * mixture.log_prob_error).square().sum().sqrt()
    error = CUBE.volume * counting + normalising
    assert (mixture.log_prob_error > 0).all()
    assert error < 0.02
    assert (density.mean() * CUBE.volume - 1).abs() < 4 * error


@pytest.mark.parametrize("scale", [1e-3, 0.05, 0.3, 2.0, 50.0])
def test_planar_masses_equal_products_of_normal_laws(scale):
    """Cells of a 3 x 3 lattice are rectangles, where the Gaussian factorises."""
    places = torch.tensor([-0.6, 0.0, 0.7], dtype=torch.float64)
    points = torch.cartesian_prod(places, places)
    edges = np.array([-1, -0.3, 0.35, 1])
    one = [
        scale * math.sqrt(2 * math.pi) * np.diff(norm(m, scale).cdf(edges))[k]
        for k, m in enumerate(places.tolist())
    ]
    expected = np.outer(one, one).ravel()
    np.testing.assert_allclose(SQUARE.cells(points, scale).masses.value.numpy(), expected, rtol=1e-9)


@pytest.mark.parametrize("away", [1.01, 1.5, 3.0, 6.0])
def test_planar_mass_of_a_point_outside(away):
    """The cell of a single point is the whole box, whose mass is a product of normal laws."""
    points = torch.tensor([[away, 0.2]], dtype=torch.float64)
    expected = math.prod(
        0.3 * math.sqrt(2 * math.pi) * (norm(0, 0.3).sf(m - 1) - norm(0, 0.3).sf(m + 1)) for m in (away, 0.2)
    )
    assert SQUARE.cells(points, 0.3).masses.value.item() == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("scale", [0.01, 0.3, 3.0])
def test_spherical_masses_of_hemispheres(scale):
    poles = torch.tensor([[0, math.pi / 2], [0, -math.pi / 2]], dtype=torch.float64)
    hemisphere = 2 * math.pi * scale**2 * -math.expm1(-1 / scale**2)
    np.testing.assert_allclose(Sphere().cells(poles, scale).masses.value.numpy(), hemisphere, rtol=1e-9)
    whole = 2 * math.pi * scale**2 * -math.expm1(-2 / scale**2)
    np.testing.assert_allclose(Sphere().cells(poles[:1], scale).masses.value.numpy(), whole, rtol=1e-9)


@pytest.mark.parametrize(("support", "law"), LAWS, ids=name)
def test_draws_follow_the_density(support, law):
    """In the right cell with the right frequency, and within it as the density says."""
    hypotheses = random_hypotheses(support, seed=3)
    mixture = VoronoiMixture(hypotheses, law)
    draws = mixture.sample((40_000,), generator())
    assert law.contains(draws).all()
    share = torch.bincount(hypotheses.cells(draws, law.distance), minlength=6) / 40_000
    assert ((share - hypotheses.probs).abs() < 4.5 * (hypotheses.probs / 40_000).sqrt()).all()
    if law == Gaussian(0.3):
        return
    y = support.sample((200_000,), generator(1)).double()
    weight = mixture.log_prob(y).exp() * support.volume
    for feature in (lambda y: y[..., 0], lambda y: y[..., 1:].sin().sum(-1), lambda y: y.square().sum(-1)):
        expected = (weight * feature(y)).mean()
        error = (weight * feature(y)).std() / 200_000**0.5 + feature(draws).std() / 40_000**0.5
        error = error + 2 * mixture.log_prob_error.max() * feature(y).abs().mean()
        assert (feature(draws).mean() - expected).abs() <= 4 * error


def test_draws_on_a_line_follow_their_laws():
    points = torch.tensor([[-0.5], [0.1]], dtype=torch.float64)
    first = Hypotheses(points, torch.tensor([0.0, -torch.inf], dtype=torch.float64), link="softmax")
    drawn = first.density(Uniform(LINE)).sample((5000,), generator())[:, 0]
    assert kstest(drawn.numpy(), uniform(-1, 0.8).cdf).pvalue > 1e-4
    drawn = first.density(Gaussian(0.3)).sample((5000,), generator())[:, 0]
    assert kstest(drawn.numpy(), truncnorm(-np.inf, 1, -0.5, 0.3).cdf).pvalue > 1e-4


@pytest.mark.parametrize("support", [LINE, SQUARE, CUBE], ids=name)
def test_draws_of_a_hypothesis_outside(support):
    """Five scales away from the box: the density is that of the tail, and rejection is not lost in it."""
    points = torch.zeros(1, support.dim, dtype=torch.float64).index_fill(1, torch.tensor(0), 2.5)
    drawn = Hypotheses(points).density(Gaussian(0.3, support)).sample((800,), generator())
    assert support.contains(drawn).all()
    assert kstest(drawn[:, 0].numpy(), truncnorm(-3.5 / 0.3, -5, 2.5, 0.3).cdf).pvalue > 1e-4
    for axis in range(1, support.dim):
        assert kstest(drawn[:, axis].numpy(), truncnorm(-1 / 0.3, 1 / 0.3, 0, 0.3).cdf).pvalue > 1e-4


@pytest.mark.parametrize(
    ("law", "expected"),
    [(Uniform(CUBE), uniform(-1e-3, 2e-3)), (Gaussian(1e-3, CUBE), truncnorm(-1, 1, 0, 1e-3))],
    ids=["uniform", "gaussian"],
)
def test_walks_in_tiny_cells(law, expected):
    """A cube of a billionth of the box: rejection misses it, a walk stays inside and has the law."""
    lattice = torch.cartesian_prod(*[torch.tensor([-2e-3, 0, 2e-3], dtype=torch.float64)] * 3)
    logits = torch.full((27,), -torch.inf, dtype=torch.float64).index_fill(0, torch.tensor(13), 0)
    hypotheses = Hypotheses(lattice, logits, "softmax")
    drawn = hypotheses.density(law).sample((1500,), generator())
    assert (hypotheses.cells(drawn) == 13).all()
    for axis in range(3):
        assert kstest(drawn[:, axis].numpy(), expected.cdf).pvalue > 1e-4


@pytest.mark.parametrize(
    "law", [Gaussian(100.0, SQUARE), Gaussian(1e-5, SQUARE), Gaussian(0.1, Sphere())], ids=name
)
def test_crowded_cells_can_be_drawn_from(law):
    """A thousandth of the space between hypotheses, under kernels far larger and far smaller than cells."""
    hypotheses = random_hypotheses(SQUARE, 20, spread=1e-3)
    drawn = hypotheses.density(law).sample((2000,), generator())
    cells = hypotheses.cells(drawn, law.distance)
    assert law.contains(drawn).all()
    share = torch.bincount(cells, minlength=20) / 2000
    assert ((share - hypotheses.probs).abs() < 5 * (hypotheses.probs / 2000).sqrt()).all()


@pytest.mark.parametrize(("support", "law"), LAWS, ids=name)
def test_mean_is_that_of_the_draws(support, law):
    hypotheses = random_hypotheses(support, 5, (2,), seed=5)
    mixture = VoronoiMixture(hypotheses, law)
    draws = mixture.sample((50_000,), generator())
    if isinstance(support, Sphere):
        expected = from_vectors(to_vectors(draws).mean(0))
        assert (support.distance(mixture.mean, expected) < 0.05).all()
    else:
        error = draws.std(0) / 50_000**0.5 + (0.01 if support.dim == 3 else 0)
        assert ((mixture.mean - draws.mean(0)).abs() < 4.5 * error).all()


def test_mean_of_point_masses_is_that_of_the_hypotheses():
    hypotheses = random_hypotheses(SQUARE, batch=(3, 2))
    torch.testing.assert_close(hypotheses.density(Dirac()).mean, hypotheses.mean)


def test_mean_of_a_small_cap_is_its_centre():
    """Directions around the azimuth of 180 degrees, where the mean of angles is wrong."""
    points = torch.tensor([[math.pi - 0.1, 0.0], [-math.pi + 0.1, 0.0], [0.0, 0.0]], dtype=torch.float64)
    logits = torch.tensor([0.0, 0.0, -torch.inf], dtype=torch.float64)
    mean = Hypotheses(points, logits, "softmax").density(Uniform(Sphere())).mean
    assert Sphere().distance(mean, torch.tensor([math.pi, 0.0], dtype=torch.float64)) < 1e-9


def test_prob_of_half_planes():
    points = torch.tensor([[-0.5, 0.0], [0.5, 0.0]], dtype=torch.float64)
    hypotheses = Hypotheses(points, torch.tensor([0.3, 0.7], dtype=torch.float64).log(), "softmax")

    def right(y):
        return y[..., 0] > 0.75

    value, error = hypotheses.density(Dirac()).prob(right)
    assert (value.item(), error.item()) == (0, 0)
    assert hypotheses.density(Dirac()).prob(lambda y: y[..., 0] > 0).value.item() == pytest.approx(0.7)
    value, error = hypotheses.density(Uniform(SQUARE)).prob(right, generator=generator())
    assert abs(value - 0.7 / 4) < 4 * error < 0.02
    value, error = hypotheses.density(Gaussian(0.2)).prob(right, 40_000, generator())
    expected = 0.7 * norm(0.5, 0.2).sf(0.75) / norm(0.5, 0.2).sf(0)
    assert abs(value - expected) < 4 * error < 0.02
    nowhere = hypotheses.density(Uniform(SQUARE)).prob(lambda y: y[..., 0] > 2)
    assert nowhere.value == 0
    assert nowhere.error > 0


def test_region_must_return_booleans():
    mixture = random_hypotheses(SQUARE, batch=(2,)).density(Uniform(SQUARE))
    with pytest.raises(
        ValueError, match=r"region must return booleans of shape \(10, 2\), it returned torch.float64"
    ):
        mixture.prob(lambda y: y[..., 0], 10)
    with pytest.raises(ValueError, match="samples must be at least 1, got 0"):
        mixture.prob(lambda y: y[..., 0] > 0, 0)


def test_point_masses_have_no_density():
    with pytest.raises(
        ValueError, match=r"Dirac has no density; use Uniform\(support\) or Gaussian\(scale\)"
    ):
        random_hypotheses(SQUARE).density(Dirac()).log_prob(torch.zeros(2).double())


@pytest.mark.parametrize("scale", [0, -1.0, math.nan, math.inf, 1e300])
def test_scale_is_positive_and_its_square_finite(scale):
    with pytest.raises(
        ValueError, match=rf"scale must be between 1e-140 and 1e\+140, got {scale}".replace("e+3", "e.3")
    ):
        Gaussian(scale)


@pytest.mark.usefixtures("unchecked")
def test_scale_of_many_dimensions():
    law, y = Gaussian(1e30), torch.zeros(12)
    with pytest.raises(ValueError, match="scale of a Gaussian in 12 dimensions must be between"):
        Hypotheses(torch.zeros(2, 12)).density(law).log_prob(y)
    assert Hypotheses(torch.randn(2, 3)).density(law).log_prob(y[:3]).isfinite()


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda h: h.density(None), "law must be Dirac"),
        (lambda h: h.density(3), "law must be Dirac"),
        (lambda h: VoronoiMixture(None, Dirac()), "hypotheses must be Hypotheses, got NoneType"),
        (lambda h: Uniform(None), "support must be a Box or a Sphere, got NoneType"),
        (lambda h: Gaussian(1.0, "sphere"), "support must be a Box or a Sphere, got str"),
        (lambda h: Gaussian("1"), "scale must be a number, got '1'"),
        (lambda h: h.density(Dirac()).sample(5), "sample_shape must be a sequence of integers"),
        (lambda h: h.density(Dirac()).prob(0.5), r"region must be a function of points, got 0\.5"),
        (lambda h: h.density(Uniform(SQUARE)).log_prob([0.0, 0.0]), "value must be a tensor, got list"),
        (lambda h: h.density(Uniform(SQUARE)).log_prob(torch.zeros(3)), "value has 3 coordinates"),
        (lambda h: h.density(Uniform(CUBE)).mean, "points has 2 coordinates, the support has 3"),
    ],
)
def test_mistakes_are_named(make, message):
    with pytest.raises((TypeError, ValueError), match=message):
        make(Hypotheses(torch.zeros(3, 2)))


def test_is_a_distribution_of_torch():
    hypotheses = random_hypotheses(SQUARE, batch=(3,))
    mixture = hypotheses.density(Uniform(SQUARE))
    assert isinstance(mixture, torch.distributions.Distribution)
    assert (mixture.batch_shape, mixture.event_shape) == ((3,), (2,))
    y = mixture.sample(torch.Size([4]), generator())
    larger = mixture.expand((2, 3))
    assert larger.batch_shape == (2, 3)
    torch.testing.assert_close(larger.log_prob(y[0]), mixture.log_prob(y[0]).expand(2, 3))
    assert mixture.support.check(y).all()
    assert not mixture.support.check(y + 3).any()


def test_laws_are_laws():
    assert all(isinstance(law, Law) for law in (Dirac(), Uniform(SQUARE), Gaussian(1)))


@pytest.mark.parametrize(("support", "law"), LAWS, ids=name)
def test_log_prob_outside_and_at_nan(support, law):
    mixture = random_hypotheses(support).density(law)
    beyond = torch.full((support.dim,), 3.0, dtype=torch.float64)
    assert (mixture.log_prob(beyond) == -torch.inf) == (law != Gaussian(0.3))
    beyond[0] = torch.nan
    assert mixture.log_prob(beyond).isnan()


@pytest.mark.parametrize(("support", "law"), LAWS, ids=name)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_batches_and_dtypes(support, law, dtype):
    hypotheses = random_hypotheses(support, batch=(2, 3), dtype=dtype)
    mixture = hypotheses.density(law)
    drawn = mixture.sample((4,), generator())
    assert (drawn.shape, drawn.dtype) == ((4, 2, 3, support.dim), dtype)
    density = mixture.log_prob(drawn)
    assert (density.shape, density.dtype) == ((4, 2, 3), dtype)
    torch.testing.assert_close(density[1, 1, 2], hypotheses[1, 2].density(law).log_prob(drawn[1, 1, 2]))
    torch.testing.assert_close(
        mixture.log_prob(drawn[0, 0, 0])[1, 1], hypotheses[1, 1].density(law).log_prob(drawn[0, 0, 0])
    )
    assert mixture.mean.shape == (2, 3, support.dim)
    assert mixture.sample().shape == (2, 3, support.dim)
    assert mixture.sample((0,)).shape == (0, 2, 3, support.dim)
    value, error = mixture.prob(lambda y: y[..., 0] > 0, 100)
    assert value.shape == error.shape == (2, 3)
    assert torch.equal(mixture.sample((4,), generator()), drawn)


@pytest.mark.parametrize(("support", "law"), LAWS, ids=name)
def test_order_of_hypotheses_does_not_matter(support, law):
    hypotheses = random_hypotheses(support)
    order = torch.randperm(6, generator=generator())
    shuffled = Hypotheses(hypotheses.points[order], hypotheses.logits[order], "softmax")
    y = support.sample((50,), generator()).double()
    torch.testing.assert_close(shuffled.density(law).log_prob(y), hypotheses.density(law).log_prob(y))
    torch.testing.assert_close(shuffled.density(law).cell_probs, hypotheses.probs[order])


@pytest.mark.parametrize(("support", "law"), [*LAWS, (SQUARE, Dirac())], ids=name)
def test_pruned_hypotheses_contribute_nothing(support, law):
    hypotheses = random_hypotheses(support)
    pruned = hypotheses.prune(float(hypotheses.probs.median()) + 1e-9)
    gone = pruned.probs == 0
    assert 0 < gone.sum() < 6
    mixture = pruned.density(law)
    drawn = mixture.sample((2000,), generator())
    assert not gone[pruned.cells(drawn, law.distance)].any()
    if law != Dirac():
        y = support.sample((500,), generator()).double()
        assert torch.equal(mixture.log_prob(y) == -torch.inf, gone[pruned.cells(y, law.distance)])


@pytest.mark.parametrize(("support", "law"), LAWS, ids=name)
def test_empty_cells_are_conditioned_away(support, law):
    """A hypothesis on another of lower index: its probability goes to the others in proportion."""
    hypotheses = random_hypotheses(support)
    hypotheses = Hypotheses(
        hypotheses.points[[0, 1, 0]], torch.tensor([0.2, 0.3, 0.5], dtype=torch.float64).log(), "softmax"
    )
    mixture = hypotheses.density(law)
    torch.testing.assert_close(mixture.cell_probs, torch.tensor([0.4, 0.6, 0.0], dtype=torch.float64))
    drawn = mixture.sample((4000,), generator())
    assert (hypotheses.cells(drawn, law.distance) == 1).double().mean().item() == pytest.approx(0.6, abs=0.04)
    assert mixture.log_prob(drawn).isfinite().all()
    assert mixture.mean.isfinite().all()
    assert hypotheses.density(Dirac()).prob(lambda y: (y == y[0]).all(-1)).value.item() == pytest.approx(0.7)


def test_nothing_left_is_nan():
    """A hypothesis that is NaN, or whose cells are all empty, spoils its own batch item and no other."""
    points = torch.tensor([[[5.0], [0.5]], [[torch.nan], [0.0]], [[0.0], [0.5]]], dtype=torch.float64)
    points[0, 0] = 50.0
    logits = torch.tensor([[0.0, -torch.inf]], dtype=torch.float64).expand(3, 2)
    for law in (Uniform(LINE), Gaussian(0.3, LINE)):
        mixture = Hypotheses(points, logits, "softmax").density(law)
        drawn = mixture.sample((5,), generator())
        value, _ = mixture.prob(lambda y: y[..., 0] > 0, 10, generator())
        found = (
            mixture.log_prob(torch.zeros(1, dtype=torch.float64)),
            drawn[0, :, 0],
            mixture.mean[:, 0],
            value,
        )
        assert [part.isnan().tolist() for part in found] == [[True, True, False]] * 4


def test_gradient_reaches_the_scores_only():
    points = torch.tensor([[-0.5], [0.5]], dtype=torch.float64, requires_grad=True)
    logits = torch.zeros(2, dtype=torch.float64, requires_grad=True)
    mixture = Hypotheses(points, logits, "softmax").density(Gaussian(0.3))
    for _ in range(2):
        logits.grad = None
        mixture.log_prob(torch.tensor([[0.2], [0.4], [-0.3]], dtype=torch.float64)).sum().backward()
        torch.testing.assert_close(logits.grad, torch.tensor([-0.5, 0.5], dtype=torch.float64))
    assert points.grad is None


@pytest.mark.parametrize("law", [Uniform(Box([0, 0], [1, 1])), Gaussian(0.2), Uniform(Sphere())])
def test_an_empty_batch(law):
    mixture = Hypotheses(torch.zeros(0, 3, 2)).density(law)
    assert mixture.sample((2,)).shape == (2, 0, 2)
    assert mixture.log_prob(torch.zeros(0, 2)).shape == (0,)
    assert mixture.mean.shape == (0, 2)
