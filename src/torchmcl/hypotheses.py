"""What every model returns: K points with scores and widths, read as a conditional distribution."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import logsigmoid
from torch.utils.data._utils.collate import default_collate_fn_map

from torchmcl.distances import Distance, euclidean, measured
from torchmcl.errors import (
    check_broadcast,
    check_choice,
    check_coordinates,
    check_floats,
    check_generator,
    check_number,
    check_positive,
    check_shape,
    check_sizes,
)

if TYPE_CHECKING:
    from torchmcl.mixtures import Kernel, KernelMixture
    from torchmcl.voronoi.laws import Law
    from torchmcl.voronoi.mixture import VoronoiMixture

__all__ = ["Hypotheses", "Link", "check_hypotheses", "undefined"]

Link = Literal["sigmoid", "softmax"]


@dataclass
class SigmoidLink:
    """The link `"sigmoid"` in a pytree: a node without a leaf."""


@dataclass
class SoftmaxLink:
    """The link `"softmax"` in a pytree: a node without a leaf."""


_KINDS: dict[str, SigmoidLink | SoftmaxLink] = {"sigmoid": SigmoidLink(), "softmax": SoftmaxLink()}
_LINKS: dict[type, Link] = {SigmoidLink: "sigmoid", SoftmaxLink: "softmax"}


@dataclass(frozen=True, eq=False, repr=False, init=False)
class Hypotheses:
    """K points and, where the model has them, K scores and K widths, for each item of a batch.

    `link` says what the logits mean: under `"sigmoid"` (the paper) each score is the probability that a target
    falls into that hypothesis' Voronoi cell, so several may be near 1; under `"softmax"` the scores are one
    distribution over the cells. Indexing, `len` and iteration go along the batch axes.

    It is a pytree whose leaves are the tensors: `torch.export`, `torch.vmap`, `default_collate`, distributed data
    parallel and Lightning take it as input and output.

    Args:
        points: `(*batch, hypotheses, dim)`, K points for each item.
        logits: `(*batch, hypotheses)`, the scores before the link; unscored hypotheses are equally probable.
        link: `"sigmoid"` or `"softmax"`.
        widths: `(*batch, hypotheses)`, positive, in the units of the targets: the scale of the kernel around each
            point, for `mixture`. A negative width is refused at once on the CPU, and by `mixture` elsewhere.
        kind: The link as a node of a pytree, which has no place for a string. Not for callers.

    Example:
        >>> h = Hypotheses(torch.tensor([[0.0], [1.0], [5.0]]), torch.tensor([2.0, 2.0, -9.0]))
        >>> h
        Hypotheses(points=(3, 1), logits=(3,), link='sigmoid', dtype=torch.float32, device='cpu')
        >>> h.probs.round(decimals=2), h.count.round()
        (tensor([0.5000, 0.5000, 0.0000]), tensor(2.))
        >>> h.cells(torch.tensor([0.8]))
        tensor(1)
    """

    points: Float[Tensor, "*batch hypotheses dim"]
    logits: Float[Tensor, "*batch hypotheses"] | None = None
    link: Link = field(default="sigmoid", init=False)
    widths: Float[Tensor, "*batch hypotheses"] | None = None
    kind: SigmoidLink | SoftmaxLink | None = None

    def __init__(
        self,
        points: Float[Tensor, "*batch hypotheses dim"],
        logits: Float[Tensor, "*batch hypotheses"] | None = None,
        link: Link = "sigmoid",
        widths: Float[Tensor, "*batch hypotheses"] | None = None,
        *,
        kind: SigmoidLink | SoftmaxLink | None = None,
    ) -> None:
        if kind is None:
            _check(points, logits, link, widths)
        else:
            # From a pytree, whose leaves may be anything: sizes, axes of `torch.vmap`, placeholders of a graph.
            if type(kind) not in _LINKS:
                raise TypeError(f"kind is for pytrees and not for callers, got {type(kind).__name__}")
            link = _LINKS[type(kind)]
        for name, value in (("points", points), ("logits", logits), ("link", link), ("widths", widths)):
            object.__setattr__(self, name, value)
        object.__setattr__(self, "kind", _KINDS[link])

    @classmethod
    def cat(cls, parts: Sequence["Hypotheses"]) -> "Hypotheses":
        """Batches one after another, along the first axis.

        Args:
            parts: Hypotheses `(batch_i, *batch, hypotheses, dim)`, all with the same link, and all with or all
                without scores and widths.

        Returns:
            Hypotheses `(sum of batch_i, *batch, hypotheses, dim)`.

        Example:
            >>> Hypotheses.cat([Hypotheses(torch.zeros(3, 5, 2)), Hypotheses(torch.zeros(4, 5, 2))]).batch_shape
            torch.Size([7])
        """
        _check_parts(parts)
        if not all(part.batch_shape for part in parts):
            raise ValueError("parts must have a batch axis: stack joins single items")
        return _join(parts, torch.cat, along=1)

    @classmethod
    def stack(cls, parts: Sequence["Hypotheses"]) -> "Hypotheses":
        """Items of equal shape as a batch: a new first axis.

        Args:
            parts: Hypotheses `(*batch, hypotheses, dim)`, all with the same link, and all with or all without
                scores and widths.

        Returns:
            Hypotheses `(parts, *batch, hypotheses, dim)`.

        Example:
            >>> Hypotheses.stack([Hypotheses(torch.zeros(5, 2)), Hypotheses(torch.zeros(5, 2))]).batch_shape
            torch.Size([2])
        """
        return _join(parts, torch.stack, along=0)

    @classmethod
    def pool(cls, parts: Sequence["Hypotheses"], weights: Sequence[float] | None = None) -> "Hypotheses":
        """The average of several predictive distributions (linear pool) as one set of hypotheses.

        Points and widths stand side by side; each probability is divided by the number of parts.

        Args:
            parts: Hypotheses of equal batch axes and dimension, with any number of points each, and all with or all
                without widths.
            weights: How much each part counts, positive; equal if `None`.

        Returns:
            Hypotheses `(*batch, sum of hypotheses, dim)` with link `"softmax"`.

        Example:
            >>> one, two = Hypotheses(torch.zeros(1, 1)), Hypotheses(torch.ones(3, 1))
            >>> Hypotheses.pool([one, two]).probs
            tensor([0.5000, 0.1667, 0.1667, 0.1667])
        """
        _check_parts(parts)
        shares = [1.0] * len(parts) if weights is None else weights
        if not isinstance(shares, Sequence) or len(shares) != len(parts):
            raise ValueError(f"weights must be {len(parts)} positive numbers, got {weights!r}")
        for share in shares:
            check_number("each of weights", share, 0, open_low=True, finite=True)
        for part in parts:
            if (part.batch_shape, part.dim) != (parts[0].batch_shape, parts[0].dim):
                raise ValueError(f"parts must have equal batch axes and dim, got {list(parts)}")
        widths = [part.widths for part in parts if part.widths is not None]
        if len(widths) not in (0, len(parts)):
            raise ValueError("parts must all have widths, or none of them")
        logs = [part.log_probs + math.log(share) for part, share in zip(parts, shares, strict=True)]
        points = torch.cat([part.points for part in parts], -2)
        return cls(points, torch.cat(logs, -1), "softmax", torch.cat(widths, -1) if widths else None)

    @property
    def batch_shape(self) -> torch.Size:
        """The leading axes: everything before hypotheses and dim."""
        return self.points.shape[:-2]

    @property
    def n_hypotheses(self) -> int:
        """K."""
        return self.points.shape[-2]

    @property
    def dim(self) -> int:
        """The number of coordinates of a point."""
        return self.points.shape[-1]

    @property
    def scores(self) -> Float[Tensor, "*batch hypotheses"]:
        """The link applied to the logits: P(a target falls into cell k) under `"sigmoid"`; ones when unscored."""
        if self.logits is None:
            return self.points.new_ones(self.points.shape[:-1])
        return self.logits.sigmoid() if self.link == "sigmoid" else self.logits.softmax(-1)

    @property
    def log_probs(self) -> Float[Tensor, "*batch hypotheses"]:
        """The logarithm of `probs`, without underflow."""
        return self._log_scores.log_softmax(-1)

    @property
    def probs(self) -> Float[Tensor, "*batch hypotheses"]:
        """The scores normalized over hypotheses (Algorithm 1, line 3); uniform when unscored."""
        return self._log_scores.softmax(-1)

    @property
    def _log_scores(self) -> Float[Tensor, "*batch hypotheses"]:
        """The logarithms of the scores, up to a constant of each item."""
        if self.logits is None:
            return self.points.new_zeros(self.points.shape[:-1])
        return logsigmoid(self.logits) if self.link == "sigmoid" else self.logits

    @property
    def mean(self) -> Float[Tensor, "*batch dim"]:
        """`sum_k probs_k points_k`, the law of total expectation (eq. 8); for angles it has no meaning."""
        return (self.probs[..., None] * self.points).sum(-2)

    @property
    def variance(self) -> Float[Tensor, "*batch dim"]:
        """`sum_k probs_k ((points_k - mean)^2 + widths_k^2)`, the law of total variance, for each coordinate.

        The widths count as standard deviations, as the Gaussian kernel has them; without widths they are 0.
        """
        spread = (self.points - self.mean[..., None, :]).square()
        if self.widths is not None:
            spread = spread + self.widths[..., None].square()
        return (self.probs[..., None] * spread).sum(-2)

    @property
    def std(self) -> Float[Tensor, "*batch dim"]:
        """The square root of `variance`, with gradient 0 where it is 0."""
        variance = self.variance
        zero = variance == 0
        return variance.masked_fill(zero, 1).sqrt().masked_fill(zero, 0)

    @property
    def mode(self) -> Float[Tensor, "*batch dim"]:
        """The most probable hypothesis of each item; of equals, the one with the lowest index.

        NaN, as `medoid` and `median`, where a point or a probability is NaN.
        """
        return self._point(self.log_probs.detach().argmax(-1))

    @property
    def medoid(self) -> Float[Tensor, "*batch dim"]:
        """The hypothesis with the least expected distance to the others.

        `argmin_k sum_j probs_j |points_k - points_j|`.

        The best single answer that is one of the K, if the error is the Euclidean distance. Hypotheses of
        probability 0 are no candidates; of equals, the one with the lowest index is taken.
        """
        points, probs = self.points.detach(), self.probs.detach()
        points = points.to(torch.promote_types(points.dtype, torch.float32))  # cdist knows no shorter ones
        apart = torch.cdist(points, points, compute_mode="donot_use_mm_for_euclid_dist")
        expected = (apart * probs[..., None, :]).sum(-1).masked_fill(probs == 0, torch.inf)
        return self._point(expected.argmin(-1))

    @property
    def median(self) -> Float[Tensor, "*batch 1"]:
        """The median in one dimension: the answer with the least expected absolute error.

        Of the Gaussian mixture where there are widths; else the first point, in order, at which the probability
        reaches one half.
        """
        if self.dim != 1:
            raise ValueError(f"median needs points with 1 coordinate, these have {self.dim}; see medoid")
        if self.widths is not None:
            return self.mixture().icdf(0.5)
        points, order = self.points.squeeze(-1).sort(dim=-1, stable=True)
        reached = self.probs.detach().take_along_dim(order, -1).cumsum(-1)
        # Rounding must not decide between two halves.
        enough = reached >= 0.5 - 4 * torch.finfo(reached.dtype).eps
        found = points.take_along_dim(enough.int().argmax(-1, keepdim=True), -1)
        return found.masked_fill(undefined(self)[..., None], torch.nan)

    def _point(self, index: Int[Tensor, "*batch"]) -> Float[Tensor, "*batch dim"]:
        found = self.points.take_along_dim(index[..., None, None], dim=-2).squeeze(-2)
        return found.masked_fill(undefined(self)[..., None], torch.nan)

    @property
    def count(self) -> Float[Tensor, "*batch"]:
        """`sum_k scores_k`, the expected number of targets: known to the `"sigmoid"` link only."""
        if self.logits is None or self.link != "sigmoid":
            kind = "unscored hypotheses" if self.logits is None else f"link {self.link!r}"
            raise ValueError(
                f"count needs scores with link 'sigmoid'; {kind} cannot tell how many targets there are"
            )
        return self.scores.sum(-1)

    def prune(self, threshold: float) -> "Hypotheses":
        """Give probability 0 to the hypotheses whose probability is below `threshold`.

        The most probable one always stays. Points and widths are left as they are.

        Args:
            threshold: A probability between 0 and 1.

        Returns:
            The same points and widths with other logits; unscored hypotheses are returned as they are.
        """
        check_number("threshold", threshold, 0, 1)
        if self.logits is None:
            return self
        probs = self.probs
        low = (probs < threshold) & (probs < probs.amax(-1, keepdim=True))
        return Hypotheses(self.points, self.logits.masked_fill(low, -torch.inf), self.link, self.widths)

    def cells(
        self, y: Float[Tensor, "*sample dim"], distance: Distance = euclidean
    ) -> Int[Tensor, "*sample_batch"]:
        """The index of the Voronoi cell (eq. 3) in which a point lies; ties go to the lowest.

        Args:
            y: Points `(*sample, *batch, dim)`.
            distance: The distance that shapes the cells.

        Returns:
            Indices `(*sample, *batch)`.
        """
        check_coordinates("y", y, self.dim, "hypotheses have")
        check_broadcast("y", y, self.batch_shape, "hypotheses have")
        return measured(distance, y[..., None, :], self.points).argmin(-1)

    def sample(
        self, shape: tuple[int, ...] = (), generator: torch.Generator | None = None
    ) -> Float[Tensor, "*sample_batch dim"]:
        """Draws from the mixture of Diracs (eq. 12), whatever the widths.

        Args:
            shape: How many draws of each item.
            generator: The source of randomness; torch's default one if `None`.

        Returns:
            Points `(*shape, *batch, dim)`; NaN where a probability is NaN.
        """
        check_sizes("shape", shape)
        check_generator(generator)
        count = torch.Size(shape).numel()
        probs = self.probs.detach().reshape(-1, self.n_hypotheses)
        known = probs.isfinite().all(-1, keepdim=True)
        drawn = (
            torch.multinomial(torch.where(known, probs, 1), count, replacement=True, generator=generator)
            if count
            else probs[:, :0].long()
        )
        index = drawn.T.reshape(*shape, *self.batch_shape, 1, 1)
        points = self.points.expand(*shape, *self.points.shape)
        found = points.take_along_dim(index, dim=-2).squeeze(-2)
        return torch.where(known.reshape(*self.batch_shape, 1), found, torch.nan)

    def density(self, law: "Law") -> "VoronoiMixture":
        """The distribution of Proposition 1 with `law` inside the cells.

        Args:
            law: `Dirac`, `Uniform` or `Gaussian`.

        Returns:
            A `VoronoiMixture`.
        """
        from torchmcl.voronoi.mixture import VoronoiMixture

        return VoronoiMixture(self, law)

    def mixture(self, kernel: "str | Kernel" = "gaussian") -> "KernelMixture":
        """The mixture of kernels around the points with their widths: a smooth density, a `torch` distribution.

        Args:
            kernel: `"gaussian"`, `"laplace"`, `"student"`, `"vmf"` (for angles) or a `torchmcl.mixtures.Kernel`.

        Returns:
            A `KernelMixture`: `log_prob`, `sample`, moments; `cdf` and `icdf` in one dimension.

        Example:
            >>> h = Hypotheses(torch.tensor([[0.0], [4.0]]), widths=torch.tensor([1.0, 1.0]))
            >>> h.mixture("laplace").log_prob(torch.tensor([[0.0], [2.0]])).exp()
            tensor([0.2546, 0.0677])
        """
        from torchmcl.mixtures import KernelMixture

        return KernelMixture(self, kernel)

    def reduce(self, count: int, distance: Distance = euclidean) -> "Hypotheses":
        """Few hypotheses in place of many: those nearest in energy distance to the distribution of the points.

        Points and probabilities are found by optimization in double precision, outside of the graph. Widths are those
        of the mixture of the old hypotheses that are nearest to each new one, so that the variance is kept.

        Args:
            count: The number of hypotheses to keep.
            distance: `euclidean`, or `chordal` for (azimuth, elevation).

        Returns:
            Hypotheses `(*batch, count, dim)` with link `"softmax"`; these hypotheses if there are no more.

        Example:
            >>> many = Hypotheses(torch.tensor([[0.0], [0.1], [5.0], [5.2]]))
            >>> few = many.reduce(2)
            >>> few.points[:, 0].sort().values.round(), few.probs.round(decimals=1)
            (tensor([0., 5.]), tensor([0.5000, 0.5000]))
        """
        from torchmcl.mixtures.reduction import reduced

        return reduced(self, count, distance)

    def to(self, *args: Any, **kwargs: Any) -> "Hypotheses":
        """A copy on another device or in another dtype, as `Tensor.to`."""
        return self._each(lambda part, _: part.to(*args, **kwargs))

    def cpu(self) -> "Hypotheses":
        """A copy on the CPU."""
        return self.to("cpu")

    def detach(self) -> "Hypotheses":
        """A view outside of the graph."""
        return self._each(lambda part, _: part.detach())

    def numpy(self) -> dict[str, np.ndarray]:
        """Arrays on the CPU, outside of the graph.

        Returns:
            `points (*batch, hypotheses, dim)`, `scores` and `probs (*batch, hypotheses)`, and `widths` where there
            are any. Types that NumPy does not have, such as bfloat16, become float32.
        """
        tensors = {"points": self.points, "scores": self.scores, "probs": self.probs, "widths": self.widths}
        return {name: _array(value) for name, value in tensors.items() if value is not None}

    def __getitem__(self, index: Any) -> "Hypotheses":
        index = index if isinstance(index, tuple) else (index,)
        rest = () if any(part is Ellipsis for part in index) else (...,)
        whole = slice(None)
        return self._each(lambda part, axes: part[(*index, *rest, *(whole,) * axes)])

    def __len__(self) -> int:
        if not self.batch_shape:
            raise TypeError("hypotheses of a single item have no length: there is no batch axis")
        return len(self.points)

    def __iter__(self) -> Iterator["Hypotheses"]:
        if not self.batch_shape:
            raise TypeError("hypotheses of a single item cannot be iterated over: there is no batch axis")
        return (self[index] for index in range(len(self.points)))

    def __repr__(self) -> str:
        shown = [f"points={_shape(self.points)}"]
        if self.logits is not None:
            shown += [f"logits={_shape(self.logits)}", f"link={self.link!r}"]
        if self.widths is not None:
            shown.append(f"widths={_shape(self.widths)}")
        if isinstance(self.points, Tensor):
            shown += [f"dtype={self.points.dtype}", f"device='{self.points.device}'"]
        return f"Hypotheses({', '.join(shown)})"

    def _each(self, change: Callable[[Tensor, int], Tensor]) -> "Hypotheses":
        """The tensors changed one by one; `change` is told how many axes follow those of the batch."""
        logits = None if self.logits is None else change(self.logits, 1)
        widths = None if self.widths is None else change(self.widths, 1)
        return Hypotheses(change(self.points, 2), logits, widths=widths, kind=self.kind)


torch.export.register_dataclass(SigmoidLink, serialized_type_name="torchmcl.SigmoidLink")
torch.export.register_dataclass(SoftmaxLink, serialized_type_name="torchmcl.SoftmaxLink")
torch.export.register_dataclass(Hypotheses, serialized_type_name="torchmcl.Hypotheses")


def _collate(batch: Sequence[Hypotheses], *, collate_fn_map: Any = None) -> Hypotheses:
    return Hypotheses.stack(batch)


# The documentation of `default_collate` names this table as the place for types of one's own.
default_collate_fn_map[Hypotheses] = _collate


def check_hypotheses(value: Any, *, scored: bool = False, widths: bool = False) -> None:
    """Raise unless the argument `hypotheses` is `Hypotheses` that have what is needed.

    Args:
        value: What the caller passed.
        scored: Whether scores are needed.
        widths: Whether widths are needed.

    Raises:
        TypeError: If it is something else.
        ValueError: If it lacks scores or widths.

    Example:
        >>> check_hypotheses(torch.zeros(3, 2))
        Traceback (most recent call last):
        TypeError: hypotheses must be Hypotheses, got Tensor
    """
    if not isinstance(value, Hypotheses):
        raise TypeError(f"hypotheses must be Hypotheses, got {type(value).__name__}")
    if scored and value.logits is None:
        raise ValueError(
            "hypotheses have no scores: they are needed here (HypothesisHead(..., scores='sigmoid'))"
        )
    if widths and value.widths is None:
        raise ValueError("hypotheses have no widths: they are needed here (HypothesisHead(..., widths=True))")


def undefined(hypotheses: Hypotheses) -> Bool[Tensor, "*batch"]:
    """The items of which nothing can be said, for a point or a probability is NaN.

    Args:
        hypotheses: K points, scored or not.

    Returns:
        A mask `(*batch)`.

    Example:
        >>> undefined(Hypotheses(torch.tensor([[[0.0], [1.0]], [[0.0], [torch.nan]]])))
        tensor([False,  True])
    """
    return (hypotheses.points.isnan().any(-1) | hypotheses.probs.isnan()).any(-1)


def _check(points: Any, logits: Any, link: Any, widths: Any) -> None:
    check_floats("points", points, "*batch hypotheses dim")
    if points.shape[-2] == 0:
        raise ValueError("points holds no hypothesis: its axis -2 has length 0")
    if points.shape[-1] == 0:
        raise ValueError("points holds no coordinate: its axis -1 has length 0")
    for name, value in (("logits", logits), ("widths", widths)):
        if value is not None:
            check_floats(name, value)
            check_shape(name, value, points.shape[:-1], "for these points")
    if widths is not None and widths.device.type == "cpu":  # elsewhere it would wait for the device
        check_positive("widths", widths)
    check_choice("link", link, ("sigmoid", "softmax"))


def _check_parts(parts: Any) -> None:
    if not isinstance(parts, Sequence) or not all(isinstance(part, Hypotheses) for part in parts):
        raise TypeError(f"parts must be a sequence of Hypotheses, got {type(parts).__name__}")
    if not parts:
        raise ValueError("parts is empty: there is nothing to join")


def _join(parts: Sequence[Hypotheses], how: Callable[[list[Tensor]], Tensor], along: int) -> Hypotheses:
    """The tensors joined by a function that leaves all axes but the first `along` as they are."""
    _check_parts(parts)
    if any(part.points.shape[along:] != parts[0].points.shape[along:] for part in parts):
        raise ValueError(
            f"parts must have points of equal shapes, got {[tuple(p.points.shape) for p in parts][:9]}"
        )
    if len({part.link for part in parts}) > 1 or len({part.logits is None for part in parts}) > 1:
        raise ValueError("parts must all be scored by the same link, or all be unscored")
    if len({part.widths is None for part in parts}) > 1:
        raise ValueError("parts must all have widths, or none of them")
    logits = [part.logits for part in parts if part.logits is not None]
    widths = [part.widths for part in parts if part.widths is not None]
    return Hypotheses(
        how([part.points for part in parts]),
        how(logits) if logits else None,
        parts[0].link,
        how(widths) if widths else None,
    )


def _array(value: Tensor) -> np.ndarray:
    value = value.detach().cpu()
    return (value.float() if value.dtype == torch.bfloat16 else value).numpy()


def _shape(value: Any) -> Any:
    return tuple(value.shape) if isinstance(value, Tensor) else value
