"""Ensembles: several networks, separately trained, as one distribution."""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state

from torchmcl.distances import Distance, check_shapes, euclidean
from torchmcl.errors import check_callable, check_flag, check_integer, check_tensor
from torchmcl.hypotheses import Hypotheses, Link, check_hypotheses
from torchmcl.losses import mcl_loss

__all__ = ["Ensemble", "StackedEnsemble", "members_loss"]


MOST_MEMBERS = 100_000
"""Of a stacked ensemble: each is built once before the weights are stacked."""


class Ensemble(nn.Module):
    """Networks that were trained separately; their answers together are one distribution.

    Members that all return scored `Hypotheses` are averaged (`Hypotheses.pool`): points, widths and scores stand side
    by side, probabilities divided by the number of members. If a member is unscored or returns a tensor
    `(*batch, dim)`, all points together are unscored hypotheses, with widths if all members have them.

    Args:
        members: At least one network; all take the same inputs.

    Example:
        >>> Ensemble([nn.Linear(3, 2) for _ in range(5)])(torch.zeros(7, 3)).points.shape
        torch.Size([7, 5, 2])
    """

    def __init__(self, members: Iterable[nn.Module]) -> None:
        super().__init__()
        if not isinstance(members, Iterable) or isinstance(members, Tensor):
            raise TypeError(f"members must be networks, got {type(members).__name__}")
        networks = list(members)
        if not networks:
            raise ValueError("members is empty: an ensemble needs at least one network")
        if not all(isinstance(network, nn.Module) for network in networks):
            raise TypeError("members must all be torch.nn.Module")
        self.members = nn.ModuleList(networks)

    def forward(self, *inputs: Any) -> Hypotheses:
        """The members' answers as one distribution, from the inputs of any member."""
        return _together([member(*inputs) for member in self.members])


class StackedEnsemble(nn.Module):
    """Equal small networks with stacked parameters, evaluated and trained together in one batched call.

    Trained with `members_loss`, each member learns exactly as it would alone. `unstack` gives the members back as an
    `Ensemble`.

    Args:
        build: Makes one network, from `(*batch, features)` to `(*batch, dim)` or to `Hypotheses`; each member starts
            from its own draw of the initial weights.
        members: The number of networks.

    Example:
        >>> ensemble = StackedEnsemble(lambda: nn.Linear(3, 2), members=5)
        >>> ensemble(torch.zeros(7, 3)).points.shape
        torch.Size([7, 5, 2])
    """

    def __init__(self, build: Callable[[], nn.Module], members: int) -> None:
        super().__init__()
        check_callable("build", build, "a function that makes a network")
        check_integer("members", members, most=MOST_MEMBERS)
        networks = [build() for _ in range(members)]
        _check_equal(networks)
        parameters, buffers = stack_module_state(networks)
        self._names = {name.replace(".", "__"): name for name in (*parameters, *buffers)}
        for name, value in parameters.items():
            self.register_parameter(
                name.replace(".", "__"), nn.Parameter(value.detach(), value.requires_grad)
            )
        for name, value in buffers.items():
            self.register_buffer(name.replace(".", "__"), value)
        # Kept out of the module tree: its own weights are never used, only its forward.
        self.__dict__["_skeleton"] = networks[0].to("meta")
        self._build = build
        self.n_members = members

    def _state(self) -> dict[str, Tensor]:
        return {name: getattr(self, flat) for flat, name in self._names.items()}

    def forward(self, inputs: Float[Tensor, "*batch features"]) -> Hypotheses:
        """The members' answers as one distribution.

        Args:
            inputs: `(*batch, features)`, the same for all members.

        Returns:
            The hypotheses of all members, as `Ensemble` returns them.
        """
        check_tensor("inputs", inputs)
        link: list[Link] = []

        # Out of the module tree, it hears neither `train` nor `eval`.
        skeleton = self.__dict__["_skeleton"].train(self.training)

        def answer(state: dict[str, Tensor]) -> Any:
            out = functional_call(skeleton, state, (inputs,))
            if isinstance(out, Tensor):
                return out
            _check_answer(out)
            link.append(out.link)
            parts = {"points": out.points, "logits": out.logits, "widths": out.widths}
            return {name: part for name, part in parts.items() if part is not None}

        try:
            answers = torch.vmap(answer, randomness="different")(self._state())
        except torch.OutOfMemoryError:
            raise
        except RuntimeError as error:
            told = str(error).partition("\n")[0]
            raise ValueError(
                f"inputs of {inputs.dtype} and shape {tuple(inputs.shape)} do not fit the networks: {told}"
            ) from error
        if isinstance(answers, Tensor):
            return Hypotheses(answers.movedim(0, -2))
        return _together(list(Hypotheses(**answers, link=link[0])))

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

    Args:
        hypotheses: One point of each member, `(*batch, members, dim)`.
        targets: `(*batch, targets, dim)`.
        active: Which targets exist, `(*batch, targets)`; all of them if `None`.
        distance: Between points.
        best_target_only: Whether a member learns from the nearest target only, or from all of them.

    Returns:
        The sum of the members' losses.

    Example:
        >>> members_loss(Hypotheses(torch.tensor([[0.0], [10.0]])), torch.tensor([[1.0], [2.0]]))
        tensor(9.)
    """
    check_hypotheses(hypotheses)
    check_shapes(hypotheses.points, targets, active)
    check_flag("best_target_only", best_target_only)
    members = hypotheses.n_hypotheses
    alone = Hypotheses(hypotheses.points[..., :, None, :])
    targets = targets[..., None, :, :].expand(*hypotheses.batch_shape, members, -1, -1)
    if active is not None:
        active = active[..., None, :].expand(*hypotheses.batch_shape, members, -1)
    return members * mcl_loss(alone, targets, active, distance=distance, best_target_only=best_target_only)


def _check_equal(networks: list[Any]) -> None:
    """Raise unless `build` has made different networks with weights of equal shapes."""
    if not all(isinstance(network, nn.Module) for network in networks):
        raise TypeError(f"build must make a torch.nn.Module, it made {type(networks[0]).__name__}")
    if len({id(network) for network in networks}) < len(networks):
        raise ValueError("build must make another network each time, it returned the same one again")
    first, *others = ({name: each.shape for name, each in n.state_dict().items()} for n in networks)
    if any(other != first for other in others):
        raise ValueError("build must make networks with the same weights and shapes each time")


def _check_answer(answer: Any) -> None:
    if not isinstance(answer, Hypotheses) and not (isinstance(answer, Tensor) and answer.ndim):
        raise TypeError(
            f"members must return Hypotheses or a tensor (*batch, dim), one returned {type(answer).__name__}"
        )


def _together(answers: list[Any]) -> Hypotheses:
    for answer in answers:
        _check_answer(answer)
    parts = [
        answer if isinstance(answer, Hypotheses) else Hypotheses(answer[..., None, :]) for answer in answers
    ]
    shapes = [(part.batch_shape, part.dim) for part in parts]
    if any(shape != shapes[0] for shape in shapes):
        raise ValueError(
            f"members must return equal batch axes and dim, got {[(tuple(axes), dim) for axes, dim in shapes]}"
        )
    if all(part.logits is not None for part in parts):
        return Hypotheses.pool(parts)
    widths = [part.widths for part in parts if part.widths is not None]
    points = torch.cat([part.points for part in parts], dim=-2)
    return Hypotheses(points, widths=torch.cat(widths, dim=-1) if len(widths) == len(parts) else None)
