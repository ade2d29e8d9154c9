"""The likelihood of targets under hypotheses with widths, as a loss and as a measure."""

from jaxtyping import Bool, Float
from torch import Tensor

from torchmcl.energy import active_mean, item_mean, known_targets
from torchmcl.errors import check_flag
from torchmcl.hypotheses import Hypotheses, check_hypotheses
from torchmcl.mixtures.kernels import Kernel, kernel_named

__all__ = ["likelihood_loss", "log_likelihood"]


def likelihood_loss(
    hypotheses: Hypotheses,
    targets: Float[Tensor, "*batch targets dim"],
    active: Bool[Tensor, "*batch targets"] | None = None,
    *,
    kernel: str | Kernel = "gaussian",
    detach: bool = False,
) -> Float[Tensor, ""]:
    r"""Mean negative log-likelihood of the targets under the kernel mixture, in nats.

    .. math:: -\log \sum_k p_k\, \kappa(y; f_k, s_k)

    Args:
        hypotheses: K points with scores and widths, `(*batch, hypotheses, dim)`.
        targets: Samples of the outcome, `(*batch, targets, dim)`.
        active: Which targets exist, `(*batch, targets)`; all of them if `None`.
        kernel: The density around each hypothesis: `"gaussian"`, `"laplace"`, `"student"`, `"vmf"` or a `Kernel`.
        detach: Whether it teaches the widths only, and leaves points and scores to another loss.

    Returns:
        The average over active targets; 0 where there are none.

    Example:
        >>> import torch
        >>> h = Hypotheses(torch.tensor([[0.0], [1.0]]), widths=torch.tensor([1.0, 1.0]))
        >>> likelihood_loss(h, torch.tensor([[0.5]]))
        tensor(1.0439)
    """
    return active_mean(-_log_densities(hypotheses, targets, active, kernel, detach), active)


def log_likelihood(
    hypotheses: Hypotheses,
    targets: Float[Tensor, "*batch targets dim"],
    active: Bool[Tensor, "*batch targets"] | None = None,
    *,
    kernel: str | Kernel = "gaussian",
) -> Float[Tensor, "*batch"]:
    """The log-likelihood of each item under its kernel mixture, averaged over its active targets, in nats.

    Args:
        hypotheses: K points with scores and widths, `(*batch, hypotheses, dim)`.
        targets: Samples of the outcome, `(*batch, targets, dim)`.
        active: Which targets exist, `(*batch, targets)`; all of them if `None`.
        kernel: The density around each hypothesis: `"gaussian"`, `"laplace"`, `"student"`, `"vmf"` or a `Kernel`.

    Returns:
        One value for each item; NaN for an item with no active target.

    Example:
        >>> import torch
        >>> h = Hypotheses(torch.zeros(2, 1, 1), widths=torch.tensor([[1.0], [2.0]]))
        >>> log_likelihood(h, torch.zeros(2, 1, 1))
        tensor([-0.9189, -1.6121])
    """
    return item_mean(_log_densities(hypotheses, targets, active, kernel, detach=False), active)


def _log_densities(
    hypotheses: Hypotheses, targets: Tensor, active: Tensor | None, kernel: str | Kernel, detach: bool
) -> Tensor:
    """The log density of each target, `(*batch, targets)`."""
    check_hypotheses(hypotheses)
    check_flag("detach", detach)
    density = kernel_named(kernel)
    density.check_dim(hypotheses.dim)
    points, log_probs, widths = hypotheses.points, hypotheses.log_probs, hypotheses.widths
    if widths is None:
        raise ValueError("hypotheses have no widths: a likelihood needs them")
    if detach:
        points, log_probs = points.detach(), log_probs.detach()
    targets = known_targets(points, targets, active)
    each = density.log_density(targets[..., :, None, :], points[..., None, :, :], widths[..., None, :])
    return (log_probs[..., None, :] + each).logsumexp(-1)
