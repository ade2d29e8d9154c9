r"""Motion of a source on the sphere: Kalman filters of constant velocity, one for each agility.

A source that stands still needs much smoothing, a source that walks past needs little. Each track has a filter for
both; how well their predictions fit the candidates decides between them, with a memory of about a second. States are
a position and a velocity in the tangent space; the covariance is the same for all axes, so that it is a matrix of
2 x 2.
"""

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

__all__ = ["Motion", "Path"]

Vector = Float[np.ndarray, "3"]

FORGET = 0.9
"""A frame forgets so much of the evidence between filters: the last second decides."""


@dataclass(frozen=True)
class Motion:
    """How sources move.

    Attributes:
        agilities: Spectral density of the acceleration of each filter, (degrees/s^2)^2 s, increasing.
        speeds: Standard deviation of the velocity of a new source in each filter, degrees/s.
        noise: Standard deviation of a candidate with score 1, degrees.
        calm: Logarithm of the odds of a filter against the next more agile one that each frame adds.
        step: Seconds between frames.
    """

    agilities: tuple[float, ...] = (14.0, 300.0)
    speeds: tuple[float, ...] = (10.0, 40.0)
    noise: float = 8.0
    calm: float = 0.05
    step: float = 0.1

    @property
    def transition(self) -> Float[np.ndarray, "2 2"]:
        """Of position and velocity from one frame to the next."""
        return np.array([[1.0, self.step], [0.0, 1.0]])

    @property
    def process(self) -> Float[np.ndarray, "filters 2 2"]:
        """Covariance that a step adds."""
        dt = self.step
        unit = np.array([[dt**3 / 3, dt**2 / 2], [dt**2 / 2, dt]])
        return np.square(np.radians(1.0)) * np.array(self.agilities)[:, None, None] * unit


class Path:
    """The filters of one track.

    Args:
        motion: How sources move.
        vector: Where the track begins.
        score: Of the candidate there.
    """

    def __init__(self, motion: Motion, vector: Vector, score: float) -> None:
        self.motion = motion
        filters = len(motion.agilities)
        self._transition, self._process = motion.transition, motion.process
        self._noise = math.radians(motion.noise) ** 2
        state = np.stack([vector, np.zeros(3)])
        self.states = [np.repeat(state[None], filters, 0)]
        self.covariances = [self._start(score)]
        self._odds = -motion.calm * np.arange(filters)
        self.evidence = self._odds / (1 - FORGET)
        self.total = self._odds
        self._mean: Float[np.ndarray, "2 3"] | None = None

    def __len__(self) -> int:
        return len(self.states)

    @property
    def weights(self) -> Float[np.ndarray, "filters"]:
        """Probabilities of the filters."""
        powers = np.exp(self.evidence - self.evidence.max())
        return powers / powers.sum()

    @property
    def position(self) -> Vector:
        """Where the source is, over all filters."""
        return self._means()[0]

    @property
    def velocity(self) -> Vector:
        """Radians per second, over all filters."""
        return self._means()[1]

    def _means(self) -> Float[np.ndarray, "2 3"]:
        if self._mean is None:
            self._mean = np.tensordot(self.weights, self.states[-1], 1)
            self._mean[0] /= np.linalg.norm(self._mean[0])
        return self._mean

    @property
    def trend(self) -> Vector:
        """Velocity by the calmest filter: slow, and hardly disturbed by noise."""
        return np.asarray(self.states[-1][0, 1])

    def predict(self) -> None:
        """Go on to the next frame without a candidate."""
        self.states.append(_advanced(self.states[-1], self.motion.step))
        self.covariances.append(self._transition @ self.covariances[-1] @ self._transition.T + self._process)
        self._mean = None

    def update(self, vector: Vector, score: float) -> None:
        """Take a candidate into the present frame.

        Args:
            vector: Its direction.
            score: Its score; a faint candidate counts little.
        """
        states, covariances = self.states[-1], self.covariances[-1]
        spread = covariances[:, 0, 0] + self._noise / max(score, 0.05) ** 2
        gain = covariances[:, :, 0] / spread[:, None]
        surprise = vector - states[:, 0]
        states = states + gain[..., None] * surprise[:, None]
        states[:, 0] /= np.linalg.norm(states[:, 0], axis=-1, keepdims=True)
        radial = (states[:, 1] * states[:, 0]).sum(-1, keepdims=True)
        states[:, 1] -= radial * states[:, 0]
        self.states[-1] = states
        self.covariances[-1] = covariances - gain[:, :, None] * covariances[:, None, 0]
        # Two dimensions of the tangent space.
        likelihood = -np.square(surprise).sum(-1) / spread / 2 - np.log(spread) + self._odds
        self.evidence = FORGET * self.evidence + likelihood
        self.total = self.total + likelihood
        self._mean = None

    def restart(self, vector: Vector, score: float) -> None:
        """Go on from a candidate, wherever the filters were, with the velocity of the most agile one.

        Args:
            vector: Its direction.
            score: Its score.
        """
        velocity = self.states[-1][-1, 1]
        state = np.stack([vector, velocity - (velocity @ vector) * vector])
        self.states[-1] = np.repeat(state[None], len(self.states[-1]), 0)
        self.covariances[-1] = self._start(score)
        self.evidence = np.zeros(len(self.evidence))
        self._mean = None

    def exchange(self, other: "Path", frames: int) -> None:
        """Exchange the last frames with another path.

        Args:
            other: Another path.
            frames: How many; all that are kept where they are fewer.
        """
        for name in ("states", "covariances"):
            own, its = getattr(self, name), getattr(other, name)
            own[-frames:], its[-frames:] = its[-frames:], own[-frames:]
        self.evidence, other.evidence = other.evidence, self.evidence
        self._mean, other._mean = other._mean, self._mean

    def _start(self, score: float) -> Float[np.ndarray, "filters 2 2"]:
        covariance = np.zeros((len(self.motion.speeds), 2, 2))
        covariance[:, 0, 0] = self._noise / max(score, 0.05) ** 2
        covariance[:, 1, 1] = np.square(np.radians(self.motion.speeds))
        return covariance

    def forget(self) -> None:
        """Keep the present state alone."""
        del self.states[:-1], self.covariances[:-1]

    def smoothed(self, length: int) -> Float[np.ndarray, "length 3"]:
        """Directions of the first `length` frames given all of them (Rauch-Tung-Striebel), by the likeliest filter.

        Args:
            length: Frames up to the last candidate.
        """
        best = int(self.total.argmax())
        state = self.states[length - 1][best]
        positions = [state[0]]
        for index in range(length - 2, -1, -1):
            filtered, covariance = self.states[index][best], self.covariances[index][best]
            predicted = self._transition @ covariance @ self._transition.T + self._process[best]
            gain = covariance @ self._transition.T @ np.linalg.inv(predicted)
            ahead = _advanced(filtered, self.motion.step)
            state = filtered + gain @ _carried(state - ahead, ahead[0], filtered[0])
            state = np.stack([state[0] / np.linalg.norm(state[0]), state[1]])
            positions.append(state[0])
        return np.array(positions[::-1])


def _advanced(states: Float[np.ndarray, "*filters 2 3"], step: float) -> Float[np.ndarray, "*filters 2 3"]:
    """States one frame later, along great circles."""
    old, velocity = states[..., 0, :], states[..., 1, :]
    new = old + step * velocity
    new = new / np.linalg.norm(new, axis=-1, keepdims=True)
    return np.stack([new, _carried(velocity[..., None, :], old, new)[..., 0, :]], axis=-2)


def _carried(
    vectors: Float[np.ndarray, "*filters n 3"],
    old: Float[np.ndarray, "*filters 3"],
    new: Float[np.ndarray, "*filters 3"],
) -> Float[np.ndarray, "*filters n 3"]:
    """Vectors turned by the smallest rotation from one position to another."""
    old, new = old[..., None, :], new[..., None, :]
    both = old + new
    along = (vectors * both).sum(-1, keepdims=True) / (1 + (old * new).sum(-1, keepdims=True))
    return vectors - along * both + 2 * (vectors * old).sum(-1, keepdims=True) * new
