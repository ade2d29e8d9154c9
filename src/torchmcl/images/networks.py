"""Five small networks with a choice network beside them."""

from collections.abc import Callable
from typing import Literal

from jaxtyping import Float
from torch import Tensor, nn

from torchmcl.ensemble import StackedEnsemble
from torchmcl.hypotheses import Hypotheses, Link

__all__ = [
    "SCALINGS",
    "ClassNetworks",
    "Scaling",
    "Standardize",
    "build_networks",
    "convolution",
    "perceptron",
]

Scaling = Literal["none", "image", "pixel"]
"""Which pixels share a mean and a standard deviation: none is scaled, all of them do, or each has its own."""
SCALINGS: tuple[Scaling, ...] = ("none", "image", "pixel")

CHANNELS = (8, 16)
SMALLEST_CONVOLUTION = 16
"""Pixels on a side from which on a network is convolutional."""


class Standardize(nn.Module):
    """Pixels minus their mean, divided by their standard deviation over the training images.

    Args:
        images: Of the training.
        scaling: Which pixels share both.
    """

    mean: Tensor
    scale: Tensor

    def __init__(self, images: Float[Tensor, "n height width"], scaling: Scaling) -> None:
        super().__init__()
        axes = (0,) if scaling == "pixel" else (0, 1, 2)
        plain = scaling == "none"
        self.register_buffer("mean", images.new_zeros(()) if plain else images.mean(axes))
        spread = images.std(axes, correction=0).clamp(min=0.05)
        self.register_buffer("scale", images.new_ones(()) if plain else spread)

    def forward(self, images: Float[Tensor, "*batch height width"]) -> Float[Tensor, "*batch height width"]:
        """Images of the same shape."""
        return (images - self.mean) / self.scale


class ClassNetworks(nn.Module):
    """K networks with equal layers, each of which answers with class logits, and a choice network that scores them.

    Args:
        standardize: Applied to the images first.
        build: Makes a network of so many outputs.
        hypotheses: K.
        classes: The outputs of each of the K networks.
        link: What the scores mean; `None` for no scores and no choice network.
    """

    def __init__(
        self,
        standardize: Standardize,
        build: Callable[[int], nn.Module],
        hypotheses: int,
        classes: int,
        link: Link | None,
    ) -> None:
        super().__init__()
        self.standardize = standardize
        # The members come first, so that equal seeds give them equal weights with and without a choice network.
        self.members = StackedEnsemble(lambda: build(classes), hypotheses)
        self.choice = None if link is None else build(hypotheses)
        self.link: Link = link or "sigmoid"

    def forward(self, images: Float[Tensor, "batch height width"]) -> Hypotheses:
        """K vectors of class logits for each image."""
        inputs = self.standardize(images)
        points = self.members(inputs).points
        return Hypotheses(points, None if self.choice is None else self.choice(inputs), self.link)


def perceptron(height: int, width: int, outputs: int, hidden: int) -> nn.Module:
    """One hidden layer."""
    return nn.Sequential(
        nn.Flatten(), nn.Linear(height * width, hidden), nn.ReLU(), nn.Linear(hidden, outputs)
    )


def convolution(height: int, width: int, outputs: int, hidden: int) -> nn.Module:
    """Two convolutions of 3 x 3 with pooling, and one hidden layer."""
    first, second = CHANNELS
    return nn.Sequential(
        nn.Unflatten(-2, (1, height)),
        nn.Conv2d(1, first, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(first, second, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(second * (height // 4) * (width // 4), hidden),
        nn.ReLU(),
        nn.Linear(hidden, outputs),
    )


def build_networks(
    images: Float[Tensor, "n height width"],
    *,
    hypotheses: int,
    classes: int,
    link: Link | None,
    scaling: Scaling = "image",
    hidden: int = 64,
) -> ClassNetworks:
    """Perceptrons for images of less than 16 pixels on a side, convolutional networks for larger ones."""
    height, width = images.shape[1:]
    layers = convolution if min(height, width) >= SMALLEST_CONVOLUTION else perceptron

    def build(outputs: int) -> nn.Module:
        return layers(height, width, outputs, hidden)

    return ClassNetworks(Standardize(images, scaling), build, hypotheses, classes, link)
