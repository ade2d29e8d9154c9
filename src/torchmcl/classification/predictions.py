"""What class hypotheses predict, how wrong it is, and which hypothesis knows which class."""

import math

import torch
from jaxtyping import Bool, Float, Int, Integer
from torch import Tensor

from torchmcl.assignment import winner_takes_all
from torchmcl.classification.labels import class_targets, integer_labels
from torchmcl.distances import cross_entropy, pairwise
from torchmcl.errors import check_integer, check_integers, check_shape
from torchmcl.hypotheses import Hypotheses, check_hypotheses

__all__ = [
    "class_entropy",
    "class_error",
    "class_log_probs",
    "class_owners",
    "class_probs",
    "class_winners",
    "entropy_histogram",
    "oracle_class_error",
]

MOST_BINS = 10**6


def class_log_probs(hypotheses: Hypotheses) -> Float[Tensor, "*batch classes"]:
    """The logarithm of `class_probs`, without underflow."""
    check_hypotheses(hypotheses)
    return (hypotheses.log_probs[..., None] + hypotheses.points.log_softmax(-1)).logsumexp(-2)


def class_probs(hypotheses: Hypotheses) -> Float[Tensor, "*batch classes"]:
    r"""The predicted distribution over classes: the average of the hypotheses', weighted by their scores.

    .. math:: \sum_k p_k \, \mathrm{softmax}(f_k)

    Unscored hypotheses (sMCL, CMCL, ensembles) have equal weights; those of vMCL and rMCL are weighted by who is
    likely to be right.

    Args:
        hypotheses: Class logits: points `(*batch, hypotheses, classes)`.

    Returns:
        Probabilities that sum to 1 over classes.

    Example:
        >>> h = Hypotheses(torch.tensor([[9.0, -9.0], [-9.0, 9.0]]), torch.tensor([9.0, -9.0]), "softmax")
        >>> class_probs(h).round(), class_probs(Hypotheses(h.points)).round(decimals=2)
        (tensor([1., 0.]), tensor([0.5000, 0.5000]))
    """
    return class_log_probs(hypotheses).exp()


def class_error(
    hypotheses: Hypotheses,
    labels: Integer[Tensor, "..."],
    active: Bool[Tensor, "..."] | None = None,
    *,
    top: int = 1,
) -> Float[Tensor, "..."]:
    """1 for each label that is not among the `top` most probable classes of `class_probs`, else 0.

    Args:
        hypotheses: Class logits: points `(*batch, hypotheses, classes)`.
        labels: Integers `(*batch,)` or `(*batch, targets)`.
        active: Which labels exist; the others, and those that are -100, have the error 0.
        top: How many classes may be named; of equals, the lowest index is named first.

    Returns:
        One value for each label; NaN where the prediction is NaN.

    Example:
        >>> h = Hypotheses(torch.tensor([[[2.0, 1.0, 0.0]]]))
        >>> class_error(h, torch.tensor([1])), class_error(h, torch.tensor([1]), top=2)
        (tensor([1.]), tensor([0.]))
    """
    check_hypotheses(hypotheses)
    check_integer("top", top, most=hypotheses.dim)
    values, there = integer_labels(hypotheses, labels, active)
    log_probs = class_log_probs(hypotheses)
    named = log_probs.sort(dim=-1, descending=True, stable=True).indices[..., :top]
    right = (named[..., None, :] == values[..., None]).any(-1)
    unknown = log_probs.isnan().any(-1, keepdim=True)
    return _errors(right, unknown, there, hypotheses).reshape(labels.shape)


def oracle_class_error(
    hypotheses: Hypotheses,
    labels: Integer[Tensor, "..."],
    active: Bool[Tensor, "..."] | None = None,
) -> Float[Tensor, "..."]:
    """1 for each label that no hypothesis has as its most probable class, else 0.

    Args:
        hypotheses: Class logits: points `(*batch, hypotheses, classes)`. Scores are left aside.
        labels: Integers `(*batch,)` or `(*batch, targets)`.
        active: Which labels exist; the others, and those that are -100, have the error 0.

    Returns:
        One value for each label; NaN where a prediction is NaN.

    Example:
        >>> h = Hypotheses(torch.tensor([[[2.0, 0.0, 0.0], [0.0, 2.0, 0.0]]]))
        >>> oracle_class_error(h, torch.tensor([[0, 1, 2]]))
        tensor([[0., 0., 1.]])
    """
    values, there = integer_labels(hypotheses, labels, active)
    right = (hypotheses.points.argmax(-1)[..., None, :] == values[..., None]).any(-1)
    return _errors(right, _unknown(hypotheses), there, hypotheses).reshape(labels.shape)


def _errors(right: Tensor, unknown: Tensor, there: Tensor, hypotheses: Hypotheses) -> Tensor:
    """The errors `(*batch, targets)` of labels: 1 or 0, NaN where it is unknown, 0 where there is no label."""
    return (~right & there).to(hypotheses.points.dtype).masked_fill(unknown & there, torch.nan)


def _unknown(hypotheses: Hypotheses) -> Tensor:
    """The items with a class logit that is NaN, `(*batch, 1)`."""
    return hypotheses.points.isnan().flatten(-2).any(-1, keepdim=True)


def _check_logits(hypotheses: Hypotheses, there: Tensor) -> None:
    if (_unknown(hypotheses) & there).any():
        raise ValueError("hypotheses have class logits that are NaN")


def class_entropy(hypotheses: Hypotheses) -> Float[Tensor, "*batch hypotheses"]:
    """The entropy in nats of what each hypothesis predicts: 0 where it is certain, log C where it is uniform.

    >>> class_entropy(Hypotheses(torch.zeros(2, 10)))
    tensor([2.3026, 2.3026])
    """
    check_hypotheses(hypotheses)
    return torch.special.entr(hypotheses.points.softmax(-1)).sum(-1)


def class_winners(
    hypotheses: Hypotheses,
    labels: Integer[Tensor, "..."],
    active: Bool[Tensor, "..."] | None = None,
) -> Int[Tensor, "classes hypotheses"]:
    """For each class, how many of its labels each hypothesis wins, by the cross-entropy.

    >>> h = Hypotheses(torch.tensor([[[2.0, 0.0], [0.0, 2.0]]]).expand(3, -1, -1))
    >>> class_winners(h, torch.tensor([0, 1, 1]))
    tensor([[1, 0],
            [0, 2]])
    """
    values, _ = integer_labels(hypotheses, labels, active)
    targets, there = class_targets(hypotheses, labels, active)
    _check_logits(hypotheses, there)
    winner = (
        winner_takes_all(pairwise(hypotheses.points.detach(), targets, cross_entropy))
        .winners.long()
        .argmax(-1)
    )
    pairs = (values * hypotheses.n_hypotheses + winner)[there]
    counts = pairs.bincount(minlength=hypotheses.dim * hypotheses.n_hypotheses)
    return counts.reshape(hypotheses.dim, hypotheses.n_hypotheses)


def class_owners(winners: Int[Tensor, "classes hypotheses"]) -> Int[Tensor, "classes"]:
    """The hypothesis that wins a class most often, of the counts of `class_winners`; the lowest index of equals.

    >>> class_owners(torch.tensor([[1, 0], [0, 2]]))
    tensor([0, 1])
    """
    return winners.argmax(-1)


def entropy_histogram(
    hypotheses: Hypotheses,
    labels: Integer[Tensor, "..."],
    owners: Int[Tensor, "classes"],
    active: Bool[Tensor, "..."] | None = None,
    *,
    bins: int = 20,
) -> Int[Tensor, "2 {bins}"]:
    """How certain hypotheses are of the classes that they own, and of the others: the picture of overconfidence.

    Args:
        hypotheses: Class logits: points `(*batch, hypotheses, classes)`.
        labels: Integers `(*batch,)` or `(*batch, targets)`.
        owners: The hypothesis that owns each class, from `class_owners`.
        active: Which labels exist; all of them if `None`.
        bins: Of equal width, from 0 to log C nats.

    Returns:
        Counts of (label, hypothesis) pairs by the entropy of the hypothesis: first those where it owns the class of
        the label, then the others.

    Example:
        >>> h = Hypotheses(torch.tensor([[[9.0, 0.0], [0.0, 0.0]]]))
        >>> entropy_histogram(h, torch.tensor([0]), torch.tensor([0, 1]), bins=2)
        tensor([[1, 0],
                [0, 1]])
    """
    check_hypotheses(hypotheses)
    check_integers("owners", owners)
    check_shape("owners", owners, (hypotheses.dim,))
    check_integer("bins", bins, most=MOST_BINS)
    if owners.numel() and not 0 <= int(owners.min()) <= int(owners.max()) < hypotheses.n_hypotheses:
        raise ValueError(f"owners must be in 0..{hypotheses.n_hypotheses - 1}, got {owners.tolist()}")
    values, there = integer_labels(hypotheses, labels, active)
    _check_logits(hypotheses, there)
    entropy = class_entropy(hypotheses).detach() / max(math.log(hypotheses.dim), 1e-9)
    place = (entropy * bins).long().clamp(0, bins - 1)[..., None, :].expand(*values.shape, -1)
    foreign = owners[values][..., None] != torch.arange(hypotheses.n_hypotheses, device=values.device)
    return (foreign.long() * bins + place)[there].flatten().bincount(minlength=2 * bins).reshape(2, bins)
