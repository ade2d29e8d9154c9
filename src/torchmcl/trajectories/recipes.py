"""The recipes that were compared: the earlier ones stay as controls."""

from dataclasses import replace

from torchmcl.errors import UserError
from torchmcl.trajectories.network import Architecture
from torchmcl.trajectories.recipe import Augmentation, Recipe

__all__ = ["DEFAULT", "RECIPES", "recipe_named"]

DEFAULT = "roughness"

_PLAIN = Augmentation(scale=0.15, noise=0.0, noisy=0.0, neighbor_dropout=0.0, alone=0.0)

RECIPES = {
    "perceptron": Recipe(
        architecture=Architecture(neighbors=False, roughness=False), augmentation=_PLAIN, end=0.0
    ),
    "neighbors": Recipe(
        architecture=Architecture(roughness=False), augmentation=replace(_PLAIN, neighbor_dropout=0.1)
    ),
    "noise": Recipe(
        architecture=Architecture(roughness=False),
        augmentation=Augmentation(scale=0.3, noise=0.05, noisy=1.0),
    ),
    "slow": Recipe(learning_rate=1e-3),
    "roughness": Recipe(),
}
"""Each adds to the one before: winner-takes-all on the mean error alone; attention to neighbors and a separate winner
at the last step; noise on the observed positions and stronger augmentation; the roughness of the track as an input, so
that the noise of the training does not blur smooth tracks. `slow` is the last one with a third of the learning rate.
All are trained for the same number of steps."""


def recipe_named(name: str, steps: int | None = None) -> Recipe:
    """A recipe by its name.

    Args:
        name: One of `RECIPES`.
        steps: Of the optimizer, where not those of the recipe.

    Returns:
        The recipe.
    """
    if name not in RECIPES:
        raise UserError(f"recipe is {name!r}, must be one of {', '.join(RECIPES)}")
    if steps is not None and steps < 1:
        raise UserError(f"steps is {steps}, must be at least 1")
    return RECIPES[name] if steps is None else replace(RECIPES[name], steps=steps)
