"""Labels as targets: integers or probabilities become what every loss takes."""

import torch
from jaxtyping import Bool, Float, Integer, Shaped
from torch import Tensor
from torch.nn.functional import one_hot

from torchmcl.errors import check_bools, check_integers
from torchmcl.hypotheses import Hypotheses, check_hypotheses

__all__ = ["IGNORED", "class_targets", "integer_labels"]

IGNORED = -100
"""An integer label that says that there is none, as in `torch.nn.functional.cross_entropy`."""

TOLERANCE = 1e-2
"""How far the probabilities of a soft label may be from a sum of 1: enough for bfloat16."""


def class_targets(
    hypotheses: Hypotheses,
    labels: Shaped[Tensor, "..."],
    active: Bool[Tensor, "..."] | None = None,
) -> tuple[Float[Tensor, "*batch targets classes"], Bool[Tensor, "*batch targets"]]:
    """Labels as the targets and the mask that the losses take, with `distance=cross_entropy`.

    Pixels are one more batch axis, so the labels of a segmentation are `(images, height, width)`.

    Args:
        hypotheses: Class logits: points `(*batch, hypotheses, classes)`.
        labels: Integers `(*batch,)` or `(*batch, targets)`, where -100 means that there is no label, or probabilities
            `(*batch, classes)` or `(*batch, targets, classes)` (soft labels).
        active: Which labels exist, of the shape of the integers; all of them if `None`.

    Returns:
        Class probabilities `(*batch, targets, classes)`, 0 where inactive, and the mask of active labels.

    Example:
        >>> h = Hypotheses(torch.zeros(2, 5, 3))
        >>> targets, active = class_targets(h, torch.tensor([2, -100]))
        >>> targets[:, 0], active[:, 0]
        (tensor([[0., 0., 1.],
                [0., 0., 0.]]), tensor([ True, False]))
    """
    check_hypotheses(hypotheses)
    if isinstance(labels, Tensor) and labels.is_floating_point():
        return _soft(hypotheses, labels, active)
    labels, active = integer_labels(hypotheses, labels, active)
    targets = one_hot(labels, hypotheses.dim).to(hypotheses.points.dtype)
    return targets * active[..., None], active


def integer_labels(
    hypotheses: Hypotheses, labels: Tensor, active: Tensor | None
) -> tuple[Integer[Tensor, "*batch targets"], Bool[Tensor, "*batch targets"]]:
    """Integer labels with an axis of targets, 0 where inactive, and which are active; an error if they do not fit."""
    check_hypotheses(hypotheses)
    check_integers("labels", labels)
    batch = hypotheses.batch_shape
    if labels.shape != batch and labels.shape[:-1] != batch:
        raise ValueError(
            f"labels must be {tuple(batch)} or {(*batch, 'targets')} to fit the hypotheses, got {tuple(labels.shape)}"
        )
    active = _mask(labels.shape, labels, active)
    labels = labels.long()  # of 8 bits without a sign, 156 would be equal to -100
    active = active & (labels != IGNORED)
    labels = labels.masked_fill(~active, 0)
    _check(((labels < 0) | (labels >= hypotheses.dim)), f"labels must be in 0..{hypotheses.dim - 1}", labels)
    return (labels[..., None], active[..., None]) if labels.shape == batch else (labels, active)


def _soft(hypotheses: Hypotheses, labels: Tensor, active: Tensor | None) -> tuple[Tensor, Tensor]:
    batch, classes = hypotheses.batch_shape, hypotheses.dim
    single = labels.shape == (*batch, classes)
    if not single and (labels.shape[:-2] != batch or labels.ndim < 2 or labels.shape[-1] != classes):
        raise ValueError(
            f"labels of probabilities must be {(*batch, classes)} or {(*batch, 'targets', classes)} "
            f"to fit the hypotheses, got {tuple(labels.shape)}"
        )
    active = _mask(labels.shape[:-1], labels, active)
    labels = labels.masked_fill(~active[..., None], 0.0).to(hypotheses.points.dtype)
    wrong = (labels < 0).any(-1) | ((labels.sum(-1) - 1).abs() > TOLERANCE)
    _check(wrong & active, "labels of probabilities must not be negative and must sum to 1", labels)
    return (labels[..., None, :], active[..., None]) if single else (labels, active)


def _mask(shape: torch.Size, labels: Tensor, active: Tensor | None) -> Tensor:
    if active is None:
        return torch.ones(shape, dtype=torch.bool, device=labels.device)
    check_bools("active", active, tuple(shape))
    return active


def _check(wrong: Tensor, must: str, labels: Tensor) -> None:
    """Raise where a value is wrong; values that cannot be read, in a compiled graph or mapped, are not checked."""
    if torch.compiler.is_compiling():
        return
    try:
        fits = not wrong.any()
    except RuntimeError:
        return
    if not fits:
        raise ValueError(f"{must}, got {labels[wrong][0].tolist()}")
