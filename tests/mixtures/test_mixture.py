"""Mixtures of kernels, against SciPy and quadrature."""

import math

import pytest
import scipy.stats
import torch
from scipy.integrate import quad

from torchmcl.directions import from_vectors, to_vectors
from torchmcl.distances import great_circle
from torchmcl.hypotheses import Hypotheses
from torchmcl.mixtures import GaussianKernel, KernelMixture, StudentKernel, VonMisesFisherKernel, kernel_named
from torchmcl.voronoi.supports import Sphere

LINE = ["gaussian", "laplace", "student", StudentKernel(df=1.5)]
SCIPY = {
    "gaussian": scipy.stats.norm,
    "laplace": scipy.stats.laplace,
    "student": scipy.stats.t(4),
    StudentKernel(df=1.5): scipy.stats.t(1.5),
}


def wide(*batch: int, hypotheses: int = 4, dim: int = 1, dtype: torch.dtype = torch.float64) -> Hypotheses:
    return Hypotheses(
        torch.randn(*batch, hypotheses, dim, dtype=dtype),
        torch.randn(*batch, hypotheses, dtype=dtype),
        "softmax",
        torch.rand(*batch, hypotheses, dtype=dtype) + 0.1,
    )


def uneven() -> Hypotheses:
    """Widths that differ by 1e6, a far component, and one of probability 0."""
    points = torch.tensor([[0.0], [1e-7], [3.0], [-1e4], [50.0]], dtype=torch.float64)
    widths = torch.tensor([1e-6, 1.0, 1e-3, 0.5, 1e5], dtype=torch.float64)
    logits = torch.tensor([0.0, 0.0, -2.0, -9.0, -torch.inf], dtype=torch.float64)
    return Hypotheses(points, logits, "softmax", widths)


def density(hypotheses: Hypotheses, kernel, what: str, y: float) -> float:
    """A function of SciPy's distribution, mixed in a loop."""
    parts = zip(hypotheses.probs, hypotheses.points[:, 0], hypotheses.widths, strict=True)
    family = SCIPY[kernel]
    return sum(
        p.item() * getattr(family, what)((y - x.item()) / s.item()) / (s.item() if what == "pdf" else 1)
        for p, x, s in parts
        if p > 0
    )


@pytest.mark.parametrize("kernel", LINE)
class TestOneDimension:
    def test_density_and_distribution_function_are_those_of_scipy(self, kernel):
        hypotheses = wide()
        mixture = hypotheses.mixture(kernel)
        for y in (-40.0, -2.0, -0.3, 0.0, 0.7, 5.0, 60.0):
            value = torch.tensor([y], dtype=torch.float64)
            assert mixture.log_prob(value).exp().item() == pytest.approx(
                density(hypotheses, kernel, "pdf", y)
            )
            assert mixture.cdf(value).item() == pytest.approx(density(hypotheses, kernel, "cdf", y), rel=1e-9)

    def test_density_integrates_to_one(self, kernel):
        mixture = wide().mixture(kernel)

        def read(y: float) -> float:
            return mixture.log_prob(torch.tensor([y], dtype=torch.float64)).exp().item()

        inner = quad(read, -30, 30, limit=400, epsabs=1e-7)[0]
        tails = quad(read, -math.inf, -30)[0] + quad(read, 30, math.inf)[0]
        assert inner + tails == pytest.approx(1, abs=1e-6)

    def test_quantiles_invert_the_distribution_function(self, kernel):
        for hypotheses in (wide(), uneven()):
            mixture = hypotheses.mixture(kernel)
            tail = 10.0 ** torch.arange(-12, 0, dtype=torch.float64)
            p = torch.cat([tail, torch.linspace(0.11, 0.89, 80, dtype=torch.float64), 1 - tail.flip(0)])
            x = mixture.icdf(p)
            assert (x.diff(dim=0) >= 0).all()
            for p_, x_ in zip(p.tolist(), x[:, 0].tolist(), strict=True):
                assert density(hypotheses, kernel, "cdf", x_) == pytest.approx(p_, rel=1e-6)
                assert density(hypotheses, kernel, "sf", x_) == pytest.approx(1 - p_, rel=1e-6, abs=1e-16)
            torch.testing.assert_close(mixture.cdf(x), p, rtol=1e-9, atol=1e-15)
        y = torch.linspace(-3, 3, 50, dtype=torch.float64)[:, None]
        torch.testing.assert_close(mixture.icdf(mixture.cdf(y)), y, rtol=1e-5, atol=1e-5)

    def test_ends(self, kernel):
        ends = wide(3).mixture(kernel).icdf(torch.tensor([[0.0], [1.0]], dtype=torch.float64))
        assert ends.shape == (2, 3, 1)
        assert torch.equal(ends[:, 0, 0], torch.tensor([-torch.inf, torch.inf], dtype=torch.float64))

    def test_draws_have_the_distribution(self, kernel):
        hypotheses = wide(2)
        mixture = hypotheses.mixture(kernel)
        for draws in (mixture.sample((20_000,)), mixture.rsample((20_000,)).detach()):
            assert draws.shape == (20_000, 2, 1)
            for item in range(2):
                uniform = mixture.cdf(draws)[:, item].numpy()
                assert scipy.stats.kstest(uniform, "uniform").pvalue > 1e-3

    def test_gradients_of_quantiles_are_finite_differences(self, kernel):
        hypotheses = wide()
        p = torch.tensor([1e-4, 0.2, 0.5, 0.999], dtype=torch.float64)

        def quantiles(points, logits, widths, p):
            return Hypotheses(points, logits, "softmax", widths).mixture(kernel).icdf(p)

        inputs = hypotheses.points, hypotheses.logits, hypotheses.widths, p
        assert torch.autograd.gradcheck(
            quantiles, [part.requires_grad_() for part in inputs], eps=1e-6, atol=1e-4, rtol=1e-4
        )

    def test_draws_follow_the_parameters(self, kernel):
        hypotheses = wide()

        def draws(points, logits, widths):
            torch.manual_seed(1)
            return Hypotheses(points, logits, "softmax", widths).mixture(kernel)

        points, widths = (
            hypotheses.points.clone().requires_grad_(),
            hypotheses.widths.clone().requires_grad_(),
        )
        logits = hypotheses.logits.clone().requires_grad_()
        mixture = draws(points, logits, widths)
        x = mixture.rsample((50,))
        p = mixture.cdf(x.detach()).detach()
        gradient = torch.autograd.grad(x.sum(), (points, logits, widths))
        quantile = torch.autograd.grad(mixture.icdf(p).sum(), (points, logits, widths))
        for ours, theirs in zip(gradient, quantile, strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_densities_in_more_dimensions_are_those_of_scipy(dim):
    hypotheses, y = wide(dim=dim), torch.randn(7, dim, dtype=torch.float64)
    references = {
        "gaussian": lambda x, s: scipy.stats.multivariate_normal(x, s**2).pdf(y.numpy()),
        "student": lambda x, s: scipy.stats.multivariate_t(x, s**2, df=4).pdf(y.numpy()),
    }
    for kernel, reference in references.items():
        parts = zip(hypotheses.probs, hypotheses.points, hypotheses.widths, strict=True)
        expected = sum(p.item() * reference(x.numpy(), s.item()) for p, x, s in parts)
        ours = hypotheses.mixture(kernel).log_prob(y).exp()
        torch.testing.assert_close(ours, torch.as_tensor(expected))


@pytest.mark.parametrize("dim", [1, 2, 3, 5])
def test_laplace_integrates_to_one_over_shells(dim):
    """`exp(-r)` over shells of area `2 pi^(D/2) r^(D-1) / Gamma(D/2)`."""
    mixture = Hypotheses(torch.zeros(1, dim, dtype=torch.float64), widths=torch.full((1,), 0.7).double())

    def shell(r: float) -> float:
        y = torch.zeros(dim, dtype=torch.float64)
        y[0] = r
        area = 2 * math.pi ** (dim / 2) * r ** (dim - 1) / math.gamma(dim / 2)
        return area * mixture.mixture("laplace").log_prob(y).exp().item()

    assert quad(shell, 0, math.inf)[0] == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("kernel", ["gaussian", "laplace", StudentKernel(df=9.0)])
@pytest.mark.parametrize("dim", [1, 3])
def test_moments_are_those_of_draws(kernel, dim):
    mixture = wide(2, dim=dim).mixture(kernel)
    draws = mixture.sample((200_000,))
    torch.testing.assert_close(mixture.mean, draws.mean(0), atol=0.02, rtol=0)
    torch.testing.assert_close(mixture.variance, draws.var(0), atol=0.02, rtol=0.04)
    torch.testing.assert_close(mixture.stddev, mixture.variance.sqrt())


def test_moments_that_do_not_exist():
    hypotheses = wide()
    assert hypotheses.mixture(StudentKernel(df=1.5)).variance.isinf().all()
    assert hypotheses.mixture(StudentKernel(df=1.0)).mean.isnan().all()


def test_components_are_differentiable_and_unbiased():
    hypotheses = wide(dim=2)
    points, widths = hypotheses.points.requires_grad_(), hypotheses.widths.requires_grad_()
    mixture = hypotheses.mixture()
    draws = mixture.rsample_components((4000,))
    assert draws.shape == (4000, 4, 2)
    second = (hypotheses.probs[..., None] * draws.square()).sum(-2).mean(0)
    torch.testing.assert_close(second, mixture.variance + mixture.mean.square(), rtol=0.1, atol=0.02)
    slope = torch.autograd.grad(second.sum(), [points, widths])
    torch.testing.assert_close(slope[1], 4 * hypotheses.probs * widths, rtol=0.15, atol=0.05)


@pytest.mark.parametrize("kernel", ["gaussian", "laplace", "student"])
def test_entropy_has_the_stated_error(kernel):
    alone = Hypotheses(torch.zeros(1, 1, dtype=torch.float64), widths=torch.full((1,), 2.0).double())
    estimate = alone.mixture(kernel).entropy_estimate(20_000)
    expected = float(SCIPY[kernel].entropy()) + math.log(2)
    assert abs(estimate.value.item() - expected) < 4 * estimate.error.item() + 1e-9
    assert 0 < estimate.error.item() < 0.02


def test_entropy_of_a_mixture_is_that_of_quadrature():
    mixture = wide().mixture()

    def term(y: float) -> float:
        log = mixture.log_prob(torch.tensor([y], dtype=torch.float64)).item()
        return -log * math.exp(log)

    expected = quad(term, -12, 12, limit=200)[0]
    estimates = [mixture.entropy_estimate(4096) for _ in range(20)]
    apart = [(e.value.item() - expected) / e.error.item() for e in estimates]
    assert abs(sum(apart) / len(apart)) < 4 / math.sqrt(len(apart))
    assert 0.3 < sum(a**2 for a in apart) / len(apart) < 2.5
    assert mixture.entropy().shape == ()


CONCENTRATIONS = [1e-3, 1e-2, 0.1, 1.0, 10.0, 1e3, 1e6]


@pytest.mark.parametrize("kappa", CONCENTRATIONS)
class TestSphere:
    def one(self, kappa: float, dtype: torch.dtype = torch.float64) -> Hypotheses:
        angles = torch.tensor([[2.0, -0.8]], dtype=dtype)
        return Hypotheses(angles, widths=torch.tensor([kappa**-0.5], dtype=dtype))

    def test_density_is_that_of_scipy(self, kappa):
        hypotheses = self.one(kappa)
        near = hypotheses.points + torch.randn(20, 2, dtype=torch.float64) * kappa**-0.5
        y = torch.cat([Sphere().sample((20,)).double(), near])
        center = to_vectors(hypotheses.points[0]).numpy()
        reference = scipy.stats.vonmises_fisher(center, kappa).logpdf(to_vectors(y).numpy())
        ours = hypotheses.mixture("vmf").log_prob(y)
        # SciPy multiplies kappa by a cosine, which has lost its digits beyond 1e-16.
        torch.testing.assert_close(ours, torch.as_tensor(reference), rtol=1e-9, atol=1e-9 + 1e-15 * kappa)

    def test_density_integrates_to_one_by_area(self, kappa):
        mixture = self.one(kappa).mixture("vmf")
        center = to_vectors(self.one(kappa).points[0])

        def ring(angle: float) -> float:
            side = torch.linalg.cross(center, torch.tensor([0.0, 0.0, 1.0], dtype=torch.float64))
            y = math.cos(angle) * center + math.sin(angle) * side / side.norm()
            return 2 * math.pi * math.sin(angle) * mixture.log_prob(from_vectors(y)).exp().item()

        reach = min(math.pi, 12 * kappa**-0.5)
        assert quad(ring, 0, reach, limit=200)[0] == pytest.approx(1, abs=1e-6)

    def test_draws_are_exact(self, kappa):
        hypotheses = self.one(kappa)
        draws = hypotheses.mixture("vmf").sample((20_000,))
        assert Sphere().contains(draws).all()
        fall = 1 - great_circle(draws, hypotheses.points[0]).cos()
        fall = torch.where(
            fall < 1e-6, 2 * (great_circle(draws, hypotheses.points[0]) / 2).sin().square(), fall
        )
        below = torch.expm1(-kappa * fall) / math.expm1(-2 * kappa)  # P(1 - cos <= fall)
        assert scipy.stats.kstest(below.numpy(), "uniform").pvalue > 1e-3
        vector = to_vectors(draws) - to_vectors(hypotheses.points[0])
        assert (vector.mean(0).norm() < 6 * kappa**-0.5) or kappa < 1

    def test_gradients_are_finite_in_single_precision(self, kappa):
        hypotheses = self.one(kappa, torch.float32)
        points, widths = hypotheses.points.requires_grad_(), hypotheses.widths.requires_grad_()
        opposite = torch.tensor([[2.0 + math.pi, 0.8]])
        y = torch.cat([points.detach(), opposite, torch.tensor([[0.0, math.pi / 2]])]).requires_grad_()
        value = hypotheses.mixture("vmf").log_prob(y)
        assert value.isfinite().all()
        assert all(g.isfinite().all() for g in torch.autograd.grad(value.sum(), [points, widths, y]))


def test_sphere_mean_is_that_of_draws():
    points = torch.tensor([[0.3, 0.2], [1.0, -0.5]], dtype=torch.float64)
    mixture = Hypotheses(points, widths=torch.tensor([0.5, 5.0]).double()).mixture("vmf")
    drawn = to_vectors(mixture.sample((400_000,))).mean(0)
    assert great_circle(mixture.mean, from_vectors(drawn)).item() < 0.02


def test_shapes_broadcast_as_torch_has_them():
    hypotheses = wide(3, dim=2)
    mixture = hypotheses.mixture()
    assert (mixture.batch_shape, mixture.event_shape) == ((3,), (2,))
    y = torch.randn(5, 3, 2, dtype=torch.float64)
    together = mixture.log_prob(y)
    apart = torch.stack([hypotheses[i].mixture().log_prob(y[:, i]) for i in range(3)], -1)
    torch.testing.assert_close(together, apart)
    larger = mixture.expand((7, 3))
    assert larger.batch_shape == (7, 3)
    torch.testing.assert_close(larger.log_prob(y[0]), together[0].expand(7, 3))
    assert mixture.sample((2, 4)).shape == (2, 4, 3, 2)
    assert mixture.sample().shape == (3, 2)
    first, second = (mixture.sample((4,), torch.Generator().manual_seed(3)) for _ in range(2))
    assert torch.equal(first, second)


@pytest.mark.parametrize("kernel", ["gaussian", "laplace", "student", "vmf"])
def test_far_and_coincident_outcomes_have_finite_gradients(kernel):
    points = torch.tensor([[0.0, 0.0], [1.0, 1.0]], requires_grad=True)
    widths = torch.tensor([1e-6, 1e6], requires_grad=True)
    logits = torch.tensor([0.0, -torch.inf], requires_grad=True)
    for y in (torch.zeros(2), torch.full((2,), 1e30 if kernel != "vmf" else 3.0)):
        value = Hypotheses(points, logits, "softmax", widths).mixture(kernel).log_prob(y)
        assert value.isfinite().all()
        gradients = torch.autograd.grad(value.sum(), [points, widths, logits])
        assert all(gradient.isfinite().all() for gradient in gradients)


def test_median_halves_the_probability():
    hypotheses = wide(3)
    torch.testing.assert_close(hypotheses.mixture().cdf(hypotheses.median), torch.full((3,), 0.5).double())
    points = torch.tensor([[3.0], [0.0], [1.0], [2.0]])
    assert Hypotheses(points).median.tolist() == [1.0]
    skewed = Hypotheses(points, torch.tensor([0.6, 0.1, 0.1, 0.2]).log(), "softmax")
    assert skewed.median.tolist() == [3.0]
    assert Hypotheses(torch.randn(2, 3, 5, 1)).median.shape == (2, 3, 1)
    with pytest.raises(ValueError, match="median needs points with 1 coordinate, these have 2"):
        _ = Hypotheses(torch.zeros(3, 2)).median


@pytest.mark.usefixtures("unchecked")
class TestMistakes:
    def test_kernels_and_widths_are_named(self):
        hypotheses = wide()
        with pytest.raises(ValueError, match="kernel must be one of 'gaussian', 'laplace', 'student', 'vmf'"):
            hypotheses.mixture("epanechnikov")
        with pytest.raises(ValueError, match="kernel must be one of"):
            hypotheses.mixture(None)
        with pytest.raises(ValueError, match="hypotheses have no widths"):
            Hypotheses(torch.zeros(2, 1)).mixture()
        with pytest.raises(ValueError, match="kernel 'vmf' needs points with 2 coordinates"):
            hypotheses.mixture("vmf")
        with pytest.raises(ValueError, match="df must be above 0"):
            StudentKernel(df=0.0)
        with pytest.raises(TypeError, match="hypotheses must be Hypotheses, got list"):
            KernelMixture([1.0])
        assert kernel_named(GaussianKernel()) == kernel_named("gaussian")
        assert isinstance(kernel_named("vmf"), VonMisesFisherKernel)

    def test_values(self):
        mixture = wide(3).mixture()
        with pytest.raises(ValueError, match="value has 2 coordinates, hypotheses have 1"):
            mixture.log_prob(torch.zeros(2))
        with pytest.raises(TypeError, match="value must be a tensor, got list"):
            mixture.log_prob([0.0])
        with pytest.raises(ValueError, match=r"value has batch axes \(4,\), hypotheses have \(3,\)"):
            mixture.log_prob(torch.zeros(4, 1))
        with pytest.raises(ValueError, match="value must hold probabilities between 0 and 1"):
            mixture.icdf(1.5)
        with pytest.raises(NotImplementedError, match="icdf exists in one dimension only"):
            wide(dim=2).mixture().icdf(0.5)
        with pytest.raises(NotImplementedError, match="no variance of angles"):
            _ = wide(dim=2).mixture("vmf").variance
        with pytest.raises(ValueError, match="samples must be at least 2, got 1"):
            mixture.entropy(1)
