"""Train a localizer on voices mixed at each step, then calibrate and judge it on rooms that it has not heard."""

import json
import math
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from safetensors.torch import load_file
from torch import Tensor, nn

import torchmcl
from torchmcl.audio.calibration import CALIBRATION, save_calibration
from torchmcl.audio.clips import Clip, folder_clips, synthesized_clips
from torchmcl.audio.foa import convention_named
from torchmcl.audio.judgement import Judgement, calibrate, judge
from torchmcl.audio.localizer import DEFAULT, Listening, Localizer
from torchmcl.audio.mixing import MixedBatches, Mixing
from torchmcl.audio.pretrained import WEIGHTS, NetworkDescription, load_pretrained, save_pretrained
from torchmcl.audio.responses import Rooms, Several, SimulatedRooms, read_responses
from torchmcl.audio.room_scenes import SceneLaw, room_scene, room_scenes
from torchmcl.audio.roomnet import CountedHypotheses
from torchmcl.audio.voices import draw_sound, make_voices
from torchmcl.distances import great_circle
from torchmcl.errors import UserError
from torchmcl.hypotheses import Hypotheses
from torchmcl.losses import rmcl_loss, transport_loss
from torchmcl.runs.files import check_space, locked, read_json, write_json
from torchmcl.runs.folder import check_place
from torchmcl.runs.records import from_plain
from torchmcl.training import Hardware, Optimization, fit

__all__ = [
    "METRICS",
    "LocalizerTraining",
    "held_out_clips",
    "judge_model",
    "room_loss",
    "table",
    "train_localizer",
    "train_with_bars",
]

SETTINGS, METRICS = "settings.json", "metrics.json"
BUSY = "another process is training there; wait for it, or choose another folder"
COUNT_WEIGHT = 0.2
MOST = 1_000_000
"""Of anything that is counted in the settings."""
VOICE_BYTES = 2_600_000
"""Of a voice of 20 s."""
STEPS = 50
"""Steps of an epoch, after which the training can be resumed."""


@dataclass(frozen=True)
class LocalizerTraining:
    """What a localizer is trained on, and how long.

    Attributes:
        sounds: Folder of recorded sounds with one subfolder a class; synthesized sounds alone if `None`.
        responses: SOFA files or folders of measured responses; simulated rooms if there are none.
        response_format: Channel order and normalization of the responses.
        held_out: Classes of sounds that the training does not hear: calibration and evaluation use them.
        start: Folder of a trained model whose weights of equal shape are taken over.
        voices: Number of rendered voices of 20 s.
        steps: Steps of the optimizer.
        batch_size: Windows in a step.
        learning_rate: The peak of the schedule.
        hypotheses: K.
        filters: Channels of the convolutions.
        units: Units of the recurrent layers.
        scenes: Scenes of one, two and three sources each, for calibration and for evaluation.
        seed: Of everything.
    """

    sounds: str | None = None
    responses: tuple[str, ...] = ()
    response_format: str = "acn-sn3d"
    held_out: tuple[str, ...] = ()
    start: str | None = None
    voices: int = 800
    steps: int = 1500
    batch_size: int = 64
    learning_rate: float = 1.5e-3
    hypotheses: int = 8
    filters: int = 48
    units: int = 96
    scenes: int = 100
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("voices", "steps", "batch_size", "hypotheses", "filters", "units", "scenes"):
            if getattr(self, name) < 1:
                raise UserError(f"{name} is {getattr(self, name)}, must be at least 1")
            if getattr(self, name) > MOST:
                raise UserError(f"{name} is {getattr(self, name)}, must be at most {MOST}")
        convention_named(self.response_format)
        _ = self.network  # refuses sizes that no network has
        if not (math.isfinite(self.learning_rate) and self.learning_rate > 0):
            raise UserError(f"learning_rate is {self.learning_rate}, must be positive")
        if not 0 <= self.seed < 2**63:
            raise UserError(f"seed is {self.seed}, must be 0 to {2**63 - 1}")

    @property
    def network(self) -> NetworkDescription:
        """The network that is trained: 64 bands of intensities up to 6.4 kHz."""
        return NetworkDescription(
            "transport_rmcl",
            16000,
            self.hypotheses,
            nfft=640,
            stride=4,
            bins=64,
            content="band_intensity",
            filters=self.filters,
            pools=(8, 2, 1),
            units=self.units,
            layers=2,
            architecture="RoomNet",
        )


@dataclass(frozen=True)
class _Measures:
    sources: dict[str, dict[str, float | None]]


def train_localizer(
    settings: LocalizerTraining, out: str | Path, progress: Callable[[str, float], None] = lambda *_: None
) -> dict[str, Any]:
    """Train, calibrate and judge a localizer; called again, it goes on where it stopped.

    Args:
        settings: What is trained.
        out: Folder of the model: `config.json`, `model.safetensors`, `calibration.json`, `metrics.json`.
        progress: Called with the name of a part and the share of it that is done.

    Returns:
        The measures of `metrics.json`.
    """
    out = Path(out)
    check_place(out, SETTINGS)
    if not (out / SETTINGS).exists():
        check_space(out, settings.voices * VOICE_BYTES)
    with locked(out, BUSY):
        if (out / SETTINGS).is_file():
            _agree(out, settings)
        if (out / METRICS).is_file():
            return _measures(out / METRICS)
        heard, unheard = _clips(settings)
        if not (out / SETTINGS).is_file():
            _check_inputs(settings, heard, unheard)
            write_json(out / SETTINGS, asdict(settings))
        if not (out / WEIGHTS).is_file():
            _train(settings, heard, out, progress)
        if not (out / CALIBRATION).is_file():
            _calibrate(settings, unheard[::2], out, progress)
        found = judge_model(out, settings, progress=progress)
        metrics = {"version": torchmcl.__version__, **asdict(settings), **found}
        write_json(out / METRICS, metrics)
        shutil.rmtree(out / "voices", ignore_errors=True)
        (out / "checkpoint.ckpt").unlink(missing_ok=True)
    return metrics


def train_with_bars(settings: LocalizerTraining, out: str | Path) -> str:
    """`train_localizer` with progress bars; returns a table of the measures.

    Args:
        settings: What is trained.
        out: Folder of the model.
    """
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        tasks: dict[str, TaskID] = {}

        def show(part: str, share: float) -> None:
            if part not in tasks:
                tasks[part] = bar.add_task(part, total=1.0)
            bar.update(tasks[part], completed=share)

        metrics = train_localizer(settings, out, show)
    return table(metrics["sources"])


def table(sources: Mapping[str, Mapping[str, float | None]]) -> str:
    """Measures as a Markdown table.

    Args:
        sources: Those of `metrics.json`, by number of sources.
    """
    rows = {
        "median error, degrees": ("median", 1, 1),
        "90 % of the errors within, degrees": ("ninety", 1, 1),
        "recall within 20 degrees, %": ("recall", 100, 1),
        "the same where all sources sound, %": ("recall_together", 100, 1),
        "number of tracks right, %": ("counted", 100, 1),
        "three tracks reported, %": ("counted_three", 100, 1),
        "most probable count right, %": ("likeliest", 100, 1),
        "source within the region, %": ("covered", 100, 1),
        "reported in silence, %": ("silence", 100, 1),
        "reported in decays, %": ("decay", 100, 1),
    }
    lines = ["| sources | " + " | ".join(sources) + " |", "|---|" + "---:|" * len(sources)]
    for title, (name, factor, digits) in rows.items():
        values = (each[name] for each in sources.values())
        cells = ("-" if value is None else f"{factor * value:.{digits}f}" for value in values)
        lines.append(f"| {title} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def judge_model(
    model: str | Path,
    settings: LocalizerTraining,
    *,
    listening: Listening = DEFAULT,
    seed: int | None = None,
    progress: Callable[[str, float], None] = lambda *_: None,
) -> dict[str, Any]:
    """Measures of a model on scenes of rooms and sounds that were not used in training or calibration.

    Args:
        model: Folder of the model.
        settings: Those of its training, which say what it has not heard.
        listening: How the scenes are localized.
        seed: Of the scenes; that of the training plus 2 if `None`.
        progress: Called with the name of a part and the share of it that is done.
    """
    _, unheard = _clips(settings)
    counts = [1, 2, 3] * settings.scenes
    scenes = room_scenes(unheard[1::2], counts, _law(settings), settings.seed + 2 if seed is None else seed)

    def counted() -> Any:
        for index, scene in enumerate(scenes):
            yield scene
            progress("evaluation", (index + 1) / len(counts))

    found, rows = judge(Localizer.from_pretrained(model), counted(), listening)
    return {
        "sources": {str(count): _plain(each) for count, each in found.items()},
        "count_reliability": [[round(p, 3), round(share, 3), frames] for p, share, frames in rows],
    }


def room_loss(hypotheses: Hypotheses, targets: Tensor, active: Tensor | None = None) -> Tensor:
    """Transport cost, half of the loss of rMCL, and the cross-entropy of the count.

    Args:
        hypotheses: With counts.
        targets: Directions.
        active: Which of them exist.
    """
    if not isinstance(hypotheses, CountedHypotheses):
        raise TypeError(f"hypotheses are {type(hypotheses).__name__}, must have counts: use a RoomNet")
    if active is None:
        active = torch.ones(targets.shape[:-1], dtype=torch.bool, device=targets.device)
    count = active.sum(-1).clamp(max=hypotheses.counts.shape[-1] - 1)
    entropy = nn.functional.cross_entropy(hypotheses.counts.flatten(0, -2), count.flatten())
    transport = transport_loss(hypotheses, targets, active, distance=great_circle)
    return (
        transport
        + 0.5 * rmcl_loss(hypotheses, targets, active, distance=great_circle)
        + COUNT_WEIGHT * entropy
    )


def held_out_clips(settings: LocalizerTraining) -> Sequence[Clip]:
    """The clips that the training does not hear."""
    return _clips(settings)[1]


def one_cycle(epoch: float, epochs: float) -> float:
    """Factor of the learning rate: up along a cosine in the first 30 %, then down to almost 0."""
    share = epoch / epochs
    if share < 0.3:
        return 0.04 + 0.96 * 0.5 * (1 - math.cos(math.pi * share / 0.3))
    return 0.5 * (1 + math.cos(math.pi * min((share - 0.3) / 0.7, 1.0)))


def _train(
    settings: LocalizerTraining, clips: Sequence[Clip], out: Path, progress: Callable[[str, float], None]
) -> None:
    voices = make_voices(
        out / "voices",
        clips,
        rooms=_rooms(settings),
        count=settings.voices,
        seed=settings.seed,
        progress=lambda share: progress("voices", share),
    )
    epochs = math.ceil(settings.steps / STEPS)
    mixing = Mixing(counts=(4, 26, 32, 38), close=0.2, spread=4.0, rotating=0.35)
    train = MixedBatches(voices, mixing, batches=STEPS, batch_size=settings.batch_size, seed=settings.seed)
    done = 0.0

    def advance(share: float) -> None:
        nonlocal done
        done += share
        progress("training", min(done, 1.0))

    fitted = fit(
        lambda: _network(settings),
        room_loss,
        train,
        seed=settings.seed,
        optimization=Optimization(
            epochs=epochs,
            learning_rate=settings.learning_rate,
            weight_decay=0.01,
            schedule=one_cycle,
            clip=1.0,
            keep="last",
        ),
        hardware=Hardware(accelerator="cpu", threads=1),
        checkpoint=out / "checkpoint.ckpt",
        progress=advance,
    )
    save_pretrained(out, settings.network, fitted.network)


def _calibrate(
    settings: LocalizerTraining, clips: Sequence[Clip], out: Path, progress: Callable[[str, float], None]
) -> None:
    progress("calibration", 0.0)
    counts = [1, 2, 3] * settings.scenes
    scenes = room_scenes(clips, counts, _law(settings), settings.seed + 1)
    save_calibration(out, calibrate(Localizer.from_pretrained(out), scenes))
    progress("calibration", 1.0)


def _law(settings: LocalizerTraining) -> SceneLaw:
    return SceneLaw(rooms=_rooms(settings)) if settings.responses else SceneLaw()


def _network(settings: LocalizerTraining) -> nn.Module:
    network = settings.network.build(spread=True)
    if settings.start is not None:
        load_pretrained(settings.start)  # refuses weights that are not what they claim to be
        _take_over(network, load_file(Path(settings.start) / WEIGHTS))
    return network


def _take_over(network: nn.Module, weights: dict[str, Tensor]) -> None:
    """Weights of the same name and shape; the layer norm of a SELDNet as the mean over its frames."""
    own = network.state_dict()
    if "norm.weight" in weights:
        weights = {**weights, "scale": weights["norm.weight"].mean(0), "offset": weights["norm.bias"].mean(0)}
    same = {name: value for name, value in weights.items() if name in own and own[name].shape == value.shape}
    with torch.no_grad():
        network.load_state_dict({**own, **same})


def _clips(settings: LocalizerTraining) -> tuple[list[Clip], list[Clip]]:
    """The clips that the training hears, and those that it does not."""
    clips = [*synthesized_clips(settings.seed)]
    if settings.sounds is not None:
        clips += folder_clips(settings.sounds)
    labels = {clip.label for clip in clips}
    unknown = [label for label in settings.held_out if label not in labels]
    if unknown:
        raise UserError(f"held_out has {unknown[0]!r}, the classes are {', '.join(sorted(labels))}")
    unheard = [clip for clip in clips if clip.label in settings.held_out]
    heard = [clip for clip in clips if clip.label not in settings.held_out]
    if not settings.held_out:
        # Without whole classes, a fifth of the clips of each class.
        unheard = [clip for clip in clips if clip.number % 5 == 4]
        heard = [clip for clip in clips if clip.number % 5 != 4]
    if not heard or len(unheard) < 2:
        raise UserError("too few sounds: the training and the evaluation need sounds of their own")
    return heard, sorted(unheard, key=lambda clip: (clip.label, clip.number))


def _rooms(settings: LocalizerTraining) -> Rooms:
    if not settings.responses:
        return SimulatedRooms()
    return read_responses(settings.responses, convention_named(settings.response_format))


def _check_inputs(settings: LocalizerTraining, heard: Sequence[Clip], unheard: Sequence[Clip]) -> None:
    """Find before the training what would stop it, its calibration or its evaluation."""
    if settings.start is not None:
        load_pretrained(settings.start)
    law = _law(settings)
    rooms = law.rooms.rooms if isinstance(law.rooms, Several) else (law.rooms,)
    rng = np.random.default_rng(settings.seed)
    draw_sound(heard, law.sample_rate, rng)
    for clips in (unheard[::2], unheard[1::2]):
        for room in rooms:
            room_scene(clips, 3, replace(law, rooms=room), rng)


def _agree(out: Path, settings: LocalizerTraining) -> None:
    plain = json.loads(json.dumps(asdict(settings)))
    there = _object(out / SETTINGS)
    different = [key for key in plain if there.get(key) != plain[key]]
    if different:
        [key, *_] = different
        raise UserError(
            f"{out}: was started with {key} {there.get(key)!r}, not {plain[key]!r}; choose another folder"
        )


def _object(path: Path) -> dict[str, Any]:
    found = read_json(path)
    if not isinstance(found, dict):
        raise UserError(f"{path}: must hold an object, written by an earlier training")
    return found


def _measures(path: Path) -> dict[str, Any]:
    found = _object(path)
    names = {each.name for each in fields(Judgement)}
    try:
        sources = from_plain(_Measures, {"sources": found.get("sources")}).sources
    except UserError as error:
        raise UserError(f"{path}: {error}") from None
    if not all(names <= each.keys() for each in sources.values()):
        raise UserError(f"{path}: sources must have {', '.join(sorted(names))}")
    return found


def _plain(found: Judgement) -> dict[str, float | int | None]:
    return {name: None if math.isnan(value) else round(value, 4) for name, value in asdict(found).items()}
