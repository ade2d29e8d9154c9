"""K futures with probabilities for pedestrians, by a trained network."""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from safetensors.torch import save
from torch import Tensor

from torchmcl.errors import UserError, check_number, check_tensor
from torchmcl.hypotheses import Hypotheses
from torchmcl.runs.files import atomic, read_json, write_json
from torchmcl.runs.records import from_plain
from torchmcl.runs.weights import MOST_PARAMETERS, load_weights, single_precision
from torchmcl.sharing.cards import Card, check_own, write_card
from torchmcl.sharing.hub import Shared, fetched
from torchmcl.trajectories.calibration import Adjustment, adjustment_of
from torchmcl.trajectories.features import Seen, speed_unit
from torchmcl.trajectories.measures import single_answer
from torchmcl.trajectories.network import Architecture, FutureNetwork
from torchmcl.trajectories.pose import completed
from torchmcl.trajectories.recipe import AugmentedBatches, Recipe, forecasting_loss, look, one_cycle
from torchmcl.trajectories.tracks import STEP, Tracks
from torchmcl.trajectories.windows import NEIGHBORS, OBSERVED, PREDICTED, Windows, neighbors, windows_of

__all__ = ["BUNDLED", "Forecaster"]

BUNDLED = Path(__file__).parents[1] / "models" / "futures"
"""The folder of the bundled model."""

FORMAT = "torchmcl-forecaster-1"
BATCH = 4096
LARGEST_CONFIG = 1 << 16
"""Bytes of `config.json`."""


class Forecaster(Shared):
    """K futures of 4.8 s with probabilities, from up to 3.2 s of walking.

    The answer to a scene that is moved, turned or mirrored is moved, turned or mirrored alike, in the same order; of a
    straight walk without neighbors, which has no left and no right, as a set. Two exceptions, both without neighbors:
    who stands still is told in the directions of the world, and a walk of two positions is not mirrored.

    Args:
        network: A trained network; without one, call `fit`.
        adjustment: Temperature and widths.

    Example:
        >>> forecaster = Forecaster.from_pretrained()
        >>> walk = torch.tensor([[[0.5 * step, 0.0] for step in range(8)]])
        >>> forecaster(walk)
        Hypotheses(points=(1, 20, 24), logits=(1, 20), link='softmax', dtype=torch.float32, device='cpu')
    """

    def __init__(self, network: FutureNetwork | None = None, adjustment: Adjustment | None = None) -> None:
        self.network = None if network is None else network.eval()
        self.adjustment = adjustment or Adjustment()

    def __call__(
        self,
        observed: Float[Tensor, "agents steps 2"],
        *,
        frames: Int[Tensor, "agents"] | None = None,
        step: float = STEP,
    ) -> Hypotheses:
        """Futures of pedestrians.

        Args:
            observed: Past positions in meters, the last one now. From 2 steps on; of more than 3.2 s the last ones are
                used. Pedestrians who appeared later have NaN before their first position.
            frames: Equal numbers for pedestrians who are seen together: they take each other into account. By default
                everybody is alone.
            step: Seconds between positions; other than 0.4 s is resampled by linear interpolation.

        Returns:
            Points `(agents, K, 24)`: x and y of the 12 next steps of 0.4 s in turn, in the coordinates of `observed`.
            The probabilities are those of being the nearest of the K to what happens.
        """
        past = self._prepared(observed, step)
        around = self._neighbors(past, frames)
        parts = [self._answer(*pair) for pair in zip(past.split(BATCH), around.split(BATCH), strict=True)]
        return Hypotheses.cat(parts) if parts else self._nobody(past)

    def answer(self, hypotheses: Hypotheses) -> Float[Tensor, "agents 12 2"]:
        """The best single future: see `torchmcl.trajectories.measures.single_answer`.

        Args:
            hypotheses: Of this forecaster.

        Returns:
            Positions in meters.
        """
        return single_answer(hypotheses)

    def at_steps(self, hypotheses: Hypotheses, observed: Float[Tensor, "agents steps 2"]) -> Hypotheses:
        """Where a pedestrian will be at each step, as a mixture with widths: `.mixture()` is its density.

        Args:
            hypotheses: The answer of this forecaster.
            observed: What it was the answer to, 0.4 s a step.

        Returns:
            Points `(agents, 12, K, 2)` with widths.
        """
        points = hypotheses.points.unflatten(-1, (PREDICTED, 2)).transpose(-3, -2)
        widths = self.widths(observed)[..., None].expand(points.shape[:-1])
        logits = hypotheses.log_probs[..., None, :].expand(points.shape[:-1])
        return Hypotheses(points, logits, "softmax", widths)

    def widths(self, observed: Float[Tensor, "agents steps 2"]) -> Float[Tensor, "agents 12"]:
        """The standard deviation of the kernel around a hypothesis at each step.

        Args:
            observed: Past positions, 0.4 s a step.

        Returns:
            Meters.
        """
        unit = speed_unit(completed(self._prepared(observed, STEP)))
        return unit[:, None] * unit.new_tensor(self.adjustment.widths)

    def fit(
        self,
        tracks: Tracks | Sequence[Tracks],
        *,
        held_out: Tracks | Sequence[Tracks] | None = None,
        recipe: Recipe | None = None,
        seed: int = 0,
        checkpoint: str | Path | None = None,
        progress: bool | Callable[[float], None] = False,
    ) -> "Forecaster":
        """Train on tracks at 0.4 s a step; the same arguments give the same forecaster.

        Args:
            tracks: One or more recordings.
            held_out: Recordings for temperature and widths; by default the last tenth of the windows of each
                recording is not trained on and used for this.
            recipe: Architecture, data augmentation and length of the training.
            seed: Of all random numbers.
            checkpoint: A file from which an interrupted training is resumed.
            progress: Whether to show a progress bar; or a function that is called with the part done since its last
                call.

        Returns:
            This forecaster.
        """
        parts = [windows_of(each) for each in _recordings("tracks", tracks)]
        if held_out is None:
            cuts = [len(part) - max(len(part) // 10, 1) for part in parts]
            kept = Windows.cat([part[slice(cut, None)] for part, cut in zip(parts, cuts, strict=True)])
            parts = [part[slice(cut)] for part, cut in zip(parts, cuts, strict=True)]
        else:
            kept = Windows.cat([windows_of(each) for each in _recordings("held_out", held_out)])
        return self.fit_windows(
            Windows.cat(parts), kept, recipe=recipe, seed=seed, checkpoint=checkpoint, progress=progress
        )

    def fit_windows(
        self,
        train: Windows,
        held_out: Windows,
        *,
        recipe: Recipe | None = None,
        seed: int = 0,
        checkpoint: str | Path | None = None,
        progress: bool | Callable[[float], None] = False,
    ) -> "Forecaster":
        """Train on windows; arguments as for `fit`.

        Args:
            train: What to learn from.
            held_out: For temperature and widths.
            recipe: Architecture, data augmentation and length of the training.
            seed: Of all random numbers.
            checkpoint: A file from which an interrupted training is resumed.
            progress: As for `fit`.

        Returns:
            This forecaster.
        """
        from functools import partial

        from torchmcl.training import Optimization, fit

        if not isinstance(recipe, Recipe | None):
            raise TypeError(f"recipe must be a Recipe, got {type(recipe).__name__}")
        recipe = recipe or Recipe()
        for name, part in (("tracks", train), ("held_out", held_out)):
            if not len(part):
                raise UserError(f"{name}: nobody is present in {OBSERVED + PREDICTED} successive frames")
        batches = AugmentedBatches(train, recipe, seed)
        fitted = fit(
            partial(FutureNetwork, recipe.architecture),
            partial(forecasting_loss, end=recipe.end, scores=recipe.scores),
            batches,
            seed=seed,
            optimization=Optimization(
                epochs=batches.epochs,
                learning_rate=recipe.learning_rate,
                weight_decay=recipe.weight_decay,
                schedule=one_cycle,
                clip=1.0,
                keep="last",
                optimizer=_adamw,
            ),
            checkpoint=checkpoint,
            progress=progress,
        )
        assert isinstance(fitted.network, FutureNetwork)
        self.network, self.adjustment = fitted.network.eval(), Adjustment()
        answers = self.forecast_windows(held_out)
        self.adjustment = adjustment_of(answers, held_out.future, speed_unit(held_out.observed))
        return self

    def forecast_windows(self, seen: Windows) -> Hypotheses:
        """Futures relative to the last observed position of each window.

        Args:
            seen: Windows, of which the futures are not looked at.

        Returns:
            Points `(windows, K, 24)`, in the directions of the world.
        """
        parts = zip(seen.observed.split(BATCH), seen.neighbors.split(BATCH), strict=True)
        return Hypotheses.cat([self._answer(*pair) for pair in parts])

    def save(self, folder: str | Path, **about: Any) -> None:
        """Write `model.safetensors`, `config.json` and a card, `README.md`.

        Args:
            folder: Made where missing.
            about: Anything worth knowing about the model that JSON can hold.
        """
        network = self.trained
        check_own(folder)
        # Before the weights: a folder with weights is complete.
        write_json(
            Path(folder) / "config.json",
            {
                "format": FORMAT,
                "architecture": asdict(network.architecture),
                "adjustment": asdict(self.adjustment),
                **about,
            },
        )
        with atomic(Path(folder) / "model.safetensors") as path:
            path.write_bytes(save(network.state_dict()))
        write_card(folder, _card(network))

    @classmethod
    def from_pretrained(
        cls, folder: str | Path | None = None, *, revision: str | None = None
    ) -> "Forecaster":
        """Read a saved forecaster.

        Args:
            folder: Where `save` wrote it, or `"owner/name"` on the Hugging Face Hub; the bundled model by default.
            revision: A branch, tag or commit on the Hub.

        Returns:
            The forecaster.
        """
        folder = fetched(BUNDLED if folder is None else folder, revision)
        path = folder / "config.json"
        for name in ("config.json", "model.safetensors"):
            if not (folder / name).is_file():
                raise UserError(f"{folder / name}: is missing, the folder holds no forecaster")
        with single_precision():
            network, adjustment = _described(path)
        load_weights(network, folder / "model.safetensors")
        return cls(network, adjustment)

    @property
    def trained(self) -> FutureNetwork:
        """The network; a `UserError` before `fit`."""
        if self.network is None:
            raise UserError(
                "the forecaster has not learned yet: call fit, or use Forecaster.from_pretrained()"
            )
        return self.network

    def _answer(self, observed: Tensor, around: Tensor) -> Hypotheses:
        """Of positions in the coordinates of the caller; poses are computed in its precision."""
        origin = observed[:, -1]
        seen, pose = look(observed - origin[:, None], around)
        with torch.no_grad():
            told = self.trained(Seen(*(part if part.dtype == torch.bool else part.float() for part in seen)))
        several = observed[:, -3, 0].isfinite()
        told = _symmetric(told, pose.straight & several)
        points = pose.back(told.points.to(observed.dtype)) + origin.repeat(1, PREDICTED)[:, None]
        assert told.logits is not None
        return Hypotheses(points, told.logits.to(observed.dtype) / self.adjustment.temperature, "softmax")

    def _neighbors(self, past: Tensor, frames: Tensor | None) -> Tensor:
        if frames is None:
            return past.new_full((len(past), NEIGHBORS, 6), torch.nan)
        check_tensor("frames", frames)
        if frames.shape != past.shape[:1]:
            raise ValueError(f"frames has shape {tuple(frames.shape)}, observed has {len(past)} pedestrians")
        return neighbors(past, frames)

    def _nobody(self, past: Tensor) -> Hypotheses:
        count = self.trained.architecture.hypotheses
        return Hypotheses(past.new_zeros(0, count, 2 * PREDICTED), past.new_zeros(0, count), "softmax")

    def _prepared(self, observed: Tensor, step: float) -> Tensor:
        """Eight positions of 0.4 s, NaN where unknown."""
        check_tensor("observed", observed)
        if observed.is_complex() or observed.is_meta:
            raise TypeError("observed must be a tensor of real numbers, not complex or on the device meta")
        if observed.ndim != 3 or observed.shape[-1] != 2 or observed.shape[1] < 2:
            raise ValueError(f"observed must be (agents, at least 2 steps, 2), got {tuple(observed.shape)}")
        check_number("step", step)
        if not 0 < step < float("inf"):
            raise ValueError(f"step is {step}, must be a positive number of seconds")
        if not observed.is_floating_point():
            observed = observed.float()
        past = observed if step == STEP else resampled(observed, step)
        if past.shape[1] < 2:
            raise ValueError(f"observed covers less than one step of {STEP} s")
        past = past[:, -OBSERVED:]
        known = past.isfinite().all(-1)
        gap = (known[:, :-1] & ~known[:, 1:]).any(-1) | ~known[:, -2:].all(-1)
        if gap.any():
            raise ValueError(
                f"observed[{int(gap.nonzero()[0])}] must have its last two positions in steps of {STEP} s, "
                "and NaN only before its first one"
            )
        lacking = past.new_full((len(past), OBSERVED - past.shape[1], 2), torch.nan)
        return torch.cat([lacking, past.masked_fill(~known[..., None], torch.nan)], 1)


def _recordings(name: str, tracks: object) -> list[Tracks]:
    """One or more recordings, as a list."""
    several = [tracks] if isinstance(tracks, Tracks) else tracks
    if not isinstance(several, list | tuple) or not all(isinstance(each, Tracks) for each in several):
        raise TypeError(f"{name} must be Tracks or a list of them, got {type(tracks).__name__}")
    if not several:
        raise ValueError(f"{name} is empty, must hold at least one recording")
    return list(several)


def resampled(observed: Float[Tensor, "agents steps 2"], step: float) -> Float[Tensor, "agents fewer 2"]:
    """Past positions at every 0.4 s before the last one, by linear interpolation.

    Args:
        observed: Positions every `step` seconds, NaN where unknown.
        step: Seconds.

    Returns:
        As many as the time covers, at most 8; NaN where a neighboring position is unknown.
    """
    count = min(int((observed.shape[1] - 1) * step / STEP + 1e-6) + 1, OBSERVED)
    place = observed.shape[1] - 1 - torch.arange(count - 1, -1, -1, dtype=torch.float64) * (STEP / step)
    place = place.clamp(min=0)
    low = (place + 1e-6).floor().long()
    part = (place - low).clamp(min=0).to(observed.dtype)[:, None]
    high = (low + 1).clamp(max=observed.shape[1] - 1)
    mixed = observed[:, low] * (1 - part) + observed[:, high] * part
    return torch.where(part < 1e-5, observed[:, low], mixed)


def _card(network: FutureNetwork) -> Card:
    a = network.architecture
    return Card(
        "Futures of pedestrians (Forecaster)",
        "time-series-forecasting",
        f"{a.hypotheses} futures of {PREDICTED * STEP:.1f} s with probabilities, from up to {OBSERVED} positions of a "
        f"pedestrian at {STEP} s a step{' and the nearest neighbors' if a.neighbors else ''}. Positions are in meters.",
        'from torchmcl.trajectories import Forecaster\n\nforecaster = Forecaster.from_pretrained("FOLDER")\n'
        "futures = forecaster(observed)  # (agents, steps, 2) to hypotheses (agents, K, 24)",
        "Pedestrians seen from above, in places like those it was trained on. It knows no walls, no roads and no "
        "goals. A future is a position, not an intention; do not base decisions about safety on it.",
        ("trajectory-forecasting",),
    )


def _symmetric(told: Hypotheses, straight: Tensor) -> Hypotheses:
    return mirrored(told, straight) if straight.any() else told


def mirrored(told: Hypotheses, straight: Bool[Tensor, "agents"]) -> Hypotheses:
    """Of a straight walk alone, half of the futures are the mirror images of the half that ends farther to the left.

    Nothing tells its left from its right, so that only a symmetric set is mirrored when the walk is.

    Args:
        told: Futures in the pose of each walk.
        straight: Whose futures are made symmetric; those of the others stay as they are.

    Returns:
        As many futures; those of an odd number are left as they are.
    """
    if told.n_hypotheses % 2:
        return told
    left = told.points[..., -1].topk(told.n_hypotheses // 2, dim=-1).indices
    points = told.points.gather(1, left[..., None].expand(-1, -1, 2 * PREDICTED))
    mirror = points.new_tensor([1.0, -1.0]).repeat(PREDICTED)
    pairs = torch.cat([points, points * mirror], 1)
    logits = told.log_probs.gather(1, left).repeat(1, 2)
    return Hypotheses(
        torch.where(straight[:, None, None], pairs, told.points),
        torch.where(straight[:, None], logits, told.log_probs),
        "softmax",
    )


def _adamw(parameters: Any, *, lr: float, weight_decay: float) -> torch.optim.Optimizer:
    """AdamW that shrinks matrices only."""
    every = list(parameters)
    groups = [
        {"params": [each for each in every if each.ndim > 1], "weight_decay": weight_decay},
        {"params": [each for each in every if each.ndim < 2], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=lr, fused=True)


def _described(path: Path) -> tuple[FutureNetwork, Adjustment]:
    """The network that `config.json` describes, without its weights, and the adjustment; both are checked."""
    config = read_json(path, limit=LARGEST_CONFIG)
    if not isinstance(config, dict) or config.get("format") != FORMAT:
        found = config.get("format") if isinstance(config, dict) else None
        raise UserError(f"{path}: format is {found!r}, must be {FORMAT!r}")
    try:
        for name in ("architecture", "adjustment"):
            if not isinstance(config.get(name), dict):
                raise UserError(f"{name} is missing")
        for name in ("temperature", "widths"):
            if name not in config["adjustment"]:
                raise UserError(f"adjustment.{name} is missing")
        architecture = from_plain(Architecture, config["architecture"], "architecture.")
        adjustment = from_plain(Adjustment, config["adjustment"], "adjustment.")
        with torch.device("meta"):
            parameters = sum(weight.numel() for weight in FutureNetwork(architecture).parameters())
        if parameters > MOST_PARAMETERS:
            raise UserError(f"architecture has {parameters} parameters, at most {MOST_PARAMETERS} are read")
    except UserError as error:
        raise UserError(f"{path}: {error}") from None
    return FutureNetwork(architecture), adjustment
