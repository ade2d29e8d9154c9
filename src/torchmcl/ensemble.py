"""Independent ensembles: several single-hypothesis networks read as unscored hypotheses."""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state

from torchmcl.distances import Distance, euclidean
from torchmcl.hypotheses import Hypotheses
from torchmcl.losses import mcl_loss

__all__ = ["Ensemble", "StackedEnsemble", "members_loss"]


class Ensemble(nn.Module):
    """Networks that were trained separately; their answers together are unscored hypotheses.

    A member may return a tensor `(*batch, dim)` or `Hypotheses`, whose scores are then left aside.

    >>> Ensemble([nn.Linear(3, 2) for _ in range(5)])(torch.zeros(7, 3)).points.shape
    torch.Size([7, 5, 2])
    """

    def __init__(self, members: Iterable[nn.Module]) -> None:
        super().__init__()
        self.members = nn.ModuleList(members)
        if not self.members:
            raise ValueError("members is empty: an ensemble needs at least one network")

    def forward(self, *inputs: Any) -> Hypotheses:
        """The members' answers side by side."""
        answers = [member(*inputs) for member in self.members]
        points = [a.points if isinstance(a, Hypotheses) else a[..., None, :] for a in answers]
        return Hypotheses(torch.cat(points, dim=-2))


class StackedEnsemble(nn.Module):
    """Equal small networks with stacked parameters, evaluated and trained together in one batched call.

    `build` makes one network, `(*batch, features)` to `(*batch, dim)`; each member starts from its own draw of the
    initial weights. Trained with `members_loss`, each member learns exactly as it would alone. `unstack` gives
    the members back as an `Ensemble`.

    >>> ensemble = StackedEnsemble(lambda: nn.Linear(3, 2), members=5)
    >>> ensemble(torch.zeros(7, 3)).points.shape
    torch.Size([7, 5, 2])
    """

    def __init__(self, build: Callable[[], nn.Module], members: int) -> None:
        super().__init__()
        if members < 1:
            raise ValueError(f"members must be at least 1, got {members}")
        networks = [build() for _ in range(members)]
        parameters, buffers = stack_module_state(networks)
        self._names = {name.replace(".", "__"): name for name in (*parameters, *buffers)}
        for name, value in parameters.items():
            self.register_parameter(name.replace(".", "__"), nn.Parameter(value.detach()))
        for name, value in buffers.items():
            self.register_buffer(name.replace(".", "__"), value)
        # Kept out of the module tree: its own weights are never used, only its forward.
        self.__dict__["_skeleton"] = networks[0].to("meta")
        self._build = build
        self.n_members = members

    def _state(self) -> dict[str, Tensor]:
        return {name: getattr(self, flat) for flat, name in self._names.items()}

    def forward(self, inputs: Float[Tensor, "*batch features"]) -> Hypotheses:
        """The members' answers side by side."""

        def answer(state: dict[str, Tensor]) -> Tensor:
            return functional_call(self.__dict__["_skeleton"], state, (inputs,))

        points: Tensor = torch.vmap(answer, out_dims=-2, randomness="different")(self._state())
        return Hypotheses(points)

    def unstack(self) -> Ensemble:
        """The members as separate networks."""
        members = [self._build() for _ in range(self.n_members)]
        for index, member in enumerate(members):
            member.load_state_dict({name: value[index] for name, value in self._state().items()})
        return Ensemble(members)


def members_loss(
    hypotheses: Hypotheses,
    targets: Float[Tensor, "*batch targets dim"],
    active: Bool[Tensor, "*batch targets"] | None = None,
    *,
    distance: Distance = euclidean,
    best_target_only: bool = True,
) -> Float[Tensor, ""]:
    """The sum over members of the loss that each of them would have alone, so their gradients are independent.

    >>> members_loss(Hypotheses(torch.tensor([[0.0], [10.0]])), torch.tensor([[1.0], [2.0]]))
    tensor(9.)
    """
    members = hypotheses.n_hypotheses
    alone = Hypotheses(hypotheses.points[..., :, None, :])
    targets = targets[..., None, :, :].expand(*hypotheses.batch_shape, members, -1, -1)
    if active is not None:
        active = active[..., None, :].expand(*hypotheses.batch_shape, members, -1)
    return members * mcl_loss(alone, targets, active, distance=distance, best_target_only=best_target_only)
