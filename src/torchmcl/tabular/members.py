"""Several members that learn side by side: who validates on which rows, and which epoch each of them keeps."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from lightning.pytorch import Callback, LightningModule, Trainer
from torch import Tensor, nn

from torchmcl.errors import UserError
from torchmcl.hypotheses import Hypotheses
from torchmcl.training.restoring import check_form

__all__ = ["Folds", "KeepBestMembers", "MemberBatches", "pool", "ring"]

LARGEST_VALIDATION = 20_000
"""Rows on which a member validates, at most: more would tell nothing new and cost time."""
SCORED_AT_ONCE = 4096
"""Validation rows of a batch, so that memory stays bounded."""

Score = Callable[[Hypotheses, Tensor, Tensor], tuple[Tensor, Tensor]]
"""One number for each item and the weight of that item, from hypotheses, targets and active; lower is better."""


@dataclass(frozen=True, eq=False)
class Folds:
    """Which rows each member trains on, and which are held out.

    Args:
        train: `(members, rows)`.
        validation: `(members, 2 x block)`; a member's own block, then the next one of the ring. Empty without
            validation.
    """

    train: Int[Tensor, "members rows"]
    validation: Int[Tensor, "members held"]

    @property
    def members(self) -> int:
        """How many."""
        return len(self.train)

    @property
    def blocks(self) -> Int[Tensor, "members block"]:
        """The blocks of the ring, no row in two of them; one block where a single member has it all."""
        held = self.validation.shape[1]
        return self.validation if self.members == 1 else self.validation[:, : held // 2]

    def out_of_fold(self, hypotheses: Hypotheses) -> Hypotheses:
        """Out-of-fold answers for the blocks: of each of the two members that have not seen a block.

        Args:
            hypotheses: Of each member for its validation rows, `(members, 2 x block)`.

        Returns:
            Hypotheses `(2, members x block)` in the order of `blocks`; `(1, ...)` of a single member.
        """
        if self.members == 1:
            return hypotheses
        block = self.validation.shape[1] // 2
        own, following = hypotheses[:, :block], hypotheses[:, block:]
        before = torch.arange(-1, self.members - 1) % self.members
        both = (own, following[before])
        return Hypotheses.stack([Hypotheses.cat([each[i] for i in range(self.members)]) for each in both])


def ring(rows: int, members: int, fraction: float, seed: int) -> Folds:
    """Blocks of half the fraction; member j holds out blocks j and j + 1, so that two members have not seen a block.

    Args:
        rows: Of the table.
        members: How many.
        fraction: The part of the rows that a member validates on; less where so many blocks would overlap.
        seed: Of the order.
    """
    order = torch.randperm(rows, generator=torch.Generator().manual_seed(seed))
    count = max(members, 2)
    # Each member keeps at least half of the rows, and the blocks do not overlap.
    most = min(LARGEST_VALIDATION // 2, rows // max(count, 4))
    block = min(max(round(rows * fraction / 2), 1), most) if fraction > 0 else 0
    blocks = order[: block * count].view(count, block)
    held = [torch.cat([blocks[index], blocks[(index + 1) % count]]) for index in range(members)]
    train = [
        torch.cat(
            [
                blocks[[b for b in range(count) if b not in (i, (i + 1) % count)]].flatten(),
                order[block * count :],
            ]
        )
        for i in range(members)
    ]
    return Folds(torch.stack(train), torch.stack(held))


def pool(members: Hypotheses) -> Hypotheses:
    """The members of the first axis as one distribution: `(members, *batch, K)` to `(*batch, members x K)`."""
    count = len(members)
    points = members.points.movedim(0, -3).flatten(-3, -2)
    logits = (members.log_probs - math.log(count)).movedim(0, -2).flatten(-2)
    widths = None if members.widths is None else members.widths.movedim(0, -2).flatten(-2)
    return Hypotheses(points, logits, "softmax", widths)


class MemberBatches:
    """Batches in which each member has its own rows, in its own order, anew in each epoch.

    Args:
        tensors: Of all rows, with the same first axis.
        rows: The rows of each member, `(members, rows)`.
        batch_size: Rows of each member in a batch.
        seed: Decides the order; `None` keeps it.
        weights: Of all rows; rows are then drawn in proportion to them, with replacement.
    """

    def __init__(
        self,
        *tensors: Tensor,
        rows: Int[Tensor, "members rows"],
        batch_size: int,
        seed: int | None = None,
        weights: Float[Tensor, "all_rows"] | None = None,
    ) -> None:
        self.tensors, self.rows, self.batch_size, self.seed = tensors, rows, batch_size, seed
        self.weights = weights
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Choose the order of the next pass; the pass after it has that of the next epoch."""
        self.epoch = epoch

    def __len__(self) -> int:
        return math.ceil(self.rows.shape[1] / self.batch_size)

    def __iter__(self) -> Iterator[tuple[Tensor, ...]]:
        rows, epoch = self.rows, self.epoch
        self.epoch = epoch + 1
        if self.seed is not None:
            state = np.random.SeedSequence([self.seed, epoch]).generate_state(1)
            random = torch.Generator().manual_seed(int(state[0]))
            rows = torch.stack([each[self._order(each, random)] for each in rows])
        for part in rows.split(self.batch_size, 1):
            yield tuple(tensor[part] for tensor in self.tensors)

    def _order(self, rows: Tensor, random: torch.Generator) -> Tensor:
        if self.weights is None:
            return torch.randperm(len(rows), generator=random)
        below = self.weights[rows].double().cumsum(0)
        drawn = torch.rand(len(rows), generator=random, dtype=torch.float64) * below[-1]
        return torch.searchsorted(below, drawn).clamp(max=len(rows) - 1)


class KeepBestMembers(Callback):
    """Keeps the weights of each member from the epoch in which its own validation score was best.

    It also keeps those that each half of the validation rows would have chosen: the other half, which had no part in
    that choice, tells how well they answer for new rows. Training stops when no member has improved for `patience`
    epochs.

    Args:
        score: One number for each item.
        patience: Epochs; `None` never stops early.

    Attributes:
        best: The best score by all validation rows, by their first and by their second half, `(3, members)`.
        kept: The weights of that epoch, for each of the three.
    """

    def __init__(self, score: Score, patience: int | None) -> None:
        self.score, self.patience = score, patience
        self.best: Tensor | None = None
        self.epochs: list[int] = []
        self.kept: list[dict[str, Tensor]] = []

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if self.best is not None:
            network: nn.Module = pl_module.network  # type: ignore[assignment]
            check_form(self.kept, [network.state_dict()] * 3, "kept")

    def on_validation_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.items: list[tuple[Tensor, Tensor]] = []

    @torch.no_grad()
    def on_validation_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, *indices: int
    ) -> None:
        each, weight = self.score(outputs["hypotheses"], *batch[1:3])
        # Of rows that the score itself does not weigh.
        for own in batch[3:]:
            weight = weight * own
        self.items.append(((each * weight).cpu(), weight.to(each).cpu()))

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        scores = score_of_halves(*(torch.cat(each, 1) for each in zip(*self.items, strict=True)))
        members = scores.shape[1]
        network: Any = pl_module.network
        state = {name: value.detach() for name, value in network.state_dict().items()}
        if self.best is None:
            self.best = torch.full_like(scores, math.inf)
            self.epochs = [0] * members
            self.kept = [{name: value.clone() for name, value in state.items()} for _ in scores]
        if members != self.best.shape[1]:
            raise UserError(
                f"the checkpoint is of {self.best.shape[1]} members, there are {members}; "
                "remove it to train from the start"
            )
        better = scores < self.best
        self.best = torch.where(better, scores, self.best)
        for choice, member in better.nonzero().tolist():
            copy_member(self.kept[choice], state, member, members)
            if choice == 0:
                self.epochs[member] = trainer.current_epoch
        waited = trainer.current_epoch - max(self.epochs)
        if self.patience is not None and waited >= self.patience:
            trainer.should_stop = True

    def on_fit_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if self.kept:
            network: nn.Module = pl_module.network  # type: ignore[assignment]
            network.load_state_dict(self.kept[0])

    def state_dict(self) -> dict[str, Any]:
        return {"best": self.best, "epochs": self.epochs, "kept": self.kept}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        best, epochs, kept = state_dict["best"], state_dict["epochs"], state_dict["kept"]
        if best is not None and not (
            isinstance(best, Tensor) and best.ndim == 2 and len(best) == 3 and best.is_floating_point()
        ):
            raise ValueError("best must be three numbers for each member")
        check_form(epochs, [0] * (0 if best is None else best.shape[1]), "epochs")
        self.best, self.epochs, self.kept = best, epochs, kept


def score_of_halves(
    total: Float[Tensor, "members held"], weight: Float[Tensor, "members held"]
) -> Float[Tensor, "3 members"]:
    """The mean score by all validation rows, by their first half and by their second.

    A half without weight has the score of all rows.

    Args:
        total: The score of each row times its weight.
        weight: Of each row.
    """
    middle = total.shape[1] // 2
    parts = (slice(None), slice(middle), slice(middle, None))
    weights = torch.stack([weight[:, part].sum(1) for part in parts])
    means = torch.stack([total[:, part].sum(1) for part in parts]) / weights
    return torch.where(weights > 0, means, means[0])


def copy_member(to: dict[str, Tensor], state: dict[str, Tensor], member: int, members: int) -> None:
    """Copy what belongs to one member: its network, or its part of stacked weights."""
    for name, value in state.items():
        if name.startswith("networks."):
            if name.split(".")[1] == str(member):
                to[name].copy_(value)
        else:
            to[name].view(members, -1)[member] = value.reshape(members, -1)[member]
